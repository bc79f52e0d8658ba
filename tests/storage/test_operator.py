"""The operator's verbs: cancel and resurrect."""

from __future__ import annotations

from typing import Any

import pytest

from chokaq_django.job.failures import FailureReason
from chokaq_django.models import BucketOutcome, JobDLQ, JobHot
from chokaq_django.storage import OutcomeKind, Storage
from chokaq_django.storage.contract import RescueAction

from .invariants import assert_one_place
from .support import (
    LOG,
    NOBODY,
    PENDING,
    PROCESSING,
    WORKER,
    Jobs,
    base,
    committed,
    ids,
    near,
    new_job,
    row,
    together,
)
from .test_settle import full_job

pytestmark = committed


def refused(result: Any) -> dict[str, str]:
    return {conflict.id: conflict.reason for conflict in result.refused}


# -- cancel ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("state", ["pending", "scheduled", "retrying", "fetched", "awaiting"])
def test_what_does_not_run_is_cancelled_at_once(jobs: Jobs, storage: Storage, state: str) -> None:
    if state == "fetched":
        job_id = jobs.fetched()[0].id
    elif state == "awaiting":
        (job_id,) = jobs.awaiting()
    elif state == "retrying":
        (job,) = jobs.running()
        jobs.settle(job, OutcomeKind.RETRY, delay=60.0)
        job_id = job.id
    else:
        job_id = jobs.one(delay=3600 if state == "scheduled" else 0)
    now = jobs.now()
    result = storage.cancel([job_id], "ada")
    assert (result.applied, result.requested, result.refused) == ([job_id], [], [])
    stored = row(job_id)
    assert (stored["place"], stored["failure_reason"]) == ("dlq", FailureReason.CANCELLED)
    assert stored["modified_by"] == "ada"
    assert near(stored["failed_at"], now)
    assert jobs.take() == []
    assert_one_place(1)


def test_a_running_job_gets_a_request(jobs: Jobs, storage: Storage) -> None:
    (job,) = jobs.running()
    before, now = row(job.id), jobs.now()
    result = storage.cancel([job.id], "ada")
    assert (result.applied, result.requested, result.refused) == ([], [job.id], [])
    after = row(job.id)
    assert (after["status"], after["cancel_requested_by"]) == (PROCESSING, "ada")
    assert near(after["cancel_requested_at"], now)
    assert base(after, "modified_by") == base(before, "modified_by")
    assert jobs.settle(job, OutcomeKind.DEAD, reason=FailureReason.CANCELLED, modified_by="ada") == {job.id}


def test_asking_twice_is_one_request(jobs: Jobs, storage: Storage) -> None:
    (job,) = jobs.running()
    storage.cancel([job.id], "ada")
    assert storage.cancel([job.id], "grace").requested == [job.id]
    assert row(job.id)["cancel_requested_by"] in ("ada", "grace")


@pytest.mark.parametrize("where", ["archive", "dlq", "nowhere"])
def test_what_has_ended_cannot_be_cancelled(jobs: Jobs, storage: Storage, where: str) -> None:
    job_id = {"archive": jobs.archived, "dlq": jobs.dead, "nowhere": lambda: [NOBODY]}[where]()[0]
    before = row(job_id) if where != "nowhere" else None
    result = storage.cancel([job_id], "ada")
    assert (result.applied, result.requested, list(refused(result))) == ([], [], [job_id])
    assert len(refused(result)[job_id]) > 10, "the reason is a sentence"
    if before:
        assert row(job_id) == before


def test_cancel_takes_many_of_every_kind(jobs: Jobs, storage: Storage) -> None:
    pending, fetched, awaiting = jobs.add(3, delay=60), ids(jobs.fetched(2)), jobs.awaiting(2)
    running, archived = ids(jobs.running(2)), jobs.archived(1)
    given = [*pending, *running, NOBODY, *fetched, *archived, *awaiting]
    result = storage.cancel(given, "ada")
    assert sorted(result.applied) == sorted(pending + fetched + awaiting)
    assert sorted(result.requested) == sorted(running)
    assert set(refused(result)) == {NOBODY, *archived}
    assert_one_place(10)
    assert storage.cancel([], "ada").applied == []


def test_hundreds_at_once(jobs: Jobs, storage: Storage) -> None:
    given = jobs.add(1_200)
    assert sorted(storage.cancel(given, None).applied) == sorted(given)
    assert JobDLQ.objects.filter(failure_reason=FailureReason.CANCELLED).count() == 1_200


def test_cancel_keeps_every_column(jobs: Jobs, storage: Storage) -> None:
    job = full_job(jobs, start=False)
    storage.release(WORKER, [job.lease])
    before = row(job.id)
    storage.cancel([job.id], "lin")
    assert base(row(job.id), "modified_by", "attempt_log") == base(before, "modified_by", "attempt_log")


def test_a_cancelled_job_is_counted_with_its_reason(jobs: Jobs, storage: Storage, counts: Any) -> None:
    storage.cancel(jobs.add(2), "ada")
    assert counts() == {(BucketOutcome.DEAD, int(FailureReason.CANCELLED)): 2}


def test_a_fetched_job_that_was_cancelled_is_lost_to_its_worker(jobs: Jobs, storage: Storage) -> None:
    (job,) = jobs.fetched()
    storage.cancel([job.id], "ada")
    reply = storage.start(WORKER, [job.lease])
    assert (reply.started, reply.expired, reply.released) == ({}, set(), set())
    assert storage.release(WORKER, [job.lease]) == set()
    assert jobs.settle(job, OutcomeKind.EXPIRED) == set()
    assert row(job.id)["failure_reason"] == FailureReason.CANCELLED


def test_a_cancelled_job_frees_its_key(jobs: Jobs, storage: Storage) -> None:
    storage.cancel([jobs.one(idempotency_key="k")], "ada")
    assert storage.enqueue([new_job(idempotency_key="k")])[0].created


@pytest.mark.parametrize("kind", [OutcomeKind.RETRY, OutcomeKind.SNOOZED, OutcomeKind.INTERRUPTED])
def test_a_request_too_late_for_its_worker_is_honoured_all_the_same(
    jobs: Jobs, storage: Storage, kind: OutcomeKind
) -> None:
    """The job ended before it heard of the request, and would wait to run again."""
    asked, other = jobs.running(2)
    storage.cancel([asked.id], "ada")
    assert jobs.settle([asked, other], kind) == {asked.id, other.id}
    stored = row(asked.id)
    assert (stored["place"], stored["failure_reason"]) == ("dlq", FailureReason.CANCELLED)
    assert stored["modified_by"] == "ada"
    assert ids(jobs.take()) == [other.id]
    assert_one_place(2)


def test_a_request_for_a_job_that_succeeds_changes_nothing(jobs: Jobs, storage: Storage) -> None:
    (job,) = jobs.running()
    storage.cancel([job.id], "ada")
    assert jobs.settle(job) == {job.id}
    assert row(job.id)["place"] == "archive"


@pytest.mark.parametrize("to", ["pending", "dlq"])
def test_a_request_outlives_the_worker_that_should_have_heard_it(jobs: Jobs, storage: Storage, to: str) -> None:
    (job,) = jobs.running()
    storage.cancel([job.id], "ada")
    (live,) = storage.live_rows()
    assert storage.rescue([RescueAction(live, to, LOG, crashed=True, reason=FailureReason.ZOMBIE)]) == {job.id}
    stored = row(job.id)
    assert (stored["place"], stored["failure_reason"]) == ("dlq", FailureReason.CANCELLED)
    assert stored["modified_by"] == "ada"


def test_a_resurrected_job_is_free_of_old_requests(jobs: Jobs, storage: Storage) -> None:
    (job,) = jobs.running()
    storage.cancel([job.id], "ada")
    jobs.settle(job, OutcomeKind.DEAD, reason=FailureReason.CANCELLED)
    storage.resurrect([job.id], "ada")
    (again,) = jobs.take()
    assert storage.heartbeat(WORKER, [again.lease]).cancels == {}


def test_cancel_and_start_race_for_each_job_once(jobs: Jobs) -> None:
    claimed = jobs.fetched(60)

    def work(number: int, own: Storage) -> tuple[set[str], set[str]]:
        order = claimed if number % 2 else claimed[::-1]
        if number < 2:
            result = own.cancel(ids(order), "ada")
            # What the other one cancelled first is refused here, and with that reason only.
            assert {conflict.reason for conflict in result.refused} <= {"The job is already dead."}
            return set(result.applied), set(result.requested)
        return set(own.start(WORKER, [job.lease for job in order]).started), set()

    answers = together(4, work)
    assert not answers[0][0] & answers[1][0], "one job was cancelled twice"
    cancelled = answers[0][0] | answers[1][0]
    started = answers[2][0] | answers[3][0]
    assert cancelled | started == set(ids(claimed))
    assert set(JobDLQ.objects.values_list("pk", flat=True)) == cancelled
    assert set(JobHot.objects.values_list("pk", flat=True)) == set(ids(claimed)) - cancelled
    assert_one_place(60)


# -- resurrect ---------------------------------------------------------------------------------------------------------


def test_a_dead_job_comes_back_as_new(jobs: Jobs, storage: Storage) -> None:
    (job_id,) = jobs.dead()
    jobs.shift(job_id, JobDLQ, due_at=-5000, run_at=-5000)
    before = row(job_id)
    now = jobs.now()
    result = storage.resurrect([job_id], "ada")
    assert (result.applied, result.requested, result.refused) == ([job_id], [], [])
    stored = row(job_id)
    assert (stored["place"], stored["status"], stored["attempt"], stored["generation"]) == ("hot", PENDING, 0, 1)
    assert stored["claim_number"] == before["claim_number"] == 1
    assert (stored["worker_id"], stored["heartbeat_at"], stored["cancel_requested_at"]) == (None, None, None)
    assert near(stored["run_at"], now)
    assert stored["due_at"] == stored["run_at"], "the age clock restarts"
    assert stored["modified_by"] == "ada"
    (again,) = jobs.take()
    assert (again.id, again.attempt, again.claim_number, again.generation) == (job_id, 1, 2, 1)
    assert_one_place(1)


def test_resurrection_keeps_what_was_not_edited(jobs: Jobs, storage: Storage) -> None:
    job = full_job(jobs, start=True)
    jobs.settle(job, OutcomeKind.DEAD)
    before = row(job.id)
    storage.resurrect([job.id], "lin")
    after = row(job.id)
    for name in (
        "id", "queue", "type", "payload", "schema_version", "tags", "priority", "max_attempts", "created_by",
        "created_at", "idempotency_key", "concurrency_key", "headers", "attempt_log", "claim_number", "deadline_at",
        "revision",
    ):  # fmt: skip
        assert after[name] == before[name], name
    assert after["generation"] == before["generation"] + 1


def test_the_claim_number_is_never_reset(jobs: Jobs, storage: Storage) -> None:
    job_id = jobs.one()
    numbers = []
    for _ in range(3):
        (job,) = jobs.take()
        numbers.append(job.claim_number)
        jobs.settle(job, OutcomeKind.DEAD)
        storage.resurrect([job_id], None)
    assert numbers == [1, 2, 3]
    assert (row(job_id)["generation"], row(job_id)["claim_number"]) == (3, 3)


def test_a_passed_deadline_is_cleared_and_a_future_one_kept(jobs: Jobs, storage: Storage) -> None:
    passed, future = jobs.dead(2, deadline_after=3600)
    jobs.shift(passed, JobDLQ, deadline_at=-1)
    kept = row(future)["deadline_at"]
    storage.resurrect([passed, future], "ada")
    assert row(passed)["deadline_at"] is None
    assert row(future)["deadline_at"] == kept
    assert {job.expired for job in jobs.take()} == {False}


def test_edits(jobs: Jobs, storage: Storage) -> None:
    first, second = jobs.dead(2)
    result = storage.resurrect(
        [first, second], "ada", payload='{"to":"grace@example.com"}', tags='["repaired"]', priority=77, schema_version=2
    )
    assert sorted(result.applied) == sorted([first, second])
    for job_id in (first, second):
        stored = row(job_id)
        assert (stored["payload"], stored["tags"]) == ('{"to":"grace@example.com"}', '["repaired"]')
        assert (stored["priority"], stored["schema_version"]) == (77, 2)


@pytest.mark.parametrize(
    ("edit", "value"), [("payload", "{}"), ("tags", "[]"), ("priority", 0), ("schema_version", 9), ("priority", -4)]
)
def test_one_edit_leaves_the_rest(jobs: Jobs, storage: Storage, edit: str, value: Any) -> None:
    (job_id,) = jobs.dead(1, tags='["a"]', priority=5, schema_version=2)
    before = row(job_id)
    storage.resurrect([job_id], "ada", **{edit: value})
    after = row(job_id)
    assert after[edit] == value
    for name in {"payload", "tags", "priority", "schema_version"} - {edit}:
        assert after[name] == before[name], name


@pytest.mark.parametrize("where", ["hot", "running", "archive", "nowhere"])
def test_what_is_not_dead_cannot_be_resurrected(jobs: Jobs, storage: Storage, where: str) -> None:
    job_id = {
        "hot": lambda: jobs.one(delay=60), "running": lambda: jobs.running()[0].id,
        "archive": lambda: jobs.archived()[0], "nowhere": lambda: NOBODY,
    }[where]()  # fmt: skip
    before = row(job_id) if where != "nowhere" else None
    result = storage.resurrect([job_id], "ada")
    assert (result.applied, list(refused(result))) == ([], [job_id])
    assert len(refused(result)[job_id]) > 10
    if before:
        assert row(job_id) == before


def test_a_key_held_by_an_active_job_refuses_with_its_id(jobs: Jobs, storage: Storage) -> None:
    (dead,) = jobs.dead(1, idempotency_key="order-1")
    holder = jobs.one(idempotency_key="order-1")
    (free,) = jobs.dead(1, priority=99)
    before = row(dead)
    result = storage.resurrect([dead, free], "ada")
    assert result.applied == [free]
    assert holder in refused(result)[dead]
    assert row(dead) == before
    assert_one_place(3)


def test_a_key_held_by_an_active_job_is_dropped_on_demand(jobs: Jobs, storage: Storage) -> None:
    (dead,) = jobs.dead(1, idempotency_key="order-1")
    (free,) = jobs.dead(1, idempotency_key="order-2")
    holder = jobs.one(idempotency_key="order-1")
    result = storage.resurrect([dead, free], "ada", on_key_conflict="drop")
    assert (sorted(result.applied), result.refused) == (sorted([dead, free]), [])
    assert row(dead)["idempotency_key"] is None
    assert row(free)["idempotency_key"] == "order-2", "only a conflicting key is dropped"
    assert row(holder)["idempotency_key"] == "order-1"


@pytest.mark.parametrize("policy", ["skip", "drop"])
def test_two_dead_jobs_of_one_key_in_one_call(jobs: Jobs, storage: Storage, policy: str) -> None:
    (first,), (second,) = jobs.dead(1, idempotency_key="k"), jobs.dead(1, idempotency_key="k")
    result = storage.resurrect([first, second], "ada", on_key_conflict=policy)
    if policy == "skip":
        (winner,) = result.applied
        (loser,) = {first, second} - {winner}
        assert winner in refused(result)[loser]
        assert row(loser)["place"] == "dlq"
    else:
        assert sorted(result.applied) == sorted([first, second])
    assert JobHot.objects.filter(idempotency_key="k").count() == 1
    assert_one_place(2)


def test_an_unknown_policy_is_an_error_and_does_nothing(jobs: Jobs, storage: Storage) -> None:
    (dead,) = jobs.dead(1)
    with pytest.raises(ValueError, match="on_key_conflict"):
        storage.resurrect([dead], "ada", on_key_conflict="replace")
    assert row(dead)["place"] == "dlq"


def test_a_resurrected_job_holds_its_key_again(jobs: Jobs, storage: Storage) -> None:
    (dead,) = jobs.dead(1, idempotency_key="k")
    storage.resurrect([dead], "ada")
    (answer,) = storage.enqueue([new_job(idempotency_key="k")])
    assert (answer.id, answer.created) == (dead, False)


def test_resurrect_takes_many_and_one_bad_stops_none(jobs: Jobs, storage: Storage) -> None:
    dead = jobs.dead(250)
    result = storage.resurrect([*dead[:100], NOBODY, *dead[100:]], "ada")
    assert sorted(result.applied) == sorted(dead)
    assert list(refused(result)) == [NOBODY]
    assert_one_place(250)
    assert storage.resurrect([], "ada").applied == []


def test_an_id_given_twice_is_done_once(jobs: Jobs, storage: Storage) -> None:
    (dead,), pending = jobs.dead(), jobs.one()
    assert storage.resurrect([dead, dead], "ada").applied.count(dead) == 1
    assert row(dead)["generation"] == 1
    assert storage.cancel([pending, pending], "ada").applied.count(pending) == 1
    assert_one_place(2)


def test_eight_operators_resurrect_each_job_once(jobs: Jobs) -> None:
    dead = jobs.dead(40)
    keyed = [jobs.dead(1, idempotency_key="k")[0] for _ in range(3)]

    def work(number: int, own: Storage) -> list[str]:
        order = dead + keyed
        return own.resurrect(order[::-1] if number % 2 else order, f"operator-{number}").applied

    applied = [job_id for answer in together(8, work) for job_id in answer]
    assert len(applied) == len(set(applied)) == 41
    assert set(JobHot.objects.values_list("generation", flat=True)) == {1}
    assert_one_place(43)


def test_resurrection_and_enqueue_race_for_one_key(jobs: Jobs) -> None:
    dead = [jobs.dead(1, idempotency_key=f"k{number}")[0] for number in range(10)]

    def work(number: int, own: Storage) -> None:
        if number % 2:
            own.resurrect(dead, "ada")
        else:
            own.enqueue([new_job(idempotency_key=f"k{n}") for n in range(10)])

    together(6, work)
    assert JobHot.objects.count() == 10
    assert JobHot.objects.values("idempotency_key").distinct().count() == 10
    assert JobHot.objects.count() + JobDLQ.objects.count() >= 10
    assert_one_place(JobHot.objects.count() + JobDLQ.objects.count())
