"""Leases: kept alive, lost, and what a process does that cannot renew them."""

from __future__ import annotations

import time

import pytest
from django.db import OperationalError

from chokaq_django import FailureReason, enqueue
from chokaq_django.conf import get_options
from chokaq_django.job.registry import registry
from chokaq_django.models import Circuit, JobStatus
from chokaq_django.observability.events import Event
from chokaq_django.storage import Storage, get_storage, open_storage
from chokaq_django.storage.contract import RescueAction
from chokaq_django.worker.execution import Execution
from chokaq_django.worker.heartbeat import Heartbeat

from .. import jobs
from ..claims import claim_and_start
from ..helpers import wait_until
from ..ledger import Ledger
from .conftest import StartWorker
from .executions import Host
from .support import committed, job, settled, store_raw

pytestmark = committed

OFTEN = {"HEARTBEAT_MIN": 0.05, "HEARTBEAT_MAX": 0.1, "HEARTBEAT_FAILURES": 2}


def take_over(job_id: str) -> None:
    """What a rescuer does that believes the worker to be dead."""
    storage = get_storage()

    def taken() -> bool:
        """A heartbeat may come between the two statements: what has moved is not taken."""
        (row,) = [row for row in storage.live_rows() if row.id == job_id]
        return storage.rescue([RescueAction(row, "dlq", "[]", reason=FailureReason.ZOMBIE)]) == {job_id}

    wait_until(taken, what="somebody takes it over")


@pytest.fixture
def no_heartbeats(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Every heartbeat fails as it does when the server does not answer; when each was tried."""
    tried: list[float] = []

    def heartbeat(self: Storage, worker_id: str, leases: object) -> None:
        tried.append(time.monotonic())
        raise OperationalError("server closed the connection unexpectedly")

    monkeypatch.setattr(type(get_storage()), "heartbeat", heartbeat)
    return tried


@pytest.mark.parametrize("kind", ["thread", "task"])
def test_a_job_that_was_taken_over_is_told_and_its_outcome_refused(
    start_worker: StartWorker, ledger: Ledger, kind: str
) -> None:
    worker = start_worker(WORKER={"CANCEL_GRACE": 60})
    job_id = enqueue(jobs.GateJob(gate="end") if kind == "thread" else jobs.AsyncSleepJob(seconds=60)).id
    wait_until(lambda: ledger.count("enter") == 1)
    take_over(job_id)
    wait_until(lambda: worker.accounts.conflicts == 1)
    if kind == "thread":
        assert [entry.more["reason"] for entry in ledger.entries("told to stop")] == ["lease_lost"]
    assert job(job_id).status == JobStatus.ZOMBIE
    assert not Circuit.objects.filter(failures__gt=0).exists()
    assert settled(enqueue(jobs.NoteJob()).id).status == JobStatus.SUCCEEDED


def test_a_deaf_job_that_was_taken_over_cannot_change_what_happened_since(
    start_worker: StartWorker, ledger: Ledger
) -> None:
    worker = start_worker(WORKER={"CANCEL_GRACE": 0.2})
    job_id = enqueue(jobs.DeafForLongJob(gate="end")).id
    wait_until(lambda: ledger.count("enter") == 1)
    take_over(job_id)
    wait_until(lambda: worker.accounts.conflicts == 1)
    before = job(job_id)
    ledger.open_gate("end")
    wait_until(lambda: ledger.count("leave") == 1)
    settled(enqueue(jobs.NoteJob()).id)
    assert job(job_id) == before


def test_of_two_executions_of_one_job_only_the_newer_lives() -> None:
    """A worker that stood still lost the job and claimed it again: both run here, one lease is alive."""
    storage = get_storage()
    job_id = store_raw("test.note", '{"name":""}')
    job_type = registry.get("test.note")
    assert job_type is not None
    executions = []
    for _ in range(2):
        (claimed,) = claim_and_start(storage, "w")
        execution = Execution(claimed, job_type, Host(), 60.0)
        execution.begin()
        executions.append(execution)
        if len(executions) == 1:
            (row,) = storage.live_rows()
            assert storage.rescue([RescueAction(row, "pending", "[]", crashed=True)]) == {job_id}
    older, newer = executions
    lost: list[Execution] = []
    beat = Heartbeat(get_options(), "w", open_storage, lambda: executions, lost.append, lambda: None)
    first = job(job_id).heartbeat_at
    beat._beat(storage)
    assert lost == [older]
    assert not newer.ctx.cancelled
    now = job(job_id).heartbeat_at
    assert now
    assert first
    assert now > first


@pytest.mark.usefixtures("no_heartbeats")
def test_failing_heartbeats_stop_the_jobs_where_the_option_says_so(start_worker: StartWorker, ledger: Ledger) -> None:
    start_worker(
        EXECUTION={**OFTEN, "CANCEL_ON_HEARTBEAT_FAILURE": True}, WORKER={"CANCEL_GRACE": 60},
        RECOVERY={"WORKER_TIMEOUT": 60, "ZOMBIE_TIMEOUT": 60},
    )  # fmt: skip
    view = settled(enqueue(jobs.GateJob(gate="never")).id)
    assert view.failure_reason is FailureReason.HEARTBEAT_FAILURE
    assert [entry.more["reason"] for entry in ledger.entries("told to stop")] == ["heartbeat"]


def test_failing_heartbeats_are_only_told_of_by_default(
    start_worker: StartWorker, ledger: Ledger, no_heartbeats: list[float], caplog: pytest.LogCaptureFixture
) -> None:
    start_worker(EXECUTION=OFTEN, RECOVERY={"WORKER_TIMEOUT": 60, "ZOMBIE_TIMEOUT": 60})
    job_id = enqueue(jobs.GateJob(gate="end")).id
    wait_until(lambda: any(getattr(record, "event_id", 0) == Event.HEARTBEAT_DEGRADED for record in caplog.records))
    assert ledger.count("told to stop") == 0
    ledger.open_gate("end")
    assert settled(job_id).status == JobStatus.SUCCEEDED


def test_a_handler_renews_its_lease_itself(start_worker: StartWorker, ledger: Ledger) -> None:
    start_worker(
        EXECUTION={"HEARTBEAT_MIN": 20, "HEARTBEAT_MAX": 20}, RECOVERY={"WORKER_TIMEOUT": 60, "ZOMBIE_TIMEOUT": 60}
    )
    job_id = enqueue(jobs.RenewJob(gate="end")).id
    wait_until(lambda: ledger.count("enter") == 1)
    first = job(job_id).heartbeat_at
    ledger.open_gate("renew")
    wait_until(lambda: (beat := job(job_id).heartbeat_at) and first and beat > first)
    ledger.open_gate("end")
    assert settled(job_id).status == JobStatus.SUCCEEDED
