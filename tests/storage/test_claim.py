"""Claim: who is due, in which order, how many, and what is passed over."""

from __future__ import annotations

import copy
import datetime as dt
import itertools
from typing import Any

import pytest

from chokaq_django.models import JobHot, Queue
from chokaq_django.storage import ClaimedJob, ClaimRequest, OutcomeKind, Storage

from .invariants import assert_one_place
from .support import (
    FETCHED,
    PENDING,
    PROCESSING,
    WORKER,
    Jobs,
    committed,
    ids,
    near,
    new_job,
    row,
    together,
)

pytestmark = committed


def control(name: str, **columns: object) -> None:
    """Sets switches of a queue, as an operator's verb would."""
    now = dt.datetime.now(dt.UTC)
    Queue.objects.update_or_create(name=name, defaults={"updated_at": now, **columns})


# -- what a claimed job is ---------------------------------------------------------------------------------------------


def test_a_claim_that_starts(jobs: Jobs) -> None:
    job_id = jobs.one()
    now = jobs.now()
    (job,) = jobs.take(start=True)
    stored = row(job_id)
    assert (job.status, job.attempt, job.claim_number, job.expired) == (PROCESSING, 1, 1, False)
    assert (stored["status"], stored["attempt"], stored["claim_number"]) == (PROCESSING, 1, 1)
    assert stored["worker_id"] == WORKER
    assert near(stored["started_at"], now)
    assert stored["started_at"] == job.started_at
    assert near(stored["heartbeat_at"], now)


def test_a_claim_into_the_buffer(jobs: Jobs) -> None:
    job_id = jobs.one()
    now = jobs.now()
    (job,) = jobs.take(start=False)
    stored = row(job_id)
    assert (job.status, job.attempt, job.claim_number, job.expired) == (FETCHED, 0, 1, False)
    assert (stored["status"], stored["attempt"], stored["claim_number"]) == (FETCHED, 0, 1)
    assert stored["worker_id"] == WORKER
    assert job.started_at is None
    assert stored["started_at"] is None
    assert near(stored["updated_at"], now)


@pytest.mark.parametrize("start", [True, False])
def test_a_claimed_job_carries_its_row(jobs: Jobs, start: bool) -> None:
    job_id = jobs.one(
        payload='{"n": 1}', tags='["x"]', priority=33, max_attempts=8, created_by="ada", schema_version=3,
        headers='{"h":"1"}', deadline_after=600,
    )  # fmt: skip
    JobHot.objects.filter(pk=job_id).update(snooze_count=5, generation=4, claim_number=17, attempt=3,
                                            attempt_log='[{"attempt":1}]')  # fmt: skip
    (job,) = jobs.claim(start=start).jobs
    stored = row(job_id)
    for name in ClaimedJob.__dataclass_fields__:
        if name != "expired":
            assert getattr(job, name) == stored[name], name
    assert job.claim_number == 18
    assert (job.snooze_count, job.generation, job.attempt) == (5, 4, 4 if start else 3)
    assert job.due_at.tzinfo is not None
    assert job.lease.id == job_id
    assert job.lease.claim_number == 18


@pytest.mark.parametrize("restriction", [{}, {"capped": {"mail": 5}}, {"probing": {"test.note": (5, 60.0)}}])
def test_what_has_crashed_before_is_only_leased(jobs: Jobs, storage: Storage, restriction: dict[str, Any]) -> None:
    """The worker says beside what it may run; until then the death of the worker counts for nothing."""
    crashed, never = jobs.add(2, type="test.note")
    JobHot.objects.filter(pk=crashed).update(crash_count=2, attempt=3)
    found = {job.id: job for job in jobs.claim(start=True, **restriction).jobs}
    assert (found[never].status, found[never].attempt, found[never].crash_count) == (PROCESSING, 1, 0)
    job = found[crashed]
    assert (job.status, job.attempt, job.crash_count, job.expired, job.started_at) == (FETCHED, 3, 2, False, None)
    stored = row(crashed)
    assert (stored["status"], stored["attempt"], stored["started_at"], stored["heartbeat_at"]) == (
        FETCHED,
        3,
        None,
        None,
    )
    assert stored["worker_id"] == WORKER
    assert storage.start(WORKER, [job.lease]).started[crashed][0] == 4


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize("start", [True, False])
@pytest.mark.parametrize(
    "restriction", [{}, {"capped": {"a": 5}}, {"blocked": {"never": 60.0}}, {"probing": {"test.note": (5, 60.0)}}]
)
def test_what_has_crashed_too_often_is_passed_over(
    jobs: Jobs, restriction: dict[str, Any], start: bool, strict: bool
) -> None:
    """Whatever its number at the head, in every queue; what stands behind it is taken, and it keeps its place."""
    queues = ["a", "b", "c"]
    control("a", max_workers=restriction.get("capped", {}).get("a"))
    crashed = [jobs.add(30, queue=queue, type="test.other") for queue in queues]
    JobHot.objects.update(crash_count=2)
    once = jobs.one(queue="b", type="test.other")
    JobHot.objects.filter(pk=once).update(crash_count=1)
    never = [jobs.one(queue=queue, type="test.other") for queue in queues]
    before = {job_id: row(job_id) for part in crashed for job_id in part}
    asked = {"queues": queues, "start": start, "strict": strict, **restriction}
    wanted = {*never, once} if start or "capped" not in restriction else {*never[1:], once}
    if restriction.get("probing"):
        assert {job.id for job in jobs.claim(10, max_crashes=0, **asked).jobs} == wanted - {once}
        assert ids(jobs.claim(10, max_crashes=1, **asked).jobs) == [once]
    else:
        assert {job.id for job in jobs.claim(10, max_crashes=1, **asked).jobs} == wanted
    assert {job_id: row(job_id) for job_id in before} == before
    left = 60 + (30 if "capped" not in restriction else 4 if start else 0)
    assert len(jobs.claim(100, **asked).jobs) == left, "to those who may run them nothing is hidden"


def test_each_claim_has_a_number_of_its_own(jobs: Jobs, storage: Storage) -> None:
    job_id = jobs.one()
    numbers = []
    for turn in range(4):
        (job,) = jobs.take(start=bool(turn % 2))
        numbers.append(job.claim_number)
        if job.status == FETCHED:
            assert storage.release(WORKER, [job.lease]) == {job_id}
        else:
            assert jobs.settle(job, OutcomeKind.RETRY) == {job_id}
    assert numbers == [1, 2, 3, 4]


# -- order -------------------------------------------------------------------------------------------------------------


def test_order_is_priority_then_due_time_then_id(jobs: Jobs) -> None:
    at = jobs.now() - dt.timedelta(minutes=10)
    plan = [(10, 3), (30, 2), (-5, 0), (30, 2), (10, 1), (30, 1), (0, 9), (10, 3)]
    given = {jobs.one(priority=priority, run_at=at + dt.timedelta(seconds=second)): (-priority, second)
             for priority, second in plan}  # fmt: skip
    wanted = sorted(given, key=lambda job_id: (*given[job_id], job_id))
    assert ids(jobs.take()) == wanted


def test_rows_of_one_call_run_in_id_order(jobs: Jobs) -> None:
    assert jobs.add(6) == ids(jobs.take())


@pytest.mark.parametrize("limit", [1, 3, 100])
def test_order_holds_across_queues(jobs: Jobs, limit: int) -> None:
    at = jobs.now() - dt.timedelta(minutes=10)
    queues = ["c", "a", "b"]
    given = {}
    for number, (queue, priority, second) in enumerate(itertools.product(queues, (5, 20), (1, 0))):
        due = at + dt.timedelta(seconds=second, milliseconds=number)
        given[jobs.one(queue=queue, priority=priority, run_at=due)] = (-priority, due)
    wanted = sorted(given, key=lambda job_id: (*given[job_id], job_id))
    got: list[str] = []
    while claimed := jobs.take(limit, queues=queues):
        got += ids(claimed)
    assert got == wanted


def test_what_others_hold_is_replaced_by_whatever_else_is_due(jobs: Jobs, other: Any, engine: str) -> None:
    if engine == "sqlite":
        pytest.skip("one writer at a time: no row is locked by itself")
    held = jobs.add(2, queue="a")
    due = [*jobs.add(2, queue="b"), *jobs.add(1, queue="a")]
    with other._transaction():
        assert len(other._locked("chokaq_job_hot", ("queue",), held)) == 2
        assert ids(jobs.take(3, queues=["a", "b"])) == due
    assert ids(jobs.take(3, queues=["a", "b"])) == held


@pytest.mark.parametrize("limit", [2, 100])
def test_strict_puts_the_order_of_the_queues_first(jobs: Jobs, limit: int) -> None:
    given: dict[str, list[str]] = {"high": [], "low": []}
    given["low"] = [jobs.one(queue="low", priority=90), jobs.one(queue="low", priority=1)]
    given["high"] = [jobs.one(queue="high", priority=9), jobs.one(queue="high", priority=2)]
    got: list[str] = []
    while claimed := jobs.take(limit, queues=["high", "low"], strict=True):
        got += ids(claimed)
    assert got == given["high"] + given["low"]


def test_a_later_retry_takes_its_new_place(jobs: Jobs) -> None:
    (first,) = jobs.running()
    second = jobs.one()
    assert jobs.settle(first, OutcomeKind.RETRY, delay=0.0)
    assert ids(jobs.take()) == [second, first.id]


# -- how many ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("start", [True, False])
@pytest.mark.parametrize("limit", [1, 2, 7, 25])
def test_the_limit_is_never_exceeded(jobs: Jobs, limit: int, start: bool) -> None:
    for queue, priority in itertools.product(("a", "b", "c"), (1, 2)):
        jobs.add(4, queue=queue, priority=priority)
    claimed = jobs.take(limit, queues=["a", "b", "c"], start=start)
    assert len(claimed) == min(limit, 24)
    assert JobHot.objects.exclude(status=PENDING).count() == len(claimed)


@pytest.mark.parametrize("strict", [True, False])
def test_the_limit_holds_for_capped_and_plain_queues_together(jobs: Jobs, strict: bool) -> None:
    for queue in ("a", "b", "c", "d"):
        jobs.add(5, queue=queue)
    claimed = jobs.take(6, queues=["a", "b", "c", "d"], capped={"b": 4, "d": 4}, strict=strict)
    assert len(claimed) == 6
    assert JobHot.objects.exclude(status=PENDING).count() == 6


def test_eight_claimers_never_share_a_job(jobs: Jobs) -> None:
    given = jobs.add(150, queue="a") + jobs.add(150, queue="b", priority=50)

    def work(number: int, storage: Storage) -> list[str]:
        got: list[str] = []
        for turn in itertools.count():
            request = ClaimRequest(f"worker-{number}", ["a", "b"], 7, start=bool(turn % 2))
            claim = storage.claim(request)
            assert len(claim.jobs) <= 7
            got += ids(claim.jobs)
            if not claim.jobs and not claim.contended:
                return got
        raise AssertionError

    got = [job_id for thread in together(8, work) for job_id in thread]
    assert len(got) == len(set(got))
    # A claimer may pass over rows that another one is just taking, and stop; what is left is still there.
    got += ids(jobs.take(300, queues=["a", "b"]))
    assert sorted(got) == sorted(given)
    assert_one_place(300)


# -- what is passed over -----------------------------------------------------------------------------------------------


def test_only_due_rows_of_the_queues_asked_for(jobs: Jobs) -> None:
    due = jobs.one()
    jobs.one(delay=3600, priority=99)
    jobs.one(queue="reports", priority=99)
    assert ids(jobs.take()) == [due]
    assert jobs.take(queues=["nothing.here"]) == []
    assert jobs.take(queues=[]) == []


def test_a_row_is_claimable_from_its_due_time_on(jobs: Jobs) -> None:
    job_id = jobs.one(delay=3600)
    assert jobs.take() == []
    jobs.shift(job_id, run_at=-0.001)
    assert ids(jobs.take()) == [job_id]


def test_leased_running_and_awaiting_rows_stay(jobs: Jobs) -> None:
    jobs.running()
    jobs.fetched()
    jobs.awaiting()
    assert jobs.take(worker="worker-2") == []
    assert jobs.take(worker="worker-2", start=False) == []


@pytest.mark.parametrize("start", [True, False])
@pytest.mark.parametrize("switch", [{"is_paused": True}, {"is_active": False}])
def test_a_closed_queue_is_honoured_at_once(jobs: Jobs, switch: dict[str, bool], start: bool) -> None:
    jobs.add(2, queue="closed", priority=99)
    (open_,) = jobs.add(1, queue="open")
    jobs.take(1, queues=["closed"], start=start)  # the storage may remember what it saw of the queue
    control("closed", **switch)
    assert ids(jobs.take(queues=["closed", "open"], start=start)) == [open_]
    assert jobs.take(queues=["closed"], start=start, strict=True) == []
    assert JobHot.objects.filter(queue="closed", status=PENDING).count() == 1
    control("closed", is_paused=False, is_active=True)
    assert len(jobs.take(queues=["closed"], start=start)) == 1


def test_a_closed_capped_queue_is_honoured_at_once(jobs: Jobs) -> None:
    jobs.add(2, queue="closed")
    control("closed", is_paused=True, max_workers=5)
    assert jobs.take(queues=["closed"], capped={"closed": 5}) == []
    control("closed", is_paused=False)
    assert len(jobs.take(queues=["closed"], capped={"closed": 5})) == 2


def test_a_control_row_that_closes_nothing_changes_nothing(jobs: Jobs) -> None:
    control("mail", max_workers=None)
    job_id = jobs.one()
    assert ids(jobs.take()) == [job_id]


# -- deadlines ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("start", "capped"), [(True, {}), (False, {}), (True, {"mail": 5})])
def test_a_job_past_its_deadline_is_leased_but_not_started(jobs: Jobs, start: bool, capped: dict[str, int]) -> None:
    late = jobs.one(deadline_after=3600)
    good = jobs.one(deadline_after=3600)
    jobs.shift(late, deadline_at=-0.001)
    by_id = {job.id: job for job in jobs.take(start=start, capped=capped)}
    assert sorted(by_id) == sorted([late, good])
    assert (by_id[late].expired, by_id[late].status, by_id[late].attempt) == (True, FETCHED, 0)
    assert by_id[late].started_at is None
    assert (by_id[good].expired, by_id[good].status) == (False, PROCESSING if start else FETCHED)
    stored = row(late)
    assert (stored["status"], stored["attempt"], stored["claim_number"]) == (FETCHED, 0, 1)
    assert stored["started_at"] is None
    assert jobs.settle(by_id[late], OutcomeKind.EXPIRED) == {late}


def test_a_retry_past_its_deadline_is_not_started_either(jobs: Jobs) -> None:
    (job,) = jobs.running(deadline_after=3600)
    assert jobs.settle(job, OutcomeKind.RETRY)
    jobs.shift(job.id, deadline_at=-1)
    (again,) = jobs.take()
    assert (again.expired, again.status, again.attempt) == (True, FETCHED, 1)


# -- next_due ----------------------------------------------------------------------------------------------------------


def test_next_due_is_the_earliest_future_row_of_these_queues(jobs: Jobs) -> None:
    jobs.add(1, delay=500, priority=90)
    jobs.add(1, delay=120, priority=-3)
    jobs.add(1, delay=300)
    jobs.add(1, queue="other", delay=60)
    claim = jobs.claim()
    assert claim.jobs == []
    assert claim.next_due is not None
    assert 110 < claim.next_due <= 120
    both = jobs.claim(queues=["mail", "other"])
    assert both.next_due is not None
    assert 50 < both.next_due <= 60


def test_next_due_is_told_with_a_claim_that_found_less_than_it_wanted(jobs: Jobs) -> None:
    jobs.add(2)
    jobs.add(1, delay=120)
    claim = jobs.claim(10)
    assert len(claim.jobs) == 2
    assert claim.next_due is not None
    assert 110 < claim.next_due <= 120


def test_next_due_is_none_when_nothing_is_ahead_or_the_claim_was_full(jobs: Jobs) -> None:
    assert jobs.claim().next_due is None
    jobs.add(2)
    jobs.add(1, delay=120)
    assert jobs.claim(2).next_due is None
    jobs.add(1, queue="other", delay=10)
    JobHot.objects.filter(queue="mail").delete()
    assert jobs.claim().next_due is None


def test_next_due_looks_only_at_pending_rows(jobs: Jobs) -> None:
    (job,) = jobs.running()
    (waits,) = jobs.awaiting()
    jobs.shift([job.id, waits], run_at=60)
    assert jobs.claim().next_due is None


# -- blocked types -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("start", [True, False])
def test_blocked_types_are_deferred_and_keep_their_due_time(jobs: Jobs, start: bool) -> None:
    blocked = jobs.add(3, type="partner.call.v1", priority=50)
    before = [row(job_id) for job_id in blocked]
    free = jobs.one()
    now = jobs.now()
    claim = jobs.claim(start=start, blocked={"partner.call.v1": 40.0})
    while not claim.jobs:
        assert claim.deferred
        claim = jobs.claim(start=start, blocked={"partner.call.v1": 40.0})
    assert ids(claim.jobs) == [free]
    for old in before:
        new = row(old["id"])
        assert near(new["run_at"], now + dt.timedelta(seconds=40))
        assert {name for name in old if old[name] != new[name]} <= {"run_at", "updated_at"}


def test_deferred_rows_are_counted_and_come_back(jobs: Jobs) -> None:
    blocked = jobs.add(4, type="partner.call.v1")
    assert sum(jobs.claim(blocked={"partner.call.v1": 40.0}).deferred for _ in range(3)) == 4
    assert jobs.take() == []
    jobs.shift(blocked, run_at=-1)
    assert ids(jobs.take()) == blocked


def test_two_blocked_types_are_deferred_for_their_own_times(jobs: Jobs) -> None:
    first, second, third = jobs.one(type="a.v1"), jobs.one(type="b.v1"), jobs.one(type="c.v1")
    now = jobs.now()
    claimed = [job.id for _ in range(3) for job in jobs.take(blocked={"a.v1": 20.0, "b.v1": 200.0})]
    assert claimed == [third]
    assert near(row(first)["run_at"], now + dt.timedelta(seconds=20))
    assert near(row(second)["run_at"], now + dt.timedelta(seconds=200))


def test_a_long_blocked_head_hides_nothing_for_long(jobs: Jobs, storage: Storage) -> None:
    storage.enqueue([new_job(type="partner.call.v1", priority=50) for _ in range(1_500)])
    runnable = jobs.add(3)
    got: list[str] = []
    for _ in range(60):
        claim = jobs.claim(5, blocked={"partner.call.v1": 60.0})
        assert "partner.call.v1" not in {job.type for job in claim.jobs}
        got += ids(claim.jobs)
        if not claim.jobs and not claim.deferred:
            break
    assert got == runnable
    assert jobs.claim(5).jobs == [], "the blocked rows are out of the way for a minute"


def test_blocked_types_hold_in_capped_queues(jobs: Jobs) -> None:
    jobs.add(3, type="partner.call.v1", priority=50)
    free = jobs.one()
    request = {"capped": {"mail": 2}, "blocked": {"partner.call.v1": 30.0}}
    assert [job.id for _ in range(4) for job in jobs.take(**request)] == [free]


def test_a_blocked_type_that_is_not_there_costs_nothing(jobs: Jobs) -> None:
    job_id = jobs.one()
    claim = jobs.claim(blocked={"partner.call.v1": 30.0})
    assert (ids(claim.jobs), claim.deferred) == ([job_id], 0)


@pytest.mark.parametrize("start", [True, False])
def test_a_claim_leaves_its_request_as_it_was(jobs: Jobs, storage: Storage, start: bool) -> None:
    """A worker may keep one request and use it again."""
    jobs.add(2)
    jobs.add(2, queue="capped", type="partner.call.v1")
    request = ClaimRequest(
        WORKER, ["capped", "mail"], 1, start=start, capped={"capped": 1}, blocked={"x.v1": 5.0},
        probing={"partner.call.v1": (1, 30.0)},
    )  # fmt: skip
    before = copy.deepcopy(request)
    storage.claim(request)
    assert request == before


# -- pending_queues ----------------------------------------------------------------------------------------------------


def test_pending_queues_names_each_queue_with_pending_rows_once(jobs: Jobs, storage: Storage) -> None:
    assert storage.pending_queues() == []
    jobs.add(3, queue="b")
    jobs.add(2, queue="a", priority=4)
    jobs.add(1, queue="later", delay=3600)
    jobs.running(queue="runs")
    jobs.fetched(queue="buffered")
    jobs.awaiting(queue="awaits")
    jobs.archived(queue="done")
    jobs.dead(queue="dead")
    assert sorted(storage.pending_queues()) == ["a", "b", "later"]
