"""The outcome table: what an execution's end means for its job and for the circuit of its type."""

from __future__ import annotations

import logging
from itertools import takewhile
from typing import TYPE_CHECKING, cast

from ..conf import get_options
from ..job.attempts import append_attempt, read_attempts
from ..job.codec import encode_result
from ..job.definition import UNSET
from ..job.durations import LONGEST_DELAY, to_seconds
from ..job.error_info import ErrorInfo, describe
from ..job.failures import UNREADABLE, CancelReason, FailureReason, Snooze, ThrottledError, is_fatal, retry_after
from ..job.fingerprint import fingerprint
from ..job.registry import registry
from ..observability.events import Event, log_event
from ..storage import Outcome, OutcomeKind
from .execution import Verdict

if TYPE_CHECKING:
    from .execution import Execution

logger = logging.getLogger("chokaq.worker.outcomes")

CANCELLED_BY = {
    CancelReason.OPERATOR: FailureReason.CANCELLED,
    CancelReason.TIMEOUT: FailureReason.TIMEOUT,
    CancelReason.HEARTBEAT: FailureReason.HEARTBEAT_FAILURE,
}


UNDONE_IN_A_ROW = 5
"""How often the database may undo an atomic job and nothing is counted; then it is judged as if it had failed."""


class UndoneError(Exception):
    """The database ended the transaction of an atomic job, for the reason that is the cause of this error."""


class OutcomeTable:
    """Decides outcomes by the options and the job type's own."""

    def __init__(self, worker_id: str) -> None:
        self._worker_id = worker_id

    # -- success -------------------------------------------------------------------------------------------------------

    def succeeded(self, execution: Execution, result: object) -> Outcome:
        """The handler returned. A result that cannot be stored leaves a marker; the job has succeeded all the same."""
        execution.verdict = Verdict.SUCCESS
        stored: str | None = None
        if result is not None:
            try:
                stored = encode_result(result)
            except BaseException as error:  # noqa: BLE001 - whatever its own methods raise, the job has succeeded
                stored = execution.unstorable_result(error)
        outcome = self._outcome(execution, OutcomeKind.SUCCEEDED)
        outcome.result = stored
        outcome.attempt_log = self._success_log(execution, outcome.duration_ms)
        return outcome

    def _success_log(self, execution: Execution, duration_ms: int) -> str:
        job = execution.job
        if job.attempt_log in ("", "[]") and execution.log.lines is None:
            # The common case, written without a JSON round trip; every value here is our own text.
            started = job.started_at.isoformat() if job.started_at else ""
            return (
                f'[{{"attempt":{job.attempt},"worker":"{self._worker_id}","started":"{started}",'
                f'"duration_ms":{duration_ms},"outcome":"succeeded"}}]'
            )
        return self._log(execution, "succeeded", duration_ms, None)

    # -- everything else -----------------------------------------------------------------------------------------------

    def failed(self, execution: Execution, error: BaseException) -> Outcome:
        """The handler raised, or was stopped. Never raises: an error that cannot be judged is a fatal one."""
        try:
            return self._failed(execution, error)
        except BaseException as trouble:  # noqa: BLE001 - code of the job's own runs here: without an outcome it would hang
            execution.verdict = Verdict.FATAL
            return self._unjudged(execution, FailureReason.FATAL_ERROR, describe(error), trouble)

    def _unjudged(
        self, execution: Execution, reason: FailureReason, info: ErrorInfo, trouble: BaseException
    ) -> Outcome:
        why = describe(trouble)
        message = f"{info.message} (judging this error failed: {why.type}: {why.message})"
        details = f"{info.details}\n\nJudging this error failed:\n{why.details}"
        return self._dead(execution, reason, ErrorInfo(info.type, message, details, info.frame))

    def _failed(self, execution: Execution, error: BaseException) -> Outcome:
        undone = isinstance(error, UndoneError) and error.__cause__ is not None
        error = cast("BaseException", error.__cause__) if undone else error
        if issubclass(type(error), Snooze):
            return self._snoozed(execution, cast("Snooze", error))
        reason = execution.ctx.cancel_reason
        if reason is CancelReason.SHUTDOWN:
            return self.interrupted(execution)
        if reason is not None:
            return self._stopped(execution, reason, error)
        if undone and self._times_undone(execution) < UNDONE_IN_A_ROW:
            return self._undone(execution, describe(error))
        return self._raised(execution, error)

    @staticmethod
    def _times_undone(execution: Execution) -> int:
        """How often in a row the database has undone this job; alone among what is given back, that has an error."""
        entries = reversed(read_attempts(execution.job.attempt_log))
        return sum(1 for _ in takewhile(lambda e: e.get("outcome") == "interrupted" and "error_type" in e, entries))

    def _undone(self, execution: Execution, info: ErrorInfo) -> Outcome:
        """Again, after a pause: neither the job nor its type has failed. Bounded, as it may be what the job itself does
        that ends its connection."""
        outcome = self.interrupted(execution, self._backoff(execution), info=info)
        log_event(
            logger, logging.WARNING, Event.STORAGE_TROUBLE,
            "The database ended the transaction of job %s (%s); it runs again in %.1f s, which is no attempt: %s",
            execution.job.id, execution.job.type, outcome.delay, info.message,
        )  # fmt: skip
        return outcome

    def interrupted(
        self, execution: Execution, delay: float = 0.0, note: str = "interrupted", info: ErrorInfo | None = None
    ) -> Outcome:
        """Given back unfinished, as if it had not started: worker shutdown, a type that no code here knows, or trouble
        of the database's (``info``)."""
        execution.verdict = Verdict.NEUTRAL
        outcome = self._outcome(execution, OutcomeKind.INTERRUPTED)
        outcome.delay = delay
        outcome.attempt_log = self._log(execution, note, outcome.duration_ms, info)
        return outcome

    def stopped(self, execution: Execution, reason: CancelReason, error: BaseException | None) -> Outcome:
        """Stopped by timeout, operator or failing heartbeats: it obeyed (``error``) or was written off (None). Never
        raises, as :meth:`failed`."""
        try:
            return self._stopped(execution, reason, error)
        except BaseException as trouble:  # noqa: BLE001 - and the watchdog, which asks here, must go on
            message = self._stop_message(execution, reason)
            return self._unjudged(
                execution, CANCELLED_BY[reason], ErrorInfo(reason.value.capitalize(), message, message, ""), trouble
            )

    def _stopped(self, execution: Execution, reason: CancelReason, error: BaseException | None) -> Outcome:
        failure = CANCELLED_BY[reason]
        execution.verdict = Verdict.FAILURE if reason is CancelReason.TIMEOUT else Verdict.NEUTRAL
        message = self._stop_message(execution, reason)
        info = ErrorInfo(reason.value.capitalize(), message, message, "")
        if error is not None and issubclass(type(error), Exception):
            described = describe(error)
            info = ErrorInfo(described.type, message, f"{message}\n\n{described.details}", described.frame)
        if reason is CancelReason.TIMEOUT and execution.type.on_timeout == "retry":
            return self._retry_or_bury(execution, info, None, FailureReason.TIMEOUT)
        outcome = self._dead(execution, failure, info)
        if reason is CancelReason.OPERATOR:
            outcome.modified_by = execution.cancelled_by
        return outcome

    def _stop_message(self, execution: Execution, reason: CancelReason) -> str:
        if reason is CancelReason.TIMEOUT:
            return f"Ran longer than its timeout of {execution.timeout:g} s"
        if reason is CancelReason.OPERATOR:
            return f"Cancelled by {execution.cancelled_by or 'an operator'} while it ran"
        return "Heartbeats failed too often in a row and CANCEL_ON_HEARTBEAT_FAILURE is on"

    def undecodable(self, execution: Execution, error: Exception) -> Outcome:
        """The payload does not fit the type: another attempt cannot help. It says nothing about the work: good payloads
        of the type must not wait behind a circuit that broken ones have opened."""
        execution.verdict = Verdict.NEUTRAL
        info = describe(error)
        head, found, message = info.details.rpartition(f"{info.type}: ")
        details = f"{head}{UNREADABLE}: {message}" if found else info.details
        return self._dead(
            execution, FailureReason.FATAL_ERROR, ErrorInfo(UNREADABLE, info.message, details, info.frame)
        )

    def unknown_type(self, execution: Execution) -> Outcome:
        """No code here knows the type, and none did for longer than the grace."""
        execution.verdict = Verdict.NEUTRAL
        wrong, help_ = registry.why_not_runnable(execution.job.type)
        message = f"{wrong}. {help_} Then resurrect the job."
        outcome = self._dead(execution, FailureReason.UNKNOWN_TYPE, ErrorInfo("UnknownType", message, message, ""))
        if execution.job.status == 1:  # only leased, as what has crashed before always is
            outcome.kind = OutcomeKind.UNSTARTED_DEAD
        return outcome

    def expired(self, execution: Execution) -> Outcome:
        """Its deadline passed before it started. The attempt log keeps the errors of earlier attempts."""
        execution.verdict = Verdict.NEUTRAL
        job = execution.job
        deadline = job.deadline_at.isoformat() if job.deadline_at else ""
        message = f"The deadline ({deadline}) passed before attempt {job.attempt + 1} could start"
        outcome = self._dead(execution, FailureReason.EXPIRED, ErrorInfo("DeadlinePassed", message, message, ""))
        outcome.kind = OutcomeKind.EXPIRED
        return outcome

    def _snoozed(self, execution: Execution, snooze: Snooze) -> Outcome:
        if execution.job.snooze_count >= execution.type.max_snoozes:
            message = f"Snoozed more than {execution.type.max_snoozes} times (max_snoozes of its type)"
            execution.verdict = Verdict.FATAL
            return self._dead(execution, FailureReason.FATAL_ERROR, ErrorInfo("TooManySnoozes", message, message, ""))
        execution.verdict = Verdict.NEUTRAL
        outcome = self._outcome(execution, OutcomeKind.SNOOZED)
        outcome.delay = snooze.delay
        outcome.attempt_log = self._log(execution, "snoozed", outcome.duration_ms, None)
        return outcome

    def _raised(self, execution: Execution, error: BaseException) -> Outcome:
        info = describe(error)
        if is_fatal(error, execution.type):
            execution.verdict = Verdict.FATAL
            return self._dead(execution, FailureReason.FATAL_ERROR, info)
        throttled = issubclass(type(error), ThrottledError)
        execution.verdict = Verdict.NEUTRAL if throttled else Verdict.FAILURE
        exhausted = FailureReason.THROTTLED if throttled else FailureReason.MAX_RETRIES_EXCEEDED
        return self._retry_or_bury(execution, info, retry_after(error), exhausted)

    def _retry_or_bury(
        self, execution: Execution, info: ErrorInfo, asked: float | None, exhausted: FailureReason
    ) -> Outcome:
        job, retry = execution.job, get_options().retry
        if job.attempt >= job.max_attempts:
            return self._dead(execution, exhausted, info)
        delay = min(asked, retry.max_delay) if asked is not None else self._backoff(execution)
        own_age = execution.type.max_age
        max_age = retry.max_age if own_age is UNSET else own_age
        if max_age is not None and execution.age() + delay > max_age:
            return self._dead(execution, FailureReason.RETRY_LIFETIME_EXPIRED, info)
        outcome = self._outcome(execution, OutcomeKind.RETRY)
        outcome.delay = delay
        outcome.error_type, outcome.error_details = info.type, info.message
        outcome.attempt_log = self._log(execution, "failed", outcome.duration_ms, info)
        return outcome

    def _backoff(self, execution: Execution) -> float:
        """Seconds by the type's own backoff, or by the settings' where that has no usable answer."""
        own, attempt = execution.type.backoff, execution.job.attempt
        if own is not None:
            try:
                return min(to_seconds(own.delay(attempt), zero=True), LONGEST_DELAY)
            except BaseException as error:  # noqa: BLE001 - it may be code of the project's
                log_event(
                    logger, logging.WARNING, Event.BACKOFF_FAILED,
                    "The backoff of %s has no usable delay after attempt %d; the settings' is taken: %s",
                    execution.job.type, attempt, describe(error).message, exc_info=error,
                )  # fmt: skip
        return get_options().retry.backoff.delay(attempt)

    def _dead(self, execution: Execution, reason: FailureReason, info: ErrorInfo) -> Outcome:
        outcome = self._outcome(execution, OutcomeKind.DEAD)
        outcome.reason = reason
        outcome.error_type, outcome.error_details = info.type, info.details
        execution.error_message = info.message
        outcome.fingerprint = fingerprint(reason, info)
        outcome.attempt_log = self._log(execution, reason.label, outcome.duration_ms, info)
        return outcome

    def _outcome(self, execution: Execution, kind: OutcomeKind) -> Outcome:
        job = execution.job
        return Outcome(
            job.id, job.claim_number, kind, job.queue, job.type, job.attempt_log,
            execution.duration_ms(), execution.wait_ms(),
        )  # fmt: skip

    def _log(self, execution: Execution, outcome: str, duration_ms: int, info: ErrorInfo | None) -> str:
        job = execution.job
        entry: dict[str, object] = {
            "attempt": job.attempt,
            "worker": self._worker_id,
            "started": job.started_at,
            "duration_ms": duration_ms,
            "outcome": outcome,
        }
        if info is not None:
            entry |= {"error_type": info.type, "message": info.message, "traceback": info.details}
        if lines := execution.log.text_lines():
            entry["log"] = lines
        return append_attempt(job.attempt_log, entry)
