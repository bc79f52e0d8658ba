"""The tables that the migrations make on SQL Server, as statements: no server is needed to read them."""

from __future__ import annotations

import re

import pytest
from django.db import models
from django.db.migrations.loader import MigrationLoader

from chokaq_django.models.fields import KeyField, ULIDField

from .mssql_recorder import Recorder, RecordingWrapper, parsed, registered

pytestmark = pytest.mark.any_engine

JOB_TABLES = ("chokaq_job_hot", "chokaq_job_archive", "chokaq_job_dlq", "chokaq_job_trash")


@pytest.fixture(scope="module", name="statements")
def _statements() -> list[str]:
    return migration_statements()


def migration_statements() -> list[str]:
    """What ``migrate`` sends for this app."""
    loader = MigrationLoader(None)
    found: list[str] = []
    with registered(Recorder()) as wrapper:
        for name in sorted(key[1] for key in loader.disk_migrations if key[0] == "chokaq"):
            migration = loader.get_migration("chokaq", name)
            state = loader.project_state(("chokaq", name), at_end=False)
            with wrapper.schema_editor(collect_sql=True, atomic=False) as editor:
                migration.apply(state, editor, collect_sql=True)
            found += [sql for sql in editor.collected_sql if not sql.startswith("--")]
    assert found
    return found


def table(statements: list[str], name: str) -> str:
    (sql,) = (sql for sql in statements if sql.startswith(f"CREATE TABLE [{name}]"))
    return sql


def index(statements: list[str], name: str) -> str:
    (sql,) = (sql for sql in statements if f"INDEX [{name}]" in sql)
    return sql


@pytest.mark.parametrize("version", ["2017", "2022"])
def test_microsofts_parser_takes_them(statements: list[str], version: str) -> None:
    parsed("\nGO\n".join(statements), version)


def test_what_is_postgresqls_is_not_there(statements: list[str]) -> None:
    assert not [sql for sql in statements if "fillfactor" in sql or "autovacuum" in sql]


def test_indexes_are_filtered_by_literals(statements: list[str]) -> None:
    filters = {
        "chokaq_hot_claim": "([queue], [priority], [run_at], [id]) INCLUDE ([status]) WHERE [status] = 0",
        "chokaq_hot_live": "([queue]) INCLUDE ([status]) WHERE [status] IN (1, 2)",
        "chokaq_hot_awaiting": "([queue]) INCLUDE ([status]) WHERE [status] = 7",
        "chokaq_hot_deadline": "([deadline_at]) WHERE [deadline_at] IS NOT NULL",
    }
    for name, end in filters.items():
        assert index(statements, name).rstrip(";").endswith(end)
    key = index(statements, "chokaq_hot_key")
    assert key.startswith("CREATE UNIQUE INDEX")
    assert key.rstrip(";").endswith("([idempotency_key]) WHERE [idempotency_key] IS NOT NULL")


def test_job_tables_have_no_checks_foreign_keys_or_triggers(statements: list[str]) -> None:
    for sql in statements:
        if any(name in sql for name in JOB_TABLES):
            assert not re.search(r"\b(CHECK|REFERENCES|FOREIGN KEY|TRIGGER)\b", sql), sql


def test_types(statements: list[str]) -> None:
    hot = table(statements, "chokaq_job_hot")
    for column in (
        "[id] nvarchar(26) COLLATE Latin1_General_100_BIN2 NOT NULL PRIMARY KEY",
        "[queue] nvarchar(510) COLLATE Latin1_General_100_BIN2 NOT NULL",
        "[idempotency_key] nvarchar(510) COLLATE Latin1_General_100_BIN2 NULL",
        "[payload] nvarchar(max) NOT NULL", "[run_at] datetime2(6) NOT NULL", "[deadline_at] datetime2(6) NULL",
        "[status] int NOT NULL", "[created_by] nvarchar(100) NULL",
    ):  # fmt: skip
        assert column in hot, column
    assert not [sql for sql in statements if "datetimeoffset" in sql or " ntext" in sql]


def test_keys_fit_into_an_index(statements: list[str]) -> None:
    """1,700 bytes; 900 for a primary key, which is clustered, and where longer names are told when they come."""
    sizes = {"run_at": 8, "finished_at": 8, "failed_at": 8, "deadline_at": 8, "expires_at": 8, "at": 8, "priority": 4,
             "failure_reason": 4}  # fmt: skip
    created = {name: table(statements, name) for name in re.findall(r"CREATE TABLE \[(\w+)\]", "".join(statements))}
    for sql in statements:
        match = re.search(r"INDEX \[(\w+)\] ON \[(\w+)\] \(([^)]*)\)", sql)
        if match is None:
            continue
        total = 0
        for column in re.findall(r"\[(\w+)\]", match[3]):
            declared = re.search(rf"\[{column}\] nvarchar\((\d+)\)", created[match[2]])
            total += 2 * int(declared[1]) if declared else sizes.get(column, 8)
        assert 0 < total <= 1_700, sql


def test_every_key_has_room_for_characters_of_two_units() -> None:
    wrapper = RecordingWrapper(Recorder())
    assert KeyField(max_length=255).db_type(wrapper) == "nvarchar(510) COLLATE Latin1_General_100_BIN2"
    assert ULIDField().db_type(wrapper) == "nvarchar(26) COLLATE Latin1_General_100_BIN2"
    assert models.CharField(max_length=100).db_type(wrapper) == "nvarchar(100)"
