"""Timeouts, cancellation, and jobs that do not listen. Workers run inside the test's process."""

from __future__ import annotations

import threading

import pytest

from chokaq_django import FailureReason, control, enqueue, enqueue_many
from chokaq_django.models import JobStatus, Queue
from chokaq_django.observability.events import Event

from .. import jobs
from ..helpers import wait_until
from ..ledger import Ledger
from ..models import Effect
from .conftest import StartWorker
from .support import all_settled, committed, error_of, in_state, job, not_on, settled

pytestmark = committed

QUICK = {"CANCEL_GRACE": 0.2}
PATIENT = {"CANCEL_GRACE": 60}
"""For jobs that stop when told: a busy machine may need its time for that."""


def test_a_job_past_its_timeout_is_told_and_buried_when_it_stops(start_worker: StartWorker, ledger: Ledger) -> None:
    start_worker(WORKER=PATIENT)
    view = settled(enqueue(jobs.SlowJob()).id)
    assert view.failure_reason is FailureReason.TIMEOUT
    assert view.attempt == 1, "a timeout is final unless the type says otherwise"
    assert "0.3 s" in error_of(view)
    assert ledger.entries("told to stop")[0].more["reason"] == "timeout"
    assert 300 <= view.attempts[-1]["duration_ms"] < 15_000


def test_a_type_may_retry_its_timeouts(start_worker: StartWorker, ledger: Ledger) -> None:
    start_worker()
    view = settled(enqueue(jobs.SlowRetriedJob()).id)
    assert view.failure_reason is FailureReason.TIMEOUT
    assert view.attempt == ledger.count("enter") == 2
    assert [entry["outcome"] for entry in view.attempts] == ["failed", "Timeout"]


def test_the_queue_and_the_setting_limit_types_that_do_not_say(start_worker: StartWorker) -> None:
    start_worker(EXECUTION={"TIMEOUT": 0.4}, QUEUES={"quick": {"EXECUTION_TIMEOUT": 0.2}})
    setting, queue = all_settled([enqueue(jobs.ObedientJob()).id, enqueue(jobs.ObedientJob(), queue="quick").id])
    assert setting.failure_reason is queue.failure_reason is FailureReason.TIMEOUT
    assert "0.4 s" in error_of(setting)
    assert "0.2 s" in error_of(queue)
    assert Queue.objects.get(pk="quick").execution_timeout == 0.2


def test_a_job_that_does_not_listen_is_written_off_and_its_slot_replaced(
    start_worker: StartWorker, ledger: Ledger, caplog: pytest.LogCaptureFixture
) -> None:
    start_worker(concurrency=2, WORKER=QUICK)
    deaf = enqueue(jobs.DeafJob(gate="end")).id
    view = settled(deaf)
    assert view.failure_reason is FailureReason.TIMEOUT
    assert any(getattr(record, "event_id", 0) == Event.JOB_ABANDONED for record in caplog.records)
    gated = [answer.id for answer in enqueue_many([jobs.GateJob(gate="two")] * 2)]
    wait_until(lambda: ledger.count("enter") == 3, what="both places work although one thread is lost")
    ledger.open_gate("two")
    all_settled(gated)
    before = job(deaf)
    ledger.open_gate("end")
    wait_until(lambda: "leave" in [entry.word for entry in ledger.entries() if entry.job == deaf])
    settled(enqueue(jobs.NoteJob()).id)
    assert job(deaf) == before, "whatever it does afterwards is refused"


def test_a_retried_job_that_does_not_listen_runs_again_while_its_first_attempt_lingers(
    start_worker: StartWorker, ledger: Ledger
) -> None:
    start_worker(concurrency=4, WORKER=QUICK)
    view = settled(enqueue(jobs.DeafRetriedJob(gate="end")).id)
    assert view.failure_reason is FailureReason.TIMEOUT
    assert view.attempt == 2
    wait_until(lambda: ledger.count("enter") == 2, what="its limits count from a moment before its first line")
    ledger.open_gate("end")
    wait_until(lambda: ledger.count("leave") == 2)
    settled(enqueue(jobs.NoteJob()).id)
    assert job(view.id).status == JobStatus.FAILED


def test_an_interruptible_job_is_stopped_inside_its_thread(start_worker: StartWorker, ledger: Ledger) -> None:
    others = set(threading.enumerate())  # of earlier workers, perhaps

    def slots() -> set[threading.Thread]:
        return {thread for thread in set(threading.enumerate()) - others if thread.name.startswith("chokaq-slot")}

    start_worker(concurrency=1, WORKER=PATIENT)
    (before,) = slots()
    view = settled(enqueue(jobs.InterruptedJob()).id)
    assert view.failure_reason is FailureReason.TIMEOUT
    assert ledger.names("interrupted") == ["JobInterrupted"]
    assert settled(enqueue(jobs.NoteJob()).id).status == JobStatus.SUCCEEDED
    wait_until(lambda: not before.is_alive(), what="its thread is not used again")
    assert len(slots()) == 1


def test_an_interruptible_job_stops_when_an_operator_says_so(start_worker: StartWorker, ledger: Ledger) -> None:
    start_worker(EXECUTION={"TIMEOUT": 60}, WORKER=PATIENT)
    many = [enqueue(jobs.InterruptedJob()).id for _ in range(3)]
    assert {view.failure_reason for view in all_settled(many)} == {FailureReason.TIMEOUT}
    assert ledger.count("interrupted") == 3


def test_too_many_lost_threads_make_the_process_ask_for_its_replacement(
    start_worker: StartWorker, ledger: Ledger
) -> None:
    worker = start_worker(concurrency=2, WORKER=QUICK)
    all_settled([enqueue(jobs.DeafJob(gate="end")).id for _ in range(2)])
    wait_until(lambda: worker.stop_requested)
    assert worker.recycle
    ledger.open_gate("end")


def test_a_timeout_counts_for_the_circuit_and_a_cancellation_does_not(
    start_worker: StartWorker, ledger: Ledger
) -> None:
    """Seen through what opens it: see test_circuits for the table itself."""
    from chokaq_django.models import Circuit

    worker = start_worker(CIRCUIT={"FAILURES": 2, "BREAK": 60}, EXECUTION={"TIMEOUT": 0.2})
    assert worker.options.circuit.failures == 2
    all_settled([enqueue(jobs.TimedCircuitJob()).id for _ in range(2)])
    wait_until(lambda: Circuit.objects.filter(pk="test.timed_circuit", state=Circuit.OPEN).exists())


# -- async -------------------------------------------------------------------------------------------------------------


def test_an_async_job_past_its_timeout_is_cancelled(start_worker: StartWorker, ledger: Ledger) -> None:
    start_worker(WORKER=PATIENT)
    view = settled(enqueue(jobs.AsyncSlowJob()).id)
    assert view.failure_reason is FailureReason.TIMEOUT
    assert ledger.count("cancelled") == 1


def test_an_async_job_that_ignores_its_cancellation_is_written_off(start_worker: StartWorker, ledger: Ledger) -> None:
    worker = start_worker(WORKER=QUICK | {"ASYNC_CONCURRENCY": 1})
    deaf = settled(enqueue(jobs.AsyncSlowJob(deaf=True, gate="end")).id)
    assert deaf.failure_reason is FailureReason.TIMEOUT
    assert settled(enqueue(jobs.AsyncSleepJob()).id).status == JobStatus.SUCCEEDED, "its place is free"
    ledger.open_gate("end")
    wait_until(lambda: ledger.count("leave") == 2)
    wait_until(lambda: worker._loop.free() == 1, what="and is given back once")
    assert job(deaf.id).status == JobStatus.FAILED


def test_an_operator_cancels_an_async_job(start_worker: StartWorker, ledger: Ledger) -> None:
    start_worker()
    job_id = enqueue(jobs.AsyncSleepJob(seconds=60)).id
    wait_until(lambda: ledger.count("enter"))
    control.cancel(job_id, by="grace")
    assert settled(job_id).status == JobStatus.CANCELLED


def test_async_jobs_run_many_at_once_up_to_their_own_limit(start_worker: StartWorker, ledger: Ledger) -> None:
    start_worker(concurrency=1, WORKER={"ASYNC_CONCURRENCY": 20})
    ids = [answer.id for answer in enqueue_many([jobs.AsyncSleepJob(seconds=0.2)] * 60)]
    assert {view.status for view in all_settled(ids, 30)} == {JobStatus.SUCCEEDED}
    assert 10 <= ledger.most_at_once() <= 20


def test_async_jobs_use_the_orm(start_worker: StartWorker) -> None:
    start_worker()
    views = all_settled([enqueue(jobs.AsyncOrmJob(name="async")).id for _ in range(5)])
    assert {view.status for view in views} == {JobStatus.SUCCEEDED}
    assert Effect.objects.filter(name="async").count() == 5


def test_slow_async_jobs_do_not_hold_up_threads_nor_the_other_way(start_worker: StartWorker, ledger: Ledger) -> None:
    start_worker(concurrency=2, WORKER={"ASYNC_CONCURRENCY": 2})
    slow = [enqueue(jobs.AsyncSleepJob(seconds=60)).id for _ in range(2)]
    wait_until(lambda: ledger.count("enter") == 2)
    assert settled(enqueue(jobs.NoteJob()).id).status == JobStatus.SUCCEEDED
    control.cancel(slow, by="grace")
    all_settled(slow)
    gated = [enqueue(jobs.GateJob(gate="go on")).id for _ in range(2)]
    wait_until(lambda: ledger.count("enter") == 4)
    assert settled(enqueue(jobs.AsyncSleepJob()).id).status == JobStatus.SUCCEEDED
    ledger.open_gate("go on")
    all_settled(gated)


# -- atomic ------------------------------------------------------------------------------------------------------------


def test_an_atomic_jobs_rows_and_its_success_are_one(start_worker: StartWorker) -> None:
    start_worker()
    view = settled(enqueue(jobs.AtomicJob(name="once")).id)
    assert view.status == JobStatus.SUCCEEDED
    assert Effect.objects.filter(name="once").count() == 1


def test_an_atomic_jobs_failed_attempts_leave_no_rows(start_worker: StartWorker) -> None:
    start_worker()
    view = settled(enqueue(jobs.AtomicJob(name="third time", times=2)).id)
    assert (view.status, view.attempt) == (JobStatus.SUCCEEDED, 3)
    assert list(Effect.objects.filter(name="third time").values_list("attempt", flat=True)) == [3]


def test_an_atomic_job_whose_hook_fails_after_the_commit_has_succeeded(
    start_worker: StartWorker, caplog: pytest.LogCaptureFixture
) -> None:
    worker = start_worker()
    job_id = enqueue(jobs.AtomicHookJob()).id
    wait_until(lambda: worker.accounts.succeeded + worker.accounts.conflicts == 1)
    assert job(job_id).status == JobStatus.SUCCEEDED
    assert (worker.accounts.succeeded, worker.accounts.conflicts) == (1, 0)
    (told,) = [record for record in caplog.records if getattr(record, "event_id", 0) == Event.COMMIT_HOOK_FAILED]
    assert "too late to fail" in told.getMessage()


@not_on("sqlite", "nobody else can write while an atomic job runs")
def test_an_atomic_job_whose_lease_is_gone_leaves_no_rows(start_worker: StartWorker, ledger: Ledger) -> None:
    from chokaq_django.storage import get_storage
    from chokaq_django.storage.contract import RescueAction

    start_worker()
    job_id = enqueue(jobs.AtomicHereJob(gate="end")).id
    wait_until(lambda: ledger.count("enter") == 1)

    def taken_over() -> bool:
        """Its handler stands still, with no row locked yet. A heartbeat may come between the two statements."""
        (row,) = get_storage().live_rows()
        return get_storage().rescue([RescueAction(row, "dlq", "[]", reason=FailureReason.ZOMBIE)]) == {job_id}

    wait_until(taken_over, what="somebody takes it over")
    ledger.open_gate("end")
    wait_until(lambda: ledger.count("leave") == 1)
    settled(enqueue(jobs.NoteJob()).id)
    assert job(job_id).status == JobStatus.ZOMBIE
    assert not Effect.objects.filter(job=job_id).exists()


@not_on("sqlite", "its transaction cannot be ended from another thread")
def test_an_atomic_job_past_its_timeout_is_cut_off_and_leaves_no_rows(
    start_worker: StartWorker, ledger: Ledger
) -> None:
    start_worker(concurrency=2, WORKER=QUICK)
    job_id = enqueue(jobs.AtomicSlowJob(gate="end")).id
    view = settled(job_id)
    assert view.failure_reason is FailureReason.TIMEOUT
    ledger.open_gate("end")
    wait_until(lambda: ledger.count("leave") == 1)
    assert settled(enqueue(jobs.AtomicJob(name="next")).id).status == JobStatus.SUCCEEDED
    assert not Effect.objects.filter(job=job_id).exists()


def test_progress_of_an_atomic_job_does_not_wait_for_itself(start_worker: StartWorker) -> None:
    start_worker()
    assert settled(enqueue(jobs.AtomicProgressJob()).id).status == JobStatus.SUCCEEDED


# -- heartbeats --------------------------------------------------------------------------------------------------------


def test_heartbeats_keep_a_long_job_alive(start_worker: StartWorker, ledger: Ledger) -> None:
    start_worker()
    job_id = enqueue(jobs.GateJob(gate="end")).id
    first = in_state(job_id, JobStatus.PROCESSING).heartbeat_at
    wait_until(lambda: (beat := job(job_id).heartbeat_at) and first and beat > first, what="its heartbeat moves")
    ledger.open_gate("end")
    assert settled(job_id).status == JobStatus.SUCCEEDED
