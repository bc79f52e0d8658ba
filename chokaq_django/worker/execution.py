"""One execution of one job: its context, its limits, and whether it is still ours."""

from __future__ import annotations

import datetime as dt
import enum
import logging
import threading
import time
from typing import TYPE_CHECKING, Protocol

from ..job.attempts import append_attempt
from ..job.context import JobContext
from ..job.error_info import describe
from ..job.failures import CancelReason, FailureReason
from ..job.fingerprint import fingerprint
from ..job.text import safe_text
from ..observability.events import Event, log_event
from ..observability.job_logs import JobLog, trace_id_of
from ..storage import ClaimedJob, Lease, Outcome, OutcomeKind

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..job.definition import JobType

logger = logging.getLogger("chokaq.worker.execution")


class Verdict(enum.Enum):
    """What an outcome says about the circuit of the type."""

    SUCCESS = "success"
    FAILURE = "failure"
    FATAL = "fatal"
    NEUTRAL = "neutral"


class Phase(enum.Enum):
    """Where an execution is; it only moves forward."""

    WAITING = 0  # started in the database, waits for its slot
    RUNNING = 1  # user code runs
    ENDED = 2  # user code returned or raised; the outcome is decided
    ABANDONED = 3  # written off: it did not stop in time; whatever it still does is refused


class ExecutionHost(Protocol):
    """What an execution needs from its process, on behalf of the handler."""

    def progress(self, lease: Lease, percent: int, message: str | None) -> None:
        """Store the progress of a running job."""

    def heartbeat(self) -> None:
        """Renew the leases of the process."""


class Execution:
    """A started job in this process, from the claim until its outcome is written."""

    __slots__ = (
        "_host",
        "_lock",
        "abandon_at",
        "cancelled_by",
        "connection",
        "ctx",
        "error_message",
        "interrupt",
        "interrupted",
        "is_probe",
        "job",
        "log",
        "phase",
        "ran_from",
        "received",
        "run_ms",
        "timeout",
        "timeout_at",
        "type",
        "verdict",
    )

    def __init__(
        self, job: ClaimedJob, job_type: JobType, host: ExecutionHost, timeout: float, *, is_probe: bool = False
    ) -> None:
        self._host = host
        self.job = job
        self.type = job_type
        self.timeout = timeout
        self.is_probe = is_probe
        self.received = time.monotonic()
        self.ran_from = 0.0
        self.run_ms = 0
        self.timeout_at: float | None = None
        self.abandon_at: float | None = None
        self.cancelled_by: str | None = None
        self.error_message = ""
        """Of the error that it died of."""
        self.phase = Phase.WAITING
        self.verdict = Verdict.NEUTRAL
        self.interrupt: Callable[[], None] | None = None
        """Stops the user code from outside, where that is possible: cancels the task, raises in the thread."""
        self.interrupted = False
        """It was stopped from outside: its thread is not used again."""
        self.connection: object | None = None
        """The raw database connection of an atomic job while it runs."""
        self._lock = threading.Lock()
        self.log = JobLog(job.id, job.type, job.attempt, trace_id_of(job.headers))
        self.ctx = JobContext(
            self, id=job.id, type=job.type, queue=job.queue, attempt=job.attempt, max_attempts=job.max_attempts,
            priority=job.priority, created_at=job.created_at, run_at=job.run_at, due_at=job.due_at,
            deadline=job.deadline_at, created_by=job.created_by, tags=job.tags, headers=job.headers,
        )  # fmt: skip

    @property
    def key(self) -> tuple[str, int]:
        return self.job.id, self.job.claim_number

    @property
    def lease(self) -> Lease:
        return Lease(self.job.id, self.job.claim_number)

    # -- phases --------------------------------------------------------------------------------------------------------

    def begin(self) -> bool:
        """User code is about to run; False when the execution was stopped before it could."""
        with self._lock:
            if self.phase is not Phase.WAITING or self.ctx.cancelled:
                return False
            self.phase = Phase.RUNNING
            self.ran_from = time.monotonic()
            self.timeout_at = self.ran_from + self.timeout
            return True

    def leave(self) -> bool:
        """It ends before it ran, and the caller decides how; False when it runs or has ended."""
        with self._lock:
            if self.phase is not Phase.WAITING:
                return False
            self.phase = Phase.ENDED
            return True

    def end(self) -> bool:
        """User code is over; False when the execution had been written off and its outcome is refused."""
        with self._lock:
            if self.phase is Phase.ABANDONED:
                return False
            if self.phase is Phase.RUNNING:
                self.run_ms = max(0, round((time.monotonic() - self.ran_from) * 1000))
            self.phase = Phase.ENDED
            self.interrupt = None
            return True

    def abandon(self) -> bool:
        """Write off an execution that does not stop; False when it ended meanwhile."""
        with self._lock:
            if self.phase is not Phase.RUNNING:
                return False
            self.run_ms = max(0, round((time.monotonic() - self.ran_from) * 1000))
            self.phase = Phase.ABANDONED
            return True

    def extend(self, seconds: float) -> None:
        """More time: so long it was held up by what is none of its own. One that was told to stop stops."""
        with self._lock:
            if self.phase is Phase.RUNNING and self.timeout_at is not None and not self.ctx.cancelled:
                self.timeout_at += seconds

    def cancel(self, reason: CancelReason, grace: float, by: str | None = None) -> bool:
        """Tell it to stop; after ``grace`` seconds it is written off. False if it was told before or is over."""
        with self._lock:
            if self.phase in (Phase.ENDED, Phase.ABANDONED) or self.ctx.cancelled:
                return False
            self.cancelled_by = by
            self.abandon_at = time.monotonic() + grace
            self.ctx._cancel(reason)
            interrupt = self.interrupt if self.phase is Phase.RUNNING else None
            if interrupt is not None:
                # Inside the lock: user code cannot end between the check and the interrupt, so that an exception raised
                # in a thread never hits the next job of that thread.
                self.interrupted = True
                interrupt()
        log_event(
            logger, logging.INFO, Event.JOB_CANCEL_REQUESTED,
            "Job %s (%s) was told to stop: %s", self.job.id, self.job.type, reason.value,
        )  # fmt: skip
        return True

    @property
    def lost(self) -> bool:
        return self.ctx.cancel_reason is CancelReason.LEASE_LOST

    # -- what the handler's context asks for ------------------------------------------------------------------------

    def progress(self, ctx: JobContext, percent: int, message: str) -> None:
        """Store the progress with the next group commit; nothing of a job that is no longer ours."""
        if self.phase is Phase.RUNNING and not self.lost:
            self._host.progress(self.lease, percent, safe_text(message, 1_000) or None)

    def heartbeat(self, ctx: JobContext) -> None:
        self._host.heartbeat()

    # -- measures ------------------------------------------------------------------------------------------------------

    def duration_ms(self) -> int:
        return self.run_ms

    def wait_ms(self) -> int:
        """From when this attempt should have started to when it did, by the database's clock."""
        job = self.job
        if job.started_at is None:
            return 0
        asked = job.due_at if job.attempt <= 1 else job.run_at
        return max(0, round((job.started_at - asked).total_seconds() * 1000))

    def age(self) -> float:
        """Seconds since the first due time of this generation, by the database's clock plus our own elapsed time."""
        job = self.job
        # Of what is only leased, started_at is that of an earlier attempt: it could be claimed from run_at on.
        since: dt.datetime = job.run_at if job.status == 1 or job.started_at is None else job.started_at
        return (since - self.job.due_at).total_seconds() + time.monotonic() - self.received

    # -- values that the database refuses -----------------------------------------------------------------------------

    def unstorable_result(self, error: BaseException) -> str:
        """The marker stored in place of a result that has no JSON form."""
        log_event(
            logger, logging.WARNING, Event.RESULT_NOT_STORED,
            "The result of job %s (%s) cannot be stored: %s", self.job.id, self.job.type, describe(error).message,
        )  # fmt: skip
        return '{"$unstorable": true}'

    def refused(self, outcome: Outcome, error: Exception) -> Outcome:
        """``outcome`` without the texts that the database refused; a success stays one."""
        info = describe(error)
        entry = {"attempt": self.job.attempt, "outcome": outcome.kind.value, "message": info.message}
        outcome.attempt_log = append_attempt("[]", entry)
        if outcome.kind is OutcomeKind.SUCCEEDED:
            outcome.result = self.unstorable_result(error)
        elif outcome.kind is not OutcomeKind.RETRY:
            outcome.error_type, outcome.error_details = info.type, info.message
            reason = FailureReason.FATAL_ERROR if outcome.reason is None else outcome.reason
            outcome.fingerprint = fingerprint(reason, info)
        return outcome
