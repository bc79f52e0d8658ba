"""The outcome table: what each end of an execution means for its job. Workers run inside the test's process."""

from __future__ import annotations

import datetime as dt
import itertools
import json
import logging

import pytest
from django.db.models import F

from chokaq_django import FailureReason, Request, control, enqueue, enqueue_many
from chokaq_django.control import Location
from chokaq_django.job.failures import UNREADABLE
from chokaq_django.models import Circuit, JobHot, JobStatus
from chokaq_django.observability.events import Event

from .. import jobs
from ..helpers import wait_until
from ..ledger import Ledger
from .conftest import StartWorker
from .support import all_settled, committed, error_of, in_state, job, settled, store_raw

pytestmark = committed


def failures_counted(type_key: str) -> int:
    """What the circuit of the type has counted."""
    row = Circuit.objects.filter(pk=type_key).first()
    return row.failures if row else 0


# -- success -----------------------------------------------------------------------------------------------------------


def test_a_job_that_returns_is_archived_with_its_result(start_worker: StartWorker) -> None:
    start_worker()
    view = settled(enqueue(jobs.ResultJob()).id)
    assert view.location is Location.ARCHIVE
    assert view.status == JobStatus.SUCCEEDED
    assert json.loads(view.result or "") == {"answer": 42, "text": "ü🎉"}
    assert view.attempt == 1
    assert view.started_at is not None
    assert view.finished_at is not None
    assert view.due_at <= view.started_at <= view.finished_at
    assert view.duration_ms is not None
    assert 0 <= view.duration_ms < 15_000
    (entry,) = view.attempts
    assert (entry["attempt"], entry["outcome"], entry["worker"]) == (1, "succeeded", view.worker_id)
    assert dt.datetime.fromisoformat(entry["started"]) == view.started_at


def test_a_result_without_json_form_leaves_a_mark_and_a_warning(
    start_worker: StartWorker, caplog: pytest.LogCaptureFixture
) -> None:
    start_worker()
    view = settled(enqueue(jobs.ResultJob(storable=False)).id)
    assert view.status == JobStatus.SUCCEEDED
    assert json.loads(view.result or "") == {"$unstorable": True}
    (record,) = [r for r in caplog.records if getattr(r, "event_id", None) == Event.RESULT_NOT_STORED]
    assert record.levelno == logging.WARNING
    assert view.id in record.getMessage()


def test_no_result_is_no_result(start_worker: StartWorker) -> None:
    start_worker()
    assert settled(enqueue(jobs.NoteJob()).id).result is None


def test_a_handler_that_returns_within_its_grace_has_succeeded(start_worker: StartWorker) -> None:
    """It was told that its time is up and finished all the same: what is done is not called a failure."""
    start_worker(WORKER={"CANCEL_GRACE": 60})
    view = settled(enqueue(jobs.SwallowJob()).id)
    assert view.status == JobStatus.SUCCEEDED
    assert json.loads(view.result or "") == "finished all the same"


# -- failures and retries ----------------------------------------------------------------------------------------------


def test_a_failed_attempt_is_tried_again_and_kept_in_the_log(start_worker: StartWorker, ledger: Ledger) -> None:
    start_worker()
    view = settled(enqueue(jobs.FailJob(times=2)).id)
    assert view.status == JobStatus.SUCCEEDED
    assert view.attempt == 3
    assert ledger.count() == 3
    assert [entry["outcome"] for entry in view.attempts] == ["failed", "failed", "succeeded"]
    assert [entry["attempt"] for entry in view.attempts] == [1, 2, 3]
    assert view.attempts[0]["error_type"] == "tests.jobs.TestError"
    assert view.attempts[0]["message"] == "as asked (1)"
    assert "in run" in view.attempts[1]["traceback"]


def test_used_up_attempts_bury_with_the_last_error(start_worker: StartWorker, ledger: Ledger) -> None:
    start_worker()
    view = settled(enqueue(jobs.FailJob(), max_attempts=2).id)
    assert view.location is Location.DLQ
    assert view.status == JobStatus.FAILED
    assert view.failure_reason is FailureReason.MAX_RETRIES_EXCEEDED
    assert view.error_type == "tests.jobs.TestError"
    assert "as asked (2)" in error_of(view)
    assert "Traceback" in error_of(view)
    assert view.fingerprint
    assert view.failed_at is not None
    assert ledger.count() == view.attempt == 2
    assert [entry["outcome"] for entry in view.attempts] == ["failed", "MaxRetriesExceeded"]


def test_the_setting_limits_attempts_of_types_that_do_not_say(start_worker: StartWorker, ledger: Ledger) -> None:
    start_worker(RETRY={"MAX_ATTEMPTS": 4, "BASE_DELAY": 0.01})
    view = settled(enqueue(jobs.FailJob()).id)
    assert view.attempt == view.max_attempts == ledger.count() == 4


def test_the_backoff_grows_and_is_capped(start_worker: StartWorker, ledger: Ledger) -> None:
    start_worker(
        RETRY={"BASE_DELAY": 0.1, "MULTIPLIER": 3, "MAX_DELAY": 0.4, "JITTER": 0},
        WORKER={"POLL_INTERVAL": 600, "IDLE_POLL_INTERVAL": 600},  # it sleeps until a retry is due, not until its poll
    )
    view = settled(enqueue(jobs.FailJob(times=3), max_attempts=5).id)
    assert view.status == JobStatus.SUCCEEDED
    at = [entry.at for entry in ledger.entries("ran")]
    pauses = [later - earlier for earlier, later in itertools.pairwise(at)]
    for pause, least in zip(pauses, (0.1, 0.3, 0.4), strict=True):
        assert pause >= least


def test_a_retry_beyond_the_max_age_is_not_made(start_worker: StartWorker, ledger: Ledger) -> None:
    start_worker()
    job_id = enqueue(jobs.OldAgeJob()).id
    wait_until(lambda: len(job(job_id).attempts) == 2, what="two attempts have failed, and it waits for the third")
    # Nearly a day passes: the third attempt is within it, and a fourth would not be.
    due = job(job_id).due_at - dt.timedelta(hours=23.5)
    JobHot.objects.filter(pk=job_id).update(due_at=due, run_at=F("created_at"))
    view = settled(job_id)
    assert view.failure_reason is FailureReason.RETRY_LIFETIME_EXPIRED
    assert "as asked (3)" in error_of(view)
    assert ledger.count() == view.attempt == 3


def test_what_a_job_raises_forges_no_record(start_worker: StartWorker, caplog: pytest.LogCaptureFixture) -> None:
    start_worker()
    settled(enqueue(jobs.FailJob(message="bad\nERROR chokaq.worker gave up\x1b[2J"), max_attempts=1).id)
    wait_until(lambda: any(getattr(r, "event_id", None) == Event.JOB_BURIED for r in caplog.records))
    (record,) = [r for r in caplog.records if getattr(r, "event_id", None) == Event.JOB_BURIED]
    assert record.getMessage().endswith(r": bad\nERROR chokaq.worker gave up\x1b[2J (1)")
    assert record.event_args[-1] == "bad\nERROR chokaq.worker gave up\x1b[2J (1)"  # type: ignore[attr-defined]


def test_fatal_errors_bury_at_once(start_worker: StartWorker, ledger: Ledger, caplog: pytest.LogCaptureFixture) -> None:
    start_worker()
    fatal, missing = settled(enqueue(jobs.FatalJob()).id), settled(enqueue(jobs.MissingJob()).id)
    wait_until(lambda: sum(getattr(r, "event_id", None) == Event.JOB_BURIED for r in caplog.records) == 2)
    (line,) = [r.getMessage() for r in caplog.records if r.name == "chokaq.worker" and fatal.id in r.getMessage()]
    assert "FatalError" in line
    assert line.endswith(", attempt 1 of 3: another attempt cannot help")
    assert {fatal.failure_reason, missing.failure_reason} == {FailureReason.FATAL_ERROR}
    assert "another attempt cannot help" in error_of(fatal)
    assert missing.error_type == "NotImplementedError"
    assert fatal.attempt == missing.attempt == ledger.count() == 1


def test_a_type_widens_and_narrows_what_is_fatal(start_worker: StartWorker, ledger: Ledger) -> None:
    start_worker()
    ids = [enqueue(jobs.PickyJob(error=error), max_attempts=2).id for error in ("listed", "fatal", "other")]
    listed, fatal, other = all_settled(ids)
    assert listed.failure_reason is FailureReason.MAX_RETRIES_EXCEEDED
    assert fatal.failure_reason is other.failure_reason is FailureReason.FATAL_ERROR
    assert sorted(ledger.names()) == ["fatal", "listed", "listed", "other"]


def test_a_throttled_job_comes_back_when_it_was_told(start_worker: StartWorker, ledger: Ledger) -> None:
    start_worker(RETRY={"BASE_DELAY": 30, "MAX_DELAY": 60})
    view = settled(enqueue(jobs.ThrottledJob(retry_after=0.3, times=1)).id)
    assert view.status == JobStatus.SUCCEEDED
    assert view.attempt == 2
    first, second = (entry.at for entry in ledger.entries("ran"))
    assert second - first >= 0.3
    assert failures_counted("test.throttled") == 0


def test_a_throttled_job_waits_no_longer_than_the_max_delay(start_worker: StartWorker) -> None:
    start_worker(RETRY={"MAX_DELAY": 0.2, "BASE_DELAY": 0.1})
    assert settled(enqueue(jobs.ThrottledJob(retry_after=86_400, times=1)).id).status == JobStatus.SUCCEEDED


def test_a_job_throttled_to_the_end_is_buried_as_throttled(start_worker: StartWorker) -> None:
    start_worker()
    view = settled(enqueue(jobs.ThrottledJob(retry_after=0)).id)
    assert view.failure_reason is FailureReason.THROTTLED
    assert view.attempt == 2
    assert failures_counted("test.throttled") == 0


@pytest.mark.parametrize("error", ["exit", "interrupt", "generator", "cancelled", "timeout"])
def test_what_ends_threads_elsewhere_is_an_ordinary_failure_here(
    start_worker: StartWorker, ledger: Ledger, error: str
) -> None:
    start_worker(concurrency=1)
    view = settled(enqueue(jobs.QuitJob(error=error)).id)
    assert view.failure_reason is FailureReason.MAX_RETRIES_EXCEEDED
    assert settled(enqueue(jobs.NoteJob(name="after")).id).status == JobStatus.SUCCEEDED
    assert ledger.names() == [error, "after"]


@pytest.mark.parametrize("error", ["hostile", "unstorable"])
def test_an_error_that_cannot_be_shown_or_stored_is_still_recorded(start_worker: StartWorker, error: str) -> None:
    start_worker()
    view = settled(enqueue(jobs.QuitJob(error=error)).id)
    assert view.failure_reason is FailureReason.MAX_RETRIES_EXCEEDED
    expected = {"hostile": "HostileError", "unstorable": "nul \\x00 and surrogate \\ud800"}[error]
    assert expected in error_of(view)


@pytest.mark.parametrize("error", ["timeout", "cancelled", "plain"])
def test_a_librarys_own_cancellation_in_async_code_is_an_ordinary_failure(
    start_worker: StartWorker, error: str
) -> None:
    start_worker()
    view = settled(enqueue(jobs.AsyncFailJob(error=error)).id)
    assert view.failure_reason is FailureReason.MAX_RETRIES_EXCEEDED
    assert settled(enqueue(jobs.AsyncSleepJob()).id).status == JobStatus.SUCCEEDED


# -- payloads ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("payload", "said"),
    [
        ('{"name": 5}', "$.name"),
        ('{"name": "a", "surprise": 1}', "$.surprise"),
        ('{"name": ', "not valid JSON"),
        ("[]", "$"),
    ],
)
def test_a_payload_that_does_not_decode_is_fatal_and_says_where(
    start_worker: StartWorker, ledger: Ledger, payload: str, said: str
) -> None:
    start_worker()
    view = settled(store_raw("test.note", payload))
    assert view.failure_reason is FailureReason.FATAL_ERROR
    assert said in error_of(view)
    assert view.payload == payload
    assert ledger.count() == 0
    assert view.error_type == UNREADABLE
    assert f"\n{UNREADABLE}: $" in error_of(view)


def test_a_payload_of_newer_code_is_fatal_and_says_so(start_worker: StartWorker) -> None:
    start_worker()
    view = settled(store_raw("test.note", '{"name":"a"}', schema_version=7))
    assert view.failure_reason is FailureReason.FATAL_ERROR
    assert "schema version 7" in error_of(view)


# -- snooze ------------------------------------------------------------------------------------------------------------


def test_a_snoozed_job_keeps_its_attempt(start_worker: StartWorker, ledger: Ledger) -> None:
    start_worker()
    job_id = enqueue(jobs.SnoozeJob(delay=3600, gate="morning")).id
    wait_until(lambda: job(job_id).snooze_count == 1)
    view = in_state(job_id, JobStatus.PENDING)
    assert view.attempt == 0
    assert [entry["outcome"] for entry in view.attempts] == ["snoozed"]
    ledger.open_gate("morning")
    JobHot.objects.filter(pk=job_id).update(run_at=F("created_at"))
    view = settled(job_id)
    assert view.status == JobStatus.SUCCEEDED
    assert view.attempt == view.max_attempts == 1
    assert failures_counted("test.snooze") == 0


def test_snoozing_has_a_limit(start_worker: StartWorker, ledger: Ledger) -> None:
    start_worker()
    view = settled(enqueue(jobs.SnoozeJob(delay=0)).id)
    assert view.failure_reason is FailureReason.FATAL_ERROR
    assert "max_snoozes" in error_of(view)
    assert view.snooze_count == 3
    assert ledger.count() == 4


# -- deadlines ---------------------------------------------------------------------------------------------------------


def test_a_job_past_its_deadline_expires_without_running(start_worker: StartWorker, ledger: Ledger) -> None:
    job_id = enqueue(jobs.NoteJob(), deadline_after=0.05).id
    wait_until(lambda: job(job_id).deadline_at < dt.datetime.now(dt.UTC))  # type: ignore[operator]
    start_worker()
    view = settled(job_id)
    assert view.status == JobStatus.EXPIRED
    assert view.failure_reason is FailureReason.EXPIRED
    assert ledger.count() == view.attempt == 0


def test_a_retry_past_the_deadline_expires_with_the_earlier_error_in_its_log(
    start_worker: StartWorker, ledger: Ledger
) -> None:
    start_worker(RETRY={"BASE_DELAY": 3_600, "MAX_DELAY": 3_600})
    job_id = enqueue(jobs.FailJob(), deadline_after=600).id
    wait_until(lambda: job(job_id).attempts, what="its first attempt has failed")
    JobHot.objects.filter(pk=job_id).update(deadline_at=F("created_at"))  # ten minutes pass
    view = settled(job_id)
    assert view.status == JobStatus.EXPIRED
    assert ledger.count() == 1
    assert view.attempts[0]["message"] == "as asked (1)"


# -- operator ----------------------------------------------------------------------------------------------------------


def test_a_running_job_that_an_operator_cancels_stops_and_says_by_whom(
    start_worker: StartWorker, ledger: Ledger
) -> None:
    start_worker(WORKER={"CANCEL_GRACE": 60})
    job_id = enqueue(jobs.ObedientJob()).id
    wait_until(lambda: ledger.count("enter"))
    assert control.cancel(job_id, by="grace").requested == [job_id]
    view = settled(job_id)
    assert view.status == JobStatus.CANCELLED
    assert view.modified_by == "grace"
    assert "grace" in error_of(view)
    assert ledger.entries("told to stop")[0].more["reason"] == "operator"
    assert failures_counted("test.obedient") == 0


def test_a_waiting_job_that_is_cancelled_never_runs(start_worker: StartWorker, ledger: Ledger) -> None:
    job_id = enqueue(jobs.NoteJob()).id
    assert control.cancel(job_id, by="grace").applied == [job_id]
    start_worker()
    settled(enqueue(jobs.NoteJob(name="later")).id)
    assert ledger.names() == ["later"]
    assert job(job_id).status == JobStatus.CANCELLED


def test_a_cancelled_job_that_does_not_listen_is_written_off(start_worker: StartWorker, ledger: Ledger) -> None:
    start_worker(WORKER={"CANCEL_GRACE": 0.2})
    job_id = enqueue(jobs.DeafForLongJob(gate="end")).id
    wait_until(lambda: ledger.count("enter"))
    control.cancel(job_id, by="grace")
    assert settled(job_id).status == JobStatus.CANCELLED
    ledger.open_gate("end")
    wait_until(lambda: ledger.count("leave"))
    assert job(job_id).status == JobStatus.CANCELLED


# -- what the circuit hears --------------------------------------------------------------------------------------------


def test_failures_and_fatal_errors_count_for_the_circuit_and_success_clears_it(start_worker: StartWorker) -> None:
    start_worker()
    settled(enqueue(jobs.FragileFatalJob(bad=True)).id)
    wait_until(lambda: failures_counted("test.fragile_fatal") == 1)
    assert Circuit.objects.get(pk="test.fragile_fatal").state == Circuit.CLOSED


# -- around the handler ------------------------------------------------------------------------------------------------


def test_the_context_tells_everything_about_the_job(start_worker: StartWorker, ledger: Ledger) -> None:
    start_worker()
    answer = enqueue(
        jobs.ContextJob(), queue="reports", priority=33, tags=["a", "ü"], created_by="ada", deadline_after=60,
        headers={"traceparent": "00-aa-bb-01", "tenant": "7"}, max_attempts=9,
    )  # fmt: skip
    view = settled(answer.id)
    (entry,) = ledger.entries("context")
    assert (entry.job, entry.attempt) == (answer.id, 1)
    assert entry.more["type"] == "test.context"
    assert entry.more["queue"] == "reports"
    assert (entry.more["priority"], entry.more["max_attempts"]) == (33, 9)
    assert entry.more["tags"] == ["a", "ü"]
    assert entry.more["created_by"] == "ada"
    assert entry.more["headers"] == {"traceparent": "00-aa-bb-01", "tenant": "7"}
    assert dt.datetime.fromisoformat(entry.more["deadline"]) == view.deadline_at
    assert dt.datetime.fromisoformat(entry.more["created_at"]) == view.created_at
    assert dt.datetime.fromisoformat(entry.more["due_at"]) == view.due_at


def test_progress_is_stored_while_the_job_runs(start_worker: StartWorker, ledger: Ledger) -> None:
    start_worker()
    job_id = enqueue(jobs.ProgressJob(gate="go on")).id
    wait_until(lambda: job(job_id).progress == 50)
    assert job(job_id).progress_message == "half way ü"
    assert job(job_id).status == JobStatus.PROCESSING
    ledger.open_gate("go on")
    assert settled(job_id).status == JobStatus.SUCCEEDED


def test_the_last_log_lines_are_kept_with_each_attempt(start_worker: StartWorker) -> None:
    start_worker()
    view = settled(enqueue(jobs.LogJob()).id)
    assert [entry["outcome"] for entry in view.attempts] == ["failed", "succeeded"]
    for number, entry in enumerate(view.attempts, start=1):
        assert "earlier lines dropped" in entry["log"][0]
        assert f"line 59 of attempt {number}" in entry["log"][-1]
        assert len(entry["log"]) == 51


def test_middleware_wraps_in_its_order(start_worker: StartWorker, ledger: Ledger) -> None:
    start_worker(MIDDLEWARE=["tests.jobs.outer", "tests.jobs.inner"])
    settled(enqueue(jobs.NoteJob()).id)
    assert [entry.word for entry in ledger.entries()] == ["outer in", "inner in", "ran", "inner out", "outer out"]


def test_middleware_sees_a_failure(start_worker: StartWorker, ledger: Ledger) -> None:
    start_worker(MIDDLEWARE=["tests.jobs.outer", "tests.jobs.inner"])
    settled(enqueue(jobs.FatalJob()).id)
    assert [entry.word for entry in ledger.entries()] == ["outer in", "inner in", "ran", "inner out"]


def test_async_jobs_are_wrapped_by_middleware_of_both_kinds(start_worker: StartWorker, ledger: Ledger) -> None:
    start_worker(MIDDLEWARE=["tests.jobs.outer", "tests.jobs.awaiting"])
    settled(enqueue(jobs.AsyncSleepJob()).id)
    words = [entry.word for entry in ledger.entries()]
    assert words.index("awaiting in") < words.index("enter") < words.index("leave") < words.index("awaiting out")
    assert words[0] == "outer in"
    assert ledger.entries("awaiting out")[0].more["result"] == "slept"


def test_async_middleware_around_a_plain_handler_fails_and_says_why(start_worker: StartWorker, ledger: Ledger) -> None:
    start_worker(MIDDLEWARE=["tests.jobs.awaiting"])
    view = settled(enqueue(jobs.NoteJob(), max_attempts=1).id)
    assert "async def" in error_of(view)
    assert ledger.count() == 0


# -- registered in other ways ------------------------------------------------------------------------------------------


def test_plain_dataclasses_aliases_and_raw_handlers_run(start_worker: StartWorker, ledger: Ledger) -> None:
    start_worker()
    plain, alias, raw = all_settled(
        [
            enqueue(jobs.Plain(name="plain")).id,
            store_raw("test.plain.old", '{"name":"alias"}'),
            store_raw("legacy.thing", "anything <at> all"),
        ]
    )
    assert {plain.status, alias.status, raw.status} == {JobStatus.SUCCEEDED}
    assert json.loads(alias.result or "") == "test.plain.old"
    assert sorted(ledger.names()) == ["alias", "legacy.thing", "plain"]
    (legacy,) = [entry for entry in ledger.entries() if entry.name == "legacy.thing"]
    assert legacy.more["payload"] == "anything <at> all"


def test_many_jobs_each_run_once(start_worker: StartWorker, ledger: Ledger) -> None:
    start_worker(concurrency=8)
    answers = enqueue_many(jobs.NoteJob(name=str(number)) for number in range(500))
    views = all_settled((answer.id for answer in answers), 60)
    assert {view.status for view in views} == {JobStatus.SUCCEEDED}
    assert sorted(ledger.names(), key=int) == [str(number) for number in range(500)]
    assert set(ledger.per_job().values()) == {1}


def test_a_job_waits_for_its_time(start_worker: StartWorker, ledger: Ledger) -> None:
    start_worker(concurrency=1)  # if its start takes so long that both are due, one comes after the other
    both = enqueue_many([Request(jobs.NoteJob(name="later"), delay=0.6), jobs.NoteJob(name="now")])
    later, _ = (ref.id for ref in both)
    assert settled(later).started_at >= job(later).due_at  # type: ignore[operator]
    assert ledger.names() == ["now", "later"]
