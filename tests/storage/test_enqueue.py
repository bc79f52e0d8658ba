"""Enqueue: what a new row holds, and who is answered when the idempotency key is taken."""

from __future__ import annotations

import datetime as dt
from zoneinfo import ZoneInfo

import pytest

from chokaq_django.job.ids import new_id
from chokaq_django.models import AuditEntry, Circuit, JobHot, MetricBucket, Queue, Worker
from chokaq_django.storage import OutcomeKind, Storage

from .invariants import assert_one_place
from .support import AWAITING, PENDING, Jobs, committed, ids, near, new_job, row, together

pytestmark = committed


def test_a_row_holds_what_was_given(storage: Storage) -> None:
    given = new_job(
        queue="reports", type="report.build.v2", payload='{"month": "2026-01"}', schema_version=4,
        tags='["monthly","eu"]', priority=-7, max_attempts=9, created_by="ada", idempotency_key="report-2026-01",
        concurrency_key="customer-7", headers='{"traceparent":"00-ab-cd-01"}',
    )  # fmt: skip

    assert [(answer.id, answer.created) for answer in storage.enqueue([given])] == [(given.id, True)]

    stored = row(given.id)
    for column in (
        "queue", "type", "payload", "schema_version", "tags", "priority", "max_attempts", "created_by",
        "idempotency_key", "concurrency_key", "headers",
    ):  # fmt: skip
        assert stored[column] == getattr(given, column), column


def test_a_new_row_is_pending_and_unused(jobs: Jobs) -> None:
    stored = row(jobs.one())
    assert stored["place"] == "hot"
    assert stored["status"] == PENDING
    counters = ("attempt", "crash_count", "snooze_count", "claim_number", "generation", "revision")
    assert {name: stored[name] for name in counters} == dict.fromkeys(counters, 0)
    assert stored["attempt_log"] == "[]"
    for column in (
        "worker_id", "modified_by", "started_at", "deadline_at", "idempotency_key", "concurrency_key", "heartbeat_at",
        "cancel_requested_at", "cancel_requested_by", "progress", "progress_message", "created_by",
    ):  # fmt: skip
        assert stored[column] is None, column


def test_without_a_time_it_is_due_now(jobs: Jobs) -> None:
    before = jobs.now()
    stored = row(jobs.one())
    after = jobs.now()
    assert before <= stored["created_at"] <= after
    assert before <= stored["run_at"] <= after
    assert stored["due_at"] == stored["run_at"]
    assert stored["updated_at"] == stored["created_at"]


@pytest.mark.parametrize("microsecond", [0, 1, 120_000, 999_999])
def test_an_instant_is_stored_to_the_microsecond(jobs: Jobs, microsecond: int) -> None:
    at = dt.datetime(2031, 3, 30, 1, 30, 0, microsecond, tzinfo=dt.UTC)
    stored = row(jobs.one(run_at=at, deadline_at=at + dt.timedelta(hours=1)))
    assert stored["run_at"] == stored["due_at"] == at
    assert stored["deadline_at"] == at + dt.timedelta(hours=1)


def test_an_instant_of_another_zone_is_the_same_instant(jobs: Jobs) -> None:
    at = dt.datetime(2031, 7, 1, 12, 0, tzinfo=ZoneInfo("Asia/Kathmandu"))
    assert row(jobs.one(run_at=at))["run_at"] == at.astimezone(dt.UTC)


def test_a_past_instant_is_kept_and_due(jobs: Jobs) -> None:
    at = dt.datetime(2001, 1, 1, tzinfo=dt.UTC)
    job = jobs.one(run_at=at)
    assert row(job)["run_at"] == at
    assert ids(jobs.take()) == [job]


def test_delay_and_deadline_after_count_from_the_server_now(jobs: Jobs) -> None:
    now = jobs.now()
    stored = row(jobs.one(delay=90.5, deadline_after=30.25))
    assert near(stored["run_at"], now + dt.timedelta(seconds=90.5))
    assert stored["due_at"] == stored["run_at"]
    assert near(stored["deadline_at"], now + dt.timedelta(seconds=30.25))
    assert stored["run_at"] - stored["deadline_at"] == dt.timedelta(seconds=60.25)
    assert near(stored["created_at"], now)


def test_rows_of_one_call_may_differ_in_their_times(storage: Storage, jobs: Jobs) -> None:
    now = jobs.now()
    at = now + dt.timedelta(hours=5)
    rows = [new_job(), new_job(delay=60), new_job(run_at=at), new_job(deadline_after=10), new_job(deadline_at=at)]
    storage.enqueue(rows)
    assert near(row(rows[0].id)["run_at"], now)
    assert near(row(rows[1].id)["run_at"], now + dt.timedelta(seconds=60))
    assert row(rows[2].id)["run_at"] == at
    assert near(row(rows[3].id)["deadline_at"], now + dt.timedelta(seconds=10))
    assert row(rows[4].id)["deadline_at"] == at
    assert row(rows[0].id)["deadline_at"] is None


def test_nothing_to_enqueue_is_no_error(storage: Storage) -> None:
    assert storage.enqueue([]) == []
    assert_one_place(0)


def test_thousands_of_rows_are_answered_in_their_order(storage: Storage) -> None:
    rows = [new_job(priority=number % 5, idempotency_key=f"key-{number}" if number % 3 else None)
            for number in range(3_001)]  # fmt: skip
    answers = storage.enqueue(rows)
    assert [answer.id for answer in answers] == [given.id for given in rows]
    assert all(answer.created for answer in answers)
    assert_one_place(3_001)


def test_ids_need_not_come_in_order(storage: Storage) -> None:
    rows = [new_job() for _ in range(5)][::-1]
    assert [answer.id for answer in storage.enqueue(rows)] == [given.id for given in rows]


def test_nothing_but_job_rows_is_written(jobs: Jobs) -> None:
    jobs.add(3, queue="never.seen", type="never.seen.v1")
    for model in (Queue, Worker, Circuit, MetricBucket, AuditEntry):
        assert not model.objects.exists(), model.__name__


# -- keys --------------------------------------------------------------------------------------------------------------


def test_a_held_key_answers_its_holder_and_changes_nothing(storage: Storage, jobs: Jobs) -> None:
    first = jobs.one(idempotency_key="order-1", payload='{"n":1}')
    before = row(first)
    (answer,) = storage.enqueue([new_job(idempotency_key="order-1", payload='{"n":2}', priority=99)])
    assert (answer.id, answer.created) == (first, False)
    assert row(first) == before
    assert_one_place(1)


@pytest.mark.parametrize("state", ["pending", "scheduled", "fetched", "processing", "retrying", "awaiting"])
def test_a_key_is_held_as_long_as_the_job_is_active(storage: Storage, jobs: Jobs, state: str) -> None:
    key = {"idempotency_key": "order-1"}
    if state in ("pending", "scheduled"):
        holder = jobs.one(**key, delay=0 if state == "pending" else 3600)
    elif state == "awaiting":
        (holder,) = jobs.awaiting(**key)
    elif state == "fetched":
        holder = jobs.fetched(**key)[0].id
    else:
        (job,) = jobs.running(**key)
        holder = job.id
        if state == "retrying":
            assert jobs.settle(job, OutcomeKind.RETRY, delay=60.0)
    (answer,) = storage.enqueue([new_job(idempotency_key="order-1")])
    assert (answer.id, answer.created) == (holder, False)


@pytest.mark.parametrize("end", ["archived", "dead"])
def test_a_key_is_free_when_the_job_has_ended(storage: Storage, jobs: Jobs, end: str) -> None:
    (first,) = getattr(jobs, end)(idempotency_key="order-1")
    (answer,) = storage.enqueue([new_job(idempotency_key="order-1")])
    assert answer.created
    assert answer.id != first
    assert row(first)["idempotency_key"] == "order-1"
    assert_one_place(2)


def test_rows_without_a_key_never_meet(jobs: Jobs) -> None:
    assert len(jobs.add(5, idempotency_key=None)) == 5


def test_later_rows_of_one_call_are_answered_with_the_first(storage: Storage) -> None:
    rows = [new_job(idempotency_key=key) for key in ("a", "b", "a", None, "b", "a", None)]
    answers = storage.enqueue(rows)
    assert [answer.created for answer in answers] == [True, True, False, True, False, False, True]
    assert [answer.id for answer in answers] == [
        rows[0].id, rows[1].id, rows[0].id, rows[3].id, rows[1].id, rows[0].id, rows[6].id,
    ]  # fmt: skip
    assert_one_place(4)


def test_one_call_mixes_held_keys_new_keys_and_none(storage: Storage, jobs: Jobs) -> None:
    held = jobs.one(idempotency_key="held")
    rows = [new_job(idempotency_key=key) for key in ("new", "held", None, "new", "held")]
    answers = storage.enqueue(rows)
    assert [(answer.id, answer.created) for answer in answers] == [
        (rows[0].id, True), (held, False), (rows[2].id, True), (rows[0].id, False), (held, False),
    ]  # fmt: skip
    assert_one_place(3)


def test_a_large_call_of_held_keys_is_answered(storage: Storage, jobs: Jobs) -> None:
    first = storage.enqueue([new_job(idempotency_key=f"key-{number}") for number in range(1_200)])
    again = storage.enqueue([new_job(idempotency_key=f"key-{number}") for number in range(1_200)])
    assert [answer.id for answer in again] == [answer.id for answer in first]
    assert not any(answer.created for answer in again)


def test_a_key_belongs_to_no_queue_and_no_type(storage: Storage, jobs: Jobs) -> None:
    first = jobs.one(queue="mail", type="a.v1", idempotency_key="k")
    (answer,) = storage.enqueue([new_job(queue="reports", type="b.v1", idempotency_key="k")])
    assert (answer.id, answer.created) == (first, False)


# -- races -------------------------------------------------------------------------------------------------------------


def test_eight_producers_of_one_key_agree_on_one_job() -> None:
    def produce(number: int, storage: Storage) -> list[tuple[str, bool]]:
        answers = []
        for round_ in range(15):
            (answer,) = storage.enqueue([new_job(idempotency_key=f"key-{round_}", created_by=f"p{number}")])
            answers.append((answer.id, answer.created))
        return answers

    by_round = list(zip(*together(8, produce), strict=True))
    for answers in by_round:
        assert len({job_id for job_id, _ in answers}) == 1
        assert sum(created for _, created in answers) == 1
    assert_one_place(15)


def test_eight_bulk_producers_of_the_same_keys_in_any_order_never_fail() -> None:
    keys = [f"key-{number}" for number in range(40)]

    def produce(number: int, storage: Storage) -> dict[str, tuple[str, bool]]:
        order = keys[number * 5 :] + keys[: number * 5]
        order = order[::-1] if number % 2 else order
        answers = storage.enqueue([new_job(idempotency_key=key) for key in order])
        return {key: (answer.id, answer.created) for key, answer in zip(order, answers, strict=True)}

    answers = together(8, produce)
    holders = dict(JobHot.objects.values_list("idempotency_key", "id"))
    assert sorted(holders) == sorted(keys)
    for key in keys:
        assert {answer[key][0] for answer in answers} == {holders[key]}
        assert sum(answer[key][1] for answer in answers) == 1


def test_a_key_that_is_freed_meanwhile_never_breaks_an_enqueue() -> None:
    """Producers insist on one key while workers finish its holders: every answer is an id that was accepted."""

    def work(number: int, storage: Storage) -> list[tuple[str, bool]]:
        if number < 5:
            answers = [storage.enqueue([new_job(idempotency_key="busy")])[0] for _ in range(25)]
            return [(answer.id, answer.created) for answer in answers]
        own = Jobs(storage)
        for _ in range(40):
            worker = f"worker-{number}"
            own.settle(own.take(worker=worker), worker=worker)
        return []

    answers = [answer for thread in together(8, work) for answer in thread]
    created = {job_id for job_id, was_created in answers if was_created}
    assert {job_id for job_id, _ in answers} == created
    assert_one_place(len(created))


def test_a_status_that_waits_for_a_parent_is_not_claimed(jobs: Jobs) -> None:
    jobs.awaiting()
    assert jobs.take() == []
    assert JobHot.objects.get().status == AWAITING


def test_an_id_that_is_taken_is_an_error_and_leaves_the_first(storage: Storage, jobs: Jobs) -> None:
    """An id clash is a caller's bug, never a silent duplicate."""
    taken = jobs.one(payload='{"first":true}')
    with pytest.raises(Exception):  # noqa: B017, PT011 - each driver has its own class
        storage.enqueue([new_job(id=taken, payload="{}"), new_job(id=new_id())])
    assert row(taken)["payload"] == '{"first":true}'
    assert_one_place(1)
