"""Heartbeats, cancel requests and progress of running jobs."""

from __future__ import annotations

import pytest

from chokaq_django.models import JobHot
from chokaq_django.storage import Lease, OutcomeKind, Storage

from .support import NOBODY, WORKER, Jobs, bad_leases, committed, ids, leases, near, row

pytestmark = committed

BAD = ["an older number", "a later number", "another worker", "an unknown id"]


# -- heartbeat ---------------------------------------------------------------------------------------------------------


def test_a_heartbeat_is_now_and_loses_nothing(jobs: Jobs, storage: Storage) -> None:
    claimed = jobs.running(3)
    jobs.shift(ids(claimed), heartbeat_at=-500)
    reply = storage.heartbeat(WORKER, leases(claimed))
    assert (reply.lost, reply.cancels) == (set(), {})
    now = jobs.now()
    for job in claimed:
        assert near(row(job.id)["heartbeat_at"], now)


def test_a_heartbeat_changes_nothing_else(jobs: Jobs, storage: Storage) -> None:
    (job,) = jobs.running()
    before = row(job.id)
    jobs.shift(job.id, heartbeat_at=-500)
    storage.heartbeat(WORKER, [job.lease])
    after = row(job.id)
    assert {name for name in before if before[name] != after[name]} <= {"heartbeat_at", "updated_at"}


def test_a_heartbeat_takes_hundreds_and_none(jobs: Jobs, storage: Storage) -> None:
    claimed = jobs.running(300)
    jobs.shift(ids(claimed), heartbeat_at=-500)
    assert storage.heartbeat(WORKER, leases(claimed)).lost == set()
    assert not JobHot.objects.filter(heartbeat_at__lt=claimed[0].started_at).exists()
    reply = storage.heartbeat(WORKER, [])
    assert (reply.lost, reply.cancels) == (set(), {})


@pytest.mark.parametrize("bad", BAD)
def test_a_wrong_lease_is_lost(jobs: Jobs, storage: Storage, bad: str) -> None:
    (job,) = jobs.running()
    jobs.shift(job.id, heartbeat_at=-500)
    before = row(job.id)
    worker, lease = bad_leases(job)[bad]
    assert storage.heartbeat(worker, [lease]).lost == {lease.id}
    assert row(job.id) == before


@pytest.mark.parametrize("state", ["fetched", "pending", "archive", "dlq"])
def test_what_does_not_run_is_lost(jobs: Jobs, storage: Storage, state: str) -> None:
    (job,) = jobs.fetched() if state == "fetched" else jobs.running()
    kinds = {"pending": OutcomeKind.RETRY, "archive": OutcomeKind.SUCCEEDED, "dlq": OutcomeKind.DEAD}
    if state in kinds:
        jobs.settle(job, kinds[state])
    before = row(job.id)
    assert storage.heartbeat(WORKER, [job.lease]).lost == {job.id}
    assert row(job.id) == before


def test_one_lost_lease_stops_none_of_the_others(jobs: Jobs, storage: Storage) -> None:
    claimed = jobs.running(5)
    jobs.settle(claimed[1])
    jobs.shift([job.id for job in claimed if job is not claimed[1]], heartbeat_at=-500)
    given = [*leases(claimed[:3]), Lease(NOBODY, 1), Lease(claimed[3].id, 77), claimed[4].lease]
    assert storage.heartbeat(WORKER, given).lost == {claimed[1].id, NOBODY, claimed[3].id}
    now = jobs.now()
    assert [near(row(job.id)["heartbeat_at"], now) for job in claimed[:1] + claimed[2:]] == [True, True, False, True]


# -- cancel requests ---------------------------------------------------------------------------------------------------


def test_cancel_requests_reach_the_worker(jobs: Jobs, storage: Storage) -> None:
    wanted, anonymous, quiet = jobs.running(3)
    storage.cancel([wanted.id], "ada")
    storage.cancel([anonymous.id], None)
    expected = {wanted.id: "ada", anonymous.id: None}
    all_leases = leases([wanted, anonymous, quiet])
    assert storage.cancel_requests(all_leases) == expected
    reply = storage.heartbeat(WORKER, all_leases)
    assert (reply.lost, reply.cancels) == (set(), expected)
    assert storage.heartbeat(WORKER, all_leases).cancels == expected, "told until the job ends"


def test_a_cancel_request_is_for_one_lease(jobs: Jobs, storage: Storage) -> None:
    (job,) = jobs.running()
    storage.cancel([job.id], "ada")
    for lease in (Lease(job.id, job.claim_number + 1), Lease(job.id, job.claim_number - 1), Lease(NOBODY, 1)):
        assert storage.cancel_requests([lease]) == {}
        assert storage.heartbeat(WORKER, [lease]).cancels == {}
    assert storage.heartbeat("worker-2", [job.lease]).cancels == {}
    assert storage.cancel_requests([]) == {}


def test_asking_for_cancel_requests_writes_nothing(jobs: Jobs, storage: Storage) -> None:
    (job,) = jobs.running()
    storage.cancel([job.id], "ada")
    before = row(job.id)
    storage.cancel_requests([job.lease])
    assert row(job.id) == before


# -- progress ----------------------------------------------------------------------------------------------------------


def test_progress_is_stored(jobs: Jobs, storage: Storage) -> None:
    first, second = jobs.running(2)
    notes = {first.lease: (40, "page 4 of 10 – ünïcode 🐙"), second.lease: (100, None)}
    assert storage.progress(WORKER, notes) == {first.id, second.id}
    stored = row(first.id)
    assert (stored["progress"], stored["progress_message"]) == (40, "page 4 of 10 – ünïcode 🐙")
    stored = row(second.id)
    assert (stored["progress"], stored["progress_message"]) == (100, None)
    assert storage.progress(WORKER, {first.lease: (0, "")}) == {first.id}
    assert row(first.id)["progress"] == 0
    assert storage.progress(WORKER, {}) == set()


def test_progress_changes_nothing_else(jobs: Jobs, storage: Storage) -> None:
    (job,) = jobs.running()
    before = row(job.id)
    storage.progress(WORKER, {job.lease: (40, "x")})
    after = row(job.id)
    changed = {name for name in before if before[name] != after[name]}
    assert changed - {"updated_at", "heartbeat_at"} == {"progress", "progress_message"}


@pytest.mark.parametrize("bad", BAD)
def test_progress_of_a_wrong_lease_is_refused(jobs: Jobs, storage: Storage, bad: str) -> None:
    (job,) = jobs.running()
    before = row(job.id)
    worker, lease = bad_leases(job)[bad]
    assert storage.progress(worker, {lease: (40, "x")}) == set()
    assert row(job.id) == before


@pytest.mark.parametrize("state", ["fetched", "pending", "archive"])
def test_progress_of_what_does_not_run_is_refused(jobs: Jobs, storage: Storage, state: str) -> None:
    (job,) = jobs.fetched() if state == "fetched" else jobs.running()
    if state != "fetched":
        jobs.settle(job, OutcomeKind.RETRY if state == "pending" else OutcomeKind.SUCCEEDED)
    before = row(job.id)
    assert storage.progress(WORKER, {job.lease: (40, "x")}) == set()
    assert row(job.id) == before


def test_one_refused_note_stops_none_of_the_others(jobs: Jobs, storage: Storage) -> None:
    claimed = jobs.running(3)
    notes: dict[Lease, tuple[int, str | None]] = {job.lease: (n, f"m{n}") for n, job in enumerate(claimed)}
    notes[Lease(NOBODY, 1)] = (9, "x")
    del notes[claimed[1].lease]
    notes[Lease(claimed[1].id, 99)] = (9, "x")
    assert storage.progress(WORKER, notes) == {claimed[0].id, claimed[2].id}
    assert [row(job.id)["progress_message"] for job in claimed] == ["m0", None, "m2"]


@pytest.mark.parametrize("newest_first", [True, False])
def test_an_old_and_a_new_lease_of_one_job_in_one_call(jobs: Jobs, storage: Storage, newest_first: bool) -> None:
    (old,) = jobs.running()
    jobs.settle(old, OutcomeKind.RETRY)
    (new,) = jobs.take()
    given = [new, old] if newest_first else [old, new]
    jobs.shift(new.id, heartbeat_at=-500)
    storage.heartbeat(WORKER, leases(given))
    assert near(row(new.id)["heartbeat_at"], jobs.now())
    assert storage.progress(WORKER, {job.lease: (job.attempt, f"attempt {job.attempt}") for job in given}) == {new.id}
    assert row(new.id)["progress_message"] == "attempt 2"


def test_a_new_execution_starts_without_old_progress(jobs: Jobs, storage: Storage) -> None:
    (job,) = jobs.running()
    storage.progress(WORKER, {job.lease: (90, "nearly")})
    jobs.settle(job, OutcomeKind.RETRY)
    jobs.take()
    stored = row(job.id)
    assert (stored["progress"], stored["progress_message"]) == (None, None)
