"""PostgreSQL: connections lost at any moment, servers that do not answer, and what a worker's session is like."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest
from django.db import OperationalError, connection, connections, transaction

from chokaq_django.models import JobArchive, JobDLQ, JobHot, MetricBucket
from chokaq_django.storage import ClaimRequest, OutcomeKind, Storage, get_storage
from chokaq_django.storage.listening import PostgresListener
from chokaq_django.storage.postgres import PostgresStorage, session

from ..helpers import wait_until
from .support import WORKER, Jobs, committed, keep_trying, new_job, outcome

pytestmark = [committed, pytest.mark.skipif(connection.vendor != "postgresql", reason="PostgreSQL's connections")]


@pytest.fixture
def killer() -> Iterator[Callable[[], None]]:
    """Call it to start killing the backends of workers' sessions in this database, until the test ends."""
    stop = threading.Event()
    own = connections.create_connection("default")
    own.inc_thread_sharing()

    def kill() -> None:
        while not stop.wait(0.03):
            with own.cursor() as cursor:
                cursor.execute(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                    "WHERE datname = current_database() AND application_name LIKE 'chokaq %'"
                )

    thread = threading.Thread(target=kill)
    yield thread.start
    stop.set()
    thread.join()
    own.close()


@pytest.mark.slow
def test_nothing_is_lost_or_doubled_while_backends_are_killed(killer: Callable[[], None], other: Storage) -> None:
    killer()
    ids: list[str] = []
    for round_ in range(60):
        rows = [new_job(idempotency_key=f"{round_}-{i}" if i % 2 else None) for i in range(1 + round_ % 7)]
        answers = keep_trying(partial(other.enqueue, rows))
        assert [(answer.id, answer.created) for answer in answers] == [(row.id, True) for row in rows]
        ids += [row.id for row in rows]
    assert sorted(JobHot.objects.values_list("pk", flat=True)) == sorted(ids)
    done: list[str] = []
    while len(done) < len(ids):
        jobs = keep_trying(lambda: other.claim(ClaimRequest(WORKER, ["mail"], 7))).jobs
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
    monkeypatch.setattr(session, "CLIENT_LIMIT", 0.3)
    began = time.monotonic()
    with pytest.raises(OperationalError, match="did not answer"):
        other._query("SELECT pg_sleep(2)")
    assert time.monotonic() - began < 1.5
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
    (job,) = jobs.running()
    now = get_storage().now()
    assert now.utcoffset() is not None
    assert abs((now - job.created_at).total_seconds()) < 10
    assert abs(now.timestamp() - time.time()) < 60


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

    wait_until(enough, 10, interval=0.005)
    return heard
