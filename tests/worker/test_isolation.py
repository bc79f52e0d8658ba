"""Beside what a job may run that has crashed before."""

from __future__ import annotations

import datetime as dt

import pytest
from django.db import transaction

from chokaq_django import enqueue
from chokaq_django.models import Circuit, JobHot, JobStatus
from chokaq_django.worker.isolation import PATIENCE, Isolation

from .. import jobs
from ..helpers import wait_until
from ..ledger import Ledger
from .conftest import StartWorker
from .executions import execution
from .support import all_settled, committed, job, settled

LIMIT = 3


def crashed(job_id: str, count: int) -> str:
    JobHot.objects.filter(pk=job_id).update(crash_count=count, attempt=count)
    return job_id


@pytest.mark.any_engine
@pytest.mark.parametrize(
    ("crashes", "running", "may"),
    [
        (0, [LIMIT, LIMIT], True),  # what never crashed runs beside anything
        (1, [], True),
        (1, [0, 1, LIMIT - 1], True),
        (LIMIT, [0, 0], True),
        (LIMIT, [0, 1], False),  # its last chance: it might be its company that kills
        (1, [0, LIMIT], False),
        (LIMIT + 2, [1], False),  # the limit was higher when it crashed
    ],
)
def test_who_may_run_beside_whom(crashes: int, running: list[int], may: bool) -> None:
    beside = [execution(crash_count=count) for count in running]
    isolation = Isolation(LIMIT, lambda: beside)
    isolation.observe()
    assert isolation.admits(crashes) is may
    most = isolation.most()
    assert (most is None or crashes <= most) is may, "a claim asks for the same"


@pytest.mark.any_engine
def test_beside_what_has_just_started_too() -> None:
    isolation = Isolation(LIMIT, list)
    isolation.observe()
    assert isolation.admits(1)
    isolation.starts(LIMIT)
    assert not isolation.admits(1)
    isolation.starts(0)
    assert [isolation.admits(crashes) for crashes in (0, 1)] == [True, False]
    isolation.observe()
    assert isolation.admits(1), "it has ended"


@pytest.mark.any_engine
def test_those_with_chances_left_do_not_follow_one_another_for_ever() -> None:
    beside, now = [execution(crash_count=1)], [100.0]
    isolation = Isolation(LIMIT, lambda: beside, lambda: now[0])

    def admitted(crashes: int) -> bool:
        isolation.observe()
        return isolation.admits(crashes)

    assert admitted(1)
    now[0] += PATIENCE
    beside[:] = [execution(crash_count=2)]
    assert admitted(1), "as long as that is short"
    now[0] += 1.0
    assert [admitted(crashes) for crashes in (0, 1, LIMIT)] == [True, False, False]
    beside.clear()
    assert admitted(LIMIT)
    assert admitted(1), "who comes first in the claim"
    beside[:] = [execution(crash_count=1)]
    assert admitted(1), "and it begins anew"


@committed
def test_a_last_chance_has_its_turn_among_them(
    start_worker: StartWorker, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("chokaq_django.worker.isolation.PATIENCE", -1.0)
    first = crashed(enqueue(jobs.GateJob(gate="first", name="first"), priority=90).id, 1)
    start_worker(concurrency=4, RECOVERY={"CRASH_LIMIT": LIMIT})
    wait_until(lambda: "first" in ledger.names("enter"), what="the first runs")
    last = crashed(enqueue(jobs.GateJob(gate="last", name="last"), delay=3600).id, LIMIT)
    more = [crashed(enqueue(jobs.NoteJob(name="more"), delay=3600).id, 1) for _ in range(3)]
    for job_id in (last, *more):  # due all at once, when they have crashed
        assert JobHot.objects.filter(pk=job_id).update(run_at=JobHot.objects.get(pk=first).created_at)
    fresh = settled(enqueue(jobs.NoteJob(name="fresh")).id)
    assert fresh.status == JobStatus.SUCCEEDED
    assert "more" not in ledger.names("ran"), "none follows the first before those that wait may start"
    ledger.open_gate("first")
    wait_until(lambda: "last" in ledger.names("enter"), what="the one with its last chance runs")
    ledger.open_gate("last")
    assert {view.status for view in all_settled([first, last, *more])} == {JobStatus.SUCCEEDED}


@committed
def test_last_chances_run_one_after_the_other_and_lose_nothing(start_worker: StartWorker, ledger: Ledger) -> None:
    first, second = (crashed(enqueue(jobs.GateJob(gate=name, name=name)).id, LIMIT) for name in ("first", "second"))
    # Workers start among tests at once; both jobs are there before it.
    start_worker(concurrency=4, RECOVERY={"CRASH_LIMIT": LIMIT})
    wait_until(lambda: "first" in ledger.names("enter"), what="the first runs")
    fresh = settled(enqueue(jobs.NoteJob(name="fresh")).id)
    assert fresh.status == JobStatus.SUCCEEDED, "what never crashed runs beside it"
    wait_until(lambda: job(second).status == JobStatus.PENDING, what="given back, if it was claimed with the first")
    assert "second" not in ledger.names("enter")
    assert job(second).run_at == job(second).due_at, "it keeps its place"
    ledger.open_gate("first")
    wait_until(lambda: "second" in ledger.names("enter"), what="the second runs")
    ledger.open_gate("second")
    for view in all_settled([first, second]):
        assert (view.status, view.attempt, view.crash_count) == (JobStatus.SUCCEEDED, LIMIT + 1, LIMIT)
        assert len(view.attempts) == 1, "being put off is not an attempt"


@committed
def test_what_may_not_start_here_is_left_to_another_process(start_worker: StartWorker, ledger: Ledger) -> None:
    """A process that cannot run them claims none, however many wait: an idle one finds them."""
    company = crashed(enqueue(jobs.GateJob(gate="company", name="company"), queue="here").id, LIMIT)
    start_worker("here", "both", concurrency=4, RECOVERY={"CRASH_LIMIT": LIMIT})
    wait_until(lambda: "company" in ledger.names("enter"), what="a last chance runs")
    with transaction.atomic():  # the worker sees them when they have crashed
        ids = [enqueue(jobs.NoteJob(name="crashed"), queue="both").id for _ in range(30)]
        JobHot.objects.filter(pk__in=ids).update(crash_count=1)
    fresh = settled(enqueue(jobs.NoteJob(name="fresh"), queue="both").id)
    assert fresh.status == JobStatus.SUCCEEDED, "it claimed, and passed over them"
    assert set(JobHot.objects.filter(pk__in=ids).values_list("claim_number", "status")) == {(0, JobStatus.PENDING)}
    start_worker("both", concurrency=4, RECOVERY={"CRASH_LIMIT": LIMIT})
    assert {view.status for view in all_settled(ids)} == {JobStatus.SUCCEEDED}
    ledger.open_gate("company")
    assert settled(company).status == JobStatus.SUCCEEDED


@committed
def test_a_burst_does_not_end_before_what_it_put_off(start_worker: StartWorker) -> None:
    ids = [crashed(enqueue(jobs.NoteJob()).id, LIMIT) for _ in range(3)]
    worker = start_worker(concurrency=4, burst=True, RECOVERY={"CRASH_LIMIT": LIMIT})
    wait_until(lambda: worker.stop_requested, what="no due job is left")
    assert not JobHot.objects.filter(pk__in=ids).exists()


@committed
def test_what_has_chances_left_runs_together(start_worker: StartWorker, ledger: Ledger) -> None:
    ids = [crashed(enqueue(jobs.GateJob(gate="both", name=str(number))).id, LIMIT - 1) for number in range(2)]
    start_worker(concurrency=4, RECOVERY={"CRASH_LIMIT": LIMIT})
    wait_until(lambda: len(ledger.names("enter")) == 2, what="both run")
    ledger.open_gate("both")
    assert {view.status for view in all_settled(ids)} == {JobStatus.SUCCEEDED}


@committed
def test_a_probe_that_may_not_start_leaves_its_permit_to_another(start_worker: StartWorker, ledger: Ledger) -> None:
    now = dt.datetime.now(dt.UTC)
    Circuit.objects.create(
        type="test.gated_trip", state=Circuit.OPEN, failures=3, opened_at=now, open_until=now, updated_at=now
    )
    company = crashed(enqueue(jobs.GateJob(gate="company", name="company"), priority=90).id, LIMIT)
    with_last_chance = crashed(enqueue(jobs.GatedTripJob(gate="mended")).id, LIMIT)
    ledger.open_gate("mended")
    start_worker(concurrency=4, RECOVERY={"CRASH_LIMIT": LIMIT})
    wait_until(lambda: "company" in ledger.names("enter"), what="a job runs that has crashed before")
    assert job(with_last_chance).claim_number == 1, "both came with one claim"
    fresh = settled(enqueue(jobs.GatedTripJob(gate="mended")).id)
    assert fresh.status == JobStatus.SUCCEEDED
    wait_until(lambda: Circuit.objects.get(pk="test.gated_trip").state == Circuit.CLOSED, what="the circuit closes")
    assert (job(with_last_chance).attempt, job(with_last_chance).claim_number) == (LIMIT, 1), "left where it is"
    ledger.open_gate("company")
    assert {view.status for view in all_settled([company, with_last_chance], 30)} == {JobStatus.SUCCEEDED}
