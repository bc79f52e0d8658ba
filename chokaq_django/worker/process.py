"""One worker process: its services, how they work together, and how it stops."""

from __future__ import annotations

import json
import logging
import os
import secrets
import socket
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from .. import __version__, wake
from ..conf import Options
from ..job import signals
from ..job.definition import JobType
from ..job.failures import CancelReason
from ..job.registry import registry
from ..observability import job_logs
from ..observability.events import Event, log_event
from ..storage import ClaimedJob, Lease, Outcome, OutcomeKind, Storage, open_storage
from ..storage.contract import WorkerOrders, WorkerRow
from .breaker import Breaker
from .connections import watch_sessions
from .execution import Execution, Verdict
from .fetch import Fetcher, FetchPlan
from .heartbeat import Heartbeat
from .operations import Operations
from .outcomes import OutcomeTable
from .pace import Pace
from .registry import Registrar, rss_mb
from .rescue import Rescuer, Steadiness
from .retention import Retention
from .runner import Runner
from .service import Service
from .settle import Settler
from .signal_sender import SignalSender
from .slots import LoopSlots, ThreadSlots
from .views import CircuitView, QueueView
from .wakeup import make_waker
from .watchdog import RELAXED, Watchdog

logger = logging.getLogger("chokaq.worker")

SILENT = 10.0
"""Seconds without a write of its row, at least, after which a process is not ready."""
HUNG = 120.0
"""Seconds beyond its own rest after which a loop that has not begun another step hangs."""
MOST_LOST_LOOPS = 3
"""Event loops blocked by their handlers after which the process should be replaced."""
WAITS_AGAIN = (OutcomeKind.RETRY, OutcomeKind.SNOOZED)


@dataclass(slots=True)
class WorkerPlan:
    """What one worker process is asked to do, from the command line; None means the option."""

    queues: list[str] = field(default_factory=list)
    concurrency: int | None = None
    strict: bool = False
    burst: bool = False
    max_jobs: int | None = None


@dataclass(slots=True)
class Counts:
    """What this process did since it started."""

    succeeded: int = 0
    failed: int = 0
    retried: int = 0
    conflicts: int = 0
    finished: int = 0


class WorkerProcess:
    """Claims, runs and settles jobs until told to stop.

    :meth:`start`, then :meth:`shutdown` once ``on_stop`` was called: by
    :meth:`request_stop`, which any thread may call.
    """

    def __init__(self, options: Options, plan: WorkerPlan, on_stop: Callable[[], None] = lambda: None) -> None:
        self.options = options
        self.plan = plan
        self.id = f"{socket.gethostname()[:60]}-{os.getpid()}-{secrets.token_hex(4)}"
        self.counts = Counts()
        self.recycle = False
        """It stops because it should be replaced: max jobs, memory, lost threads."""
        self._stop = False
        self._on_stop = on_stop
        self._live: dict[tuple[str, int], Execution] = {}
        self._steadiness = Steadiness(gap=options.recovery.worker_timeout / 2)
        self._table = OutcomeTable(options, self.id)
        self._queues = QueueView(options, plan.queues)
        self._circuits = CircuitView()
        self._breaker = Breaker(options, self._circuits)
        self._pace = Pace()
        self._signals = SignalSender()
        self._draining = False
        self._build(plan.concurrency or options.worker.concurrency)

    def _open(self) -> Storage:
        return open_storage(self.options.database)

    def _build(self, concurrency: int) -> None:
        options, worker = self.options, self.options.worker
        self._settler = Settler(self._open, self.id, worker.settle_batch, self._settled, self._after_batch)
        runner = Runner(
            options, self._table, self._ended, self._settled_atomic, self._dropped, self._began, self.id
        )  # fmt: skip
        self._threads = ThreadSlots(concurrency, runner.run, self._slot_freed)
        self._loop = LoopSlots(worker.async_concurrency, runner.run_async, self._slot_freed)
        waker = make_waker(options, self._queues.interested)
        self._waker = waker
        self._fetcher = Fetcher(
            options, FetchPlan(self.id, self.plan.strict, self.plan.burst), self._open, waker, self._queues,
            self._circuits, self._threads, self._loop, self._pace, self._dispatch, self._unknown, self._expired,
            self._settler.release, self._drained,
        )  # fmt: skip
        self._heartbeat = Heartbeat(
            options, self.id, self._open, self._live_executions, self._lost, self._steadiness.wrote
        )
        self._watchdog = Watchdog(self._live_executions, self._written_off, worker.cancel_grace)
        self._rescuer = Rescuer(
            options, self.id, self._open, self._queues, self._steadiness, waker.set, self._crashed
        )  # fmt: skip
        self._registrar = Registrar(
            options.recovery.worker_timeout, self._open, self._describe, self._obey, self._steadiness.wrote
        )
        self._retention = Retention(options, self.id, self._open)
        self._operations = Operations(options.database, self.id, self._open)

    # -- life ----------------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Start every loop; returns at once."""
        job_logs.install()
        watch_sessions()
        for service in self._services():
            service.start()
        named = ", ".join(self.plan.queues) or "all queues"
        log_event(
            logger, logging.INFO, Event.WORKER_STARTED, "Worker %s runs %s with %d threads and up to %d async jobs",
            self.id, named, self._threads.size, self._loop.size,
        )  # fmt: skip

    def _services(self) -> list[Service]:
        return [
            self._registrar, self._settler, self._heartbeat, self._watchdog, self._fetcher, self._rescuer,
            self._retention, self._operations,
        ]  # fmt: skip

    def request_stop(self, *, recycle: bool = False) -> None:
        """Ask for a graceful stop; any thread."""
        self.recycle = self.recycle or recycle
        self._stop = True
        self._on_stop()

    @property
    def stop_requested(self) -> bool:
        return self._stop

    def shutdown(self, hurry: Callable[[], bool] = lambda: False) -> bool:
        """Stop gracefully: nothing new, the buffer given back, running jobs left alone for the grace period with their
        heartbeats on, then cancelled; what stopped is handed back. Heartbeats stop last.

        ``hurry()`` is asked all the time: true ends the waiting. Returns whether everything was written.
        """
        worker = self.options.worker
        self._draining = True
        started = time.monotonic()
        running = len(self._live)
        log_event(logger, logging.INFO, Event.WORKER_DRAINING, "Worker %s stops; %d jobs are running", self.id, running)
        self._fetcher.stop()
        self._rescuer.stop()
        self._retention.stop()
        self._operations.stop()
        self._until(lambda: not self._fetcher.alive(), worker.shutdown_grace, hurry)
        self._fetcher.give_back()
        self._hand_back_waiting()
        self._until(lambda: not self._live, started + worker.shutdown_grace - time.monotonic(), hurry)
        if self._live:
            for execution in self._live_executions():
                execution.cancel(CancelReason.SHUTDOWN, 0.0 if hurry() else worker.cancel_grace)
            self._until(lambda: not self._live, worker.cancel_grace, hurry)
        self._settler.stop()
        complete = self._until(lambda: not self._settler.alive(), max(worker.cancel_grace, 5.0), hurry)
        if not complete:
            self._settler.give_up()
        if self._live:
            log_event(
                logger, logging.WARNING, Event.WORKER_SHUTDOWN_TIMED_OUT,
                "%d jobs did not stop in time; their crash policy decides: %s",
                len(self._live), ", ".join(sorted(job_id for job_id, _ in self._live)[:20]),
            )  # fmt: skip
        for last in (self._watchdog, self._heartbeat, self._registrar):
            last.stop()
        for service in self._services():
            service.join(2.0)
        self._threads.close()
        self._loop.close()
        self._signals.close()
        wake.unsubscribe(self.options.database, self._waker.set)
        self._waker.close()
        log_event(
            logger, logging.INFO, Event.WORKER_STOPPED, "Worker %s stopped: %d succeeded, %d retried, %d dead",
            self.id, self.counts.succeeded, self.counts.retried, self.counts.failed,
        )  # fmt: skip
        return complete and not self._live

    def _until(self, done: Callable[[], bool], timeout: float, hurry: Callable[[], bool]) -> bool:
        end = time.monotonic() + timeout
        while not done():
            if time.monotonic() >= end or hurry():
                return done()
            time.sleep(0.01)
        return True

    def _hand_back_waiting(self) -> None:
        """Started jobs whose slot has not come free are handed back; those that run are left alone."""
        for execution in self._live_executions():
            if not execution.leave():
                continue
            if execution.lost:
                self._dropped(execution)
            else:
                self._settler.put(execution, self._table.interrupted(execution))

    # -- the way of a job ----------------------------------------------------------------------------------------------

    def _live_executions(self) -> list[Execution]:
        return list(self._live.values())

    def _dispatch(self, started: Sequence[tuple[ClaimedJob, JobType]], probing: frozenset[str]) -> None:
        threads: list[Execution] = []
        tasks: list[Execution] = []
        for job, job_type in started:
            execution = Execution(job, job_type, self, self._timeout(job, job_type), is_probe=job.type in probing)
            self._live[execution.key] = execution
            (tasks if job_type.is_async else threads).append(execution)
        if threads:
            self._threads.submit(threads)
        if tasks:
            self._loop.submit(tasks)

    def _timeout(self, job: ClaimedJob, job_type: JobType) -> float:
        if job_type.timeout is not None:
            return job_type.timeout
        return self._queues.execution_timeout(job.queue) or self.options.execution.timeout

    def _began(self, execution: Execution) -> None:
        if execution.timeout < 2 * RELAXED:
            self._watchdog.wake()
        self._send(signals.job_started, execution)

    def _slot_freed(self) -> None:
        self._fetcher.slot_freed()

    def _ended(self, execution: Execution, outcome: Outcome) -> None:
        self._pace.ended(execution.run_ms / 1000)
        self._settler.put(execution, outcome)

    def _dropped(self, execution: Execution) -> None:
        """The lease is gone: whatever the execution did is refused."""
        self._live.pop(execution.key, None)
        self.counts.conflicts += 1
        log_event(
            logger, logging.WARNING, Event.JOB_LEASE_LOST,
            "Job %s (%s) was taken over by somebody else; its outcome here is refused",
            execution.job.id, execution.job.type,
        )  # fmt: skip

    def _lost(self, execution: Execution) -> None:
        execution.cancel(CancelReason.LEASE_LOST, self.options.worker.cancel_grace)

    def _written_off(self, execution: Execution) -> None:
        reason = execution.ctx.cancel_reason
        if reason is CancelReason.LEASE_LOST or reason is None:
            self._dropped(execution)
        elif reason is not CancelReason.SHUTDOWN:
            self._settler.put(execution, self._table.stopped(execution, reason, None))
        slots = self._loop if execution.type.is_async else self._threads
        slots.written_off(execution)
        if self._threads.lost >= max(2, self._threads.size) or self._loop.lost >= MOST_LOST_LOOPS:
            self.request_stop(recycle=True)

    def _settled_atomic(self, execution: Execution, outcome: Outcome, applied: bool) -> None:
        self._pace.ended(execution.run_ms / 1000)
        self._settled(execution, outcome, applied)
        # A neighbour of the group commit: circuits and dependants are told by its loop.
        self._settler.wake()

    def _settled(self, execution: Execution, outcome: Outcome, applied: bool) -> None:
        """After the commit of an outcome."""
        self._live.pop(execution.key, None)
        if not applied:
            execution.verdict = Verdict.NEUTRAL  # what a stale execution did says nothing about the type
        self._breaker.settled(execution)
        if self._queues.caps([execution.job.queue]):
            self._waker.set()  # a place under the cap is free
        if not applied:
            self.counts.conflicts += 1
            log_event(
                logger, logging.WARNING, Event.JOB_CONFLICT,
                "The outcome (%s) of job %s (%s) was refused: its lease is gone",
                outcome.kind.value, outcome.id, outcome.type,
            )  # fmt: skip
            return
        self._count(execution, outcome)
        if outcome.kind in WAITS_AGAIN and outcome.delay < self.options.worker.idle_poll_interval:
            self._waker.set()  # due before the next poll, perhaps: the claim says when
        self.counts.finished += 1
        if self.plan.max_jobs is not None and self.counts.finished >= self.plan.max_jobs:
            self.request_stop(recycle=True)

    def _count(self, execution: Execution, outcome: Outcome) -> None:
        kind = outcome.kind
        if kind is OutcomeKind.SUCCEEDED:
            self.counts.succeeded += 1
            log_event(
                logger, logging.DEBUG, Event.JOB_SUCCEEDED, "Job %s (%s) succeeded in %d ms",
                outcome.id, outcome.type, outcome.duration_ms,
            )  # fmt: skip
            self._send(signals.job_succeeded, execution)
        elif kind is OutcomeKind.RETRY:
            self.counts.retried += 1
            log_event(
                logger, logging.INFO, Event.JOB_RETRYING, "Job %s (%s) failed, attempt %d of %d; again in %.1f s: %s",
                outcome.id, outcome.type, execution.job.attempt, execution.job.max_attempts, outcome.delay,
                outcome.error_details,
            )  # fmt: skip
            self._send(signals.job_retrying, execution, delay=outcome.delay, error=outcome.error_details)
        elif outcome.reason is not None:
            self.counts.failed += 1
            log_event(
                logger, logging.WARNING, Event.JOB_BURIED, "Job %s (%s) is dead: %s (%s), attempt %d of %d",
                outcome.id, outcome.type, outcome.reason.label, outcome.error_type, execution.job.attempt,
                execution.job.max_attempts,
            )  # fmt: skip
            self._send(signals.job_buried, execution, reason=outcome.reason, error=outcome.error_details)

    def _crashed(self, type_key: str) -> None:
        """A job of this type took its worker with it, or died with it."""
        job_type = registry.get(type_key)
        if job_type is not None:
            self._breaker.crashed(job_type, type_key)
            self._settler.wake()

    def _send(self, signal: Any, execution: Execution, **more: Any) -> None:
        if signal.receivers:
            job = execution.job
            self._signals.send(
                signal, execution.type.cls, job_id=job.id, type=job.type, queue=job.queue, attempt=job.attempt, **more
            )

    def _after_batch(self, storage: Storage) -> None:
        if self._breaker.flush(storage):
            self._waker.set()

    # -- what cannot run -----------------------------------------------------------------------------------------------

    def _unknown(self, job: ClaimedJob) -> None:
        """No code here knows the type: another version of the code may. Nothing is consumed."""
        seconds, pause = self._circuits.unknown_type(job.type)
        if seconds == 0.0:
            log_event(
                logger, logging.WARNING, Event.JOB_TYPE_UNKNOWN,
                "No job type %r is registered here; its jobs wait for a worker that knows it", job.type,
            )  # fmt: skip
        if job.status == 1:
            self._settler.release(job.lease, pause)
            return
        execution = Execution(job, JobType(job.type, None), self, self.options.execution.timeout)
        execution.end()
        self._live[execution.key] = execution
        # Both: a worker that has not known the type for a week gives a new job the whole grace to find another worker.
        if min(seconds, execution.age()) > self.options.execution.unknown_type_grace:
            self._settler.put(execution, self._table.unknown_type(execution))
        else:
            self._settler.put(execution, self._table.interrupted(execution, pause, "unknown type"))

    def _expired(self, job: ClaimedJob) -> None:
        job_type = registry.get(job.type) or JobType(job.type, None)
        execution = Execution(job, job_type, self, self.options.execution.timeout)
        execution.end()
        self._live[execution.key] = execution
        self._settler.put(execution, self._table.expired(execution))

    def _drained(self) -> None:
        """Burst: no due job is left; stop once what runs here has ended."""
        if not self._live and self._settler.idle():
            self.request_stop()

    # -- for handlers --------------------------------------------------------------------------------------------------

    def progress(self, lease: Lease, percent: int, message: str | None) -> None:
        """Store the progress of a running job with the next group commit."""
        self._settler.progress(lease, percent, message)

    def heartbeat(self) -> None:
        """Renew all leases of the process now."""
        self._heartbeat.beat_now()

    # -- probes --------------------------------------------------------------------------------------------------------

    def hanging(self) -> str:
        """Name of a loop that has ended or does not come back from its step; empty when all is well. Statements have a
        time limit, so that no trouble of the database keeps a loop for so long."""
        if self._draining or self._stop:
            return ""
        ended = [service.name for service in self._services() if not service.alive()]
        # The others may rest for as long as they like: until there is something to settle, until the next hour.
        turning = (self._registrar, self._heartbeat, self._watchdog, self._fetcher)
        rest = max(self.options.worker.idle_poll_interval, self.options.execution.heartbeat_max)
        latest = time.monotonic() - HUNG - rest
        return next(iter(ended + [service.name for service in turning if service.turned < latest]), "")

    def is_ready(self) -> bool:
        """Registered, in touch with the database, and taking jobs."""
        registrar = self._registrar
        if self._draining or self._stop or registrar.wrote_at is None or registrar.failures:
            return False
        return time.monotonic() - registrar.wrote_at <= max(3 * registrar.interval, SILENT)

    # -- registry ------------------------------------------------------------------------------------------------------

    def _describe(self) -> WorkerRow:
        return WorkerRow(
            self.id, socket.gethostname(), os.getpid(), __version__, json.dumps(self.plan.queues),
            self._threads.size, self._loop.size, "draining" if self._draining or self._fetcher.on_hold else "running",
            self._threads.busy() + self._loop.busy(), self._fetcher.buffered(), self.counts.succeeded,
            self.counts.failed, self.counts.retried, self.counts.conflicts, rss_mb(),
        )  # fmt: skip

    def _obey(self, orders: WorkerOrders) -> None:
        if orders.stop_requested and not self._stop:
            logger.info("An operator asked worker %s to stop", self.id)
            self.request_stop()
        if orders.operations:
            self._operations.wake()
        wanted = orders.desired_concurrency
        self._fetcher.hold(wanted == 0)
        if wanted is not None and wanted > 0 and wanted != self._threads.size:
            log_event(
                logger, logging.INFO, Event.WORKER_CAPACITY_CHANGED, "Concurrency goes from %d to %d",
                self._threads.size, wanted,
            )  # fmt: skip
            self._threads.resize(wanted)
            self._waker.set()
        limit = self.options.worker.max_rss_mb
        if limit is not None and (rss_mb() or 0) > limit:
            self.request_stop(recycle=True)
