"""Keeps the leases of this process alive, hears which it lost, and delivers cancel requests."""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Callable, Collection

from ..conf import Options
from ..job.failures import CancelReason
from ..observability.events import Event, log_event
from ..storage import Storage
from .execution import Execution, Phase
from .service import Service, patience

logger = logging.getLogger("chokaq.worker.heartbeat")

CANCEL_CHECK = 1.0
"""Seconds between looks for cancel requests, while something has been running for that long."""


class Heartbeat(Service):
    """One UPDATE for all leases of the process every 8-12 s (random), one small read a second while jobs run long.

    ``live()`` gives the executions whose leases count; ``lost(execution)`` is told of each that is gone.
    """

    name = "heartbeat"

    def __init__(
        self,
        options: Options,
        worker_id: str,
        open_storage: Callable[[], Storage],
        live: Callable[[], Collection[Execution]],
        lost: Callable[[Execution], None],
        wrote: Callable[[], None],
    ) -> None:
        super().__init__()
        self._options, self._worker_id, self._open = options, worker_id, open_storage
        self._live, self._lost, self._wrote = live, lost, wrote
        self._storage: Storage | None = None
        self._beat_at = 0.0
        self._failed_beats = 0
        self._beat_now = False
        # A missed heartbeat is made up for as soon as the database is back, whatever pauses the outage has led to.
        self.longest_pause = min(self.longest_pause, options.execution.heartbeat_max)
        # One statement for very many leases may take longer than that on a slow server. It is then given up twice, and
        # may take its time from the third try on, for as long as the server stays slow (see storage/patience.py).
        self.patience = patience(options.recovery.worker_timeout)

    def beat_now(self) -> None:
        """Renew all leases at once."""
        self._beat_now = True
        self.wake()

    def step(self) -> None:
        if self._storage is None:
            self._storage = self._open()
            self._storage.hurry(self.longest_pause / 4, self.patience)
            self._plan_beat()
        self.wait(self._pause())
        now = time.monotonic()
        if self._beat_now or now >= self._beat_at:
            self._beat_now = False
            self._beat(self._storage)
        elif self._long_running(now):
            self._deliver(self._storage.cancel_requests([e.lease for e in self._long_running(now)]))

    def _plan_beat(self) -> None:
        execution = self._options.execution
        self._beat_at = time.monotonic() + random.uniform(execution.heartbeat_min, execution.heartbeat_max)

    def _pause(self) -> float:
        return max(0.0, min(CANCEL_CHECK, self._beat_at - time.monotonic()))

    def _long_running(self, now: float) -> list[Execution]:
        return [e for e in self._live() if e.phase is Phase.RUNNING and now - e.ran_from >= CANCEL_CHECK]

    def _beat(self, storage: Storage) -> None:
        self._plan_beat()
        held = self._held()
        if not held:
            return
        try:
            reply = storage.heartbeat(self._worker_id, [execution.lease for execution in held])
        except Exception:
            self._beat_failed(held)
            raise
        self._failed_beats = 0
        self._wrote()
        for execution in held:
            # An execution that ended while the heartbeat was on its way may have been settled: that is not a loss.
            if execution.job.id in reply.lost and execution.phase in (Phase.WAITING, Phase.RUNNING):
                self._lost(execution)
        self._deliver(reply.cancels)

    def _held(self) -> list[Execution]:
        """The executions whose leases may be ours, one for each job."""
        newest: dict[str, Execution] = {}
        for execution in sorted(self._live(), key=lambda e: e.job.claim_number):
            if execution.phase is Phase.ABANDONED:
                continue
            # Taken from us while we stood still, and claimed by us again: only the later claim can be alive.
            older = newest.get(execution.job.id)
            if older is not None and older.phase in (Phase.WAITING, Phase.RUNNING):
                self._lost(older)
            newest[execution.job.id] = execution
        return list(newest.values())

    def _deliver(self, cancels: dict[str, str | None]) -> None:
        if cancels:
            grace = self._options.worker.cancel_grace
            for execution in list(self._live()):
                if execution.job.id in cancels:
                    execution.cancel(CancelReason.OPERATOR, grace, cancels[execution.job.id])

    def _beat_failed(self, held: Collection[Execution]) -> None:
        self._failed_beats += 1
        self._beat_at = time.monotonic()
        options = self._options.execution
        if self._failed_beats < options.heartbeat_failures:
            return
        self._failed_beats = 0
        if options.cancel_on_heartbeat_failure:
            for execution in held:
                execution.cancel(CancelReason.HEARTBEAT, self._options.worker.cancel_grace)
            return
        log_event(
            logger, logging.WARNING, Event.HEARTBEAT_DEGRADED,
            "%d heartbeats failed in a row; %d jobs go on without (CANCEL_ON_HEARTBEAT_FAILURE is off)",
            options.heartbeat_failures, len(held),
        )  # fmt: skip

    def closed(self) -> None:
        if self._storage is not None:
            self._storage.close()
