"""Works bulk operations off, by one worker in the fleet at a time."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from .. import channel_wake, wake
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

WAKING = 0.2
"""Seconds between two wake-ups of those who run the jobs."""


class Operations(Service):
    """Takes every operation that is to be worked on one step further, then the next round. Operations of a drip do not
    wait for one at full speed. While there is none, it sleeps until the worker's beat has seen one and wakes it."""

    name = "operations"

    def __init__(self, alias: str, worker_id: str, open_storage: Callable[[], Storage]) -> None:
        super().__init__()
        self._alias, self._worker_id, self._open = alias, worker_id, open_storage
        self._storage: Storage | None = None
        self._led_until = self._woke_at = 0.0
        self._due: dict[str, float] = {}
        self._next: float | None = 0.0

    def step(self) -> None:
        self.wait(self._next)
        if self.stopping:
            return
        self._next = STANDBY
        if self._storage is None:
            self._storage = self._open()
        self._next = self.turn(self._storage)
        if self._next is None:
            self._release()  # days may pass until the next

    def turn(self, storage: Storage) -> float | None:
        """One step of each operation, if this worker leads; seconds until the next, None: when there is one."""
        operations = storage.bulk_open()
        if not operations:
            return None
        if not self._leads(storage):
            return STANDBY
        now = time.monotonic()
        self._due = {operation_id: self._due.get(operation_id, now) for operation_id in operations}
        for operation_id, due in sorted(self._due.items(), key=lambda each: each[1]):
            if due <= now and not self.stopping:
                self._advance(storage, operation_id)
        return max(0.0, min(self._due.values(), default=0.0) - time.monotonic())

    def _advance(self, storage: Storage, operation_id: str) -> None:
        began = time.monotonic()
        step = advance(storage, operation_id)
        # It is looked at every second at least: somebody may have given it another rate.
        self._due[operation_id] = began + min(step.pause or 0.0, STANDBY)
        if step.pause is None:
            del self._due[operation_id]
            log_event(
                logger, logging.INFO, Event.BULK_ENDED, "Bulk operation %s is %s: %d of %d done",
                operation_id, step.state, step.done, step.total,
            )  # fmt: skip
        if step.wakes and (step.pause is None or began - self._woke_at >= WAKING):
            self._woke_at = began
            wake.notify(self._alias)
        channel_wake.tell_deck(self._alias)

    def _leads(self, storage: Storage) -> bool:
        now = time.monotonic()
        if now < self._led_until - TTL / 2:
            return True
        leads = storage.lead(LEASE, self._worker_id, TTL)
        self._led_until = now + TTL if leads else 0.0
        return leads

    def closed(self) -> None:
        self._release()

    def _release(self) -> None:
        """Give up the lead and the connection."""
        storage, self._storage = self._storage, None
        if storage is None:
            return
        try:
            if self._led_until:
                self._led_until = 0.0
                storage.resign(LEASE, self._worker_id)
        finally:
            storage.close()
