"""Whose turn it is to write to a SQLite file: one writer at a time in this process, and pauses for other processes.

SQLite has one writer. Who finds the file locked polls for it: 1, 2, 5, 10, ... 100 ms apart in SQLite itself, so a
process that leaves the lock free for a moment only is never met by one that polls. Hence:

* Connections of one process wait for each other here, in the order of their arrival, and are woken, not polling.
* Before a transaction of a worker's own connections, the process has left the file alone for a time in proportion to
  how long it had it before, and longer the more often it finds the file locked by others. Time in which it had nothing
  to write counts, also a little while later.
"""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager

REST_ALONE = 0.6
"""Seconds of rest for a second of writing when nobody else writes: the lock is free for 3/8 of the time."""
REST_CROWDED = 6.0
"""More rest, times the share of transactions that found the file locked."""
LONGEST_REST = 0.05
SAVED_REST = 0.01
"""Seconds of rest that can be taken in advance: a claim and a settle may follow each other at once."""
MEMORY = 0.1
"""Weight of the newest transaction in that share."""
LOOK = 1.0
"""Seconds after which one that waits looks whether the thread still lives whose turn it is."""


class _Ticket:
    """A place in the line. ``called`` is locked until its turn comes."""

    __slots__ = ("called", "thread")

    def __init__(self) -> None:
        self.thread = threading.current_thread()
        self.called = threading.Lock()
        self.called.acquire()


class FairLock:
    """A lock that is given to those who wait in the order of their arrival. ``with`` takes it.

    An exception may be raised between any two steps in here (Ctrl-C, or a job with ``interrupt=True`` that is stopped),
    and a turn that nobody ends stops all writes of the process. So whoever is interrupted leaves, from whatever state:
    one step follows from what the others have left. And as the call of ``__exit__`` may be interrupted before its first
    line, the turn of a thread is over too when it has ended, as one that was interrupted does with its job, and when it
    asks for another.
    """

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._holder: _Ticket | None = None
        self._waiting: deque[_Ticket] = deque()

    def __enter__(self) -> None:
        # All in this one function: nothing may come between the end of "try" and the block of "with".
        ticket = _Ticket()
        try:
            with self._guard:
                if self._holder is not None and self._holder.thread is ticket.thread:
                    self._holder = None
                self._waiting.append(ticket)
                self._call()
            while not ticket.called.acquire(timeout=LOOK):
                with self._guard:
                    self._call()
        except BaseException:
            self._leave(ticket)
            raise

    acquire = __enter__

    def __exit__(self, *error: object) -> None:
        mine = self._holder
        try:
            self._leave(mine)
        except BaseException:
            self._leave(mine)
            raise

    def release(self) -> None:
        self.__exit__()

    def _leave(self, ticket: _Ticket | None) -> None:
        """Out of the line, or end the turn, or nothing if that has been done."""
        if ticket is None or ticket.thread is not threading.current_thread():
            return  # what a thread has left behind whose turn has ended with it
        with self._guard:
            if ticket in self._waiting:
                self._waiting.remove(ticket)
            if self._holder is ticket:
                self._holder = None
            self._call()

    def _call(self) -> None:
        """Call whoever is first in the line, unless somebody has the turn; the caller holds the guard."""
        if self._holder is not None and not self._holder.thread.is_alive():
            self._holder = None
        if self._holder is None and self._waiting:
            self._holder = self._waiting[0]
        if self._waiting and self._waiting[0] is self._holder:
            self._waiting.popleft()
        if self._holder is not None and self._holder.called.locked():
            self._holder.called.release()


class Turns:
    """The turns of one database file in this process."""

    def __init__(self) -> None:
        self.taken = FairLock()
        """A turn for the caller's own connection: it waits for its turn and rests for nobody."""
        self._worker = FairLock()
        self._owed = 0.0
        """Seconds of rest that were due when the last transaction ended; negative: so much was taken in advance."""
        self._ended = 0.0
        self._crowd = 0.0

    @contextmanager
    def worked(self) -> Iterator[Writing]:
        """A turn for a worker's connection, after the rest that the last one left. Who writes says so on the value."""
        # While this thread rests, callers in this process may write: it holds its place in the workers' line only.
        with self._worker:
            self._rest()
            writing = Writing()
            try:
                with self.taken:
                    yield writing
            finally:
                self._count(writing)

    def _rest(self) -> None:
        self._owed = max(-SAVED_REST, self._owed - (time.monotonic() - self._ended))
        if self._owed > 0:
            time.sleep(min(LONGEST_REST, self._owed))
            self._owed = 0.0

    def _count(self, writing: Writing) -> None:
        self._crowd += MEMORY * (writing.waited - self._crowd)
        self._ended = time.monotonic()
        if writing.began:
            self._owed += (self._ended - writing.began) * (REST_ALONE + REST_CROWDED * self._crowd)


class Writing:
    """One transaction of a worker's connection: when it got the file, and whether it found it locked before."""

    __slots__ = ("began", "waited")

    def __init__(self) -> None:
        self.began = 0.0
        self.waited = False


_turns: dict[str, Turns] = {}
_names: dict[str, Turns] = {}
_guard = threading.Lock()


def turns_of(name: str) -> Turns:
    """The turns of the database that Django's NAME means. In-memory databases go by their name."""
    found = _names.get(name)
    if found is None:
        key = name if name.startswith("file:") or name == ":memory:" else os.path.realpath(name)
        with _guard:
            found = _names[name] = _turns.setdefault(key, Turns())
    return found


def _forget() -> None:
    """In a child after fork: no thread of the parent is here to end its turn."""
    global _guard
    _guard = threading.Lock()
    _turns.clear()
    _names.clear()


os.register_at_fork(after_in_child=_forget)
