"""Tells a missing table or column from every other database error: the job tables were not migrated."""

from __future__ import annotations

from django.db import Error as DatabaseError

_STATES = {"42P01", "42703", "42S02", "42S22"}
"""SQLSTATEs: PostgreSQL's undefined table and column, ODBC's base table and column not found."""
_MYSQL_NUMBERS = {1054, 1146}
"""Unknown column, no such table."""
_WORDS = (
    # SQLite, which has one error code for everything of this kind
    "no such table",
    "no such column",
    "has no column named",
    # mssql-python, which turns the SQLSTATE into these and drops it
    "Driver Error: Base table or view not found",
    "Driver Error: Column not found",
    # SQL Server's errors 208 and 207, whatever state a driver gives them
    "Invalid object name",
    "Invalid column name",
    "(208)",
    "(207)",
)


def tables_missing(error: DatabaseError) -> bool:
    """Whether a statement failed because a table or column of it does not exist.

    ``error`` is Django's; the driver's own is its cause. psycopg has the SQLSTATE as an attribute, pyodbc as its first
    argument, mysqlclient and PyMySQL have the server's number there.
    """
    cause = error.__cause__ or error
    state = getattr(cause, "sqlstate", None)
    if state is not None:
        return state in _STATES
    first = cause.args[0] if cause.args else None
    if isinstance(first, int):
        return first in _MYSQL_NUMBERS
    if first in _STATES:
        return True
    text = str(cause)
    return any(words in text for words in _WORDS)
