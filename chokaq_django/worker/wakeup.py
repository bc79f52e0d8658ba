"""How a fetch loop that has nothing to do learns that there is work, without waiting for its poll.

One waker per engine, all with ``set()`` (any thread of this process) and ``wait(timeout)`` (the fetch loop only).
"""

from __future__ import annotations

import os
import select
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from django.db import connections

from .. import channel_wake
from .. import wake as in_process
from ..conf import Options
from ..storage.data_version import SQLiteWatcher

if TYPE_CHECKING:
    from ..storage.listening import PostgresListener


class Waker(Protocol):
    """Wakes one waiting thread."""

    def set(self) -> None:
        """Wake the fetch loop now, or as soon as it waits."""

    def busy(self) -> None:
        """There was work just now: more may follow soon."""

    def wait(self, timeout: float) -> list[str]:
        """Sleep until woken or for ``timeout`` seconds; names of queues that were announced, if known."""

    def close(self) -> None:
        """Release connections and descriptors."""


class PollingWaker:
    """For engines without notices: signals of this process, else the poll interval.

    Under traffic the poll comes down to 50 ms, and grows again in silence.
    """

    FASTEST = 0.05
    SHARE = 1 / 20
    """Seconds between two polls for each second of silence."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._event = threading.Event()
        self._clock = clock
        self._active = float("-inf")

    def set(self) -> None:
        self._active = self._clock()
        if not self._event.is_set():  # which costs a lock less, and many wake one loop
            self._event.set()

    def busy(self) -> None:
        self._active = self._clock()

    def pause(self) -> float:
        """Seconds to the next poll."""
        return max(self.FASTEST, (self._clock() - self._active) * self.SHARE)

    def wait(self, timeout: float) -> list[str]:
        self._event.wait(min(timeout, self.pause()))
        self._event.clear()
        return []

    def close(self) -> None:
        pass


class SQLiteWaker(PollingWaker):
    """``PRAGMA data_version`` tells whether any other connection committed, in microseconds and without a query."""

    FASTEST, SLOWEST, LIVELY = 0.005, 0.25, 2.0

    def __init__(self, alias: str) -> None:
        super().__init__()
        self._watcher = SQLiteWatcher(alias)

    def pause(self) -> float:
        """5 ms for the first seconds after there was a job, then slower by the length of the silence."""
        return min(self.SLOWEST, self.FASTEST * (1 + max(0.0, self._clock() - self._active - self.LIVELY)))

    def wait(self, timeout: float) -> list[str]:
        end = self._clock() + timeout
        while (left := end - self._clock()) > 0:
            if self._event.wait(min(left, self.pause())):
                break
            if self._watcher.changed():
                break  # perhaps only this worker's own row: only a job makes the polls fast again
        self._event.clear()
        return []

    def close(self) -> None:
        self._watcher.close()


class PostgresWaker:
    """Waits on the LISTEN connection and on a pipe of its own at once: no thread between a notice and the claim."""

    RETRY = 5.0

    def __init__(self, alias: str, interested: Callable[[str], bool]) -> None:
        self._alias = alias
        self._interested = interested
        self._listener: PostgresListener | None = None
        self._retry_at = 0.0
        self._flag = False
        self._waiting = False
        self._read, self._write = os.pipe()
        os.set_blocking(self._read, False)
        os.set_blocking(self._write, False)

    def set(self) -> None:
        self._flag = True
        if self._waiting:
            try:
                os.write(self._write, b".")
            except BlockingIOError:
                pass  # the pipe is full of earlier wake-ups: the loop will wake

    def busy(self) -> None:
        """Notices tell: nothing to hurry for."""

    def _listen(self) -> PostgresListener | None:
        if self._listener is None and time.monotonic() >= self._retry_at:
            self._retry_at = time.monotonic() + self.RETRY
            from ..storage.listening import PostgresListener  # psycopg: installed where this engine is used

            self._listener = PostgresListener(self._alias)
        return self._listener

    def wait(self, timeout: float) -> list[str]:
        before, listener = self._listener, self._listen()
        if listener is not before:
            return []  # what was announced before nobody heard: whoever waits looks now
        end = time.monotonic() + timeout
        if listener is None:
            end = min(end, self._retry_at)
        self._waiting = True
        try:
            while not self._flag:
                left = end - time.monotonic()
                if left <= 0:
                    break
                watched = [self._read] if listener is None else [self._read, listener.fileno()]
                ready, _, _ = select.select(watched, [], [], left)
                if self._read in ready:
                    break
                if ready and listener is not None:
                    # Libpq may have read notices already while it answered something else; drain says which.
                    announced = [name for name in self._drain(listener) if self._interested(name)]
                    if announced or self._listener is None:
                        return announced  # with the connection, notices may have been lost: whoever waits looks now
        finally:
            self._waiting = False
            self._flag = False
            try:
                while os.read(self._read, 4096):
                    pass
            except BlockingIOError:
                pass
        return []

    def _drain(self, listener: PostgresListener) -> list[str]:
        try:
            return listener.drain()
        except Exception:  # noqa: BLE001 - the connection is gone: polling goes on, a new one is tried a little later
            listener.close()
            self._listener = None
            return []

    def close(self) -> None:
        if self._listener is not None:
            self._listener.close()
        os.close(self._read)
        os.close(self._write)


def make_waker(options: Options, interested: Callable[[str], bool]) -> Waker:
    """The waker of the job database's engine; ``interested`` says whether a notice for a queue matters here."""
    waker: Waker
    vendor = connections[options.database].vendor
    if channel_wake.usable(options.database):
        from .channel_waker import ChannelWaker

        waker = ChannelWaker(options.database, interested)
    elif options.worker.wake_up == "poll":
        waker = PollingWaker()
    elif vendor == "postgresql":
        waker = PostgresWaker(options.worker.listen_database or options.database, interested)
    elif vendor == "sqlite":
        waker = SQLiteWaker(options.database)
    else:
        waker = PollingWaker()
    in_process.subscribe(options.database, waker.set, interested)
    return waker
