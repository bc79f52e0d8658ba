"""Keeps history small, by one worker in the fleet and in small steps: adds up what is counted by many rows, and deletes
what is older than RETENTION says."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable
from functools import partial

from ..conf import get_options
from ..conf.options import RetentionOptions
from ..models import BUCKETS_KEPT, FIVE_MINUTES, HOUR, MINUTE, TICK, TICKS_KEPT
from ..observability.harmless import one_line
from ..storage import Storage
from ..storage.retention_rules import TrimRule, trim_rules
from .service import Service

logger = logging.getLogger("chokaq.worker.retention")

LEASE = "retention"
INTERVAL = 60.0
"""Seconds until the first round, and between two: what the Deck reads of counts grows with the workers for so long."""
LEASE_TIME = 5 * INTERVAL
"""Seconds after which another worker goes on where a dead one stopped."""
TRIM_INTERVAL = 3600.0
"""Seconds between two passes over everything that may be old."""
ROLLUPS_KEPT = {MINUTE: 3 * 3600.0, FIVE_MINUTES: 2 * 86_400.0, HOUR: None}
"""Span -> seconds for which its roll-ups stay, at most: what the chart that reads them shows, and some more."""
GROUPS_KEPT = 30 * 86_400.0
"""Seconds for which a failure group stays that has no job any more."""
BULK_KEPT = 30 * 86_400.0
"""Seconds for which the list of an ended bulk operation's jobs is kept, and with it what is needed to undo it."""


class Retention(Service):
    """A round every minute: metric buckets are rolled up and failure groups folded each time; what is old is deleted
    once an hour, and at once when the rules have changed."""

    name = "retention"

    def __init__(
        self,
        worker_id: str,
        open_storage: Callable[[], Storage],
        rules: Callable[[], RetentionOptions] = lambda: get_options().retention,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__()
        self._worker_id, self._open, self._rules, self._clock = worker_id, open_storage, rules, clock
        self._trimmed_by: RetentionOptions | None = None
        self._trim_at = self._led_at = -math.inf

    def step(self) -> None:
        self.wait(INTERVAL)
        if self.stopping:
            return
        storage = self._open()
        try:
            if self._leads(storage):
                self.turn(storage)
        finally:
            storage.close()

    def _leads(self, storage: Storage) -> bool:
        self._led_at = self._clock()
        return storage.lead(LEASE, self._worker_id, LEASE_TIME)

    def turn(self, storage: Storage) -> None:
        """One round."""
        retention, now = self._rules(), self._clock()
        self._sweep(storage, partial(storage.roll_up, BUCKETS_KEPT))
        self._sweep(storage, partial(storage.trim_rollups, TICK, TICKS_KEPT))
        self._sweep(storage, storage.fold_groups)
        if now >= self._trim_at or retention != self._trimmed_by:
            self.trim(storage, retention)
            if not self.stopping:
                self._trim_at, self._trimmed_by = now + TRIM_INTERVAL, retention

    def trim(self, storage: Storage, retention: RetentionOptions) -> None:
        """Delete everything that is too old. None keeps for ever."""
        rules = trim_rules(retention)
        for rule in rules:
            if rule.age is not None:
                self._note(storage, rule.name, rule.place, self._walk(storage, rule))
        # Each row of the Trash says itself when its time has come, whatever the setting says now.
        self._note(storage, "RETENTION.TRASH", "", self._sweep(storage, storage.expire_trash))
        self._sweep(storage, partial(storage.trim_bulk, BULK_KEPT))
        self._sweep(storage, partial(storage.trim_groups, GROUPS_KEPT))
        self._note(storage, "RETENTION.BUCKETS", "", self._rollups(storage, retention.buckets))
        storage.forget_rules({*(rule.name for rule in rules), "RETENTION.TRASH", "RETENTION.BUCKETS"})

    def _walk(self, storage: Storage, rule: TrimRule) -> int:
        """A pass of one rule; how many jobs it deleted."""
        total, walk = 0, None
        while True:
            began = self._clock()
            step = storage.trim(rule, storage.sweep_chunk, walk)
            total, walk = total + step.removed, step.walk
            if walk is None or self.stopping:
                return total
            if step.removed:
                self._pause(storage, began)

    def _rollups(self, storage: Storage, kept: float | None) -> int:
        total = 0
        for span, longest in ROLLUPS_KEPT.items():
            age = min((age for age in (kept, longest) if age is not None), default=None)
            if age is not None:
                total += self._sweep(storage, partial(storage.trim_rollups, span, age))
        return total

    def _sweep(self, storage: Storage, step: Callable[[int], int]) -> int:
        """``step`` by so many rows until it finds less; how many in all."""
        total = 0
        while not self.stopping:
            began = self._clock()
            count = step(storage.sweep_chunk)
            total += count
            if count < storage.sweep_chunk:
                break
            self._pause(storage, began)
        return total

    def _pause(self, storage: Storage, began: float) -> None:
        """After a step, for as long as it took at least: claims and settles go first. The lease is kept meanwhile."""
        self.wait(max(storage.sweep_pause, self._clock() - began))
        if self._clock() - self._led_at > INTERVAL:
            self._leads(storage)

    def _note(self, storage: Storage, name: str, place: str, removed: int) -> None:
        storage.trimmed(name, place, removed)
        if removed:
            logger.info("Retention removed %d rows by %s", removed, one_line(name))
