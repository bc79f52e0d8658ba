"""How a worker process stops: nothing new, what waits handed back, what runs left alone for a while, then cancelled."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Sequence

from ..conf.options import WorkerOptions
from ..job.failures import CancelReason
from ..observability.events import Event, log_event
from .execution import Execution
from .fetch import Fetcher
from .service import Service
from .settle import Settler

__all__ = ["drain"]

logger = logging.getLogger("chokaq.worker")

LAST_CLAIM = 10.0
"""Seconds that a claim which is under way when the process is told to stop may take, at least."""


def drain(
    worker: WorkerOptions, fetcher: Fetcher, idle: Iterable[Service], settler: Settler,
    live: Callable[[], Sequence[Execution]], hand_back: Callable[[Execution], None], hurry: Callable[[], bool],
) -> bool:  # fmt: skip
    """Bring to an end what ``live()`` gives, and write it; whether everything was written.

    ``idle``: loops that are of no use any more; heartbeats go on. ``hand_back`` is for what was started and waits for
    its slot. ``hurry()`` is asked all the time: true ends the waiting.
    """
    started = time.monotonic()
    fetcher.stop()
    for service in idle:
        service.stop()
    # What a claim under way brings is handed back too: abandoned, these jobs would look as if they had crashed.
    _until(lambda: not fetcher.alive(), max(worker.shutdown_grace, LAST_CLAIM), hurry)
    fetcher.give_back()
    for execution in live():
        if execution.leave():
            hand_back(execution)
    _until(lambda: not live(), started + worker.shutdown_grace - time.monotonic(), hurry)
    if running := live():
        for execution in running:
            execution.cancel(CancelReason.SHUTDOWN, 0.0 if hurry() else worker.cancel_grace)
        _until(lambda: not live(), worker.cancel_grace, hurry)
    settler.stop()
    complete = _until(lambda: not settler.alive(), max(worker.cancel_grace, 5.0), hurry)
    if not complete:
        settler.give_up()
    if running := live():
        log_event(
            logger, logging.WARNING, Event.WORKER_SHUTDOWN_TIMED_OUT,
            "%d jobs did not stop in time; their crash policy decides: %s",
            len(running), ", ".join(sorted(execution.job.id for execution in running)[:20]),
        )  # fmt: skip
    return complete


def _until(done: Callable[[], bool], timeout: float, hurry: Callable[[], bool]) -> bool:
    end = time.monotonic() + timeout
    while not done():
        if time.monotonic() >= end or hurry():
            return done()
        time.sleep(0.01)
    return True
