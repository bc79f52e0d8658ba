"""The tables as the migrations make them: what is indexed and how, what is compared byte by byte, what is not there."""

from __future__ import annotations

import datetime as dt
import io
import re
from typing import Any

import pytest
from django.apps import apps
from django.core.management import call_command
from django.db import connection, connections
from django.db.models import Max, Min
from django.db.models.functions import Now
from django.test import override_settings

from chokaq_django.models import AuditEntry, JobArchive, JobDLQ, JobHot, JobTrash, Queue
from chokaq_django.models.fields import KeyField, to_text

from .support import Jobs, committed

pytestmark = pytest.mark.django_db

JOB_TABLES = [model._meta.db_table for model in (JobHot, JobArchive, JobDLQ, JobTrash)]
MODELS = list(apps.get_app_config("chokaq").get_models())
PARTIAL = {
    "chokaq_hot_claim": "status = 0",
    "chokaq_hot_live": "status IN (1, 2)",
    "chokaq_hot_awaiting": "status = 7",
    "chokaq_hot_key": "idempotency_key IS NOT NULL",
    "chokaq_hot_deadline": "deadline_at IS NOT NULL",
}


def fetch(sql: str, *params: Any) -> list[Any]:
    with connection.cursor() as cursor:
        cursor.execute(sql, params)
        return list(cursor.fetchall())


def definitions() -> dict[str, str]:
    """Name -> CREATE INDEX statement of every index of this app that a migration names, without quotes."""
    if connection.vendor == "sqlite":
        found = fetch(
            "SELECT name, sql FROM sqlite_master WHERE type = 'index' AND tbl_name LIKE 'chokaq%%' AND sql <> ''"
        )
    elif connection.vendor == "mysql":
        found = fetch(
            "SELECT index_name, CONCAT('CREATE ', IF(MAX(non_unique), '', 'UNIQUE '), 'INDEX (', "
            "GROUP_CONCAT(column_name ORDER BY seq_in_index SEPARATOR ', '), ')') FROM information_schema.statistics "
            "WHERE table_schema = DATABASE() AND table_name LIKE 'chokaq%%' AND index_name <> 'PRIMARY' "
            "GROUP BY table_name, index_name"
        )
    elif connection.vendor == "microsoft":
        found = fetch(
            "SELECT i.name, CASE WHEN i.is_unique = 1 THEN 'CREATE UNIQUE INDEX' ELSE 'CREATE INDEX' END "
            "FROM sys.indexes AS i WHERE OBJECT_NAME(i.object_id) LIKE 'chokaq%%' AND i.is_primary_key = 0 "
            "AND i.name IS NOT NULL"
        )
        # A server that only speaks like SQL Server may add to the names.
        known = sorted((index.name for model in MODELS for index in model._meta.indexes), key=len, reverse=True)
        found = [(next((name for name in known if told.startswith(name)), told), sql) for told, sql in found]
    else:
        found = fetch(
            "SELECT indexname, indexdef FROM pg_indexes WHERE schemaname = current_schema() "
            "AND tablename LIKE 'chokaq%%' AND indexname NOT LIKE '%%_pkey'"
        )
    return {name: sql.replace('"', "") for name, sql in found}


def condition(sql: str) -> str | None:
    """The filter of an index, as it was written."""
    _, where, text = sql.partition(" WHERE ")
    text = re.sub(r"= ANY \(ARRAY\[(.*?)\]\)", r"IN (\1)", text)  # what PostgreSQL makes of IN
    return text.strip("()") + (")" if "IN (" in text else "") if where else None


def test_there_is_nothing_to_migrate() -> None:
    call_command("makemigrations", "chokaq", check=True, dry_run=True, stdout=io.StringIO())


@committed
@pytest.mark.parametrize("name", ["0001", "0002", "0003", "0004"])
@pytest.mark.parametrize("backwards", [False, True])
def test_migrations_can_be_read_and_undone(name: str, backwards: bool) -> None:
    output = io.StringIO()
    call_command("sqlmigrate", "chokaq", name, backwards=backwards, stdout=output)
    assert "cannot be written as SQL" not in output.getvalue().lower()
    tuned = "fillfactor" in output.getvalue()
    assert tuned == (name == "0002" and connection.vendor == "postgresql")


def test_the_indexes_are_those_of_the_models_and_no_others() -> None:
    expected = {index.name for model in MODELS for index in model._meta.indexes}
    if connection.vendor == "mysql":
        # where nothing filters them they are the beginning of chokaq_hot_claim
        expected -= {"chokaq_hot_live", "chokaq_hot_awaiting"}
    assert set(definitions()) == expected


def test_indexes_over_some_rows_hold_only_these() -> None:
    if connection.vendor == "mysql":
        pytest.skip("MySQL has no partial indexes")
    if connection.vendor == "microsoft":
        pytest.skip("test_mssql_migrations.py looks at the statements that make them")
    found = {name: condition(sql) for name, sql in definitions().items()}
    assert {name: text for name, text in found.items() if text is not None} == PARTIAL


def test_where_no_index_is_partial_the_status_leads_it() -> None:
    if connection.vendor != "mysql":
        pytest.skip("the indexes are partial")
    assert definitions()["chokaq_hot_claim"].endswith("(status, queue, priority, run_at, id)")


def test_the_idempotency_key_is_unique_among_rows_that_have_one() -> None:
    unique = [name for name, sql in definitions().items() if sql.startswith("CREATE UNIQUE")]
    assert unique == ["chokaq_hot_key"]


def test_job_tables_carry_no_checks_foreign_keys_or_triggers() -> None:
    if connection.vendor == "sqlite":
        tables = dict(fetch("SELECT name, sql FROM sqlite_master WHERE type = 'table' AND name LIKE 'chokaq_job%%'"))
        assert sorted(tables) == sorted(JOB_TABLES)
        assert not [sql for sql in tables.values() if re.search(r"\b(CHECK|REFERENCES|FOREIGN)\b", sql, re.IGNORECASE)]
        assert not fetch("SELECT name FROM sqlite_master WHERE type = 'trigger' AND tbl_name LIKE 'chokaq%%'")
    elif connection.vendor == "mysql":
        assert not fetch(
            "SELECT table_name, constraint_name FROM information_schema.table_constraints "
            "WHERE table_schema = DATABASE() AND table_name IN %s AND constraint_type NOT IN ('PRIMARY KEY', 'UNIQUE')",
            JOB_TABLES,
        )
        assert not fetch(
            "SELECT trigger_name FROM information_schema.triggers WHERE trigger_schema = DATABASE() "
            "AND event_object_table IN %s",
            JOB_TABLES,
        )
    elif connection.vendor == "microsoft":
        assert not fetch(
            "SELECT constraint_name FROM information_schema.table_constraints "
            "WHERE table_name LIKE 'chokaq_job%%' AND constraint_type NOT IN ('PRIMARY KEY', 'UNIQUE')"
        )
        assert not fetch("SELECT name FROM sys.triggers WHERE OBJECT_NAME(parent_id) LIKE 'chokaq_job%%'")
    else:
        constraints = fetch(
            "SELECT conrelid::regclass::text, contype FROM pg_constraint WHERE conrelid = ANY(%s::regclass[]) "
            "AND contype IN ('c', 'f', 'x', 't')",
            JOB_TABLES,
        )
        assert constraints == []
        assert not fetch("SELECT tgname FROM pg_trigger WHERE tgrelid = ANY(%s::regclass[])", JOB_TABLES)


def test_keys_are_compared_byte_by_byte() -> None:
    keys = {
        (model._meta.db_table, field.column)
        for model in MODELS
        for field in model._meta.concrete_fields
        if isinstance(field, KeyField)
    }
    assert ("chokaq_job_hot", "idempotency_key") in keys
    if connection.vendor == "sqlite":
        # BINARY is the default; nothing says otherwise.
        assert not fetch("SELECT 1 FROM sqlite_master WHERE tbl_name LIKE 'chokaq%%' AND sql LIKE '%%COLLATE%%'")
    elif connection.vendor == "microsoft":
        found = fetch(
            "SELECT table_name, column_name FROM information_schema.columns "
            "WHERE table_name LIKE 'chokaq%%' AND collation_name LIKE '%%bin2'"
        )
        assert set(found) == keys
    elif connection.vendor == "mysql":
        # Both collations compare by code point and do not pad with spaces.
        found = fetch(
            "SELECT table_name, column_name FROM information_schema.columns WHERE table_schema = DATABASE() "
            "AND table_name LIKE 'chokaq%%' AND collation_name IN ('utf8mb4_nopad_bin', 'utf8mb4_0900_bin')"
        )
        assert set(found) == keys
    else:
        found = fetch(
            "SELECT table_name, column_name FROM information_schema.columns WHERE table_schema = current_schema() "
            "AND table_name LIKE 'chokaq%%' AND collation_name = 'C'"
        )
        assert set(found) == keys


def test_postgres_leaves_room_for_heartbeats_and_vacuums_by_dead_rows() -> None:
    if connection.vendor != "postgresql":
        pytest.skip("storage parameters are PostgreSQL's")
    ((options,),) = fetch("SELECT reloptions FROM pg_class WHERE oid = 'chokaq_job_hot'::regclass")
    assert "fillfactor=85" in options
    assert "autovacuum_vacuum_scale_factor=0.005" in options


# -- instants ----------------------------------------------------------------------------------------------------------

AT = dt.datetime(2031, 5, 17, 23, 59, 59, 120_000, tzinfo=dt.UTC)


def entry(at: dt.datetime, number: int) -> AuditEntry:
    return AuditEntry.objects.create(id=f"{number:026d}", at=at, action="test", target="t")


def test_an_instant_is_read_as_it_was_written_in_utc() -> None:
    berlin = dt.timezone(dt.timedelta(hours=2))
    for number, at in enumerate((AT, AT.replace(microsecond=0), AT.astimezone(berlin), AT.replace(tzinfo=None))):
        entry(at, number)
        read = AuditEntry.objects.get(pk=f"{number:026d}").at
        assert read == (at if at.tzinfo else AT)
        assert read.tzinfo is dt.UTC or read.utcoffset() == dt.timedelta(0)


def test_instants_are_ordered_and_compared_to_the_microsecond() -> None:
    steps = [dt.timedelta(microseconds=n) for n in (0, 1, 879_999, 880_000, 880_001)]
    for number, step in enumerate(steps):
        entry(AT + step, number)
    assert [found.at - AT for found in AuditEntry.objects.order_by("at")] == steps
    assert AuditEntry.objects.filter(at=AT + steps[3]).count() == 1
    assert AuditEntry.objects.filter(at__gt=AT + steps[2]).count() == 2
    assert AuditEntry.objects.filter(at__range=(AT + steps[1], AT + steps[3])).count() == 3
    assert AuditEntry.objects.filter(at__in=[AT, AT + steps[4]]).count() == 2
    assert AuditEntry.objects.aggregate(first=Min("at"), last=Max("at")) == {"first": AT, "last": AT + steps[4]}


def test_date_filters_and_hierarchies_of_the_admin_work() -> None:
    entry(AT, 1)
    entry(AT + dt.timedelta(days=1), 2)
    entry(dt.datetime(2032, 1, 1, tzinfo=dt.UTC), 3)
    assert AuditEntry.objects.filter(at__date=dt.date(2031, 5, 17)).count() == 1
    assert AuditEntry.objects.filter(at__year=2031).count() == 2
    assert AuditEntry.objects.filter(at__year=2032, at__month=1, at__day=1).count() == 1
    assert AuditEntry.objects.filter(at__gte="2031-05-18 00:00:00+00:00").count() == 2
    assert [day.date() for day in AuditEntry.objects.datetimes("at", "day")] == [
        dt.date(2031, 5, 17), dt.date(2031, 5, 18), dt.date(2032, 1, 1),
    ]  # fmt: skip
    assert [day.year for day in AuditEntry.objects.datetimes("at", "year")] == [2031, 2032]
    assert next(iter(AuditEntry.objects.datetimes("at", "day", order="DESC"))).date() == dt.date(2032, 1, 1)


def test_now_of_the_database_can_be_compared_with() -> None:
    now = dt.datetime.now(dt.UTC)
    entry(now - dt.timedelta(seconds=5), 1)
    entry(now + dt.timedelta(seconds=60), 2)
    assert [found.id[-1] for found in AuditEntry.objects.filter(at__lte=Now())] == ["1"]
    assert [found.id[-1] for found in AuditEntry.objects.filter(at__gt=Now())] == ["2"]


def test_nothing_and_text_are_taken_too() -> None:
    queue = Queue(name="q", updated_at="2031-05-17 23:59:59.12+00:00")
    queue.save()
    assert Queue.objects.get().updated_at == AT
    assert Queue.objects.filter(updated_at__isnull=True).count() == 0


@committed
def test_sqlite_stores_one_form_whoever_writes(jobs: Jobs) -> None:
    if connection.vendor != "sqlite":
        pytest.skip("the stored form is SQLite's")
    jobs.one(run_at=AT.replace(microsecond=0), deadline_after=10)
    JobHot.objects.update(started_at=AT, heartbeat_at=AT.replace(microsecond=0))
    row = fetch(
        "SELECT created_at, started_at, run_at, due_at, deadline_at, heartbeat_at, updated_at FROM chokaq_job_hot"
    )
    for text in row[0]:
        assert re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{6}", text)
    assert row[0][2] == to_text(AT.replace(microsecond=0)) == "2031-05-17 23:59:59.000000"


@committed
def test_without_time_zone_support_an_instant_is_the_same(jobs: Jobs) -> None:
    """Django then hands out local times without a zone on PostgreSQL."""
    job_id = jobs.one(run_at=AT)
    field = JobHot._meta.get_field("run_at")
    with override_settings(USE_TZ=False, TIME_ZONE="America/New_York"):
        own = connections.create_connection("default")
        try:
            with own.cursor() as cursor:
                cursor.execute("SELECT run_at FROM chokaq_job_hot WHERE id = %s", [job_id])
                value = cursor.fetchone()[0]
                assert field.from_db_value(value, None, own) == AT
                cursor.execute(
                    "SELECT COUNT(*) FROM chokaq_job_hot WHERE run_at = %s", [field.get_db_prep_value(AT, own)]
                )
                assert cursor.fetchone()[0] == 1
        finally:
            own.close()


def test_django_finds_nothing_to_warn_of() -> None:
    """``check`` and ``migrate`` say nothing about our tables on any engine: who reads on would stop to."""
    assert [message for model in MODELS for message in model.check(databases=["default"])] == []
