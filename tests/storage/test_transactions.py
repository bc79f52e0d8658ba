"""Transactions: enqueue lives and dies with the caller's; settle too, for atomic jobs; everything else owns its own."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from django.db import OperationalError, connection, connections, transaction

from chokaq_django.models import JobHot, Queue
from chokaq_django.storage import Enqueued, Lease, OutcomeKind, Storage, get_storage, open_storage

from .invariants import assert_one_place
from .support import NOBODY, WORKER, Jobs, committed, ids, new_job, row, rule, trim, undone

pytestmark = committed


@pytest.fixture
def elsewhere(tmp_path: Path) -> Iterator[str]:
    """Another alias: a database of its own, with no job tables."""
    alias = "elsewhere"
    connections.databases[alias] = {
        **connections.databases["default"],
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": str(tmp_path / "elsewhere.sqlite3"),
        "OPTIONS": {},
    }
    yield alias
    connections[alias].close()
    del connections[alias]
    del connections.databases[alias]


def key_holder(own: Storage, key: str) -> Enqueued:
    return own.enqueue([new_job(idempotency_key=key)])[0]


# -- enqueue -----------------------------------------------------------------------------------------------------------


def test_without_a_transaction_a_job_is_there_at_once(jobs: Jobs, other: Storage) -> None:
    job_id = jobs.one()
    assert ids(Jobs(other).take()) == [job_id]


def test_in_a_transaction_a_job_is_there_after_the_commit(jobs: Jobs, other: Storage) -> None:
    with transaction.atomic():
        job_id = jobs.one()
        assert JobHot.objects.filter(pk=job_id).exists(), "the caller sees its own row"
        assert other.pending_queues() == []
    assert ids(Jobs(other).take()) == [job_id]


def test_a_rollback_leaves_nothing(jobs: Jobs) -> None:
    with undone():
        jobs.add(3)
        jobs.one(idempotency_key="k")
    assert_one_place(0)
    assert jobs.storage.enqueue([new_job(idempotency_key="k")])[0].created


def test_a_savepoint_rollback_leaves_what_was_outside_it(jobs: Jobs) -> None:
    with transaction.atomic():
        first = jobs.one(idempotency_key="a")
        with undone():
            jobs.one(idempotency_key="b")
        third = jobs.one(idempotency_key="b")
    assert sorted(JobHot.objects.values_list("pk", flat=True)) == sorted([first, third])


def test_the_callers_own_writes_share_the_fate_of_the_job(jobs: Jobs) -> None:
    with undone():
        Queue.objects.create(name="orders", updated_at=jobs.now())
        jobs.one()
    assert (Queue.objects.count(), JobHot.objects.count()) == (0, 0)


def test_a_duplicate_does_not_doom_the_transaction(jobs: Jobs, storage: Storage) -> None:
    first = jobs.one(idempotency_key="k")
    with transaction.atomic():
        answers = storage.enqueue([new_job(idempotency_key="k"), new_job(), new_job(idempotency_key="k")])
        assert [answer.created for answer in answers] == [False, True, False]
        assert {answers[0].id, answers[2].id} == {first}
        Queue.objects.create(name="after", updated_at=jobs.now())
    assert Queue.objects.count() == 1
    assert_one_place(2)


def test_a_key_of_the_same_transaction_is_held(jobs: Jobs, storage: Storage) -> None:
    with transaction.atomic():
        first = jobs.one(idempotency_key="k")
        assert key_holder(storage, "k") == Enqueued(first, False)
    assert_one_place(1)


def test_a_bulk_enqueue_rolls_back_whole(jobs: Jobs, storage: Storage) -> None:
    with undone():
        storage.enqueue([new_job(idempotency_key=f"k{n}" if n % 2 else None) for n in range(2_500)])
    assert_one_place(0)


def test_thousands_of_rows_become_visible_together(storage: Storage, other: Storage) -> None:
    """Outside a transaction a call that needs several statements is one transaction all the same."""
    taken = new_job()
    storage.enqueue([taken])
    rows = [new_job() for _ in range(6_000)]
    rows.append(new_job(id=taken.id))
    with pytest.raises(Exception):  # noqa: B017, PT011 - each driver has its own class
        storage.enqueue(rows)
    assert_one_place(1)


@pytest.mark.parametrize("end", ["commit", "rollback"])
def test_who_meets_a_key_of_an_open_transaction_waits_for_its_end(storage: Storage, end: str) -> None:
    first, second = [], []
    inserted, asked = threading.Event(), threading.Event()

    def hold() -> None:
        try:
            with undone() if end == "rollback" else transaction.atomic():
                first.append(key_holder(get_storage(), "k"))
                inserted.set()
                # The other thread now waits for this transaction, or will: either way it must see how this one ends.
                assert asked.wait(30)
        finally:
            connection.close()

    def ask() -> None:
        own = open_storage()
        try:
            asked.set()
            second.append(key_holder(own, "k"))
        finally:
            own.close()

    holder = threading.Thread(target=hold, daemon=True)
    holder.start()
    assert inserted.wait(30)
    asker = threading.Thread(target=ask, daemon=True)
    asker.start()
    for thread in (holder, asker):
        thread.join(30)
        assert not thread.is_alive()
    assert first[0].created
    if end == "commit":
        assert second == [Enqueued(first[0].id, False)]
    else:
        assert second[0].created
        assert second[0].id != first[0].id
    assert_one_place(1)


def test_another_alias_is_another_transaction(jobs: Jobs, other: Storage, elsewhere: str) -> None:
    """Only a transaction on the job database's own alias is joined."""
    with undone(elsewhere):
        job_id = jobs.one()
        assert other.pending_queues() == ["mail"], "committed by itself"
    assert ids(jobs.take()) == [job_id]


def test_a_storage_is_bound_to_its_alias(storage: Storage, other: Storage) -> None:
    assert (storage.alias, other.alias) == ("default", "default")
    assert get_storage("default").alias == "default"


def test_a_private_connection_does_not_join_the_transaction(jobs: Jobs) -> None:
    jobs.one()
    with transaction.atomic():
        own = open_storage()
        try:
            assert own.pending_queues() == ["mail"]
        finally:
            own.close()


# -- atomic jobs -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [OutcomeKind.SUCCEEDED, OutcomeKind.DEAD, OutcomeKind.RETRY])
def test_a_settle_rolls_back_with_the_callers_transaction(
    jobs: Jobs, counts: Callable[[], Any], kind: OutcomeKind
) -> None:
    (job,) = jobs.running()
    before = row(job.id)
    with undone():
        Queue.objects.create(name="effect", updated_at=jobs.now())
        assert jobs.settle(job, kind) == {job.id}
    assert row(job.id) == before
    assert counts() == {}
    assert not Queue.objects.exists()
    with transaction.atomic():
        Queue.objects.create(name="effect", updated_at=jobs.now())
        assert jobs.settle(job) == {job.id}
    assert row(job.id)["place"] == "archive"
    assert sum(counts().values()) == 1


def test_a_lost_lease_in_the_callers_transaction_is_an_answer_not_an_error(jobs: Jobs) -> None:
    (job,) = jobs.running()
    JobHot.objects.update(claim_number=9)
    with transaction.atomic():
        Queue.objects.create(name="effect", updated_at=jobs.now())
        assert jobs.settle(job) == set()
        assert Queue.objects.count() == 1, "the transaction goes on"
    assert row(job.id)["claim_number"] == 9


# -- the other operations ----------------------------------------------------------------------------------------------


def test_every_answer_is_committed(jobs: Jobs, storage: Storage, other: Storage) -> None:
    """What an operation of a worker answers is true for everybody at once."""
    seen = Jobs(other)
    (first, second) = jobs.fetched(2)
    assert [live.status for live in other.live_rows()] == [1, 1]
    storage.start(WORKER, [first.lease])
    assert sorted(live.status for live in other.live_rows()) == [1, 2]
    storage.release(WORKER, [second.lease])
    assert [live.id for live in other.live_rows()] == [first.id]
    storage.cancel([first.id], "ada")
    assert other.cancel_requests([first.lease]) == {first.id: "ada"}
    jobs.settle(first)
    assert other.live_rows() == []
    assert ids(seen.take()) == [second.id]


def test_nothing_is_left_open(jobs: Jobs, storage: Storage) -> None:
    """After an operation outside a transaction the connection is back in autocommit, and usable."""
    (job,) = jobs.running()
    storage.heartbeat(WORKER, [job.lease, Lease(NOBODY, 1)])
    jobs.settle(job)
    storage.expire(10)
    trim(storage, rule("archive", 100))
    storage.lead("x", WORKER, 5)
    assert connection.get_autocommit()
    assert not connection.in_atomic_block
    with transaction.atomic():
        assert JobHot.objects.count() == 0


def test_a_closed_storage_can_be_opened_again() -> None:
    for _ in range(3):
        own = open_storage()
        assert own.pending_queues() == []
        own.close()


def test_between_two_tries_a_call_rests_no_longer_than_it_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    rests: dict[str, list[float]] = {}
    for name, most in (("patient", None), ("hasty", 0.1)):
        storage = get_storage()
        if most is not None:
            storage.hurry(most)
        monkeypatch.setattr(storage._retrier, "sleep", rests.setdefault(name, []).append)
        monkeypatch.setattr(storage._retrier, "transient", lambda error: True)

        def away() -> None:
            raise OperationalError("away")

        with pytest.raises(OperationalError):
            storage._retrier.run(away)
    assert len(rests["hasty"]) == len(rests["patient"]) > 1
    assert max(rests["hasty"]) <= 0.1 < max(rests["patient"])
