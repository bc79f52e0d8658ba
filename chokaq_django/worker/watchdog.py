"""Stops what runs too long, writes off what does not stop, and sees to what takes its place."""

from __future__ import annotations

import logging
import os
import socket
import time
from collections.abc import Callable, Iterable
from typing import Any

from ..job.failures import CancelReason
from ..observability.events import Event, log_event
from .call_thread import CallThread
from .execution import Execution, Phase
from .service import Service

logger = logging.getLogger("chokaq.worker.watchdog")

TICK = 0.05
RELAXED = 1.0


class Watchdog(Service):
    """Looks at the running executions whenever one's time may be up.

    ``live()`` gives the executions of the process; ``abandoned(execution)`` settles one that was written off and
    replaces its slot; ``mend()`` asks again for what the system refused then. ``calls``: the thread that async handlers
    share; ``replaced()`` is told when it was replaced.
    """

    name = "watchdog"

    def __init__(
        self,
        live: Callable[[], Iterable[Execution]],
        abandoned: Callable[[Execution], None],
        grace: float,
        calls: CallThread,
        replaced: Callable[[], None],
        mend: Callable[[], None],
    ) -> None:
        super().__init__()
        self._mend = mend
        self._calls = calls
        self._replaced = replaced
        self._live = live
        self._abandoned = abandoned
        self._grace = grace

    def step(self) -> None:
        self.wait(self.check())

    def check(self) -> float:
        """One look; seconds until the next."""
        now = time.monotonic()
        nearest = RELAXED
        for execution in self._live():
            if execution.phase is not Phase.RUNNING:
                continue
            if execution.timeout_at is not None and now >= execution.timeout_at and not execution.ctx.cancelled:
                if execution.type.is_async and self._calls.held_up(execution):
                    self._replaced()
                else:
                    execution.cancel(CancelReason.TIMEOUT, self._grace)
            if execution.ctx.cancelled:
                left = (execution.abandon_at or now) - now
                if left <= 0 and execution.abandon():
                    self._write_off(execution)
                    continue
            else:
                left = (execution.timeout_at or now + RELAXED) - now
            nearest = min(nearest, left)
        if self._calls.look(self._grace):
            self._replaced()
        self._mend()
        return max(TICK, nearest)

    def _write_off(self, execution: Execution) -> None:
        log_event(
            logger, logging.WARNING, Event.JOB_ABANDONED,
            "Job %s (%s) did not stop within %.1f s; its slot is replaced and whatever it still does is refused",
            execution.job.id, execution.job.type, self._grace,
        )  # fmt: skip
        close_connection(execution.connection)
        self._abandoned(execution)


def close_connection(raw: Any) -> None:
    """End the transaction of an atomic job from outside, so that its thread gets an error instead of a commit.

    The driver's own ``close`` is not made for a second thread; cutting the socket under it is. SQLite has no socket:
    its running statement is interrupted, and the job is refused at its end.
    """
    if raw is None:
        return
    try:
        if hasattr(raw, "interrupt"):
            raw.interrupt()
        else:
            with socket.socket(fileno=os.dup(raw.fileno())) as wire:
                wire.shutdown(socket.SHUT_RDWR)
    except Exception as error:  # noqa: BLE001 - the transaction is refused at its end all the same
        logger.info("The connection of an abandoned atomic job could not be cut: %s", error)
