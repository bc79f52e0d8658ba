"""Start and release: from the buffer into a slot, or back."""

from __future__ import annotations

import datetime as dt

import pytest

from chokaq_django.models import JobHot, Queue
from chokaq_django.storage import Lease, OutcomeKind, Storage

from .support import (
    AWAITING,
    FETCHED,
    NOBODY,
    PENDING,
    PROCESSING,
    WORKER,
    Jobs,
    bad_leases,
    committed,
    ids,
    leases,
    near,
    row,
    together,
)

pytestmark = committed

BAD = ["an older number", "a later number", "another worker", "an unknown id"]
VERBS = ["start", "release"]


def close(name: str, jobs: Jobs, **switch: bool) -> None:
    Queue.objects.update_or_create(name=name, defaults={"updated_at": jobs.now(), **switch})


# -- start -------------------------------------------------------------------------------------------------------------


def test_start_counts_the_attempt_and_the_time(jobs: Jobs, storage: Storage) -> None:
    (job,) = jobs.fetched()
    now = jobs.now()
    reply = storage.start(WORKER, [job.lease])
    stored = row(job.id)
    assert reply.started == {job.id: (1, stored["started_at"])}
    assert (reply.expired, reply.released) == (set(), set())
    assert (stored["status"], stored["attempt"], stored["worker_id"]) == (PROCESSING, 1, WORKER)
    assert stored["claim_number"] == job.claim_number
    assert near(stored["started_at"], now)
    assert near(stored["heartbeat_at"], now)


def test_start_of_a_retry_counts_on(jobs: Jobs, storage: Storage) -> None:
    (first,) = jobs.running()
    assert jobs.settle(first, OutcomeKind.RETRY)
    (again,) = jobs.take(start=False)
    assert again.attempt == 1
    reply = storage.start(WORKER, [again.lease])
    assert reply.started[first.id][0] == 2
    assert row(first.id)["attempt"] == 2


def test_start_takes_many_and_changes_nothing_else(jobs: Jobs, storage: Storage) -> None:
    claimed = jobs.fetched(250, payload='{"kept":true}', idempotency_key=None)
    before = {job.id: row(job.id) for job in claimed[:3]}
    reply = storage.start(WORKER, leases(claimed))
    assert sorted(reply.started) == sorted(ids(claimed))
    for job_id, old in before.items():
        new = row(job_id)
        changed = {name for name in old if old[name] != new[name]}
        assert changed == {"status", "attempt", "started_at", "heartbeat_at", "updated_at"} - (
            {"updated_at"} if new["updated_at"] == old["updated_at"] else set()
        )


def test_nothing_to_start(storage: Storage) -> None:
    reply = storage.start(WORKER, [])
    assert (reply.started, reply.expired, reply.released) == ({}, set(), set())


def test_a_job_past_its_deadline_stays_fetched_and_is_told(jobs: Jobs, storage: Storage) -> None:
    late, good = jobs.fetched(2, deadline_after=3600)
    jobs.shift(late.id, deadline_at=-0.001)
    reply = storage.start(WORKER, leases([late, good]))
    assert (sorted(reply.started), reply.expired, reply.released) == ([good.id], {late.id}, set())
    stored = row(late.id)
    assert (stored["status"], stored["attempt"], stored["worker_id"]) == (FETCHED, 0, WORKER)
    assert jobs.settle(late, OutcomeKind.EXPIRED) == {late.id}


@pytest.mark.parametrize("switch", [{"is_paused": True}, {"is_active": False}])
def test_a_queue_closed_meanwhile_gives_its_jobs_back(jobs: Jobs, storage: Storage, switch: dict[str, bool]) -> None:
    (held,) = jobs.fetched(queue="closed")
    (good,) = jobs.fetched(queue="open")
    close("closed", jobs, **switch)
    reply = storage.start(WORKER, leases([held, good]))
    assert (sorted(reply.started), reply.expired, reply.released) == ([good.id], set(), {held.id})
    stored = row(held.id)
    assert (stored["status"], stored["attempt"], stored["worker_id"]) == (PENDING, 0, None)
    assert stored["claim_number"] == held.claim_number
    close("closed", jobs, is_paused=False, is_active=True)
    (again,) = jobs.take(queues=["closed"])
    assert (again.id, again.attempt, again.claim_number) == (held.id, 1, held.claim_number + 1)


def test_each_way_in_one_call(jobs: Jobs, storage: Storage) -> None:
    (held,) = jobs.fetched(queue="closed")
    (good, late, foreign) = jobs.fetched(3, deadline_after=3600)
    jobs.shift(late.id, deadline_at=-1)
    close("closed", jobs, is_paused=True)
    reply = storage.start(
        WORKER, [held.lease, good.lease, late.lease, Lease(foreign.id, foreign.claim_number + 1), Lease(NOBODY, 1)]
    )
    assert (sorted(reply.started), reply.expired, reply.released) == ([good.id], {late.id}, {held.id})
    assert row(foreign.id)["status"] == FETCHED


# -- release -----------------------------------------------------------------------------------------------------------


def test_release_consumes_nothing(jobs: Jobs, storage: Storage) -> None:
    (job,) = jobs.fetched(priority=3)
    before = row(job.id)
    assert storage.release(WORKER, [job.lease]) == {job.id}
    stored = row(job.id)
    assert (stored["status"], stored["worker_id"], stored["claim_number"]) == (PENDING, None, 1)
    for column in ("attempt", "crash_count", "snooze_count", "started_at", "attempt_log", "due_at", "created_at",
                   "priority", "payload"):  # fmt: skip
        assert stored[column] == before[column], column
    assert ids(jobs.take()) == [job.id]


def test_a_released_job_keeps_its_place(jobs: Jobs, storage: Storage) -> None:
    (first,) = jobs.fetched()
    second = jobs.one()
    storage.release(WORKER, [first.lease])
    assert ids(jobs.take()) == [first.id, second]


def test_release_with_a_delay(jobs: Jobs, storage: Storage) -> None:
    (job,) = jobs.fetched()
    before, began = row(job.id), jobs.now()
    assert storage.release(WORKER, [job.lease], 45.0) == {job.id}
    stored = row(job.id)
    assert began <= stored["run_at"] - dt.timedelta(seconds=45) <= jobs.now()
    assert stored["due_at"] == before["due_at"]
    assert jobs.take() == []


def test_release_takes_many(jobs: Jobs, storage: Storage) -> None:
    claimed = jobs.fetched(250)
    assert storage.release(WORKER, leases(claimed)) == set(ids(claimed))
    assert storage.release(WORKER, []) == set()


# -- the fence ---------------------------------------------------------------------------------------------------------


def attempt(verb: str, storage: Storage, worker: str, given: list[Lease]) -> set[str]:
    """The ids to which the verb applied."""
    if verb == "release":
        return storage.release(worker, given)
    reply = storage.start(worker, given)
    return set(reply.started) | reply.expired | reply.released


@pytest.mark.parametrize("bad", BAD)
@pytest.mark.parametrize("verb", VERBS)
def test_a_wrong_lease_is_a_conflict(jobs: Jobs, storage: Storage, verb: str, bad: str) -> None:
    (job,) = jobs.fetched()
    before = row(job.id)
    worker, lease = bad_leases(job)[bad]
    assert attempt(verb, storage, worker, [lease]) == set()
    assert row(job.id) == before


@pytest.mark.parametrize("state", ["pending", "processing", "awaiting", "archive", "dlq"])
@pytest.mark.parametrize("verb", VERBS)
def test_a_wrong_status_is_a_conflict(jobs: Jobs, storage: Storage, verb: str, state: str) -> None:
    (job,) = jobs.running() if state in ("archive", "dlq", "processing") else jobs.fetched()
    if state == "pending":
        storage.release(WORKER, [job.lease])
    elif state == "awaiting":
        JobHot.objects.update(status=AWAITING)
    elif state != "processing":
        jobs.settle(job, OutcomeKind.SUCCEEDED if state == "archive" else OutcomeKind.DEAD)
    before = row(job.id)
    if state == "processing" and verb == "start":
        # A repeated start may find its own work; whatever it answers, it starts nothing a second time.
        attempt(verb, storage, WORKER, [job.lease])
    elif state == "pending" and verb == "release":
        attempt(verb, storage, WORKER, [job.lease])
    else:
        assert attempt(verb, storage, WORKER, [job.lease]) == set()
    assert row(job.id) == before


@pytest.mark.parametrize("verb", VERBS)
def test_one_bad_lease_stops_none_of_the_others(jobs: Jobs, storage: Storage, verb: str) -> None:
    claimed = jobs.fetched(6)
    (foreign,) = jobs.fetched(1, worker="worker-2")
    stale = Lease(claimed[2].id, claimed[2].claim_number + 1)
    given = [*leases(claimed[:2]), stale, Lease(NOBODY, 1), foreign.lease, *leases(claimed[3:])]
    assert attempt(verb, storage, WORKER, given) == set(ids(claimed)) - {claimed[2].id}
    assert row(claimed[2].id)["status"] == FETCHED
    assert row(foreign.id)["worker_id"] == "worker-2"


def test_a_lease_ends_when_anybody_claims_again(jobs: Jobs, storage: Storage) -> None:
    (old,) = jobs.fetched()
    storage.release(WORKER, [old.lease])
    (new,) = jobs.take(start=False)
    assert new.claim_number == old.claim_number + 1
    before = row(old.id)
    assert storage.start(WORKER, [old.lease]).started == {}
    assert storage.release(WORKER, [old.lease]) == set()
    assert row(old.id) == before


@pytest.mark.parametrize("newest_first", [True, False])
@pytest.mark.parametrize("verb", VERBS)
def test_an_old_and_a_new_lease_of_one_job_in_one_call(
    jobs: Jobs, storage: Storage, verb: str, newest_first: bool
) -> None:
    (old,) = jobs.fetched()
    storage.release(WORKER, [old.lease])
    (new,) = jobs.take(start=False)
    given = leases([new, old] if newest_first else [old, new])
    assert attempt(verb, storage, WORKER, given) == {new.id}
    assert row(new.id)["status"] == (PROCESSING if verb == "start" else PENDING)
    assert row(new.id)["attempt"] == (1 if verb == "start" else 0)


def test_a_job_is_started_once_whoever_asks(jobs: Jobs) -> None:
    """Eight threads of one worker start, release and start the same leases: each job ends in exactly one way."""
    claimed = jobs.fetched(30)

    def work(number: int, own: Storage) -> tuple[str, set[str]]:
        verb = VERBS[number % 2]
        return verb, attempt(verb, own, WORKER, leases(claimed[number:] + claimed[:number]))

    answers = together(8, work)
    started = set(JobHot.objects.filter(status=PROCESSING).values_list("pk", flat=True))
    pending = set(JobHot.objects.filter(status=PENDING).values_list("pk", flat=True))
    assert started | pending == set(ids(claimed))
    assert set(JobHot.objects.filter(status=PROCESSING).values_list("attempt", flat=True)) <= {1}
    assert set(JobHot.objects.filter(status=PENDING).values_list("attempt", flat=True)) <= {0}
    assert started <= set().union(*(done for verb, done in answers if verb == "start"))
    assert pending <= set().union(*(done for verb, done in answers if verb == "release"))
