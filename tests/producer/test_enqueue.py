"""From ``enqueue`` to rows: what is stored, which transaction it belongs to, who is told."""

from __future__ import annotations

import datetime as dt
import json
import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import pytest
from asgiref.sync import async_to_sync, sync_to_async
from django.core.exceptions import SynchronousOnlyOperation
from django.db import DatabaseError, connection, connections, transaction
from django.db.transaction import TransactionManagementError

from chokaq_django import Job, aenqueue, enqueue, enqueue_many, job_enqueued, wake
from chokaq_django.models import JobHot
from chokaq_django.observability.events import Event
from chokaq_django.storage import StorageError, get_storage

Undone = Callable[..., AbstractContextManager[None]]

committed = pytest.mark.usefixtures("transactional_db")


class LetterJob(Job, type="producer.letter", queue="letters"):
    name: str = ""


class OnceJob(Job, type="producer.once", unique_key=lambda job: f"once-{job.name}"):
    name: str = ""


@pytest.fixture
def signalled() -> Iterator[list[dict[str, Any]]]:
    """Keyword arguments of each ``job_enqueued``."""
    sent: list[dict[str, Any]] = []

    def receiver(**named: Any) -> None:
        sent.append({name: named[name] for name in ("sender", "job_id", "type", "queue")})

    job_enqueued.connect(receiver)
    yield sent
    job_enqueued.disconnect(receiver)


def stored() -> set[str]:
    return set(JobHot.objects.values_list("pk", flat=True))


# -- what is stored ----------------------------------------------------------------------------------------------------


@committed
def test_the_row() -> None:
    before = get_storage().now()
    made = enqueue(
        LetterJob("ä🎈"),
        priority=30,
        tags=["signup", "🎈"],
        created_by="ada",
        headers={"traceparent": "00-1"},
        idempotency_key="k",
        max_attempts=5,
    )
    after = get_storage().now()
    job = JobHot.objects.get(pk=made.id)
    assert made.created is True
    assert (job.type, job.queue, job.priority, job.max_attempts) == ("producer.letter", "letters", 30, 5)
    assert json.loads(job.payload) == {"name": "ä🎈"}
    assert json.loads(job.tags) == ["signup", "🎈"]
    assert json.loads(job.headers) == {"traceparent": "00-1"}
    assert (job.created_by, job.idempotency_key, job.schema_version) == ("ada", "k", 1)
    assert (job.status, job.attempt, job.claim_number, job.deadline_at) == (0, 0, 0, None)
    assert before <= job.created_at <= after
    assert before <= job.run_at <= after
    assert job.due_at == job.run_at


@committed
def test_times_are_counted_by_the_database() -> None:
    before = get_storage().now()
    made = enqueue(LetterJob(), delay=dt.timedelta(minutes=5), deadline_after=600)
    after = get_storage().now()
    job = JobHot.objects.get(pk=made.id)
    assert before <= job.run_at - dt.timedelta(minutes=5) <= after
    assert job.due_at == job.run_at
    assert job.deadline_at is not None
    assert before <= job.deadline_at - dt.timedelta(minutes=10) <= after


@committed
def test_given_times_are_kept() -> None:
    past, future = dt.datetime(2020, 1, 1, 12, 30, 15, 123456, tzinfo=dt.UTC), dt.datetime(2099, 1, 1, tzinfo=dt.UTC)
    job = JobHot.objects.get(pk=enqueue(LetterJob(), run_at=past, deadline=future).id)
    assert (job.run_at, job.due_at, job.deadline_at) == (past, past, future)


# -- duplicates --------------------------------------------------------------------------------------------------------


@committed
def test_a_held_key_answers_with_its_holder() -> None:
    first = enqueue(LetterJob("a"), idempotency_key="k")
    second = enqueue(LetterJob("b"), idempotency_key=" k ")
    assert (second.id, second.created) == (first.id, False)
    assert stored() == {first.id}
    assert enqueue(OnceJob("7")).id == enqueue(OnceJob("7")).id
    assert enqueue(OnceJob("7"), idempotency_key="other").created


@committed
def test_a_duplicate_leaves_the_transaction_usable() -> None:
    first = enqueue(LetterJob(), idempotency_key="k")
    with transaction.atomic():
        assert not enqueue(LetterJob(), idempotency_key="k").created
        after = enqueue(LetterJob())
    assert stored() == {first.id, after.id}


@committed
def test_one_of_many_at_once_wins() -> None:
    barrier = threading.Barrier(6)
    answers = []

    def race() -> None:
        try:
            barrier.wait(10)
            answers.append(enqueue(LetterJob(), idempotency_key="contested"))
        finally:
            connections.close_all()

    threads = [threading.Thread(target=race) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert len(answers) == 6
    assert len({answer.id for answer in answers}) == 1
    assert [answer.created for answer in answers].count(True) == 1


# -- transactions ------------------------------------------------------------------------------------------------------


@committed
def test_it_belongs_to_the_open_transaction(woken: list[str], signalled: list[dict[str, Any]]) -> None:
    with transaction.atomic():
        made = enqueue(LetterJob())
        assert (woken, signalled) == ([], [])
    assert stored() == {made.id}
    assert woken == ["woken"]
    assert signalled == [{"sender": LetterJob, "job_id": made.id, "type": "producer.letter", "queue": "letters"}]


@committed
def test_a_rollback_leaves_nothing(undone: Undone, woken: list[str], signalled: list[dict[str, Any]]) -> None:
    with undone():
        enqueue(LetterJob())
    assert (stored(), woken, signalled) == (set(), [], [])


@committed
def test_a_savepoint_rollback_leaves_nothing_of_its_own(
    undone: Undone, woken: list[str], signalled: list[dict[str, Any]]
) -> None:
    with transaction.atomic():
        before = enqueue(LetterJob("before"))
        with undone():
            enqueue(LetterJob("inside"), idempotency_key="k")
        after = enqueue(LetterJob("after"), idempotency_key="k")
    assert after.created
    assert stored() == {before.id, after.id}
    assert [sent["job_id"] for sent in signalled] == [before.id, after.id]
    assert len(woken) == 2
    woken.clear()
    with transaction.atomic(), undone():
        enqueue(LetterJob("lost"))
    assert woken == []


@committed
def test_without_a_transaction_it_is_committed_at_once(woken: list[str], signalled: list[dict[str, Any]]) -> None:
    made = enqueue(LetterJob())
    assert len(woken) == 1
    assert len(signalled) == 1
    assert seen_by_another_thread() == {made.id}


def seen_by_another_thread() -> set[str]:
    seen: list[set[str]] = []

    def look() -> None:
        try:
            seen.append(stored())
        finally:
            connections.close_all()

    thread = threading.Thread(target=look)
    thread.start()
    thread.join(30)
    return seen[0]


@committed
def test_nobody_is_told_of_duplicates(woken: list[str], signalled: list[dict[str, Any]]) -> None:
    enqueue(LetterJob(), idempotency_key="k")
    woken.clear()
    signalled.clear()
    enqueue(LetterJob(), idempotency_key="k")
    assert (woken, signalled) == ([], [])


@committed
def test_nothing_waits_for_the_commit_when_nobody_listens() -> None:
    with transaction.atomic():
        enqueue(LetterJob())
        assert connection.run_on_commit == []


@committed
def test_who_enqueues_does_not_fail_with_a_listener(
    signalled: list[dict[str, Any]], caplog: pytest.LogCaptureFixture
) -> None:
    def broken(**named: Any) -> None:
        raise RuntimeError("receiver")

    def closed() -> None:
        raise OSError("listener")

    job_enqueued.connect(broken)
    wake.subscribe("default", closed)
    try:
        with transaction.atomic():
            made = enqueue(LetterJob())
    finally:
        job_enqueued.disconnect(broken)
        wake.unsubscribe("default", closed)
    assert stored() == {made.id}
    assert len(signalled) == 1
    assert "receiver" in caplog.text
    assert "listener" in caplog.text


@committed
def test_manual_transactions_commit_when_the_caller_does(woken: list[str]) -> None:
    transaction.set_autocommit(False)
    try:
        enqueue(LetterJob("undone"))
        transaction.rollback()
        made = enqueue(LetterJob("kept"))
        transaction.commit()
    finally:
        transaction.rollback()
        transaction.set_autocommit(True)
    assert stored() == {made.id}
    assert woken == []  # nothing tells when the commit is: workers look for themselves


# -- another database --------------------------------------------------------------------------------------------------


@pytest.fixture
def elsewhere(tmp_path: Path) -> Iterator[str]:
    """The alias of a second database, which holds no jobs."""
    settings = {**connections.settings["default"], "ENGINE": "django.db.backends.sqlite3", "OPTIONS": {}}
    connections.settings["elsewhere"] = {**settings, "NAME": str(tmp_path / "elsewhere.sqlite3")}
    connections["elsewhere"].connect()  # by hand: the test case knows only the databases of the settings
    yield "elsewhere"
    connections["elsewhere"].close()
    del connections["elsewhere"]
    del connections.settings["elsewhere"]


@committed
def test_another_databases_transaction_is_not_joined(
    elsewhere: str, undone: Undone, woken: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, logger="chokaq.enqueue")
    with undone(elsewhere):
        made = enqueue(LetterJob())
        assert len(woken) == 1
    assert stored() == {made.id}
    [record] = [record for record in caplog.records if record.name == "chokaq.enqueue"]
    assert record.levelno == logging.DEBUG
    assert record.event_id == 3002 == int(Event.ENQUEUE_OUTSIDE_TRANSACTION)  # type: ignore[attr-defined]
    assert "a transaction is open on 'elsewhere', but jobs are stored in database 'default'" in record.getMessage()


@committed
def test_the_jobs_own_transaction_needs_no_warning(elsewhere: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, logger="chokaq.enqueue")
    enqueue(LetterJob())
    with transaction.atomic(using=elsewhere), transaction.atomic():
        enqueue(LetterJob())
    assert caplog.records == []


# -- async -------------------------------------------------------------------------------------------------------------


@committed
def test_async_code_enqueues_and_commits(woken: list[str]) -> None:
    async def view() -> str:
        made = await aenqueue(LetterJob("async"), priority=3, idempotency_key="k")
        again = await aenqueue(LetterJob("async"), idempotency_key="k")
        assert (again.id, again.created) == (made.id, False)
        return made.id

    made = async_to_sync(view)()
    assert seen_by_another_thread() == {made}
    assert JobHot.objects.get().priority == 3
    assert len(woken) == 1


@committed
def test_async_code_is_told_to_use_aenqueue() -> None:
    async def view() -> None:
        enqueue(LetterJob())

    with pytest.raises(SynchronousOnlyOperation, match="await aenqueue"):
        async_to_sync(view)()
    assert stored() == set()


@committed
def test_errors_reach_async_code() -> None:
    async def view() -> None:
        await aenqueue(LetterJob(), priority=True)

    with pytest.raises(ValueError, match="priority must be an integer"):
        async_to_sync(view)()


@committed
def test_sync_code_under_async_code_joins_its_own_transaction(undone: Undone) -> None:
    def work() -> None:
        with undone():
            enqueue(LetterJob())

    async_to_sync(sync_to_async(work))()
    assert stored() == set()


# -- the database is not ready -----------------------------------------------------------------------------------------


@committed
@pytest.mark.parametrize("what", ["the table", "a column"])
def test_a_missing_table_says_what_to_do(what: str) -> None:
    with renamed(what):
        with pytest.raises(StorageError, match=r"missing in database 'default', or older .* run 'manage.py migrate'"):
            enqueue(LetterJob())
        with pytest.raises(StorageError, match=r"manage\.py migrate"):
            enqueue_many([LetterJob(), LetterJob()])


@contextmanager
def renamed(what: str) -> Iterator[None]:
    """The database of somebody who has not migrated: no table, or one without a column."""
    rename, old, new = (
        (rename_table, "chokaq_job_hot", "chokaq_job_hidden")
        if what == "the table"
        else (rename_column, "headers", "heads")
    )
    with connection.cursor() as cursor:
        cursor.execute(rename(old, new))
    try:
        yield
    finally:
        with connection.cursor() as cursor:
            cursor.execute(rename(new, old))


def rename_table(old: str, new: str) -> str:
    if connection.vendor == "microsoft":
        return f"EXEC sp_rename '{old}', '{new}'"
    return f"ALTER TABLE {old} RENAME TO {new}"


def rename_column(old: str, new: str) -> str:
    if connection.vendor == "microsoft":
        return f"EXEC sp_rename 'chokaq_job_hot.{old}', '{new}', 'COLUMN'"
    return f"ALTER TABLE chokaq_job_hot RENAME COLUMN {old} TO {new}"


@committed
def test_other_database_errors_stay_what_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    made: Callable[[], str] = lambda: "x" * 60  # noqa: E731 - an id that no engine with typed columns takes
    monkeypatch.setattr("chokaq_django.request.new_id", made)
    if connection.vendor == "sqlite":
        pytest.skip("SQLite does not limit the length of text")
    with pytest.raises(Exception, match=r"too long|would be truncated") as caught:
        enqueue(LetterJob())
    assert not isinstance(caught.value, StorageError)


@committed
def test_who_swallows_an_error_of_enqueue_cannot_commit_half_of_his_transaction(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A deadlock has undone what came before it; whatever the error was, only a rollback is safe."""
    taken = enqueue(LetterJob()).id
    monkeypatch.setattr("chokaq_django.request.new_id", lambda: taken)
    with pytest.raises(TransactionManagementError), transaction.atomic():  # noqa: PT012 - it is the later query
        with pytest.raises(DatabaseError):
            enqueue(LetterJob())
        JobHot.objects.exists()
    with transaction.atomic():
        with pytest.raises(DatabaseError), transaction.atomic():
            enqueue(LetterJob())
        assert JobHot.objects.count() == 1, "with a savepoint around it the transaction goes on"
