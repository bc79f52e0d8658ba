"""MariaDB and MySQL: databases, connections and servers whose defaults cannot store what jobs say."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest
from django.core.management import call_command
from django.db import DatabaseError, connection, connections

from chokaq_django.models import JobArchive, JobDLQ, JobHot, Worker
from chokaq_django.storage import ClaimRequest, OutcomeKind, Storage, get_storage, open_storage

from .support import WORKER, committed, new_job, outcome
from .test_fleet import worker

pytestmark = [committed, pytest.mark.skipif(connection.vendor != "mysql", reason="character sets of MariaDB and MySQL")]

EMOJI = "🐙 and \x00, 𠜎, ß"


@contextmanager
def alias(name: str, **changed: Any) -> Iterator[str]:
    """The test database, or another one, by an alias with other options."""
    default = connections.databases["default"]
    options = {**default["OPTIONS"], **changed.pop("OPTIONS", {})}
    connections.databases[name] = {**default, **changed, "OPTIONS": options}
    try:
        yield name
    finally:
        connections[name].close()
        del connections[name]
        del connections.databases[name]


@pytest.fixture(params=["latin1", "utf8mb3", "utf8mb4 COLLATE utf8mb4_unicode_ci"])
def database(request: pytest.FixtureRequest, django_db_blocker: Any) -> Iterator[str]:
    """The alias of a database that was made with this character set, with our tables."""
    name = f"{connection.settings_dict['NAME']}_charset"
    with ExitStack() as stack:
        stack.enter_context(django_db_blocker.unblock())
        with connection.cursor() as cursor:
            cursor.execute(f"DROP DATABASE IF EXISTS {name}")
            cursor.execute(f"CREATE DATABASE {name} CHARACTER SET {request.param}")
        stack.callback(lambda: connection.cursor().execute(f"DROP DATABASE IF EXISTS {name}"))
        other = stack.enter_context(alias("charset", NAME=name))
        call_command("migrate", "chokaq", database=other, verbosity=0)
        yield other


@pytest.fixture
def own(database: str) -> Iterator[Any]:
    storage = open_storage(database)
    yield storage
    storage.close()


def test_every_text_column_holds_any_character(database: str) -> None:
    with connections[database].cursor() as cursor:
        cursor.execute(
            "SELECT table_name, column_name, character_set_name FROM information_schema.columns "
            "WHERE table_schema = DATABASE() AND table_name LIKE 'chokaq%%' AND character_set_name <> 'utf8mb4'"
        )
        assert list(cursor.fetchall()) == []


def test_a_whole_life_with_any_character(database: str, own: Storage) -> None:
    texts = {"payload": EMOJI, "tags": EMOJI, "headers": EMOJI, "created_by": EMOJI}
    named = {"queue": "🐙", "type": "🐙.v1", "idempotency_key": "🐙", "concurrency_key": "🐙"}
    first = new_job(**texts, **named)
    rows = [new_job(queue="🐙", **texts) for _ in range(5)]
    assert get_storage(database).enqueue([first])[0].created
    assert all(answer.created for answer in own.enqueue(rows))
    assert own.enqueue([new_job(idempotency_key="🐙"), new_job(queue="x")])[0].id == first.id
    own.register(worker("worker-🐙", host="🐙"))
    jobs = own.claim(ClaimRequest("worker-🐙", ["🐙"], 10)).jobs
    assert [job.payload for job in jobs] == [EMOJI] * 6
    assert own.progress("worker-🐙", {job.lease: (1, EMOJI) for job in jobs}) == {job.id for job in jobs}
    kinds = [OutcomeKind.SUCCEEDED, OutcomeKind.DEAD, OutcomeKind.RETRY]
    outcomes = [
        outcome(
            job, kinds[i % 3], attempt_log=EMOJI, error_type="🐙", error_details=EMOJI, result="🐙", modified_by="🐙"
        )
        for i, job in enumerate(jobs)
    ]
    assert own.settle("worker-🐙", outcomes) == {job.id for job in jobs}
    assert set(JobArchive.objects.using(database).values_list("payload", "result")) == {(EMOJI, "🐙")}
    dead = JobDLQ.objects.using(database).values_list("pk", "payload", "error_type", "modified_by")
    assert {row[1:] for row in dead} == {(EMOJI, "🐙", "🐙")}
    ids = [row[0] for row in dead]
    assert sorted(own.resurrect(ids, "🐙", payload=EMOJI * 2).applied) == sorted(ids)
    assert own.cancel(ids, "🐙").applied
    assert Worker.objects.using(database).get().host == "🐙"
    own.unregister("worker-🐙")
    assert not Worker.objects.using(database).exists()


def test_keys_are_told_apart_whatever_the_database_compares(own: Storage) -> None:
    keys = ["a", "A", "a ", "á"]
    assert all(answer.created for answer in own.enqueue([new_job(idempotency_key=key) for key in keys]))
    assert not any(answer.created for answer in own.enqueue([new_job(idempotency_key=key) for key in keys]))


def test_an_id_that_is_no_id_is_not_found(own: Storage) -> None:
    for strange in ("🐙", "ß" * 26, "x" * 300, "'", "\\"):
        assert own.cancel([strange], "ada").refused[0].reason == "There is no such job."
        assert not JobHot.objects.filter(pk=strange).exists()


@pytest.mark.parametrize("options", [{"charset": "latin1"}, {"charset": "utf8mb3"}, {"sql_mode": "ANSI_QUOTES"}])
def test_a_workers_connection_insists_on_what_it_needs(options: dict[str, str]) -> None:
    with alias("spoken", OPTIONS=options) as name:
        own = open_storage(name)
        try:
            assert own.enqueue([new_job(payload=EMOJI)])[0].created
            (job,) = own.claim(ClaimRequest(WORKER, ["mail"], 1)).jobs
            assert job.payload == EMOJI
            assert own.settle(WORKER, [outcome(job, OutcomeKind.DEAD, error_details=EMOJI)]) == {job.id}
        finally:
            own.close()
    assert JobDLQ.objects.get().error_details


@pytest.mark.parametrize("count", [1, 3])
def test_what_does_not_fit_is_an_error_on_a_server_that_would_cut_it(count: int) -> None:
    with alias("lax", OPTIONS={"sql_mode": "NO_ENGINE_SUBSTITUTION"}) as name:
        own = open_storage(name)
        try:
            rows = [new_job(concurrency_key="x" * 300), *(new_job() for _ in range(count - 1))]
            with pytest.raises(DatabaseError):
                own.enqueue(rows)
            assert own.pending_queues() == []
        finally:
            own.close()


def test_statements_stay_below_the_servers_longest(storage: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows come in as few statements as fit; a single one that is too long for a JSON table comes by itself."""
    sizes: list[int] = []
    execute: Callable[..., int] = storage._execute

    def executing(sql: str, params: Any = ()) -> int:
        if isinstance(params, dict) and "rows" in params:
            sizes.append(len(params["rows"]))
        return execute(sql, params)

    monkeypatch.setattr(storage, "_execute", executing)
    monkeypatch.setattr(storage, "_room", lambda: 100_000)
    rows = [new_job(payload='"' * 1_000) for _ in range(100)] + [new_job(payload='"' * 45_000)]
    assert len(storage.enqueue(rows)) == 101
    assert len(sizes) >= 4
    assert 2 * max(sizes) < 100_000
    assert JobHot.objects.count() == 101
    assert JobHot.objects.filter(payload='"' * 45_000).count() == 1
    jobs = storage.claim(ClaimRequest(WORKER, ["mail"], 200)).jobs
    outcomes = [outcome(job, result='"' * 2_000) for job in jobs]
    assert len(storage.settle(WORKER, outcomes)) == 101
    assert JobArchive.objects.filter(result='"' * 2_000).count() == 101
