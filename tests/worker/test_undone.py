"""Atomic jobs whose transaction the database ends: that is no failure of theirs."""

from __future__ import annotations

import pytest
from django.db import connection, transaction
from django.db.backends.signals import connection_created

from chokaq_django import enqueue
from chokaq_django.conf import get_options
from chokaq_django.job.failures import FailureReason
from chokaq_django.job.registry import registry
from chokaq_django.models import Circuit, JobStatus
from chokaq_django.observability.events import Event
from chokaq_django.storage import ClaimRequest, Outcome, OutcomeKind, get_storage, open_storage
from chokaq_django.worker.execution import Execution
from chokaq_django.worker.outcomes import UNDONE_IN_A_ROW, OutcomeTable
from chokaq_django.worker.runner import Runner

from .. import jobs
from ..helpers import wait_until
from ..ledger import Ledger
from ..models import Effect
from ..storage.support import run_in_thread
from .conftest import StartWorker
from .executions import Host
from .support import committed, job, not_on, only_on, settled

SOON = {"BASE_DELAY": 0.01, "MAX_DELAY": 0.02, "JITTER": 0.0}
with_server = not_on("sqlite", "there is no server that could end a connection")


@committed
@with_server
@pytest.mark.parametrize("late", [False, True], ids=["while it runs", "before its success is written"])
def test_a_lost_connection_is_not_the_jobs_failure(
    start_worker: StartWorker, ledger: Ledger, caplog: pytest.LogCaptureFixture, late: bool
) -> None:
    start_worker(RETRY=SOON)
    view = settled(enqueue(jobs.AtomicKilledJob(times=2, late=late), max_attempts=1).id)
    assert (view.status, view.attempt, ledger.count()) == (JobStatus.SUCCEEDED, 1, 3), view.attempts
    assert [(entry["outcome"], "error_type" in entry) for entry in view.attempts] == [
        ("interrupted", True), ("interrupted", True), ("succeeded", False)
    ]  # fmt: skip
    assert Effect.objects.filter(job=view.id).count() == 1
    assert not Circuit.objects.filter(pk="test.atomic_killed", failures__gt=0).exists()
    told = [
        r for r in caplog.records if getattr(r, "event_id", 0) == Event.STORAGE_TROUBLE and view.id in r.getMessage()
    ]
    assert len(told) == 2


@committed
@with_server
def test_a_job_that_always_ends_its_connection_comes_to_an_end(start_worker: StartWorker, ledger: Ledger) -> None:
    start_worker(RETRY=SOON)
    view = settled(enqueue(jobs.AtomicKilledJob(times=1_000), max_attempts=2).id, 30)
    assert (view.status, view.failure_reason) == (JobStatus.FAILED, FailureReason.MAX_RETRIES_EXCEEDED)
    assert ledger.count() == 2 * (UNDONE_IN_A_ROW + 1)
    assert not Effect.objects.exists()
    wait_until(lambda: Circuit.objects.filter(pk="test.atomic_killed", failures=2).exists(), what="both failures count")


@committed
@only_on("sqlite", "there a transaction begins without a lock")
def test_a_job_that_cannot_begin_has_not_failed(ledger: Ledger) -> None:
    enqueue(jobs.AtomicJob(name="never ran"))
    (claimed,) = get_storage().claim(ClaimRequest("w", ["default"], 1, True)).jobs
    job_type = registry.get(claimed.type)
    assert job_type is not None
    ended: list[Outcome] = []
    runner = Runner(
        get_options(), OutcomeTable("w"), lambda _, outcome: ended.append(outcome), lambda *_: None, lambda _: None,
        lambda _: None, "w",
    )  # fmt: skip

    def impatient(connection: object, **named: object) -> None:
        connection.cursor().execute("PRAGMA busy_timeout = 1")  # type: ignore[attr-defined]

    held = open_storage()
    connection.close()
    connection_created.connect(impatient)
    try:
        with held._transaction():  # type: ignore[attr-defined]
            run_in_thread(lambda: runner.run(Execution(claimed, job_type, Host(), 60.0)))()
    finally:
        connection_created.disconnect(impatient)
        held.close()
    assert [outcome.kind for outcome in ended] == [OutcomeKind.INTERRUPTED]
    assert not ledger.entries()


@committed
@not_on("sqlite", "a transaction has all locks there as soon as it has begun")
def test_how_a_handler_locks_is_its_own(start_worker: StartWorker) -> None:
    """A lock that it does not get is an ordinary failure: it may come every time."""
    Effect.objects.create(job="", attempt=1, name="held")
    job_id = enqueue(jobs.AtomicLockJob(name="held")).id
    with transaction.atomic():
        Effect.objects.select_for_update().get(name="held")
        start_worker(RETRY={"BASE_DELAY": 3_600.0, "MAX_DELAY": 3_600.0})
        wait_until(lambda: job(job_id).attempts, what="it gave up waiting for the lock")
    view = job(job_id)
    assert (view.status, view.attempt) == (JobStatus.PENDING, 1), view.attempts
    assert [entry["outcome"] for entry in view.attempts] == ["failed"]
    wait_until(lambda: Circuit.objects.filter(pk="test.atomic_lock", failures=1).exists(), what="the failure counts")
