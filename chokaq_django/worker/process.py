"""One worker process: its services, how they work together, and how it stops."""

from __future__ import annotations

import json
import logging
import os
import secrets
import socket
from collections import deque
from collections.abc import Callable, Sequence

from .. import __version__, channel_wake, wake
from ..conf import Options, get_options
from ..job.definition import JobType
from ..job.failures import CancelReason
from ..job.registry import registry
from ..observability import job_logs
from ..observability.events import Event, log_event
from ..storage import ClaimedJob, Lease, Outcome, OutcomeKind, Storage, open_storage
from ..storage.contract import WorkerOrders, WorkerRow
from .accounts import Accounts
from .breaker import Breaker
from .buffer import Buffer
from .connections import watch_sessions
from .doubts import Doubts
from .draining import drain
from .execution import Execution, Verdict
from .fetch import Fetcher, FetchPlan
from .heartbeat import Heartbeat
from .isolation import Isolation
from .liveness import Liveness
from .operations import Operations
from .outcomes import OutcomeTable
from .pace import Pace
from .plan import WorkerPlan
from .registry import Registrar, rss_mb
from .rescue import Rescuer, Steadiness
from .retention import Retention
from .room import Room
from .runner import Runner
from .service import Service
from .settle import Settler
from .slots import LoopSlots, Slots, ThreadSlots
from .views import CircuitView, QueueView
from .wakeup import make_waker
from .watchdog import RELAXED, Watchdog

logger = logging.getLogger("chokaq.worker")

MOST_LOST_LOOPS = 3
"""Event loops blocked by their handlers, and threads by calls of theirs, after which the process should be replaced."""
REFUSED_PAUSE = 1.0
"""Seconds until a job is claimed again for which there was no thread or event loop, by whichever worker."""
LEASES_KEPT = 1_000
"""Of executions that were let go of without being settled."""
WAITS_AGAIN = (OutcomeKind.RETRY, OutcomeKind.SNOOZED, OutcomeKind.INTERRUPTED)


class WorkerProcess:
    """Claims, runs and settles jobs until told to stop.

    :meth:`start`, then :meth:`shutdown` once ``on_stop`` was called, by :meth:`request_stop` of any thread.
    """

    def __init__(self, options: Options, plan: WorkerPlan, on_stop: Callable[[], None] = lambda: None) -> None:
        self.options = options
        self.plan = plan
        self.id = f"{socket.gethostname()[:60]}-{os.getpid()}-{secrets.token_hex(4)}"
        self.accounts = Accounts()
        self.recycle = False
        """It stops because it should be replaced: max jobs, memory, lost threads."""
        self._stop = False
        self._on_stop = on_stop
        self._live: dict[tuple[str, int], Execution] = {}
        self._let_go: deque[Lease] = deque(maxlen=LEASES_KEPT)
        self._steadiness = Steadiness(gap=options.recovery.worker_timeout / 2)
        self._table = OutcomeTable(self.id)
        self._queues = QueueView(options, plan.queues, renews=plan.renews)
        self._circuits = CircuitView()
        self._breaker = Breaker(self._circuits)
        self._pace = Pace()
        self._draining = False
        self._wanted: int | None = None
        """The concurrency that operators asked for last; 0: to claim nothing."""
        self._build(plan.concurrency or options.worker.concurrency)

    def _open(self) -> Storage:
        return open_storage(self.options.database)

    def _build(self, concurrency: int) -> None:
        options, worker = self.options, self.options.worker
        self._settler = Settler(self._open, self.id, worker.settle_batch, self._settled, self._after_batch)
        runner = Runner(options, self._table, self._ended, self._settled_atomic, self._dropped, self._began, self.id)
        self._threads = ThreadSlots(concurrency, runner.run, self._slot_freed)
        self._loop = LoopSlots(worker.async_concurrency, runner.run_async, self._slot_freed)
        waker = make_waker(options, self._queues.interested)
        self._waker = waker
        room = Room(worker, self.plan.strict, {False: self._threads, True: self._loop}, self._pace)
        isolation = Isolation(options.recovery.crash_limit, self._live_executions)
        buffer = Buffer(
            self._queues.place if self.plan.strict else lambda _: 0, isolation, self._settler.release, self._passed_up
        )
        doubts = Doubts(
            self.id, self._known_leases, waiting=lambda: {*buffer.leases(), *self._settler.giving_back()},
            horizon=options.recovery.zombie_timeout / 2,
        )  # fmt: skip
        self._fetcher = Fetcher(
            options, FetchPlan(self.id, self.plan.strict, self.plan.burst), self._open, waker, self._queues,
            self._circuits, room, buffer, doubts, self._dispatch, self._unknown, self._expired, self._settler.release,
            self._passed_up, self._drained,
        )  # fmt: skip
        self._heartbeat = Heartbeat(options, self.id, self._open, self._live_executions, self._lost, self._wrote)
        self._watchdog = Watchdog(
            self._live_executions, self._written_off, worker.cancel_grace, self._loop.calls, self._recycle_if_worn,
            self._mend,
        )  # fmt: skip
        self._rescuer = Rescuer(options, self.id, self._open, self._queues, self._steadiness, waker.set, self._crashed)
        self._registrar = Registrar(
            options.recovery.worker_timeout, self._open, self._describe, self._obey, self._wrote
        )
        # Who was given other rules than those of the project keeps to them.
        own = options.retention if options.retention != get_options().retention else None
        self._retention = Retention(self.id, self._open, lambda: own or get_options().retention)
        self._operations = Operations(options.database, self.id, self._open)
        turning = (self._registrar, self._heartbeat, self._watchdog, self._fetcher)
        self.liveness = Liveness(
            options, self._services(), turning, self._registrar, lambda: self._draining or self._stop
        )

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
        self._draining = True
        running = len(self._live)
        log_event(logger, logging.INFO, Event.WORKER_DRAINING, "Worker %s stops; %d jobs are running", self.id, running)
        idle = (self._rescuer, self._retention, self._operations)
        worker, live = self.options.worker, self._live_executions
        complete = drain(worker, self._fetcher, idle, self._settler, live, self._hand_back, hurry)
        for last in (self._watchdog, self._heartbeat, self._registrar):
            last.stop()
        for service in self._services():
            service.join(2.0)
        self._threads.close()
        self._loop.close()
        self.accounts.close()
        wake.unsubscribe(self.options.database, self._waker.set)
        self._waker.close()
        log_event(
            logger, logging.INFO, Event.WORKER_STOPPED, "Worker %s stopped: %d succeeded, %d retried, %d dead",
            self.id, self.accounts.succeeded, self.accounts.retried, self.accounts.failed,
        )  # fmt: skip
        return complete and not self._live

    def _hand_back(self, execution: Execution) -> None:
        """Of one that was started, and whose slot has not come free."""
        if execution.lost:
            self._dropped(execution)
        else:
            self._settler.put(execution, self._table.interrupted(execution))

    # -- the way of a job ----------------------------------------------------------------------------------------------

    def _live_executions(self) -> list[Execution]:
        return list(self._live.values())

    def _known_leases(self) -> set[Lease]:
        """Of executions that are not settled, and of what was let go of although it may still be ours."""
        # Copies: other threads add and take away meanwhile. What leaves _live for _let_go is in one of the two.
        return {Lease(*key) for key in list(self._live)} | set(self._let_go.copy())

    def _dispatch(self, started: Sequence[tuple[ClaimedJob, JobType]], probes: frozenset[str]) -> None:
        executions = [
            Execution(job, job_type, self, self._timeout(job, job_type), is_probe=job.id in probes)
            for job, job_type in started
        ]
        # Last: what is here is kept alive, and so must get somewhere.
        self._live.update((execution.key, execution) for execution in executions)
        for slots, kind in ((self._threads, False), (self._loop, True)):
            if alike := [execution for execution in executions if execution.type.is_async is kind]:
                self._submit(slots, alike)
        channel_wake.tell_deck(self.options.database)

    def _submit(self, slots: Slots, executions: Sequence[Execution]) -> None:
        """Have them run; or give them back, as if they had not started: this process may get no thread or no event
        loop for long (too many open files), and another worker has them."""
        try:
            slots.submit(executions)
        except Exception as error:  # noqa: BLE001 - whatever it is, jobs of the other kind go on
            log_event(
                logger, logging.WARNING, Event.THREAD_REFUSED,
                "%d jobs cannot run in this process now and go back to their queues: %s", len(executions), error,
            )  # fmt: skip
            for execution in executions:
                if execution.leave():
                    self._settler.put(execution, self._table.interrupted(execution, REFUSED_PAUSE))

    def _timeout(self, job: ClaimedJob, job_type: JobType) -> float:
        if job_type.timeout is not None:
            return job_type.timeout
        return self._queues.execution_timeout(job.queue) or self.options.execution.timeout

    def _began(self, execution: Execution) -> None:
        if execution.timeout < 2 * RELAXED:
            self._watchdog.wake()
        self.accounts.began(execution)

    def _slot_freed(self) -> None:
        self._fetcher.slot_freed()

    def _ended(self, execution: Execution, outcome: Outcome) -> None:
        self._pace.ended(execution.run_ms / 1000)
        self._settler.put(execution, outcome)

    def _dropped(self, execution: Execution) -> None:
        """The lease is gone: whatever the execution did is refused."""
        self._forget(execution)
        self.accounts.refused(execution, None)

    def _forget(self, execution: Execution) -> None:
        """Of one that this process did not settle: it must not run here again by this lease, whoever has it now."""
        self._let_go.append(execution.job.lease)
        self._live.pop(execution.key, None)

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
        self._recycle_if_worn()

    def _mend(self) -> None:
        self._threads.mend()
        self._loop.mend()

    def _recycle_if_worn(self) -> None:
        lost = self._loop.lost + self._loop.calls.lost
        if self._threads.lost >= max(2, self._threads.size) or lost >= MOST_LOST_LOOPS:
            self.request_stop(recycle=True)

    def _settled_atomic(self, execution: Execution, outcome: Outcome, applied: bool) -> None:
        self._pace.ended(execution.run_ms / 1000)
        self._settled(execution, outcome, applied)
        # A neighbour of the group commit: circuits and dependants are told by its loop.
        self._settler.wake()

    def _settled(self, execution: Execution, outcome: Outcome, applied: bool) -> None:
        """After the commit of an outcome."""
        if applied:
            self._live.pop(execution.key, None)
        else:
            self._forget(execution)
            execution.verdict = Verdict.NEUTRAL  # what a stale execution did says nothing about the type
        self._breaker.settled(execution)
        if execution.job.crash_count or self._queues.caps([execution.job.queue]):
            self._waker.set()  # what may not run beside it may start, or a place under the cap is free
        if not applied:
            self.accounts.refused(execution, outcome)
            return
        self.accounts.settled(execution, outcome)
        if outcome.kind in WAITS_AGAIN and outcome.delay < self.options.worker.idle_poll_interval:
            self._waker.set()  # due before the next poll, perhaps: the claim says when
        if self.plan.max_jobs is not None and self.accounts.finished >= self.plan.max_jobs:
            self.request_stop(recycle=True)

    def _crashed(self, type_key: str) -> None:
        """A job of this type took its worker with it, or died with it."""
        job_type = registry.get(type_key)
        if job_type is not None:
            self._breaker.crashed(job_type, type_key)
            self._settler.wake()

    def _after_batch(self, storage: Storage) -> None:
        if self._breaker.flush(storage):
            self._waker.set()
        channel_wake.tell_deck(self.options.database)

    def _wrote(self) -> None:
        """A heartbeat, or this worker's row, has been committed."""
        self._steadiness.wrote()
        channel_wake.tell_deck(self.options.database)

    # -- what cannot run -----------------------------------------------------------------------------------------------

    def _unknown(self, job: ClaimedJob) -> None:
        """No code here knows the type: another version of the code may. Nothing is consumed."""
        seconds, pause = self._circuits.unknown_type(job.type)
        if seconds == 0.0:
            log_event(
                logger, logging.WARNING, Event.JOB_TYPE_UNKNOWN, "%s; its jobs wait for a worker that can run them. %s",
                *registry.why_not_runnable(job.type),
            )  # fmt: skip
        execution = Execution(job, JobType(job.type, None), self, self.options.execution.timeout)
        # Both: a worker that has not known the type for a week gives a new job the whole grace to find another worker.
        if min(seconds, execution.age()) > self.options.execution.unknown_type_grace:
            self._ends_unrun(execution, self._table.unknown_type(execution))
        elif job.status == 1:
            self._settler.release(job.lease, pause)
        else:
            self._ends_unrun(execution, self._table.interrupted(execution, pause, "unknown type"))

    def _expired(self, job: ClaimedJob) -> None:
        job_type = registry.get(job.type) or JobType(job.type, None)
        execution = Execution(job, job_type, self, self.options.execution.timeout)
        self._ends_unrun(execution, self._table.expired(execution))

    def _ends_unrun(self, execution: Execution, outcome: Outcome) -> None:
        execution.end()
        self._live[execution.key] = execution
        self._settler.put(execution, outcome)

    def _passed_up(self, job: ClaimedJob) -> None:
        """A job that was claimed as a probe does not start."""
        self._breaker.passed_up(job)
        self._settler.wake()

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

    # -- registry ------------------------------------------------------------------------------------------------------

    def _describe(self) -> WorkerRow:
        return WorkerRow(
            self.id, socket.gethostname(), os.getpid(), __version__, json.dumps(self.plan.queues),
            self._threads.size, self._loop.size, "draining" if self._draining or self._fetcher.on_hold else "running",
            self._threads.busy() + self._loop.busy(), self._fetcher.buffered(), self.accounts.succeeded,
            self.accounts.failed, self.accounts.retried, self.accounts.conflicts, rss_mb(),
            types=json.dumps(registry.runnable()), desired_concurrency=self._wanted,
        )  # fmt: skip

    def _obey(self, orders: WorkerOrders) -> None:
        if orders.stop_requested and not self._stop:
            logger.info("An operator asked worker %s to stop", self.id)
            self.request_stop()
        if orders.operations:
            self._operations.wake()
        # Nobody ever takes an order back, but a row that was swept comes back without it.
        wanted = self._wanted = self._wanted if orders.desired_concurrency is None else orders.desired_concurrency
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
