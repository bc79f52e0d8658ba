"""The base of every loop of a worker process: one thread, one start/stop interface, failures logged and survived."""

from __future__ import annotations

import logging
import random
import threading
import time

from django.db import connections

from ..observability.events import Event, log_event

logger = logging.getLogger("chokaq.worker")

FIRST_PAUSE = 0.2
LOCK_WAIT = 2.0
"""Seconds that claims and outcomes wait for a row that somebody has locked, in each of their tries: whatever
transaction that is, it must not hold up the other jobs of a worker, least of all of one that stops."""
LEAST_PATIENCE = 2.0
"""Seconds that a sign of life waits for the database at least: a busy machine answers late."""


def patience(worker_timeout: float) -> float:
    """Seconds that one try of a sign of life may wait for its connection, and for the answer to each statement.

    A firewall or a load balancer may forget a worker's connections and tell nobody, while new ones would work. The
    worker notices by an answer that does not come; others say that it is dead when its row has stood still for
    WORKER_TIMEOUT. By then a quarter of that has passed since the last beat (5 s at most), one try has been in vain,
    and a second has connected, set up its session and written the row: a fifth of it for each of them leaves room.
    """
    return max(LEAST_PATIENCE, worker_timeout / 5)


class Service:
    """A named loop in a thread of its own.

    Subclasses implement :meth:`step`, which does one round and waits for the next (through :meth:`wait`), and may
    override :meth:`wake` when they wait on something else. An exception in a step is logged, and the loop goes on after
    a growing, jittered pause: database trouble heals without a restart.
    """

    name = "service"
    longest_pause = 5.0
    """Seconds between two tries of a step that fails, at most."""

    def __init__(self) -> None:
        self.stopping = False
        self._wake = threading.Event()
        self._thread: threading.Thread | None = None
        self.failures = 0
        """Steps that failed in a row."""
        self.turned = time.monotonic()
        """When the last step began."""

    def start(self) -> None:
        self._thread = threading.Thread(target=self._run, name=f"chokaq-{self.name}", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Ask the loop to end after the step it is in."""
        self.stopping = True
        self._wake.set()
        self.wake()

    def join(self, timeout: float | None = None) -> bool:
        """Wait for the loop to end; False if it still runs after ``timeout`` seconds."""
        if self._thread is None:
            return True
        self._thread.join(timeout)
        return not self._thread.is_alive()

    def alive(self) -> bool:
        """Whether the loop's thread still runs."""
        return self._thread is not None and self._thread.is_alive()

    def wake(self) -> None:
        """End the current wait."""
        self._wake.set()

    def wait(self, timeout: float | None) -> None:
        """Sleep until woken, or for ``timeout`` seconds."""
        self._wake.wait(timeout)
        self._wake.clear()

    def step(self) -> None:
        raise NotImplementedError

    def goes_on(self) -> bool:
        """Whether the loop takes another step."""
        return not self.stopping

    def closed(self) -> None:
        """Release what the loop holds; runs in its thread at the end."""

    def _run(self) -> None:
        try:
            while self.goes_on():
                self.turned = time.monotonic()
                try:
                    self.step()
                except Exception as error:  # noqa: BLE001 - a failing loop logs, backs off and goes on
                    self._failed(error)
                else:
                    self._recovered()
        finally:
            try:
                self.closed()
            finally:
                connections.close_all()

    def _failed(self, error: Exception) -> None:
        self.failures += 1
        pause = min(self.longest_pause, FIRST_PAUSE * 2 ** min(self.failures - 1, 10)) * random.uniform(0.5, 1.0)
        # Every failure of a burst says the same: the first with its traceback, then one line at growing distances.
        if self.failures & (self.failures - 1) == 0:
            log_event(
                logger, logging.WARNING, Event.WORKER_LOOP_CRASHED,
                "The %s loop failed (%d in a row) and tries again in %.1f s: %s",
                self.name, self.failures, pause, error, exc_info=error if self.failures == 1 else None,
            )  # fmt: skip
        if self.stopping:
            return
        try:
            self.wait(pause)
        except Exception:  # noqa: BLE001 - what the loop waits on is away too; without a pause of its own it would end
            self._wake.wait(pause)

    def _recovered(self) -> None:
        if self.failures:
            log_event(
                logger, logging.INFO, Event.STORAGE_RECOVERED,
                "The %s loop works again after %d failures", self.name, self.failures,
            )  # fmt: skip
            self.failures = 0
