"""Brings back or buries the jobs of dead workers, without panic.

A rescuer trusts no clock but its own monotonic one. A row is dead when this process saw its heartbeat stand still for
the whole timeout while it could itself write to the database all the time: an outage, a failover or a stepped database
clock stops the rescuer's own writes or nobody's heartbeat, and buries nothing.
"""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from ..conf import Options
from ..job.attempts import append_attempt
from ..job.error_info import ErrorInfo
from ..job.failures import FailureReason
from ..job.fingerprint import fingerprint
from ..job.registry import registry
from ..observability.events import Event, log_event
from ..storage import Storage
from ..storage.contract import LiveRow, RescueAction
from .service import Service
from .views import QueueView

logger = logging.getLogger("chokaq.worker.rescue")

LEASE = "rescue"
CHUNK = 500


class Steadiness:
    """Whether this process has written to the database successfully without a gap, and for how long."""

    def __init__(self, gap: float) -> None:
        self._gap = gap
        self._last = time.monotonic()
        self._since = self._last

    def wrote(self) -> None:
        """A write of this process was committed just now."""
        now = time.monotonic()
        if now - self._last > self._gap:
            self._since = now
        self._last = now

    def lasted(self) -> float:
        """Seconds of unbroken success up to now; 0 when the last success is too old to say."""
        now = time.monotonic()
        return now - self._since if now - self._last <= self._gap else 0.0


@dataclass(slots=True)
class Sighting:
    """A value that should move, and when this process first saw it as it is."""

    value: object
    since: float


class Sightings:
    """Since when each thing has stood still, by the monotonic clock of this process."""

    def __init__(self) -> None:
        self._seen: dict[object, Sighting] = {}

    def still_for(self, current: Mapping[Any, object], at_most: float) -> dict[Any, float]:
        """Update with all current values (things not in it are forgotten); seconds that each has not changed.

        ``at_most``: for how long that would say anything. What nobody could write has stood still for no reason of its
        own.
        """
        now = time.monotonic()
        kept = {}
        for key, value in current.items():
            old = self._seen.get(key)
            kept[key] = old if old is not None and old.value == value else Sighting(value, now)
        self._seen = kept
        return {key: min(now - sighting.since, at_most) for key, sighting in kept.items()}

    def restart(self, keys: Iterable[object]) -> None:
        """These count from the next time that they are seen."""
        for key in keys:
            self._seen.pop(key, None)

    def forget(self) -> None:
        """Start over: what stood still while we could not look proves nothing."""
        self._seen = {}


class Rescuer(Service):
    """One worker in the fleet scans at a time, by a leader lease."""

    name = "rescue"

    def __init__(
        self,
        options: Options,
        worker_id: str,
        open_storage: Callable[[], Storage],
        queues: QueueView,
        steadiness: Steadiness,
        woke: Callable[[], None],
        crashed: Callable[[str], None],
    ) -> None:
        super().__init__()
        self._options, self._worker_id, self._open, self._queues = options, worker_id, open_storage, queues
        self._steadiness, self._woke, self._crashed = steadiness, woke, crashed
        self._storage: Storage | None = None
        self._rows, self._workers = Sightings(), Sightings()
        self._leading = False
        self._known: set[str] = set()
        self._next = options.recovery.scan_interval

    def step(self) -> None:
        self.wait(self._next)
        if self.stopping:
            return
        if self._storage is None:
            self._storage = self._open()
        self._next = self.scan(self._storage)

    def scan(self, storage: Storage) -> float:
        """One scan, if this worker leads; seconds until the next."""
        recovery = self._options.recovery
        ttl = recovery.scan_interval * 3
        self._leading = storage.lead(LEASE, self._worker_id, ttl)
        self._steadiness.wrote()
        if not self._leading:
            self._rows.forget()
            self._workers.forget()
            return recovery.scan_interval
        rows = storage.live_rows()
        dead, next_worker = self._dead_workers(storage)
        actions, next_row = self._judge(rows, dead)
        for start in range(0, len(actions), CHUNK):
            self._apply(storage, actions[start : start + CHUNK])
        if dead:
            storage.sweep_workers(sorted(dead))
            log_event(logger, logging.WARNING, Event.WORKERS_SWEPT, "Dead workers removed: %s", ", ".join(sorted(dead)))
        while storage.expire(CHUNK) == CHUNK and not self.stopping:
            pass
        return max(0.05, min(recovery.scan_interval, next_worker, next_row))

    def _steady(self) -> bool:
        return self._steadiness.lasted() >= self._options.recovery.worker_timeout

    def _dead_workers(self, storage: Storage) -> tuple[set[str], float]:
        """Workers whose last_seen stood still for WORKER_TIMEOUT, and seconds until the next may be."""
        timeout = self._options.recovery.worker_timeout
        still = self._workers.still_for(dict(storage.workers_seen()), self._steadiness.lasted())
        still.pop(self._worker_id, None)
        dead = {str(key) for key, seconds in still.items() if seconds >= timeout} if self._steady() else set()
        waits = [timeout - seconds for seconds in still.values() if 0 < seconds < timeout]
        self._known = {str(key) for key in still} - dead | {self._worker_id}
        return dead, min(waits, default=timeout)

    def _judge(self, rows: list[LiveRow], dead: set[str]) -> tuple[list[RescueAction], float]:
        recovery = self._options.recovery
        seen = {(row.id, row.claim_number, row.status): row.seen for row in rows}
        still = self._rows.still_for(seen, self._steadiness.lasted())
        actions: list[RescueAction] = []
        nearest = recovery.scan_interval
        for row in rows:
            seconds = still[(row.id, row.claim_number, row.status)]
            alive = row.worker_id in self._known
            if row.status == 1:
                unseen = 0.0 if row.worker_id in dead else recovery.worker_timeout
                timeout = recovery.fetched_timeout if alive else unseen
            else:
                timeout = self._queues.zombie_timeout(row.queue) if alive else recovery.worker_timeout
            if seconds < timeout:
                nearest = min(nearest, timeout - seconds)
            elif self._steady():
                actions.append(self._action(row))
        if not self._steady():
            nearest = min(nearest, max(0.05, recovery.worker_timeout - self._steadiness.lasted()))
        return actions, nearest

    def _action(self, row: LiveRow) -> RescueAction:
        """What the crash policy says about one dead row."""
        if row.status == 1:
            return RescueAction(row, "pending", row.attempt_log)
        recovery = self._options.recovery
        job_type = registry.get(row.type)
        policy = (job_type.crash_policy if job_type is not None else None) or recovery.crash_policy
        message = f"Worker {row.worker_id} died, or lost the database, while the job ran (attempt {row.attempt})."
        info = ErrorInfo("WorkerDied", message, message, "")
        log = append_attempt(
            row.attempt_log,
            {"attempt": row.attempt, "worker": row.worker_id, "started": row.started_at, "outcome": "crashed",
             "error_type": info.type, "message": message},
        )  # fmt: skip
        if row.crash_count + 1 > recovery.crash_limit:
            reason = FailureReason.POISON
        elif policy == "retry":
            if row.attempt < row.max_attempts:
                return RescueAction(row, "pending", log, crashed=True, delay=self._apart(row.crash_count + 1))
            reason = FailureReason.MAX_RETRIES_EXCEEDED
        else:
            reason = FailureReason.ZOMBIE
        return RescueAction(
            row, "dlq", log, crashed=True, reason=reason, error_details=message, fingerprint=fingerprint(reason, info)
        )

    def _apart(self, crashes: int) -> float:
        """Seconds to wait after so many crashes: none after the first, later each job its own time, so that what died
        together does not meet again at once (see isolation: in the end it must not)."""
        retry = self._options.retry
        longest = min(retry.max_delay, retry.base_delay * retry.multiplier ** (crashes - 1))
        return random.uniform(0.0, longest) if crashes > 1 else 0.0

    def _apply(self, storage: Storage, actions: list[RescueAction]) -> None:
        applied = storage.rescue(actions)
        # What was passed over is written by somebody, and meanwhile not by its worker, which gets its time after that.
        passed = (action.row for action in actions if action.row.id not in applied)
        self._rows.restart((row.id, row.claim_number, row.status) for row in passed)
        # One death is one failure of each type that ran there, however many jobs of it did: most had no part in it.
        deaths: set[tuple[str | None, str]] = set()
        for action in actions:
            if action.row.id in applied:
                where = "waits again" if action.to == "pending" else f"is dead ({action.reason.label})"  # type: ignore[union-attr]
                log_event(
                    logger, logging.WARNING, Event.RESCUED,
                    "Job %s (%s) of worker %s %s", action.row.id, action.row.type, action.row.worker_id, where,
                )  # fmt: skip
                if action.crashed:
                    deaths.add((action.row.worker_id, action.row.type))
        for _, type_key in sorted(deaths, key=lambda death: death[1]):
            self._crashed(type_key)
        if applied:
            self._woke()

    def closed(self) -> None:
        if self._storage is not None:
            if self._leading:
                try:
                    self._storage.resign(LEASE, self._worker_id)
                except Exception as error:  # noqa: BLE001 - at the end of the process; the lease expires anyway
                    message = "The rescue lease runs out by itself: %s"
                    log_event(logger, logging.INFO, Event.STORAGE_TROUBLE, message, error)
            self._storage.close()
