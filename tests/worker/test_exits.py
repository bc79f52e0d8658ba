"""Code of the project's that raises SystemExit where it is not run as a job: the worker's threads go on."""

from __future__ import annotations

from typing import Any

import pytest

from chokaq_django import FailureReason, Job, JobContext, enqueue, job_started, job_succeeded
from chokaq_django.job.failures import CancelReason
from chokaq_django.observability.events import Event
from chokaq_django.worker import outcomes
from chokaq_django.worker.outcomes import OutcomeTable

from .. import jobs
from ..helpers import wait_until
from ..ledger import Ledger, wait_at_gate
from .conftest import StartWorker
from .executions import execution
from .support import committed, settled


class ExitBackoff:
    def delay(self, n: int) -> float:
        raise SystemExit(7)


class DeafExitJob(
    Job, type="test.deaf_exit", timeout=0.2, on_timeout="retry", max_attempts=2, backoff=ExitBackoff(), circuit=False
):
    """Does not stop in time: the watchdog asks when it is to be tried again."""

    def run(self, ctx: JobContext) -> None:
        jobs.said(ctx, "enter")
        wait_at_gate("end")


class FailExitJob(Job, type="test.fail_exit", max_attempts=2, backoff=ExitBackoff(), circuit=False):
    def run(self, ctx: JobContext) -> None:
        jobs.said(ctx, "enter")
        raise jobs.TestError("fails")


@committed
def test_a_backoff_that_exits_ends_neither_the_watchdog_nor_the_job(
    start_worker: StartWorker, ledger: Ledger, caplog: pytest.LogCaptureFixture
) -> None:
    worker = start_worker(concurrency=1, WORKER={"CANCEL_GRACE": 0.1})
    try:
        view = settled(enqueue(DeafExitJob()).id)
        assert (view.failure_reason, view.attempt) == (FailureReason.TIMEOUT, 2), "by the settings' backoff"
        assert worker._watchdog.alive()
    finally:
        ledger.open_gate("end")
    assert [r for r in caplog.records if getattr(r, "event_id", 0) == Event.BACKOFF_FAILED]


@committed
def test_a_job_whose_backoff_exits_is_tried_again_by_the_settings(start_worker: StartWorker, ledger: Ledger) -> None:
    start_worker(concurrency=1)
    view = settled(enqueue(FailExitJob()).id)
    assert (view.failure_reason, view.attempt) == (FailureReason.MAX_RETRIES_EXCEEDED, 2)
    assert ledger.count("enter") == 2


def test_an_end_that_cannot_be_judged_has_an_outcome_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    def exits(*arguments: Any) -> Any:
        monkeypatch.undo()
        raise SystemExit(7)

    monkeypatch.setattr(outcomes.OutcomeTable, "_stopped", exits)
    outcome = OutcomeTable("w").stopped(execution(), CancelReason.TIMEOUT, None)
    assert outcome.reason is FailureReason.TIMEOUT
    assert "Ran longer than its timeout" in str(outcome.error_details)
    assert "SystemExit" in str(outcome.error_details)


@committed
def test_a_receiver_that_exits_does_not_end_the_signals(
    start_worker: StartWorker, caplog: pytest.LogCaptureFixture
) -> None:
    heard: list[str] = []

    def leave(**arguments: Any) -> None:
        raise SystemExit(7)

    def hear(job_id: str, **arguments: Any) -> None:
        heard.append(job_id)

    job_started.connect(leave, weak=False)
    job_succeeded.connect(hear, weak=False)
    try:
        start_worker(concurrency=1)
        ids = [settled(enqueue(jobs.NoteJob()).id).id for _ in range(2)]
        wait_until(lambda: heard == ids, what="the signals after it went out")
    finally:
        job_started.disconnect(leave)
        job_succeeded.disconnect(hear)
    failed = [r for r in caplog.records if getattr(r, "event_id", 0) == Event.SIGNAL_RECEIVER_FAILED]
    assert len(failed) == 2
    caplog.clear()  # the errors were asked for
