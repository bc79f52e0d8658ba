"""What async handlers call by ``sync_to_async`` runs in one thread: what happens when a call does not come back."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

import pytest
from asgiref.sync import async_to_sync, sync_to_async

from chokaq_django import FailureReason, Job, JobContext, control, enqueue
from chokaq_django.models import JobStatus
from chokaq_django.observability.events import Event

from .. import jobs
from ..helpers import wait_until
from ..ledger import Ledger, wait_at_gate
from ..models import Effect
from .conftest import StartWorker
from .support import all_settled, committed, in_state, job, settled

pytestmark = committed

QUICK = {"CANCEL_GRACE": 0.2}
PATIENT = {"CANCEL_GRACE": 60}


class StuckCallJob(Job, type="test.stuck_call", circuit=False, max_attempts=1):
    """Its call ends when the gate opens, whatever becomes of the job."""

    gate: str

    def calls(self, ctx: JobContext) -> str:
        Effect.objects.count()  # the thread has a connection
        jobs.said(ctx, "calls")
        wait_at_gate(self.gate)
        return "came back"

    async def run(self, ctx: JobContext) -> str:
        return await sync_to_async(self.calls)(ctx)


class ShortOrmJob(Job, type="test.short_orm", circuit=False, max_attempts=1, timeout=1.0):
    """Uses the ORM, within a second."""

    async def run(self, ctx: JobContext) -> int:
        return await Effect.objects.acount()


class ShortCallJob(StuckCallJob, type="test.short_call", circuit=False, max_attempts=1, timeout=0.3):
    """Its call takes longer than it may."""


class NestedJob(Job, type="test.nested_calls", circuit=False, max_attempts=1):
    """Calls sync code that calls async code that calls sync code; returns in how many threads."""

    async def run(self, ctx: JobContext) -> int:
        def outer() -> list[int]:
            return [threading.get_ident(), *async_to_sync(middle)()]

        async def middle() -> list[int]:
            return [await sync_to_async(threading.get_ident)()]

        return len({*await sync_to_async(outer)(), await sync_to_async(threading.get_ident)()})


@pytest.fixture(autouse=True)
def gates(ledger: Ledger) -> Iterator[None]:
    """No thread outlives its test."""
    yield
    ledger.open_gate("end")


@pytest.fixture
def threads() -> Callable[[], list[threading.Thread]]:
    """The threads of calls that live, and that did not before the test."""
    others = set(threading.enumerate())
    return lambda: [t for t in set(threading.enumerate()) - others if t.name == "chokaq-async-calls"]


def stuck_call(ledger: Ledger) -> str:
    """A job whose call runs and does not come back."""
    before = ledger.count("calls")
    job_id = enqueue(StuckCallJob(gate="end")).id
    wait_until(lambda: ledger.count("calls") > before)
    return job_id


def ended(job_id: str) -> str:
    """The job has ended, and its call goes on. As by a time-out, which could come before the call, though."""
    control.cancel(job_id, by="grace")
    assert settled(job_id).failure_reason is FailureReason.CANCELLED
    return job_id


def told(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [r.getMessage() for r in caplog.records if getattr(r, "event_id", 0) == Event.CALL_ABANDONED]


def test_a_call_whose_job_has_ended_does_not_hold_up_the_others(
    start_worker: StartWorker,
    ledger: Ledger,
    caplog: pytest.LogCaptureFixture,
    threads: Callable[[], list[threading.Thread]],
) -> None:
    worker = start_worker(WORKER=QUICK)
    stuck = stuck_call(ledger)
    (first,) = threads()
    behind = [enqueue(jobs.AsyncOrmJob(name="behind")).id for _ in range(5)]
    ended(stuck)
    assert {view.status for view in all_settled(behind)} == {JobStatus.SUCCEEDED}, "they waited, and were moved"
    assert settled(enqueue(jobs.AsyncOrmJob(name="later")).id).status == JobStatus.SUCCEEDED
    (text,) = told(caplog)
    assert f"job {stuck} (test.stuck_call), which has ended" in text
    assert worker._loop.calls.lost == 1
    assert first.is_alive()
    ledger.open_gate("end")
    wait_until(lambda: not first.is_alive(), what="the thread ends with its call, and closes its connections")
    assert len(threads()) == 1
    assert job(stuck).status == JobStatus.CANCELLED


@pytest.mark.parametrize("over", [False, True], ids=["goes on", "has ended"])
def test_the_time_that_a_job_waits_for_the_call_of_another_is_not_its_own(
    start_worker: StartWorker, ledger: Ledger, caplog: pytest.LogCaptureFixture, over: bool
) -> None:
    """Whether the other has ended, within its grace, or goes on as it may."""
    start_worker(WORKER=PATIENT)
    stuck = stuck_call(ledger)
    if over:
        ended(stuck)
    behind = all_settled([enqueue(ShortOrmJob()).id for _ in range(3)])
    assert [(view.status, view.attempt) for view in behind] == [(JobStatus.SUCCEEDED, 1)] * 3
    assert max(view.attempts[-1]["duration_ms"] for view in behind) >= 1000, "beyond the time limit"
    (text,) = told(caplog)
    assert f"job {stuck} " in text
    ledger.open_gate("end")
    assert settled(stuck).status == (JobStatus.CANCELLED if over else JobStatus.SUCCEEDED)


def test_a_job_that_is_late_by_its_own_fault_is_late(start_worker: StartWorker, ledger: Ledger) -> None:
    worker = start_worker(WORKER=PATIENT)
    assert settled(enqueue(ShortCallJob(gate="end")).id).failure_reason is FailureReason.TIMEOUT
    assert settled(enqueue(jobs.AsyncSlowJob()).id).failure_reason is FailureReason.TIMEOUT
    assert worker._loop.calls.lost == 0


def test_too_many_calls_that_do_not_come_back_make_the_process_ask_for_its_replacement(
    start_worker: StartWorker, ledger: Ledger
) -> None:
    worker = start_worker(WORKER=QUICK)
    for number in (1, 2, 3):
        assert not worker.stop_requested
        ended(stuck_call(ledger))
        wait_until(lambda number=number: worker._loop.calls.lost == number)  # type: ignore[misc]
    wait_until(lambda: worker.stop_requested)
    assert worker.recycle


def test_a_worker_stops_although_a_call_does_not_come_back(
    start_worker: StartWorker, ledger: Ledger, threads: Callable[[], list[threading.Thread]]
) -> None:
    worker = start_worker(WORKER={**PATIENT, "SHUTDOWN_GRACE": 0.1})
    stuck = stuck_call(ledger)
    loops = [thread for thread in threading.enumerate() if thread.name == "chokaq-async"]
    assert worker.shutdown(), "everything is written"
    assert in_state(stuck, JobStatus.PENDING).attempt == 0, "handed back with its attempt"
    assert all(thread.daemon for thread in threads()), "the end of the process does not wait for them"
    wait_until(lambda: not any(thread.is_alive() for thread in loops), what="the loop has ended")
    ledger.open_gate("end")
    wait_until(lambda: not threads())


def test_nested_calls_run_in_one_thread(start_worker: StartWorker) -> None:
    start_worker()
    view = settled(enqueue(NestedJob()).id)
    assert (view.status, view.result) == (JobStatus.SUCCEEDED, "1")
