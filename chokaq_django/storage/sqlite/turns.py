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


class FairLock:
    """A lock that is given to those who wait in the order of their arrival. ``with`` takes it."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._held = False
        self._waiting: deque[threading.Lock] = deque()

    def acquire(self) -> None:
        with self._guard:
            if not self._held:
                self._held = True
                return
            ticket = threading.Lock()
            ticket.acquire()
            self._waiting.append(ticket)
        try:
            ticket.acquire()
        except BaseException:
            self._give_up(ticket)
            raise

    def __enter__(self) -> None:
        self.acquire()

    def __exit__(self, *error: object) -> None:
        self.release()

    def _give_up(self, ticket: threading.Lock) -> None:
        """An exception (Ctrl-C) came while waiting: leave the line, or pass the turn on if it has just come."""
        with self._guard:
            if ticket in self._waiting:
                self._waiting.remove(ticket)
                return
        self.release()

    def release(self) -> None:
        with self._guard:
            if self._waiting:
                self._waiting.popleft().release()
            else:
                self._held = False


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
