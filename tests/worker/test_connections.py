"""What jobs do to the database connection of their thread stays with them. One thread, so that jobs share it."""

from __future__ import annotations

import decimal
import gc
import json
import zoneinfo
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from contextvars import ContextVar
from typing import Any

import pytest
from django.db import IntegrityError, InterfaceError, ProgrammingError, connection, connections, transaction
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.backends.signals import connection_created
from django.utils import timezone, translation

from chokaq_django import Job, JobContext, enqueue, enqueue_many
from chokaq_django.models import JobStatus
from chokaq_django.worker.connections import tidy_connections, watch_sessions

from .. import jobs
from ..ledger import Ledger
from ..models import Effect
from .conftest import StartWorker
from .support import committed, not_on, only_on, settled

pytestmark = committed

BAD_STATES = ["open transaction", "raw transaction", "broken transaction", "no autocommit", "session"]


@pytest.mark.parametrize("how", BAD_STATES)
def test_a_job_that_leaves_its_connection_in_a_bad_state_does_not_hurt_the_next(
    start_worker: StartWorker, ledger: Ledger, how: str
) -> None:
    start_worker(concurrency=1)
    settled(enqueue(jobs.BreakJob(how=how), max_attempts=1).id)
    view = settled(enqueue(jobs.EffectJob(name="next"), max_attempts=1).id)
    assert view.status == JobStatus.SUCCEEDED, view.error_details
    assert Effect.objects.filter(name="next").count() == 1, "its row is committed"
    assert not Effect.objects.filter(name="never committed").exists()


@pytest.mark.parametrize("how", BAD_STATES)
def test_an_atomic_job_after_it_is_not_hurt_either(start_worker: StartWorker, how: str) -> None:
    start_worker(concurrency=1)
    settled(enqueue(jobs.BreakJob(how=how), max_attempts=1).id)
    view = settled(enqueue(jobs.AtomicJob(name="next")).id)
    assert (view.status, view.attempt) == (JobStatus.SUCCEEDED, 1), view.attempts
    assert Effect.objects.filter(name="next").count() == 1


@pytest.mark.parametrize(
    "how",
    [pytest.param("killed", marks=not_on("sqlite", "there is no server that could end a connection")), "closed"],
)
def test_a_job_whose_connection_is_lost_does_not_hurt_the_next(start_worker: StartWorker, how: str) -> None:
    start_worker(concurrency=1)
    settled(enqueue(jobs.BreakJob(how=how), max_attempts=1).id)
    for job in (jobs.EffectJob(name="next"), jobs.AtomicJob(name="next")):
        view = settled(enqueue(job, max_attempts=1).id)
        assert view.status == JobStatus.SUCCEEDED, view.error_details
    assert Effect.objects.filter(name="next").count() == 2


LEFT: dict[str, dict[str, tuple[str, str, object]]] = {
    "postgresql": {
        "temporary table": (
            "CREATE TEMPORARY TABLE left_here (n int)",
            "SELECT to_regclass('pg_temp.left_here')",
            None,
        ),
        "lock": (
            "SELECT pg_advisory_lock(4711)",
            "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid()",
            0,
        ),
        "prepared statement": (
            "PREPARE left_here AS SELECT 1",
            "SELECT count(*) FROM pg_prepared_statements WHERE name = 'left_here'",
            0,
        ),
        "setting": (
            "WITH s AS (SELECT set_config('search_path', 'pg_catalog', false)) SELECT 1 FROM s",
            "SELECT current_setting('search_path') LIKE '%%public%%'",
            True,
        ),
        "second statement": ("SELECT 1; SET work_mem = '1MB'", "SELECT current_setting('work_mem') = '1MB'", False),
        "role": ("/* who */ SET ROLE pg_monitor", "SELECT current_user = session_user", True),
        "level": (
            "SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL SERIALIZABLE",
            "SELECT current_setting('default_transaction_isolation')",
            "read committed",
        ),
        "cursor": ("DECLARE left_here CURSOR WITH HOLD FOR SELECT 1", "SELECT count(*) FROM pg_cursors", 0),
        "listening": ("LISTEN left_here", "SELECT count(*) FROM pg_listening_channels()", 0),
    },
    "mysql": {
        "temporary table": (
            "CREATE TEMPORARY TABLE left_here (n int)",
            "CREATE TEMPORARY TABLE left_here (n int)",
            None,
        ),
        "lock": (
            "SELECT GET_LOCK('left_here', 0)",
            "SELECT COALESCE(IS_USED_LOCK('left_here') = CONNECTION_ID(), 0)",
            0,
        ),
        "variable": ("SELECT @left_here := 7", "SELECT @left_here IS NULL", 1),
        "autocommit": ("SET autocommit = 0", "SELECT @@autocommit", 1),
        "mode": ("/* how */ SET sql_mode = ''", "SELECT @@sql_mode = ''", 0),
    },
    "sqlite": {
        "temporary table": ("CREATE TEMP TABLE left_here (n)", "SELECT count(*) FROM temp.sqlite_master", 0),
        "mode": ("PRAGMA case_sensitive_like(1)", "SELECT 'a' LIKE 'A'", 1),
        "database": (
            "ATTACH ':memory:' AS left_here",
            "SELECT count(*) FROM pragma_database_list WHERE name = 'left_here'",
            0,
        ),
    },
    "microsoft": {
        "temporary table": ("SELECT 1 AS n INTO #left_here", "SELECT COUNT(OBJECT_ID('tempdb..#left_here'))", 0),
        "mode": ("SELECT 1 SET LOCK_TIMEOUT 7", "SELECT @@LOCK_TIMEOUT", -1),
    },
}
"""What a job does to its session, how another looks for it, and what that finds."""


@pytest.mark.parametrize(
    ("does", "looks", "finds"), LEFT[connection.vendor].values(), ids=list(LEFT[connection.vendor])
)  # fmt: skip
def test_nothing_of_a_session_reaches_the_next_job(
    start_worker: StartWorker, does: str, looks: str, finds: object
) -> None:
    start_worker(concurrency=1)
    for sql in (does, looks):
        view = settled(enqueue(jobs.SessionJob(sql=sql), max_attempts=1).id)
        assert view.status == JobStatus.SUCCEEDED, view.error_details
    assert view.result == (None if finds is None else json.dumps(finds))


class HookJob(Job, type="test.hook", circuit=False):
    """Puts a wrapper round its statements, before its thread has a connection; returns how many it saw."""

    how: str

    def run(self, ctx: JobContext) -> int:
        seen: list[str] = []

        def wrapper(execute: Callable[..., Any], sql: str, *rest: Any) -> Any:
            seen.append(sql)
            if self.how == "blocks":
                raise RuntimeError("No statements here")
            return execute(sql, *rest)

        if self.how == "forgets":
            connection.execute_wrappers.append(wrapper)
            connection.force_debug_cursor = True
            Effect.objects.count()
        else:
            with connection.execute_wrapper(wrapper), suppress(RuntimeError):
                Effect.objects.count()
        return len(seen)


class HooksJob(Job, type="test.hooks", circuit=False):
    """Returns what is on its connection."""

    def run(self, ctx: JobContext) -> list[object]:
        Effect.objects.count()
        return [len(connection.execute_wrappers), connection.force_debug_cursor]


@pytest.mark.parametrize("how", ["blocks", "counts", "forgets"])
def test_a_wrapper_of_the_first_job_of_a_thread_is_that_of_this_job(start_worker: StartWorker, how: str) -> None:
    """``execute_wrapper()`` takes off the last one at its end, whichever that is."""
    start_worker(concurrency=1)
    view = settled(enqueue(HookJob(how=how), max_attempts=1).id)
    assert int(view.result or 0) >= 1, "Django's own statements for a new connection may be among them"
    view = settled(enqueue(HooksJob(), max_attempts=1).id)
    assert view.result is not None, view.error_details
    assert json.loads(view.result) == [1, False], "the worker's own"
    (does, looks, finds), *_ = LEFT[connection.vendor].values()
    settled(enqueue(jobs.SessionJob(sql=does), max_attempts=1).id)
    view = settled(enqueue(jobs.SessionJob(sql=looks), max_attempts=1).id)
    assert view.status == JobStatus.SUCCEEDED, "the session is still watched"
    assert view.result == (None if finds is None else json.dumps(finds))


def in_a_thread(work: Callable[[], None]) -> None:
    """Runs ``work`` as jobs of a new slot would run, which has no connections yet."""

    def run() -> None:
        try:
            work()
        finally:
            connections.close_all()

    watch_sessions()
    with ThreadPoolExecutor(1) as thread:
        thread.submit(run).result()


def passes(execute: Callable[..., Any], *rest: Any) -> Any:
    return execute(*rest)


def hook_in(connection: BaseDatabaseWrapper, **named: object) -> None:
    connection.execute_wrappers.append(passes)


@pytest.mark.any_engine
def test_what_the_application_hooks_to_each_connection_stays() -> None:
    def work() -> None:
        with connection.execute_wrapper(lambda execute, *rest: execute(*rest)):
            Effect.objects.count()
        tidy_connections()
        raw = connection.connection
        for _ in range(2):
            assert connection.execute_wrappers.count(passes) == 1
            assert len(connection.execute_wrappers) == 2, "and the worker's own"
            Effect.objects.count()
            tidy_connections()
        assert connection.connection is raw, "known by now, so that it costs no more connections"

    connection_created.connect(hook_in)
    try:
        in_a_thread(work)
    finally:
        connection_created.disconnect(hook_in)


@pytest.mark.any_engine
def test_hooks_stay_while_other_jobs_of_the_thread_are_at_work() -> None:
    def work() -> None:
        connection.ensure_connection()
        connection.execute_wrappers.append(passes)
        tidy_connections(shared=True)
        assert passes in connection.execute_wrappers
        tidy_connections()
        assert passes not in connection.execute_wrappers

    in_a_thread(work)


TENANT: ContextVar[str] = ContextVar("tenant", default="")


def activated() -> list[object]:
    return [
        translation.get_language(), str(timezone.get_current_timezone()), decimal.getcontext().prec, TENANT.get(),
    ]  # fmt: skip


def activate() -> list[object]:
    translation.activate("de")
    timezone.activate(zoneinfo.ZoneInfo("Asia/Tokyo"))
    decimal.getcontext().prec = 3
    TENANT.set("a")
    return activated()


class ActivateJob(Job, type="test.activate", circuit=False):
    activates: bool

    def run(self, ctx: JobContext) -> list[object]:
        return activate() if self.activates else activated()


class AsyncActivateJob(Job, type="test.activate_async", circuit=False):
    activates: bool

    async def run(self, ctx: JobContext) -> list[object]:
        return activate() if self.activates else activated()


@pytest.mark.any_engine
@pytest.mark.parametrize("job_type", [ActivateJob, AsyncActivateJob])
def test_what_a_job_activates_is_not_that_of_the_next(start_worker: StartWorker, job_type: Any) -> None:
    start_worker(concurrency=1)
    before = activated()
    results = [settled(enqueue(job_type(activates=first), max_attempts=1).id).result for first in (True, False)]
    assert [json.loads(result or "null") for result in results] == [["de", "Asia/Tokyo", 3, "a"], before]


@pytest.fixture
def session() -> Iterator[BaseDatabaseWrapper]:
    """This thread's connection as that of a slot: opened while sessions are watched."""
    connection.close()
    watch_sessions()
    connection.ensure_connection()
    yield connection
    connection.close()


def test_what_a_job_ordinarily_does_costs_no_connection(session: BaseDatabaseWrapper) -> None:
    """An error that was caught holds its cursor until the garbage is collected, which may be long after the job."""
    raw = session.connection
    gc.disable()
    try:
        ordinary_work()
        tidy_connections()
    finally:
        gc.enable()
    assert session.connection is raw


def ordinary_work() -> None:
    with transaction.atomic():
        Effect.objects.create(job="1", attempt=1, name="a")
        with transaction.atomic():
            Effect.objects.filter(name="a").update(name="b")
    Effect.objects.bulk_create([Effect(job="2", attempt=1, name="c")])
    assert len(list(Effect.objects.order_by("pk").iterator())) == 2
    enqueue(jobs.NoteJob())
    enqueue(jobs.NoteJob(), idempotency_key="k")
    enqueue_many([jobs.NoteJob(), jobs.NoteJob()])
    with transaction.atomic():
        enqueue(jobs.NoteJob(), idempotency_key="k")
    known = Effect.objects.earliest("pk")
    with suppress(IntegrityError), transaction.atomic():
        Effect.objects.create(pk=known.pk, job="1", attempt=1, name="twice")
    Effect.objects.all().delete()


def reading(session: BaseDatabaseWrapper) -> Any:
    """A cursor in the middle of its rows."""
    Effect.objects.bulk_create(Effect(job=str(number), attempt=1, name="a") for number in range(3))
    cursor = session.chunked_cursor()
    cursor.execute("SELECT name FROM tests_effect")
    assert cursor.fetchone()
    return cursor


def test_an_open_cursor_ends_with_its_job(session: BaseDatabaseWrapper) -> None:
    raw, cursor = session.connection, reading(session)
    tidy_connections(shared=True)
    assert cursor.fetchone(), "another job of this thread is at it"
    tidy_connections()
    assert session.connection is raw
    if session.vendor == "mysql" and session.Database.__name__ == "pymysql":
        assert cursor.connection is None, "a closed one of PyMySQL goes on giving the rows that it has"
        return
    with pytest.raises((ProgrammingError, InterfaceError, TypeError)):  # the last is mysqlclient's
        cursor.fetchone()


@pytest.mark.skipif(connection.vendor not in ("sqlite", "postgresql"), reason="cursors of two engines hold something")
def test_what_an_open_cursor_held_is_free(session: BaseDatabaseWrapper) -> None:
    cursor = reading(session)
    other = session.copy() if session.vendor == "sqlite" else session

    def held() -> object:
        with other.cursor() as asks:
            if session.vendor == "sqlite":
                asks.execute("PRAGMA busy_timeout = 0")  # it asks, and does not wait
            asks.execute(  # the first is 1 while somebody reads
                "PRAGMA wal_checkpoint(TRUNCATE)" if session.vendor == "sqlite" else "SELECT count(*) FROM pg_cursors"
            )
            return asks.fetchone()[0]

    assert held() == 1
    tidy_connections()
    assert held() == 0
    del cursor
    if other is not session:
        other.close()


@only_on("mysql", "whose driver has cursors that leave their rows on the line")
def test_rows_that_nobody_read_are_not_read_to_be_thrown_away(session: BaseDatabaseWrapper) -> None:
    raw: Any = session.connection
    raw.cursorclass = session.Database.cursors.SSCursor
    with session.cursor() as cursor:
        cursor.execute("SELECT 1")
        assert cursor.fetchall()
    tidy_connections()
    assert session.connection is raw, "read and closed"
    cursor = session.cursor()
    cursor.execute("SELECT 1 UNION SELECT 2")
    assert cursor.fetchone()
    tidy_connections()
    assert session.connection is None
    del cursor


@not_on("sqlite", "its driver has no mode that Django does not set")
def test_a_driver_in_another_mode_than_django_is_closed(session: BaseDatabaseWrapper) -> None:
    raw: Any = session.connection
    if session.vendor == "mysql":
        raw.autocommit(False)
    else:
        raw.autocommit = False
    tidy_connections()
    assert session.connection is None


@pytest.mark.parametrize("concurrency", [1, 4])
def test_threads_keep_their_connections_between_jobs(
    start_worker: StartWorker, ledger: Ledger, concurrency: int
) -> None:
    """A slot keeps a healthy connection: not one connect for each job."""
    opened: list[str] = []

    def count(**named: object) -> None:
        opened.append("one")

    start_worker(concurrency=concurrency)
    settled(enqueue(jobs.EffectJob(name="warm")).id)
    connection_created.connect(count, weak=False)
    try:
        for _ in range(30):
            settled(enqueue(jobs.EffectJob(name="many")).id)
    finally:
        connection_created.disconnect(count)
    assert len(opened) < 15, "one for each thread that had none, and for services that begin late; not one for each job"
