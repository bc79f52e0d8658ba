"""Settle: where each outcome takes a job, what the row keeps, and whose outcome counts."""

from __future__ import annotations

import datetime as dt
from typing import Any
from unittest.mock import Mock

import pytest
from django.db import OperationalError, connection

from chokaq_django.job.failures import FailureReason
from chokaq_django.job.fingerprint import fingerprint
from chokaq_django.job.ids import new_id
from chokaq_django.models import BucketOutcome, JobArchive, JobHot
from chokaq_django.storage import ClaimedJob, Lease, OutcomeKind, Storage
from chokaq_django.storage.contract import RescueAction

from .invariants import assert_one_place
from .support import (
    AWAITING,
    BASE_COLUMNS,
    LOG,
    NOBODY,
    PENDING,
    PROCESSING,
    WORKER,
    Jobs,
    bad_leases,
    base,
    committed,
    ids,
    near,
    outcome,
    row,
    together,
)

pytestmark = committed

STARTED = [
    OutcomeKind.SUCCEEDED, OutcomeKind.RETRY, OutcomeKind.DEAD, OutcomeKind.SNOOZED, OutcomeKind.INTERRUPTED,
]  # fmt: skip
UNSTARTED = [OutcomeKind.EXPIRED, OutcomeKind.UNSTARTED_DEAD]
PLACE = {
    OutcomeKind.SUCCEEDED: "archive", OutcomeKind.RETRY: "hot", OutcomeKind.DEAD: "dlq", OutcomeKind.SNOOZED: "hot",
    OutcomeKind.INTERRUPTED: "hot", OutcomeKind.EXPIRED: "dlq", OutcomeKind.UNSTARTED_DEAD: "dlq",
}  # fmt: skip
KINDS = [*STARTED, *UNSTARTED]
BAD = ["an older number", "a later number", "another worker", "an unknown id"]


def kind_id(kind: OutcomeKind) -> str:
    return kind.value


def claimed_for(jobs: Jobs, kind: OutcomeKind, count: int = 1, **columns: Any) -> list[ClaimedJob]:
    """Jobs in the status that ``kind`` expects."""
    return jobs.fetched(count, **columns) if kind in UNSTARTED else jobs.running(count, **columns)


def full_job(jobs: Jobs, *, start: bool) -> ClaimedJob:
    """A claimed job whose every column has a value of its own, so that one lost in a move shows."""
    job_id = jobs.one(
        queue="mail", type="report.build.v2", payload='{"month": "2026-01", "ü": "💶"}', schema_version=4,
        tags='["monthly","eu"]', priority=-7, max_attempts=9, created_by="ada", idempotency_key="report-2026-01",
        concurrency_key="customer-7", headers='{"traceparent":"00-ab-cd-01"}', deadline_after=7200,
    )  # fmt: skip
    JobHot.objects.filter(pk=job_id).update(
        attempt=3, crash_count=2, snooze_count=5, generation=6, revision=7, claim_number=41, modified_by="grace",
        attempt_log='[{"attempt":3,"outcome":"failed"}]',
    )  # fmt: skip
    jobs.shift(job_id, created_at=-900, due_at=-800, run_at=-700)
    (job,) = jobs.take(start=start)
    unset = {name for name, value in base(row(job_id)).items() if value is None}
    assert unset <= {"started_at"}
    return job


# -- where a job goes --------------------------------------------------------------------------------------------------


def test_succeeded_goes_to_the_archive(jobs: Jobs) -> None:
    (job,) = jobs.running()
    now = jobs.now()
    assert jobs.settle(job, duration_ms=1234, wait_ms=56, result='{"sent":true}') == {job.id}
    stored = row(job.id)
    assert stored["place"] == "archive"
    assert near(stored["finished_at"], now)
    assert (stored["duration_ms"], stored["wait_ms"], stored["result"]) == (1234, 56, '{"sent":true}')
    assert stored["attempt_log"] == LOG
    assert_one_place(1)


def test_succeeded_without_a_result(jobs: Jobs) -> None:
    (job,) = jobs.running()
    jobs.settle(job)
    assert row(job.id)["result"] is None


def test_dead_goes_to_the_dlq_with_its_reason(jobs: Jobs) -> None:
    (job,) = jobs.running()
    now = jobs.now()
    applied = jobs.settle(
        job, OutcomeKind.DEAD, reason=FailureReason.TIMEOUT, error_type="builtins.TimeoutError",
        error_details="Traceback: late", fingerprint="0123456789abcdef0123456789abcdef", duration_ms=5,
    )  # fmt: skip
    assert applied == {job.id}
    stored = row(job.id)
    assert stored["place"] == "dlq"
    assert stored["failure_reason"] == FailureReason.TIMEOUT
    assert (stored["error_type"], stored["error_details"]) == ("builtins.TimeoutError", "Traceback: late")
    assert stored["fingerprint"] == "0123456789abcdef0123456789abcdef"
    assert near(stored["failed_at"], now)
    assert (stored["note"], stored["assignee"], stored["acknowledged_at"]) == ("", None, None)
    assert stored["attempt_log"] == LOG
    assert_one_place(1)


@pytest.mark.parametrize("reason", list(FailureReason), ids=lambda reason: reason.label)
def test_every_reason_can_be_stored(jobs: Jobs, reason: FailureReason) -> None:
    (job,) = jobs.running()
    assert jobs.settle(job, OutcomeKind.DEAD, reason=reason)
    assert row(job.id)["failure_reason"] == reason


def test_dead_without_error_texts(jobs: Jobs) -> None:
    (job,) = jobs.running()
    assert jobs.settle(job, OutcomeKind.DEAD)
    stored = row(job.id)
    assert (stored["error_type"], stored["error_details"]) == (None, None)
    assert stored["fingerprint"] == fingerprint(FailureReason.FATAL_ERROR, None), "it is in a group all the same"


def test_retry_is_pending_after_its_delay_with_the_attempt_used(jobs: Jobs) -> None:
    (job,) = jobs.running()
    before, now = row(job.id), jobs.now()
    assert jobs.settle(job, OutcomeKind.RETRY, delay=77.5) == {job.id}
    stored = row(job.id)
    assert (stored["status"], stored["attempt"], stored["claim_number"]) == (PENDING, 1, job.claim_number)
    assert stored["worker_id"] is None
    assert stored["heartbeat_at"] is None
    assert near(stored["run_at"], now + dt.timedelta(seconds=77.5))
    assert stored["run_at"] >= now + dt.timedelta(seconds=77.5)
    assert stored["due_at"] == before["due_at"], "the age of a job counts from its first due time"
    assert stored["attempt_log"] == LOG
    assert jobs.take() == []
    jobs.shift(job.id, run_at=-1)
    (again,) = jobs.take()
    assert (again.attempt, again.claim_number, again.attempt_log) == (2, job.claim_number + 1, LOG)


def test_snoozed_gives_the_attempt_back_and_counts_the_snooze(jobs: Jobs) -> None:
    (job,) = jobs.running()
    before, now = row(job.id), jobs.now()
    assert jobs.settle(job, OutcomeKind.SNOOZED, delay=30.0) == {job.id}
    stored = row(job.id)
    assert (stored["status"], stored["attempt"], stored["snooze_count"]) == (PENDING, 0, 1)
    assert stored["worker_id"] is None
    assert near(stored["run_at"], now + dt.timedelta(seconds=30))
    assert stored["due_at"] == before["due_at"]
    assert stored["crash_count"] == 0
    assert stored["attempt_log"] == LOG


def test_interrupted_is_pending_now_with_the_attempt_given_back(jobs: Jobs) -> None:
    (job,) = jobs.running()
    before = row(job.id)
    assert jobs.settle(job, OutcomeKind.INTERRUPTED) == {job.id}
    stored = row(job.id)
    assert (stored["status"], stored["attempt"], stored["snooze_count"]) == (PENDING, 0, 0)
    assert stored["worker_id"] is None
    assert stored["run_at"] <= jobs.now()
    assert stored["due_at"] == before["due_at"]
    assert ids(jobs.take(worker="worker-2")) == [job.id]


def test_expired_needs_no_reason_of_its_own(jobs: Jobs) -> None:
    (job,) = jobs.fetched(deadline_after=3600)
    assert jobs.settle(job, OutcomeKind.EXPIRED, reason=None) == {job.id}
    stored = row(job.id)
    assert (stored["place"], stored["failure_reason"], stored["attempt"]) == ("dlq", FailureReason.EXPIRED, 0)
    assert stored["started_at"] is None


def test_a_job_of_an_unknown_type_is_buried_unstarted(jobs: Jobs) -> None:
    (job,) = jobs.fetched(type="nobody.knows.v1")
    assert jobs.settle(job, OutcomeKind.UNSTARTED_DEAD, error_type="UnknownType", error_details="deploy it") == {job.id}
    stored = row(job.id)
    assert (stored["place"], stored["failure_reason"], stored["attempt"]) == ("dlq", FailureReason.UNKNOWN_TYPE, 0)
    assert (stored["error_type"], stored["error_details"]) == ("UnknownType", "deploy it")


@pytest.mark.parametrize("kind", [OutcomeKind.RETRY, OutcomeKind.SNOOZED, OutcomeKind.INTERRUPTED], ids=kind_id)
def test_what_goes_back_forgets_the_execution(jobs: Jobs, storage: Storage, kind: OutcomeKind) -> None:
    (job,) = jobs.running()
    storage.progress(WORKER, {job.lease: (50, "half")})
    assert jobs.settle(job, kind)
    stored = row(job.id)
    assert (stored["worker_id"], stored["heartbeat_at"], stored["status"]) == (None, None, PENDING)
    assert storage.live_rows() == []


@pytest.mark.parametrize("kind", KINDS, ids=kind_id)
def test_modified_by_is_stored_when_given(jobs: Jobs, kind: OutcomeKind) -> None:
    first, second = claimed_for(jobs, kind, 2)
    JobHot.objects.update(modified_by="grace")
    jobs.settle(first, kind, modified_by="ada")
    jobs.settle(second, kind)
    assert row(first.id)["modified_by"] == "ada"
    assert row(second.id)["modified_by"] == "grace"


# -- what a move keeps -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS, ids=kind_id)
def test_a_settle_keeps_every_column(jobs: Jobs, kind: OutcomeKind) -> None:
    job = full_job(jobs, start=kind in STARTED)
    before = row(job.id)
    assert jobs.settle(job, kind) == {job.id}
    after = row(job.id)
    assert after["place"] == PLACE[kind]
    changes = {"attempt_log"}
    if PLACE[kind] == "hot":
        changes |= {"worker_id", "run_at"}
        if kind in (OutcomeKind.SNOOZED, OutcomeKind.INTERRUPTED):
            changes |= {"attempt"}
        if kind is OutcomeKind.SNOOZED:
            changes |= {"snooze_count"}
    assert base(after, *changes) == base(before, *changes)
    assert after.keys() >= BASE_COLUMNS
    if PLACE[kind] != "hot":
        assert after["worker_id"] == WORKER, "history says who ran it"


def test_an_attempt_log_is_replaced_by_the_new_whole_one(jobs: Jobs) -> None:
    job = full_job(jobs, start=True)
    log = '[{"attempt":3,"outcome":"failed"},{"attempt":4,"outcome":"failed"}]'
    assert jobs.settle(job, OutcomeKind.RETRY, attempt_log=log)
    jobs.shift(job.id, run_at=-1)
    (again,) = jobs.take()
    assert again.attempt_log == log


@pytest.mark.parametrize("kind", [OutcomeKind.SUCCEEDED, OutcomeKind.DEAD], ids=kind_id)
def test_a_deadline_that_passed_meanwhile_does_not_matter_to_a_running_job(jobs: Jobs, kind: OutcomeKind) -> None:
    (job,) = jobs.running(deadline_after=3600)
    jobs.shift(job.id, deadline_at=-60)
    assert jobs.settle(job, kind) == {job.id}
    assert row(job.id)["place"] == PLACE[kind]


# -- many at once ------------------------------------------------------------------------------------------------------


def test_outcomes_of_every_kind_in_one_call(jobs: Jobs, storage: Storage) -> None:
    given = {kind: claimed_for(jobs, kind, 3) for kind in KINDS}
    outcomes = [outcome(job, kind, delay=9.0) for kind in KINDS for job in given[kind]]
    assert storage.settle(WORKER, outcomes[::2] + outcomes[1::2]) == {job.id for made in given.values() for job in made}
    for kind, made in given.items():
        assert {row(job.id)["place"] for job in made} == {PLACE[kind]}
    assert_one_place(len(outcomes))


def test_each_outcome_of_a_call_keeps_its_own_values(jobs: Jobs, storage: Storage) -> None:
    good, bad, again = jobs.running(40), jobs.running(40), jobs.running(40)
    now = jobs.now()
    outcomes = [outcome(job, result=f'"r{n}"', duration_ms=n, wait_ms=2 * n, attempt_log=f"[{n}]")
                for n, job in enumerate(good)]  # fmt: skip
    outcomes += [
        outcome(job, OutcomeKind.DEAD, error_type=f"E{n}", error_details=f"d{n}", fingerprint=f"{n:032x}",
                reason=FailureReason(n % 3), attempt_log=f"[{n}]")
        for n, job in enumerate(bad)
    ]  # fmt: skip
    outcomes += [outcome(job, OutcomeKind.RETRY, delay=100.0 * n, attempt_log=f"[{n}]") for n, job in enumerate(again)]
    assert len(storage.settle(WORKER, outcomes)) == 120
    for n, job in enumerate(good):
        stored = row(job.id)
        assert [stored[name] for name in ("result", "duration_ms", "wait_ms", "attempt_log")] == [
            f'"r{n}"', n, 2 * n, f"[{n}]",
        ]  # fmt: skip
    for n, job in enumerate(bad):
        stored = row(job.id)
        assert [stored[name] for name in ("error_type", "error_details", "fingerprint", "failure_reason")] == [
            f"E{n}", f"d{n}", f"{n:032x}", n % 3,
        ]  # fmt: skip
    for n, job in enumerate(again):
        assert near(row(job.id)["run_at"], now + dt.timedelta(seconds=100 * n))


def test_a_batch_of_five_hundred(jobs: Jobs) -> None:
    claimed = jobs.running(500)
    assert jobs.settle(claimed, duration_ms=1) == set(ids(claimed))
    assert JobArchive.objects.count() == 500
    assert_one_place(500)


def test_nothing_to_settle(storage: Storage) -> None:
    assert storage.settle(WORKER, []) == set()


# -- the fence ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("bad", BAD)
@pytest.mark.parametrize("kind", KINDS, ids=kind_id)
def test_a_wrong_lease_is_a_conflict(jobs: Jobs, storage: Storage, counts: Any, kind: OutcomeKind, bad: str) -> None:
    (job,) = claimed_for(jobs, kind)
    before = row(job.id)
    worker, lease = bad_leases(job)[bad]
    forged = outcome(job, kind, delay=9.0, modified_by="mallory")
    forged.id, forged.claim_number = lease.id, lease.claim_number
    assert storage.settle(worker, [forged]) == set()
    assert row(job.id) == before
    assert counts() == {}
    assert_one_place(1)


@pytest.mark.parametrize("kind", KINDS, ids=kind_id)
def test_a_wrong_status_is_a_conflict(jobs: Jobs, counts: Any, kind: OutcomeKind) -> None:
    (job,) = jobs.running() if kind in UNSTARTED else jobs.fetched()
    before = row(job.id)
    assert jobs.settle(job, kind) == set()
    assert row(job.id) == before
    JobHot.objects.update(status=AWAITING)
    assert jobs.settle(job, kind) == set()
    assert counts() == {}


@pytest.mark.parametrize("kind", KINDS, ids=kind_id)
def test_one_bad_outcome_stops_none_of_the_others(jobs: Jobs, storage: Storage, counts: Any, kind: OutcomeKind) -> None:
    claimed = claimed_for(jobs, kind, 6)
    (foreign,) = claimed_for(jobs, kind, 1, queue="other")
    JobHot.objects.filter(pk=foreign.id).update(worker_id="worker-2")
    outcomes = [outcome(job, kind) for job in [*claimed, foreign]]
    outcomes[2].claim_number += 1
    nobody = outcome(claimed[0], kind)
    nobody.id = NOBODY
    outcomes.insert(3, nobody)
    before = row(claimed[2].id), row(foreign.id)
    assert storage.settle(WORKER, outcomes) == set(ids(claimed)) - {claimed[2].id}
    assert (row(claimed[2].id), row(foreign.id)) == before
    assert sum(counts().values()) in ((5,) if kind not in (OutcomeKind.SNOOZED, OutcomeKind.INTERRUPTED) else (0, 5))
    assert_one_place(7)


@pytest.mark.parametrize("kind", STARTED, ids=kind_id)
def test_a_stale_execution_cannot_touch_a_newer_one(jobs: Jobs, storage: Storage, kind: OutcomeKind) -> None:
    (old,) = jobs.running()
    (seen,) = storage.live_rows()
    assert storage.rescue([RescueAction(seen, "pending", LOG, crashed=True)])
    (new,) = jobs.take(worker="worker-2")
    assert new.id == old.id
    before = row(old.id)
    assert jobs.settle(old, kind) == set()
    assert jobs.settle(old, kind, worker="worker-2") == set()
    assert row(old.id) == before
    assert jobs.settle(new, worker="worker-2") == {new.id}


def test_a_success_after_a_rescue_to_the_dlq_is_a_conflict(jobs: Jobs, storage: Storage) -> None:
    """The dead row carries the same claim number, but it is the rescuer's work and not this settle's."""
    (job,) = jobs.running()
    (seen,) = storage.live_rows()
    assert storage.rescue([RescueAction(seen, "dlq", LOG, crashed=True, reason=FailureReason.ZOMBIE)])
    before = row(job.id)
    assert jobs.settle(job) == set()
    assert row(job.id) == before
    assert_one_place(1)


def test_a_success_after_a_rescue_to_pending_is_a_conflict(jobs: Jobs, storage: Storage) -> None:
    (job,) = jobs.running()
    (seen,) = storage.live_rows()
    assert storage.rescue([RescueAction(seen, "pending", LOG, crashed=True)])
    before = row(job.id)
    assert jobs.settle(job) == set()
    assert jobs.settle(job, OutcomeKind.DEAD) == set()
    assert row(job.id) == before


def test_a_success_after_resurrection_is_a_conflict(jobs: Jobs, storage: Storage) -> None:
    (job,) = jobs.running()
    assert jobs.settle(job, OutcomeKind.DEAD)
    assert storage.resurrect([job.id], "ada").applied == [job.id]
    before = row(job.id)
    assert jobs.settle(job) == set()
    assert jobs.settle(job, OutcomeKind.DEAD) == set()
    assert row(job.id) == before


@pytest.mark.parametrize("newest_first", [True, False])
@pytest.mark.parametrize("kind", STARTED, ids=kind_id)
def test_an_old_and_a_new_lease_of_one_job_in_one_call(
    jobs: Jobs, storage: Storage, kind: OutcomeKind, newest_first: bool
) -> None:
    (old,) = jobs.running()
    jobs.settle(old, OutcomeKind.RETRY)
    (new,) = jobs.take()
    outcomes = [outcome(old, OutcomeKind.DEAD, attempt_log='["old"]'), outcome(new, kind, attempt_log='["new"]')]
    assert storage.settle(WORKER, outcomes[::-1] if newest_first else outcomes) == {new.id}
    stored = row(new.id)
    assert (stored["place"], stored["attempt_log"]) == (PLACE[kind], '["new"]')
    assert_one_place(1)


# -- unknown commits ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS, ids=kind_id)
def test_a_repeated_settle_finds_its_own_work(jobs: Jobs, storage: Storage, counts: Any, kind: OutcomeKind) -> None:
    claimed = claimed_for(jobs, kind, 3)
    outcomes = [outcome(job, kind, delay=60.0, duration_ms=7) for job in claimed]
    assert storage.settle(WORKER, outcomes) == set(ids(claimed))
    before, counted = [row(job.id) for job in claimed], counts()
    assert storage.settle(WORKER, outcomes) == set(ids(claimed))
    assert [row(job.id) for job in claimed] == before
    assert counts() == counted, "counted once"
    assert_one_place(3)


def test_a_repeated_settle_applies_what_had_not(jobs: Jobs, storage: Storage) -> None:
    claimed = jobs.running(4)
    assert jobs.settle(claimed[:2]) == set(ids(claimed[:2]))
    assert jobs.settle(claimed) == set(ids(claimed))
    assert JobArchive.objects.count() == 4


def test_an_older_execution_does_not_find_the_work_of_a_newer_one(jobs: Jobs) -> None:
    (old,) = jobs.running()
    jobs.settle(old, OutcomeKind.RETRY)
    (new,) = jobs.take()
    assert jobs.settle(new) == {new.id}
    assert jobs.settle(old) == set()
    assert jobs.settle(old, OutcomeKind.RETRY) == set()


BACK = pytest.mark.parametrize("kind", [OutcomeKind.RETRY, OutcomeKind.SNOOZED, OutcomeKind.INTERRUPTED], ids=kind_id)
UNIT = {"postgresql": "_together", "microsoft": "_alone"}.get(connection.vendor, "_unit")
"""What commits the outcomes, by its name."""


@BACK
def test_a_request_to_cancel_outlives_the_answer_of_a_settle(
    jobs: Jobs, storage: Storage, monkeypatch: pytest.MonkeyPatch, kind: OutcomeKind
) -> None:
    """The job has gone back, which the worker was not told. It asks again; the job must not run again."""
    asked, usual = jobs.running(2)
    storage.cancel([asked.id], "ada")
    commit, lost = getattr(storage, UNIT), list[bool]()

    def commit_in_silence(*args: Any, **named: Any) -> Any:
        answer = commit(*args, **named)
        if not lost:
            lost.append(True)
            raise OperationalError("server closed the connection unexpectedly")
        return answer

    monkeypatch.setattr(storage, UNIT, commit_in_silence)
    outcomes = [outcome(job, kind) for job in (asked, usual)]
    with pytest.raises(OperationalError):
        storage.settle(WORKER, outcomes)
    assert usual.id in storage.settle(WORKER, outcomes)
    stored = row(asked.id)
    assert (stored["place"], stored["failure_reason"]) == ("dlq", FailureReason.CANCELLED)
    assert stored["modified_by"] == "ada"
    assert (row(usual.id)["place"], row(usual.id)["status"]) == ("hot", PENDING)
    assert_one_place(2)


@pytest.mark.skipif(connection.vendor in ("sqlite", "mysql"), reason="there both are one transaction")
@BACK
def test_a_burial_that_fails_after_its_settle_is_made_up_for(
    jobs: Jobs, storage: Storage, monkeypatch: pytest.MonkeyPatch, kind: OutcomeKind
) -> None:
    (job,) = jobs.running()
    storage.cancel([job.id], "ada")
    with monkeypatch.context() as patch:
        patch.setattr(storage, "cancel", Mock(side_effect=OperationalError("gone")))
        with pytest.raises(OperationalError):
            jobs.settle(job, kind)
    assert row(job.id)["place"] == "hot"
    assert jobs.settle(job, kind) == {job.id}
    assert row(job.id)["failure_reason"] == FailureReason.CANCELLED


@pytest.mark.parametrize("kind", [OutcomeKind.SUCCEEDED, OutcomeKind.DEAD, OutcomeKind.RETRY], ids=kind_id)
def test_eight_settles_of_one_batch_apply_once(jobs: Jobs, counts: Any, kind: OutcomeKind) -> None:
    claimed = jobs.running(40)

    def work(number: int, own: Storage) -> set[str]:
        order = claimed[number * 5 :] + claimed[: number * 5]
        return own.settle(WORKER, [outcome(job, kind, delay=60.0) for job in order])

    answers = together(8, work)
    assert all(answer == set(ids(claimed)) for answer in answers)
    assert sum(counts().values()) == 40
    assert_one_place(40)


# -- metrics -----------------------------------------------------------------------------------------------------------


def test_buckets_count_what_was_settled(jobs: Jobs, storage: Storage, counts: Any) -> None:
    good, again, bad, late = jobs.running(5), jobs.running(4), jobs.running(3), jobs.running(2)
    expired = jobs.fetched(2)
    conflict = outcome(good[0])
    conflict.id = new_id()
    storage.settle(
        WORKER,
        [outcome(job, duration_ms=100, wait_ms=10) for job in good]
        + [outcome(job, OutcomeKind.RETRY, delay=1.0) for job in again]
        + [outcome(job, OutcomeKind.DEAD) for job in bad]
        + [outcome(job, OutcomeKind.DEAD, reason=FailureReason.TIMEOUT) for job in late]
        + [outcome(job, OutcomeKind.EXPIRED) for job in expired]
        + [conflict],
    )
    jobs.settle(jobs.running(1))
    assert counts() == {
        (BucketOutcome.SUCCEEDED, -1): 6,
        (BucketOutcome.RETRIED, -1): 4,
        (BucketOutcome.DEAD, int(FailureReason.FATAL_ERROR)): 3,
        (BucketOutcome.DEAD, int(FailureReason.TIMEOUT)): 2,
        (BucketOutcome.DEAD, int(FailureReason.EXPIRED)): 2,
    }


def test_buckets_hold_times_and_histograms(jobs: Jobs, storage: Storage, buckets: Any) -> None:
    # Bin i counts what is below HISTOGRAM_LIMITS[i] milliseconds and in no lower bin, the last one everything longer.
    durations, waits = [0, 1, 2, 3, 700, 10_000_000], [0, 0, 5, 5, 40_000, 1]
    claimed = jobs.running(6)
    storage.settle(
        WORKER, [outcome(job, duration_ms=d, wait_ms=w) for job, d, w in zip(claimed, durations, waits, strict=True)]
    )
    (bucket,) = buckets()
    assert (bucket.count, bucket.total_ms, bucket.max_ms) == (6, sum(durations), max(durations))
    run = [getattr(bucket, f"run_{number}") for number in range(16)]
    wait = [getattr(bucket, f"wait_{number}") for number in range(16)]
    assert run == [1, 2, 1, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 1]
    assert wait == [2, 1, 2, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0]


def test_buckets_are_kept_by_queue_and_type(jobs: Jobs, buckets: Any) -> None:
    for queue, type_ in (("a", "x.v1"), ("a", "y.v1"), ("A", "x.v1")):
        jobs.settle(jobs.running(2, queue=queue, type=type_))
    found: dict[tuple[str, str], int] = {}
    for bucket in buckets():
        found[bucket.queue, bucket.type] = found.get((bucket.queue, bucket.type), 0) + bucket.count
    assert found == {("a", "x.v1"): 2, ("a", "y.v1"): 2, ("A", "x.v1"): 2}


def test_a_bucket_starts_on_a_multiple_of_ten_seconds_by_the_server(jobs: Jobs, buckets: Any) -> None:
    before = jobs.now()
    jobs.settle(jobs.running())
    (bucket,) = buckets()
    assert (bucket.at.microsecond, bucket.at.second % 10) == (0, 0)
    assert before - dt.timedelta(seconds=10) <= bucket.at <= jobs.now()


def test_eight_workers_count_every_job(counts: Any) -> None:
    def work(number: int, own: Storage) -> None:
        mine, worker = Jobs(own), f"worker-{number}"
        for _ in range(6):
            mine.add(3)
            mine.settle(mine.take(3, worker=worker), worker=worker, duration_ms=number)

    together(8, work)
    assert counts() == {(BucketOutcome.SUCCEEDED, -1): JobArchive.objects.count()}
    assert_one_place(8 * 6 * 3)


def test_a_lease_is_a_plain_value() -> None:
    assert Lease("a", 1) == Lease("a", 1)
    assert len({Lease("a", 1), Lease("a", 1), Lease("a", 2)}) == 2


def test_status_after_each_kind(jobs: Jobs) -> None:
    """Only Fetched rows wait in a buffer and only Processing rows run: no outcome leaves one behind."""
    for kind in KINDS:
        jobs.settle(claimed_for(jobs, kind), kind, delay=60.0)
    assert set(JobHot.objects.values_list("status", flat=True)) == {PENDING}
    assert not JobHot.objects.filter(status=PROCESSING).exists()
