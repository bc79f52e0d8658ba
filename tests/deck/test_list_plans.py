"""Lists of history: what their pages read, counted by the engine itself."""

from __future__ import annotations

import datetime as dt
import re
from importlib import import_module
from typing import Any
from urllib.parse import urlencode

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from chokaq_django import control
from chokaq_django.control import JobFilter
from chokaq_django.models import BulkOperation, BulkState, JobArchive, JobBase, JobDLQ, JobHot, JobTrash
from chokaq_django.models.fields import FIRST, LAST
from chokaq_django.reading.plans import by_index
from chokaq_django.storage import bulk_sets, get_storage
from tests import factories as make

from .pages import list_of
from .plans import analyse, rows_read

pytestmark = [
    pytest.mark.usefixtures("transactional_db"),
    pytest.mark.skipif(connection.vendor == "microsoft", reason="its plans are asserted by their statements"),
]

FEW, DOUBLED = 250, 5
MANY = FEW * 2**DOUBLED
"""Rows of each table: MariaDB reads a table whole that is smaller."""


def history() -> None:
    """Enough rows that reading all of them would show, whatever their time, queue, type and reason."""
    now = timezone.now()
    rows: dict[type[JobBase], list[JobBase]] = {JobHot: [], JobArchive: [], JobDLQ: [], JobTrash: []}
    for number in range(FEW):
        at = now - dt.timedelta(minutes=3 * number)
        common = {
            "id": _first_id(at), "queue": f"q{number % 5}", "type": f"t{number % 3}", "payload": "{}",
            "created_at": at, "run_at": at, "due_at": at,
        }  # fmt: skip
        ended = {"failure_reason": number % 3, "fingerprint": f"{number % 4:032x}", "failed_at": at}
        rows[JobHot].append(JobHot(updated_at=at, **common))
        rows[JobArchive].append(JobArchive(finished_at=at, duration_ms=1, wait_ms=1, **common))
        rows[JobDLQ].append(JobDLQ(**ended, **common))
        rows[JobTrash].append(JobTrash(came_from="dlq", purged_at=at, **ended, **common))
    for model, made in rows.items():
        model._default_manager.bulk_create(made)
        _double(model)
    for _ in range(FEW):
        make.audit_entry(at=now)
    analyse()


def _first_id(at: dt.datetime) -> str:
    """An id as it is made at this time: a ULID begins with its milliseconds."""
    milliseconds, digits = int(at.timestamp() * 1000), ""
    for _ in range(10):
        milliseconds, digit = divmod(milliseconds, 32)
        digits = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"[digit] + digits
    return digits + "0" * 16


def _double(model: type[JobBase]) -> None:
    """Each time as many rows more, the same but for a letter of their ids."""
    quote = connection.ops.quote_name
    names = [quote(field.column) for field in model._meta.concrete_fields]
    with connection.cursor() as cursor:
        for time in range(DOUBLED):
            parts = [f"SUBSTR(id, 1, {11 + time})", "'Z'", f"SUBSTR(id, {13 + time})"]
            new_id = f"CONCAT({', '.join(parts)})" if connection.vendor == "mysql" else " || ".join(parts)
            columns = ", ".join(new_id if name == quote("id") else name for name in names)
            table = quote(model._meta.db_table)
            cursor.execute(f"INSERT INTO {table} ({', '.join(names)}) SELECT {columns} FROM {table}")  # noqa: S608


ADDRESSES: list[tuple[str, dict[str, str]]] = [
    ("jobhot", {}), ("jobhot", {"queue": "q1"}), ("jobhot", {"status": "processing"}), ("jobhot", {"since": "1h"}),
    ("jobhot", {"until": "12h"}),
    ("jobarchive", {}), ("jobarchive", {"queue": "q1"}), ("jobarchive", {"type": "t1", "until": "12h"}),
    ("jobarchive", {"until": "12h"}),
    ("jobdlq", {}), ("jobdlq", {"queue": "q1"}), ("jobdlq", {"type": "t1"}), ("jobdlq", {"reason": "zombie"}),
    ("jobdlq", {"fingerprint": f"{1:032x}"}), ("jobdlq", {"until": "12h"}), ("jobtrash", {}),
    ("jobtrash", {"until": "12h"}), ("auditentry", {}), ("auditentry", {"target": "x"}),
]  # fmt: skip


def cost_of(client: Client, model: str, address: str) -> tuple[str, list[str]]:
    """The address of the page that follows, and the statements about history that this one took."""
    with CaptureQueriesContext(connection) as captured:
        response = client.get(list_of(model) + address)
    statements = [each["sql"] for each in captured.captured_queries]
    return response.context["cl"].older, [sql for sql in statements if "_job_" in sql or "_audit_" in sql]


def test_a_page_reads_little_whatever_there_is() -> None:
    """Few statements that read few rows, on the first page and on the one that follows."""
    history()
    deck = Client()
    deck.force_login(make.operator("view_deck", "resurrect", "cancel", "purge", "edit_payload"))
    deck.get(list_of("jobhot"))  # what is read once in a process
    for model, query in ADDRESSES:
        # A list of active jobs by queue or status sorts what an index finds, up to 10,000. Until a time, as many of
        # those that came since are passed over.
        sorts = model == "jobhot" and bool(query.keys() & {"queue", "status", "until"})
        older, statements = cost_of(deck, model, f"?{urlencode(query)}")
        if older:
            statements += cost_of(deck, model, older)[1]
        assert len(statements) <= (16 if sorts else 4), (model, query, statements)
        for sql in statements:
            assert "COUNT(" not in sql.upper()
            assert "DISTINCT" not in sql.upper()
            for heavy in ("payload", "attempt_log", "error_details"):
                assert connection.ops.quote_name(heavy) not in sql
        read = sum(rows_read(sql) for sql in statements if sql.lstrip("(").upper().startswith("SELECT"))
        # MariaDB sorts a few thousand rows rather than follow an index. Two whole tables it never reads.
        least = MANY if connection.vendor == "mysql" else 800
        assert read < (2 * MANY + 800 if sorts else least), (model, query, read)


@pytest.mark.parametrize("given", [{}, {"queue": "q1"}])
@pytest.mark.parametrize("oldest_first", [False, True])
def test_what_follows_an_instant_that_cannot_be_told_is_found_by_the_index(
    oldest_first: bool, given: dict[str, Any]
) -> None:
    """As behind any other: the place of the row in the index is where its time is, as the server holds it."""
    history()
    for at in (FIRST, LAST):
        dead = make.dead(queue="q1", failed_at=at)
        for row_id in (dead.pk, "Z" * 26):  # one that is gone
            with CaptureQueriesContext(connection) as captured:
                control.list_jobs(JobFilter(status="dead", **given), limit=5, after=f"{at.isoformat()}~{row_id}",
                                  oldest_first=oldest_first)  # fmt: skip
            (sql,) = (each["sql"] for each in captured.captured_queries if "_job_dlq" in each["sql"])
            # By the numbers of days that do not exist, MySQL reads and sorts a table: of these there is no index.
            assert rows_read(sql) < (2 * MANY + 800 if connection.vendor == "mysql" else 800), (at, sql)
            if connection.vendor == "postgresql":
                assert re.search(r"Index Cond: .*failed_at [<>]= COALESCE", explained(sql)), sql


def explained(sql: str) -> str:
    with by_index(connection.alias), connection.cursor() as cursor:
        cursor.execute(f"EXPLAIN {sql}")
        return "\n".join(line for (line,) in cursor.fetchall())


@pytest.mark.parametrize("given", [{}, {"queue": "q1"}, {"type": "t1"}, {"reason": 1}, {"fingerprint": f"{1:032x}"}])
@pytest.mark.parametrize("hold", [False, True])
def test_a_step_that_freezes_reads_little_whatever_there_is(
    hold: bool, given: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Along the index of its filter, in the order in which it goes on."""
    monkeypatch.setattr(bulk_sets, "FREEZE_CHUNK", 50)
    history()
    for at in (FIRST, LAST):  # what may have been written by hand
        make.dead(queue="q1", type="t1", failure_reason=1, fingerprint=f"{1:032x}", failed_at=at)
    operation = control.bulk_purge(where=JobFilter(status="dead", **given), by="ada", hold=hold)
    for _ in range(3):
        statements = freezing(operation.id, monkeypatch)
        assert len(statements) == 1
        read = sum(rows_read(sql) for sql in statements)
        assert read < (MANY if connection.vendor == "mysql" else 800), (read, statements)


def freezing(operation: str, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What the next step reads of dead jobs."""
    storage = get_storage()
    asked: list[tuple[str, Any]] = []
    query = storage._query

    def recorded(sql: str, params: Any = ()) -> Any:
        asked.append((sql, params))
        return query(sql, params)

    with monkeypatch.context() as patch, CaptureQueriesContext(connection) as captured:
        patch.setattr(storage, "_query", recorded)
        storage.bulk_step(operation)
    if connection.vendor == "postgresql":  # where they are captured without their values
        cursor = import_module("psycopg").ClientCursor(connection.connection)
        return [cursor.mogrify(sql, params) for sql, params in asked if "_job_dlq" in sql]
    return [each["sql"] for each in captured.captured_queries if "_job_dlq" in each["sql"]]


def test_freezing_goes_on_by_the_index_behind_an_instant_that_cannot_be_told(monkeypatch: pytest.MonkeyPatch) -> None:
    history()
    last = make.dead(queue="q1", failed_at=LAST)
    operation = control.bulk_purge(where=JobFilter(status="dead", queue="q1"), by="ada")
    BulkOperation.objects.filter(pk=operation.id).update(freeze_at=LAST, freeze_id=last.pk)
    statements = freezing(operation.id, monkeypatch)
    assert len(statements) == 2, "of those that were there, and of those whose time lies ahead"
    for sql in statements:
        assert rows_read(sql) < (MANY if connection.vendor == "mysql" else 800), sql
        if connection.vendor == "postgresql":
            assert re.search(r"Index Cond: .*failed_at >= COALESCE", explained(sql)), sql
    assert BulkOperation.objects.get().state == BulkState.DONE
