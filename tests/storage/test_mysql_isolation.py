"""MariaDB and MySQL: callers at REPEATABLE READ, and what our own transactions see there."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from django.db import IntegrityError, connection, connections, transaction

from chokaq_django.models import JobHot
from chokaq_django.storage import Enqueued, Storage, get_storage

from .invariants import assert_one_place
from .support import WORKER, Jobs, committed, ids, new_job, outcome, row

pytestmark = [committed, pytest.mark.skipif(connection.vendor != "mysql", reason="isolation on MariaDB and MySQL")]


@pytest.fixture(params=["repeatable read", None], ids=["repeatable read", "the server's default"])
def alias(request: pytest.FixtureRequest) -> Iterator[str]:
    """The job database once more, with this isolation level."""
    name = "repeating"
    default = connections.databases["default"]
    connections.databases[name] = {
        **default,
        "OPTIONS": {**default["OPTIONS"], "isolation_level": request.param},
    }
    yield name
    connections[name].close()
    del connections[name]
    del connections.databases[name]


def keyed(storage: Storage, many: bool, key: str = "k") -> Enqueued:
    rows = [new_job(idempotency_key=key), *([new_job(), new_job(idempotency_key=f"{key}{key}")] if many else [])]
    return storage.enqueue(rows)[0]


def look(alias: str) -> int:
    """Begins the snapshot of the transaction that is open."""
    return JobHot.objects.using(alias).count()


MANY = pytest.mark.parametrize("many", [False, True], ids=["one", "many"])


@MANY
def test_a_holder_that_the_snapshot_does_not_show_is_answered(alias: str, jobs: Jobs, many: bool) -> None:
    with transaction.atomic(using=alias):
        assert look(alias) == 0
        holder = jobs.one(idempotency_key="k")
        assert look(alias) == 0, "the snapshot is old"
        assert keyed(get_storage(alias), many) == Enqueued(holder, False)
    assert JobHot.objects.count() == 1 + 2 * many


@MANY
def test_a_holder_that_has_ended_since_the_snapshot_holds_nothing(alias: str, jobs: Jobs, many: bool) -> None:
    (job,) = jobs.running(idempotency_key="k")
    with transaction.atomic(using=alias):
        assert look(alias) == 1
        assert jobs.settle(job) == {job.id}
        assert look(alias) == 1, "the snapshot is old"
        answer = keyed(get_storage(alias), many)
        assert answer.created
        assert answer.id != job.id
    assert_one_place(2 + 2 * many)


@MANY
def test_a_key_of_the_same_transaction_is_held(alias: str, many: bool) -> None:
    with transaction.atomic(using=alias):
        first = keyed(get_storage(alias), False)
        assert keyed(get_storage(alias), many) == Enqueued(first.id, False)
    assert JobHot.objects.count() == 1 + 2 * many


def test_a_duplicate_does_not_doom_the_transaction(alias: str, jobs: Jobs) -> None:
    holder = jobs.one(idempotency_key="k")
    with transaction.atomic(using=alias):
        own = get_storage(alias)
        answers = own.enqueue([new_job(idempotency_key="k"), new_job(), new_job(idempotency_key="n")])
        assert [answer.created for answer in answers] == [False, True, True]
        assert answers[0].id == holder
        assert own.enqueue([new_job()])[0].created
    assert JobHot.objects.count() == 4


def test_a_dead_job_whose_key_was_taken_since_the_snapshot_is_refused(alias: str, jobs: Jobs) -> None:
    (dead,) = jobs.dead(idempotency_key="k")
    with transaction.atomic(using=alias):
        assert look(alias) == 0
        holder = jobs.one(idempotency_key="k")
        (refused,) = get_storage(alias).resurrect([dead], "ada").refused
        assert refused.id == dead
    assert row(dead)["place"] == "dlq"
    assert row(holder)["place"] == "hot"


def test_transactions_of_our_own_see_what_is_committed(alias: str, jobs: Jobs) -> None:
    """Outside of a caller's transaction a storage begins its own, at READ COMMITTED, and only that one."""
    own = get_storage(alias)
    seen = []

    def work() -> None:
        seen.append(own._query("SELECT COUNT(*) FROM chokaq_job_hot")[0][0])  # type: ignore[attr-defined]
        jobs.one()
        seen.append(own._query("SELECT COUNT(*) FROM chokaq_job_hot")[0][0])  # type: ignore[attr-defined]

    own._unit(work)  # type: ignore[attr-defined]
    assert seen == [0, 1]
    with transaction.atomic(using=alias):
        assert look(alias) == 1
        jobs.one()
        assert look(alias) == 1, "the caller's next transaction has its own level again"


def test_a_whole_life_on_such_a_connection(alias: str) -> None:
    seen = Jobs(get_storage(alias))
    given = seen.add(5)
    taken = seen.take(3, capped={"mail": 4})
    assert ids(taken) == given[:3]
    assert seen.storage.settle(WORKER, [outcome(job) for job in taken]) == set(given[:3])
    assert seen.storage.cancel(given[3:], "ada").applied == given[3:]
    assert seen.storage.resurrect(given[3:], "ada").applied == given[3:]
    assert_one_place(5)


def test_an_id_that_exists_is_an_error_and_no_duplicate_of_a_key(jobs: Jobs, storage: Storage) -> None:
    taken = jobs.one(idempotency_key="k")
    for rows in ([new_job(id=taken, idempotency_key="n")], [new_job(id=taken, idempotency_key="n"), new_job()]):
        with pytest.raises(IntegrityError, match="PRIMARY"):
            storage.enqueue(rows)
        with pytest.raises(IntegrityError, match="PRIMARY"), transaction.atomic():
            storage.enqueue(rows)
    assert row(taken)["idempotency_key"] == "k"
    assert_one_place(1)
