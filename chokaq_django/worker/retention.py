"""Trims Archive, DLQ, Trash and metric buckets by RETENTION, in small chunks, by one worker in the fleet."""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial

from ..conf import Options
from ..storage import Storage
from .service import Service

logger = logging.getLogger("chokaq.worker.retention")

LEASE = "retention"
INTERVAL = 3600.0
FIRST = 60.0
CHUNK = 500
BULK_KEPT = 30 * 86_400.0
"""Seconds for which the list of an ended bulk operation's jobs is kept, and with it what is needed to undo it."""
PAUSE = 0.05
"""Seconds between chunks, so that claims and settles go first."""


class Retention(Service):
    """Deletes what is older than its retention. None keeps for ever."""

    name = "retention"

    def __init__(self, options: Options, worker_id: str, open_storage: Callable[[], Storage]) -> None:
        super().__init__()
        self._retention, self._worker_id, self._open = options.retention, worker_id, open_storage
        self._next = FIRST

    def step(self) -> None:
        self.wait(self._next)
        if self.stopping:
            return
        self._next = INTERVAL
        storage = self._open()
        try:
            if storage.lead(LEASE, self._worker_id, INTERVAL / 2):
                self.trim(storage)
        finally:
            storage.close()

    def trim(self, storage: Storage) -> None:
        """Delete everything that is too old."""
        retention = self._retention
        own = {int(reason): age for reason, age in retention.dlq_by_reason.items()}
        if retention.archive is not None:
            self._chunks("archive", partial(storage.trim, "archive", retention.archive))
        for reason, age in own.items():
            if age is not None:
                self._chunks("dlq", partial(storage.trim, "dlq", age, reason=reason))
        if retention.dlq is not None:
            self._chunks("dlq", partial(storage.trim, "dlq", retention.dlq, but_reasons=tuple(own)))
        # Each row of the Trash says itself when its time has come, whatever the setting says now.
        self._chunks("trash", storage.expire_trash)
        self._chunks("bulk operations", partial(storage.trim_bulk, BULK_KEPT))
        if retention.buckets is not None:
            self._chunks("buckets", partial(storage.trim_buckets, retention.buckets))

    def _chunks(self, table: str, trim: Callable[..., int]) -> None:
        total = 0
        while not self.stopping:
            count = trim(limit=CHUNK)
            total += count
            if count < CHUNK:
                break
            self.wait(PAUSE)
        if total:
            logger.info("Retention removed %d rows from %s", total, table)
