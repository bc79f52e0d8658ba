"""A missing table is recognised on every engine and driver, and nothing else is taken for one."""

from __future__ import annotations

import sqlite3
from typing import Any

import psycopg
import pymysql
import pytest
from django.db import DatabaseError, connection

from chokaq_django.storage.missing import tables_missing

from ..helpers import need_mssql_backend


def wrapped(cause: BaseException) -> DatabaseError:
    """As Django raises it: an error of its own with the driver's arguments, and the driver's error as its cause."""
    error = DatabaseError(*cause.args)
    error.__cause__ = cause
    return error


@pytest.mark.parametrize("statement", ["SELECT 1 FROM nowhere_at_all", "SELECT nothing_like_it FROM chokaq_queue"])
@pytest.mark.django_db
def test_what_this_engine_says(statement: str) -> None:
    with pytest.raises(DatabaseError) as caught, connection.cursor() as cursor:
        cursor.execute(statement)
    assert tables_missing(caught.value)


@pytest.mark.django_db
def test_another_error_of_this_engine() -> None:
    with pytest.raises(DatabaseError) as caught, connection.cursor() as cursor:
        cursor.execute("SELEC 1")
    assert not tables_missing(caught.value)


@pytest.mark.parametrize(
    ("cause", "missing"),
    [
        (psycopg.errors.UndefinedTable("relation does not exist"), True),
        (psycopg.errors.UndefinedColumn("column does not exist"), True),
        (psycopg.errors.DeadlockDetected("Invalid object name in a text"), False),
        (sqlite3.OperationalError("no such table: chokaq_job_hot"), True),
        (sqlite3.OperationalError("table chokaq_job_hot has no column named x"), True),
        (sqlite3.OperationalError("database is locked"), False),
        (pymysql.err.ProgrammingError(1146, "Table 'shop.chokaq_job_hot' doesn't exist"), True),
        (pymysql.err.OperationalError(1054, "Unknown column 'x' in 'field list'"), True),
        (pymysql.err.OperationalError(1213, "Deadlock found; no such table in this text"), False),
        (pymysql.err.IntegrityError(1062, "Duplicate entry '(208)' for key 'PRIMARY'"), False),
    ],
)
def test_drivers(cause: Exception, missing: bool) -> None:
    assert tables_missing(wrapped(cause)) is missing


def test_sql_server_drivers() -> None:
    need_mssql_backend()
    import pyodbc
    from mssql_python import exceptions

    def odbc(state: str, text: str) -> Any:
        return pyodbc.ProgrammingError(state, f"[{state}] [Microsoft][ODBC Driver 18 for SQL Server][SQL Server]{text}")

    def python(state: str, text: str) -> Any:
        error = exceptions.sqlstate_to_exception(state, f"[Microsoft][SQL Server]{text}")
        assert error is not None
        return error

    table, column = "Ungültiger Objektname 'chokaq_job_hot'. ", "Ungültiger Spaltenname 'x'. "
    assert tables_missing(wrapped(odbc("42S02", table + "(208) (SQLExecDirectW)")))
    assert tables_missing(wrapped(odbc("42S22", column + "(207) (SQLExecDirectW)")))
    assert tables_missing(wrapped(odbc("42000", table + "(208) (SQLExecDirectW)")))
    assert not tables_missing(wrapped(odbc("40001", "deadlock victim. (1205) (SQLExecDirectW)")))
    assert tables_missing(wrapped(python("42S02", table)))
    assert tables_missing(wrapped(python("42S22", column)))
    assert tables_missing(wrapped(python("42000", "Invalid object name 'chokaq_job_hot'.")))
    assert not tables_missing(wrapped(python("40001", "deadlock victim")))
