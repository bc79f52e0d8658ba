"""PostgreSQL: connections lost at any moment, servers that do not answer, and what a worker's session is like."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest
from django.db import DatabaseError, DataError, OperationalError, ProgrammingError, connection, connections, transaction

from chokaq_django.models import JobArchive, JobDLQ, JobHot, MetricBucket
from chokaq_django.storage import ClaimRequest, OutcomeKind, Storage, get_storage
from chokaq_django.storage.listening import PostgresListener
from chokaq_django.storage.postgres import PostgresStorage, session

from ..helpers import kill_connection, wait_until
from .support import WORKER, Jobs, Pace, committed, keep_claiming, keep_trying, new_job, outcome

pytestmark = [committed, pytest.mark.skipif(connection.vendor != "postgresql", reason="PostgreSQL's connections")]

MODES = ("transaction_isolation", "transaction_read_only", "transaction_deferrable")

Killer = Callable[[Callable[[], int]], None]


@pytest.fixture
def killer() -> Iterator[Killer]:
    """Call it to start killing the backends of workers' sessions in this database, until the test ends; with what tells
    how far they are."""
    stop = threading.Event()
    own = connections.create_connection("default")
    own.inc_thread_sharing()

    def kill(progress: Callable[[], int]) -> None:
        pace = Pace(0.03, progress)
        while not stop.wait(pace.pause()):
            with own.cursor() as cursor:
                cursor.execute(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                    "WHERE datname = current_database() AND application_name LIKE 'chokaq %'"
                )

    threads: list[threading.Thread] = []

    def start(progress: Callable[[], int]) -> None:
        threads.append(threading.Thread(target=kill, args=(progress,)))
        threads[0].start()

    yield start
    stop.set()
    for thread in threads:
        thread.join()
    own.close()


@pytest.mark.slow
def test_nothing_is_lost_or_doubled_while_backends_are_killed(killer: Killer, other: Storage) -> None:
    ids: list[str] = []
    done: list[str] = []
    killer(lambda: len(ids) + len(done))
    for round_ in range(60):
        rows = [new_job(idempotency_key=f"{round_}-{i}" if i % 2 else None) for i in range(1 + round_ % 7)]
        answers = keep_trying(partial(other.enqueue, rows))
        assert [(answer.id, answer.created) for answer in answers] == [(row.id, True) for row in rows]
        ids += [row.id for row in rows]
    assert sorted(JobHot.objects.values_list("pk", flat=True)) == sorted(ids)
    while len(done) < len(ids):
        jobs = keep_claiming(other, 7)
        kinds = [OutcomeKind.SUCCEEDED, OutcomeKind.DEAD]
        outcomes = [outcome(job, kinds[i % 2]) for i, job in enumerate(jobs)]
        applied = keep_trying(partial(other.settle, WORKER, outcomes)) if outcomes else set()
        assert applied == {job.id for job in jobs}
        done += [job.id for job in jobs]
    assert sorted(done) == sorted(ids)
    assert not JobHot.objects.exists()
    assert JobArchive.objects.count() + JobDLQ.objects.count() == len(ids)
    assert sum(MetricBucket.objects.values_list("count", flat=True)) == len(ids)


def test_a_worker_does_not_wait_for_ever(other: Storage, monkeypatch: pytest.MonkeyPatch) -> None:
    assert isinstance(other, PostgresStorage)
    assert other.now() is not None, "it is connected"
    tries: list[str] = []

    def wait() -> None:
        tries.append("one")
        other._query("SELECT pg_advisory_xact_lock(4711)")  # type: ignore[attr-defined]

    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock(4711)")
        # It answers when this block is over, and not before.
        with monkeypatch.context() as patched:
            patched.setattr(session, "CLIENT_LIMIT", 0.3)
            with pytest.raises(OperationalError, match="did not answer"):
                other._single(wait)
        assert tries == ["one"], "and it is not tried again at once"
        assert other.now() is not None, "the next statement has a new connection"


def test_a_worker_session_has_settings_of_its_own(other: Storage) -> None:
    assert isinstance(other, PostgresStorage)

    def shown(name: str) -> str:
        return str(other._query(f"SHOW {name}")[0][0])

    assert shown("application_name").startswith("chokaq ")
    assert (shown("enable_seqscan"), shown("jit"), shown("TimeZone")) == ("off", "off", "UTC")
    assert shown("statement_timeout") == "30s"
    with connection.cursor() as cursor:
        cursor.execute("SHOW enable_seqscan")
        assert cursor.fetchone() == ("on",), "the caller's connection is left alone"


def test_statements_of_a_worker_are_prepared(other: Storage) -> None:
    assert isinstance(other, PostgresStorage)
    for _ in range(4):
        other.claim(ClaimRequest(WORKER, ["mail"], 1))
    names = other._query("SELECT count(*) FROM pg_prepared_statements WHERE statement LIKE '%%chokaq_job_hot%%'")
    assert names[0][0] == 1


def test_instants_are_aware_whatever_the_project_does(settings: Any, jobs: Jobs) -> None:
    """USE_TZ=False makes Django's own loader drop the zone."""
    settings.USE_TZ, settings.TIME_ZONE = False, "Asia/Tokyo"

    def server() -> float:
        with connection.cursor() as cursor:
            cursor.execute("SELECT extract(epoch FROM statement_timestamp())::float8")
            return float(cursor.fetchone()[0])

    before = server()
    (job,) = jobs.running()
    now = get_storage().now()
    assert now.utcoffset() is not None
    assert before <= job.created_at.timestamp() <= now.timestamp() <= server()


def test_a_lost_connection_dooms_the_callers_transaction_and_is_not_retried(jobs: Jobs, other: Storage) -> None:
    assert isinstance(other, PostgresStorage)

    def lose_it() -> None:
        with transaction.atomic():
            jobs.one()
            with connection.cursor() as cursor:
                cursor.execute("SELECT pg_backend_pid()")
                other._query("SELECT pg_terminate_backend(%s, 5000)", cursor.fetchone())
            get_storage().enqueue([new_job(), new_job()])

    with pytest.raises(OperationalError):
        lose_it()
    connection.close()
    assert not JobHot.objects.exists()


def test_notices_come_at_commit_once_for_each_queue(other: Storage) -> None:
    listener = PostgresListener("default")
    try:
        assert listener.drain() == []
        with transaction.atomic():
            get_storage().enqueue([new_job(queue="a"), new_job(queue="b"), new_job(queue="a")])
            get_storage().enqueue([new_job(queue="a")])
            other.now()
            assert listener.drain() == []
        assert sorted(_heard(listener, 2)) == ["a", "b"]
        get_storage().enqueue([new_job(queue="c", idempotency_key="k")])
        assert _heard(listener, 1) == ["c"]
        get_storage().enqueue([new_job(queue="c", idempotency_key="k")])
        assert listener.drain() == [], "a duplicate is no news"
    finally:
        listener.close()


def _heard(listener: PostgresListener, count: int) -> list[str]:
    heard: list[str] = []

    def enough() -> bool:
        heard.extend(listener.drain())
        return len(heard) >= count

    wait_until(enough, interval=0.005)
    return heard


def test_a_statement_that_an_error_kept_from_being_prepared(other: Storage) -> None:
    """The driver believes it is prepared: each later batch with it would fail as long as the connection lives."""
    assert isinstance(other, PostgresStorage)

    def batch(divisor: int) -> Any:
        return other._together([("SELECT 1 / %s::int4", [divisor]), ("SELECT %s::int4 + 41", [1])])

    for _ in range(session.PREPARE_AFTER):
        assert batch(1) == [[(1,)], [(42,)]]
    with pytest.raises(DataError):
        batch(0)  # ends the pipeline before the second of them, which is to be prepared now
    for _ in range(3):
        assert batch(1) == [[(1,)], [(42,)]]


# -- the transaction of an atomic job ----------------------------------------------------------------------------------


def test_a_marked_transaction_begins_as_the_driver_would() -> None:
    from psycopg import IsolationLevel
    from psycopg.pq import TransactionStatus

    connection.ensure_connection()
    raw: Any = connection.connection
    raw.isolation_level, raw.read_only, raw.deferrable = IsolationLevel.REPEATABLE_READ, True, True
    try:
        with transaction.atomic():
            get_storage().mark_transaction()
            assert raw.info.transaction_status == TransactionStatus.INTRANS
            told = [raw.execute(f"SHOW {name}").fetchone()[0] for name in MODES]
    finally:
        raw.isolation_level = raw.read_only = raw.deferrable = None
    assert told == ["repeatable read", "on", "on"]


def test_a_connection_that_is_lost_as_an_atomic_job_begins_is_transient(other: Storage) -> None:
    """And no failure of the job."""
    connection.ensure_connection()
    kill_connection(connection, by=other.connection)  # type: ignore[attr-defined]
    with pytest.raises(OperationalError) as caught, transaction.atomic():
        get_storage().mark_transaction()
    assert get_storage().is_transient(caught.value)


def test_what_the_server_refuses_as_an_atomic_job_begins_is_told_as_it_is() -> None:
    with transaction.atomic(), connection.cursor() as cursor:
        with pytest.raises(ProgrammingError):
            cursor.execute("SELECT nothing_of_this_name")
        with pytest.raises(DatabaseError) as caught:
            get_storage().mark_transaction()
    assert getattr(caught.value.__cause__, "sqlstate", "") == "25P02"  # in a transaction that has failed
    assert not get_storage().is_transient(caught.value)
