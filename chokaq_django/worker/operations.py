"""Works bulk operations off, by one worker in the fleet at a time."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from ..observability.events import Event, log_event
from ..storage import Storage
from ..storage.bulk_work import advance
from .service import Service

logger = logging.getLogger("chokaq.worker.operations")

LEASE = "bulk"
TTL = 5.0
"""Seconds after which another worker goes on where a dead one stopped. Each step locks its operation's row too: two
leaders at a time would be slower, and do nothing twice."""
STANDBY = 1.0
"""Seconds between two tries to lead while another worker does."""


class Operations(Service):
    """Takes every operation that is to be worked on one step further, then the next round. Operations of a drip do not
    wait for one at full speed. While there is none, it sleeps until the worker's beat has seen one and wakes it."""

    name = "operations"

    def __init__(self, worker_id: str, open_storage: Callable[[], Storage], woke: Callable[[], None]) -> None:
        super().__init__()
        self._worker_id, self._open, self._woke = worker_id, open_storage, woke
        self._storage: Storage | None = None
        self._led_until = 0.0
        self._next: float | None = 0.0

    def step(self) -> None:
        self.wait(self._next)
        if self.stopping:
            return
        self._next = STANDBY
        if self._storage is None:
            self._storage = self._open()
        self._next = self.turn(self._storage)

    def turn(self, storage: Storage) -> float | None:
        """One step of each operation, if this worker leads; seconds until the next, None: when there is one."""
        operations = storage.bulk_open()
        if not operations:
            return None
        if not self._leads(storage):
            return STANDBY
        pauses = []
        for operation_id in operations:
            if self.stopping:
                break
            before = time.monotonic()
            step = advance(storage, operation_id)
            if step.pause is None:
                log_event(
                    logger, logging.INFO, Event.BULK_ENDED, "Bulk operation %s is %s: %d of %d done",
                    operation_id, step.state, step.done, step.total,
                )  # fmt: skip
            else:
                pauses.append(before + step.pause)
        self._woke()
        return max(0.0, min(pauses) - time.monotonic()) if pauses else 0.0

    def _leads(self, storage: Storage) -> bool:
        now = time.monotonic()
        if now < self._led_until - TTL / 2:
            return True
        leads = storage.lead(LEASE, self._worker_id, TTL)
        self._led_until = now + TTL if leads else 0.0
        return leads

    def closed(self) -> None:
        if self._storage is None:
            return
        try:
            if self._led_until:
                self._storage.resign(LEASE, self._worker_id)
        finally:
            self._storage.close()
