"""Jobs whose type no code here knows: they wait, then go to the DLQ, or run where the code is newer."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable

import pytest
from django.db.models import F

from chokaq_django import FailureReason, enqueue
from chokaq_django.models import JobHot, JobStatus
from chokaq_django.observability.events import Event

from .. import jobs
from ..helpers import WorkerProcess, wait_until
from ..ledger import Ledger
from .conftest import StartWorker
from .support import committed, error_of, in_state, job, settled, store_raw

pytestmark = committed


def test_a_job_of_an_unknown_type_waits_untouched_and_holds_up_nobody(
    start_worker: StartWorker, ledger: Ledger, caplog: pytest.LogCaptureFixture
) -> None:
    start_worker(concurrency=1)
    unknown = [store_raw("test.from_the_future", priority=90) for _ in range(5)]
    assert settled(enqueue(jobs.NoteJob()).id).status == JobStatus.SUCCEEDED
    # Both at one moment: the worker looks at them again and again, and a look is an attempt until they are given back.
    wait_until(lambda: {(view.status, view.attempt) for view in map(job, unknown)} == {(JobStatus.PENDING, 0)})
    told = [record for record in caplog.records if getattr(record, "event_id", 0) == Event.JOB_TYPE_UNKNOWN]
    assert len(told) == 1, "said once, not for each job"
    assert "test.from_the_future" in told[0].getMessage()


def test_after_the_grace_it_goes_to_the_dlq_and_says_what_to_do(start_worker: StartWorker) -> None:
    start_worker(EXECUTION={"UNKNOWN_TYPE_GRACE": 0.5})
    view = settled(store_raw("test.from_the_past"))
    assert view.failure_reason is FailureReason.UNKNOWN_TYPE
    assert view.attempt == 0 or view.attempt == 1
    assert "test.from_the_past" in error_of(view)
    assert "alias" in error_of(view)


def test_after_the_grace_one_that_has_crashed_goes_there_too(start_worker: StartWorker) -> None:
    """A claim only leases it: it never starts."""
    job_id = store_raw("test.from_the_past")
    JobHot.objects.filter(pk=job_id).update(crash_count=1, attempt=1)
    start_worker(EXECUTION={"UNKNOWN_TYPE_GRACE": 0.5})
    view = settled(job_id)
    assert (view.failure_reason, view.attempt, view.crash_count) == (FailureReason.UNKNOWN_TYPE, 1, 1)
    assert "alias" in error_of(view)


def test_a_buffered_job_of_an_unknown_type_is_given_back(start_worker: StartWorker, ledger: Ledger) -> None:
    start_worker(concurrency=1, WORKER={"PREFETCH": 5})
    running = enqueue(jobs.GateJob(gate="go on")).id
    wait_until(lambda: ledger.count("enter") == 1)
    unknown = store_raw("test.from_the_future")
    wait_until(lambda: job(unknown).claim_number > 0)
    assert in_state(unknown, JobStatus.PENDING).attempt == 0
    ledger.open_gate("go on")
    settled(running)


def test_it_runs_once_a_worker_comes_that_knows_it(
    start_worker: StartWorker, worker_process: Callable[..., WorkerProcess], ledger: Ledger
) -> None:
    start_worker()
    newer = store_raw("test.newer", '{"name":"at last"}')
    wait_until(
        lambda: job(newer).claim_number > 0 and job(newer).status == JobStatus.PENDING, what="the old code met it"
    )
    JobHot.objects.filter(pk=newer).update(
        run_at=F("run_at") + dt.timedelta(seconds=30)
    )  # the old code's longest pause
    worker = worker_process(env={"CHOKAQ_TEST_NEWER_CODE": "1"})
    view = settled(newer, 15)
    assert view.status == JobStatus.SUCCEEDED
    assert view.attempt == 1
    assert ledger.names() == ["at last"]
    assert worker.stop() == 0
