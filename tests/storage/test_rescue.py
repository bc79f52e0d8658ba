"""Recovery: leadership, what a rescuer sees and may do, expiry and retention."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest

from chokaq_django.job.failures import FailureReason
from chokaq_django.models import BucketOutcome, JobDLQ, JobHot, LeaderLease
from chokaq_django.storage import ClaimedJob, OutcomeKind, Storage
from chokaq_django.storage.contract import LiveRow, RescueAction

from .invariants import assert_one_place
from .support import (
    FETCHED,
    LOG,
    PENDING,
    PROCESSING,
    WORKER,
    Jobs,
    base,
    committed,
    ids,
    near,
    row,
    together,
)
from .test_settle import full_job

pytestmark = committed


def seen(storage: Storage, job: ClaimedJob) -> LiveRow:
    (found,) = (live for live in storage.live_rows() if live.id == job.id)
    return found


def to_dlq(live: LiveRow, **named: Any) -> RescueAction:
    return RescueAction(live, "dlq", LOG, **{"crashed": True, "reason": FailureReason.ZOMBIE, **named})


def to_pending(live: LiveRow, **named: Any) -> RescueAction:
    return RescueAction(live, "pending", LOG, **named)


# -- leadership --------------------------------------------------------------------------------------------------------


def test_one_holder_leads(storage: Storage) -> None:
    assert storage.lead("rescue", "worker-1", 60) is True
    assert storage.lead("rescue", "worker-2", 60) is False
    assert storage.lead("rescue", "worker-1", 60) is True
    assert storage.lead("retention", "worker-2", 60) is True, "each name is a lease of its own"
    assert storage.lead("rescue", "worker-2", 60) is False


def test_leading_again_extends_the_lease_from_the_server_now(storage: Storage) -> None:
    storage.lead("rescue", "worker-1", 5)
    storage.lead("rescue", "worker-1", 600)
    lease = LeaderLease.objects.get(name="rescue")
    assert lease.holder == "worker-1"
    assert near(lease.expires_at, storage.now() + dt.timedelta(seconds=600))


def test_an_expired_lease_goes_to_who_asks_first(storage: Storage) -> None:
    storage.lead("rescue", "worker-1", 60)
    LeaderLease.objects.update(expires_at=storage.now() - dt.timedelta(milliseconds=1))
    assert storage.lead("rescue", "worker-2", 60) is True
    assert storage.lead("rescue", "worker-1", 60) is False
    lease = LeaderLease.objects.get(name="rescue")
    assert (lease.holder, near(lease.expires_at, storage.now() + dt.timedelta(seconds=60))) == ("worker-2", True)


def test_a_new_holder_begins_a_new_term(storage: Storage) -> None:
    storage.lead("rescue", "worker-1", 60)
    first = LeaderLease.objects.get().term
    storage.lead("rescue", "worker-1", 60)
    assert LeaderLease.objects.get().term == first
    LeaderLease.objects.update(expires_at=storage.now() - dt.timedelta(seconds=1))
    storage.lead("rescue", "worker-2", 60)
    assert LeaderLease.objects.get().term > first


def test_resigning_frees_the_lease_at_once(storage: Storage) -> None:
    storage.lead("rescue", "worker-1", 60)
    storage.resign("rescue", "worker-2")
    assert storage.lead("rescue", "worker-2", 60) is False, "only the holder can resign"
    storage.resign("rescue", "worker-1")
    assert storage.lead("rescue", "worker-2", 60) is True
    storage.resign("rescue", "worker-1")
    assert storage.lead("rescue", "worker-1", 60) is False
    storage.resign("never.held", "worker-1")


@pytest.mark.parametrize("before", ["never held", "expired"])
def test_eight_candidates_elect_one(storage: Storage, before: str) -> None:
    for round_ in range(8):
        name = f"lease-{round_}"
        if before == "expired":
            storage.lead(name, "worker-old", 60)
            LeaderLease.objects.update(expires_at=storage.now() - dt.timedelta(seconds=1))

        def candidate(number: int, own: Storage, name: str = name) -> bool:
            return own.lead(name, f"worker-{number}", 60)

        assert sum(together(8, candidate)) == 1


# -- what a rescuer sees -----------------------------------------------------------------------------------------------


def test_live_rows_are_the_leased_ones(jobs: Jobs, storage: Storage) -> None:
    assert storage.live_rows() == []
    (fetched,) = jobs.fetched(queue="a", type="x.v1", worker="worker-1", max_attempts=7)
    (running,) = jobs.running(queue="b", type="y.v1", worker="worker-2")
    jobs.one(queue="c")
    jobs.awaiting(queue="c")
    jobs.archived(queue="d")
    jobs.dead(queue="d")
    JobHot.objects.filter(pk=running.id).update(crash_count=2, attempt_log=LOG)
    by_id = {live.id: live for live in storage.live_rows()}
    assert sorted(by_id) == sorted([fetched.id, running.id])
    for job, worker, status in ((fetched, "worker-1", FETCHED), (running, "worker-2", PROCESSING)):
        live, stored = by_id[job.id], row(job.id)
        assert (live.worker_id, live.status, live.claim_number) == (worker, status, 1)
        for name in ("queue", "type", "attempt", "max_attempts", "crash_count", "attempt_log", "started_at"):
            assert getattr(live, name) == stored[name], name
    assert by_id[fetched.id].seen == row(fetched.id)["updated_at"]
    assert by_id[running.id].seen == row(running.id)["heartbeat_at"]


def test_a_heartbeat_shows_in_what_is_seen(jobs: Jobs, storage: Storage) -> None:
    (job,) = jobs.running()
    jobs.shift(job.id, heartbeat_at=-100)
    before = seen(storage, job).seen
    storage.heartbeat(WORKER, [job.lease])
    assert before is not None
    after = seen(storage, job).seen
    assert after is not None
    assert after > before


# -- what a rescuer does -----------------------------------------------------------------------------------------------


def test_a_fetched_row_goes_back_with_nothing_consumed(jobs: Jobs, storage: Storage) -> None:
    (job,) = jobs.fetched()
    before = row(job.id)
    assert storage.rescue([to_pending(seen(storage, job))]) == {job.id}
    after = row(job.id)
    assert (after["status"], after["worker_id"], after["attempt"], after["crash_count"]) == (PENDING, None, 0, 0)
    assert base(after, "worker_id", "attempt_log", "run_at") == base(before, "worker_id", "attempt_log", "run_at")
    assert ids(jobs.take(worker="worker-2")) == [job.id]


def test_a_crashed_job_is_retried_with_the_attempt_used(jobs: Jobs, storage: Storage) -> None:
    (job,) = jobs.running()
    before, now = row(job.id), jobs.now()
    assert storage.rescue([to_pending(seen(storage, job), crashed=True, delay=50.0)]) == {job.id}
    after = row(job.id)
    assert (after["status"], after["worker_id"], after["heartbeat_at"]) == (PENDING, None, None)
    assert (after["attempt"], after["crash_count"], after["claim_number"]) == (1, 1, 1)
    assert after["attempt_log"] == LOG
    assert near(after["run_at"], now + dt.timedelta(seconds=50))
    assert after["due_at"] == before["due_at"]
    assert jobs.take() == []
    jobs.shift(job.id, run_at=-1)
    (again,) = jobs.take(worker="worker-2")
    assert (again.attempt, again.crash_count, again.claim_number) == (2, 1, 2)


@pytest.mark.parametrize("reason", [FailureReason.ZOMBIE, FailureReason.POISON, FailureReason.MAX_RETRIES_EXCEEDED])
def test_a_crashed_job_is_buried_and_counted(jobs: Jobs, storage: Storage, counts: Any, reason: FailureReason) -> None:
    (job,) = jobs.running()
    now = jobs.now()
    action = to_dlq(seen(storage, job), reason=reason, error_details="worker gone", fingerprint="f" * 32)
    assert storage.rescue([action]) == {job.id}
    after = row(job.id)
    assert (after["place"], after["failure_reason"], after["error_details"]) == ("dlq", reason, "worker gone")
    assert (after["fingerprint"], after["crash_count"], after["attempt"]) == ("f" * 32, 1, 1)
    assert after["attempt_log"] == LOG
    assert near(after["failed_at"], now)
    assert counts() == {(BucketOutcome.DEAD, int(reason)): 1}
    assert_one_place(1)


def test_going_back_is_not_counted_as_an_outcome_of_the_job(jobs: Jobs, storage: Storage, counts: Any) -> None:
    (job,) = jobs.fetched()
    storage.rescue([to_pending(seen(storage, job))])
    assert counts() == {}


@pytest.mark.parametrize("to", ["pending", "dlq"])
def test_a_rescue_keeps_every_column(jobs: Jobs, storage: Storage, to: str) -> None:
    job = full_job(jobs, start=True)
    before, live = row(job.id), seen(storage, job)
    assert storage.rescue([to_dlq(live) if to == "dlq" else to_pending(live, crashed=True)])
    after = row(job.id)
    changes = {"attempt_log", "crash_count"} | ({"worker_id", "run_at"} if to == "pending" else set())
    assert base(after, *changes) == base(before, *changes)
    assert after["crash_count"] == before["crash_count"] + 1
    if to == "dlq":
        assert after["worker_id"] == WORKER, "history says on whom it died"


@pytest.mark.parametrize("to", [to_pending, to_dlq])
@pytest.mark.parametrize("event", ["heartbeat", "settled", "retried", "claimed again", "started", "released"])
def test_a_row_that_is_not_as_it_was_seen_is_left_alone(
    jobs: Jobs, storage: Storage, counts: Any, to: Any, event: str
) -> None:
    (job,) = jobs.fetched() if event in ("started", "released") else jobs.running()
    jobs.shift(job.id, heartbeat_at=-60, updated_at=-60)
    live = seen(storage, job)
    if event == "heartbeat":
        storage.heartbeat(WORKER, [job.lease])
    elif event == "started":
        storage.start(WORKER, [job.lease])
    elif event == "released":
        storage.release(WORKER, [job.lease])
    else:
        jobs.settle(job, OutcomeKind.SUCCEEDED if event == "settled" else OutcomeKind.RETRY)
        if event == "claimed again":
            jobs.take(worker="worker-2")
    before, counted = row(job.id), counts()
    assert storage.rescue([to(live)]) == set()
    assert row(job.id) == before
    assert counts() == counted
    assert_one_place(1)


def test_one_row_that_changed_stops_none_of_the_others(jobs: Jobs, storage: Storage) -> None:
    claimed = jobs.running(6)
    jobs.shift(ids(claimed), heartbeat_at=-60)
    live = {found.id: found for found in storage.live_rows()}
    storage.heartbeat(WORKER, [claimed[2].lease])
    jobs.settle(claimed[4])
    actions = [(to_dlq if number % 2 else to_pending)(live[job.id]) for number, job in enumerate(claimed)]
    assert storage.rescue(actions) == {claimed[n].id for n in (0, 1, 3, 5)}
    assert [row(job.id)["place"] for job in claimed] == ["hot", "dlq", "hot", "dlq", "archive", "dlq"]
    assert row(claimed[2].id)["status"] == PROCESSING
    assert_one_place(6)


def test_nothing_to_rescue(storage: Storage) -> None:
    assert storage.rescue([]) == set()


def test_two_rescuers_do_it_once(jobs: Jobs, storage: Storage, counts: Any) -> None:
    claimed = jobs.running(40)
    live = storage.live_rows()

    def work(number: int, own: Storage) -> set[str]:
        return own.rescue([to_dlq(found) for found in (live[::-1] if number % 2 else live)])

    together(4, work)
    assert set(JobDLQ.objects.values_list("crash_count", flat=True)) == {1}
    assert sum(counts().values()) == len(claimed)
    assert_one_place(40)


def test_a_worker_that_wakes_up_after_its_rescue_changes_nothing(jobs: Jobs, storage: Storage) -> None:
    """The stopped worker's every write is refused: its leases are somebody else's, or nobody's."""
    buried, retried, refetched = jobs.running()[0], jobs.running()[0], jobs.fetched()[0]
    storage.rescue([to_dlq(seen(storage, buried)), to_pending(seen(storage, retried)),
                    to_pending(seen(storage, refetched))])  # fmt: skip
    jobs.take(worker="worker-2", start=False)
    all_jobs = [buried, retried, refetched]
    before = [row(job.id) for job in all_jobs]
    all_leases = [job.lease for job in all_jobs]
    assert storage.heartbeat(WORKER, all_leases).lost == set(ids(all_jobs))
    assert storage.start(WORKER, all_leases).started == {}
    assert storage.release(WORKER, all_leases) == set()
    assert storage.progress(WORKER, dict.fromkeys(all_leases, (1, "x"))) == set()
    assert jobs.settle(all_jobs) == set()
    assert [row(job.id) for job in all_jobs] == before


# -- expiry ------------------------------------------------------------------------------------------------------------


def test_expire_buries_what_may_no_longer_start(jobs: Jobs, storage: Storage, counts: Any) -> None:
    due, scheduled, alive, never = (
        jobs.one(deadline_after=3600), jobs.one(deadline_after=3600, delay=7200), jobs.one(deadline_after=3600),
        jobs.one(),
    )  # fmt: skip
    jobs.shift([due, scheduled], deadline_at=-1)
    now = jobs.now()
    assert storage.expire(100) == 2
    for job_id in (due, scheduled):
        stored = row(job_id)
        assert (stored["place"], stored["failure_reason"]) == ("dlq", FailureReason.EXPIRED)
        assert near(stored["failed_at"], now)
    assert {row(alive)["place"], row(never)["place"]} == {"hot"}
    assert storage.expire(100) == 0
    assert counts() == {(BucketOutcome.DEAD, int(FailureReason.EXPIRED)): 2}
    assert_one_place(4)


def test_expire_leaves_leased_and_running_jobs(jobs: Jobs, storage: Storage) -> None:
    fetched, running = jobs.fetched(deadline_after=3600), jobs.running(deadline_after=3600)
    jobs.shift([fetched[0].id, running[0].id], deadline_at=-1)
    assert storage.expire(100) == 0
    assert JobHot.objects.count() == 2


def test_expire_works_in_chunks(jobs: Jobs, storage: Storage) -> None:
    given = jobs.add(25, deadline_after=3600)
    jobs.shift(given, deadline_at=-1)
    assert [storage.expire(10) for _ in range(4)] == [10, 10, 5, 0]
    assert JobDLQ.objects.count() == 25


def test_expire_keeps_every_column(jobs: Jobs, storage: Storage) -> None:
    job = full_job(jobs, start=False)
    storage.release(WORKER, [job.lease])
    jobs.shift(job.id, deadline_at=-1)
    before = row(job.id)
    assert storage.expire(10) == 1
    assert base(row(job.id), "attempt_log") == base(before, "attempt_log")


def test_a_retry_that_expires_keeps_its_last_error(jobs: Jobs, storage: Storage) -> None:
    (job,) = jobs.running(deadline_after=3600)
    log = '[{"attempt":1,"outcome":"failed","error_type":"ValueError","message":"no"}]'
    jobs.settle(job, OutcomeKind.RETRY, delay=600.0, attempt_log=log)
    jobs.shift(job.id, deadline_at=-1)
    assert storage.expire(10) == 1
    assert '"message":"no"' in row(job.id)["attempt_log"]
