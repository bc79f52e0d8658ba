"""What SQL Server's errors mean, in the shapes in which both drivers raise them and Django wraps them."""

from __future__ import annotations

from typing import Any

import django.db
import pytest
from django.db.utils import DatabaseErrorWrapper

from tests.helpers import need_mssql_backend

need_mssql_backend()

import mssql_python  # noqa: E402 - they cannot be loaded everywhere
import pyodbc  # noqa: E402
from mssql_python.exceptions import raise_exception  # noqa: E402

from chokaq_django.storage.mssql.errors import Transient, is_deadlock, is_unique_violation, transient  # noqa: E402

pytestmark = pytest.mark.any_engine

LOST, BUSY, RACE = Transient.LOST, Transient.BUSY, Transient.RACE
ODBC = "[Microsoft][ODBC Driver 18 for SQL Server]"
SERVER = f"{ODBC}[SQL Server]"

KEY_HELD = (
    "Cannot insert duplicate key row in object 'dbo.chokaq_job_hot' with unique index 'chokaq_hot_key'. "
    "The duplicate key value is (order-1)."
)
ID_TAKEN = (
    "Violation of PRIMARY KEY constraint 'chokaq_job_hot_id_1f0d_pk'. Cannot insert duplicate key in object "
    "'dbo.chokaq_job_hot'. The duplicate key value is (01AAAAAAAAAAAAAAAAAAAAAAAA)."
)
BUCKET_TAKEN = (
    "Violation of PRIMARY KEY constraint 'chokaq_metric_bucket_at_series_pk'. Cannot insert duplicate key in object "
    "'dbo.chokaq_metric_bucket'. The duplicate key value is (2031-05-17 12:00:00.000000, 64)."
)

# SQLSTATE, number, message without the drivers' prefix, what it means.
SERVERS: list[tuple[str, int, str, Transient | None]] = [
    ("40001", 1205, ("Transaction (Process ID 52) was deadlocked on lock resources with another process and has been "
     "chosen as the deadlock victim. Rerun the transaction."), BUSY),
    ("42000", 1222, "Lock request time out period exceeded.", BUSY),
    ("HYT00", 1222, "Lock request time out period exceeded.", BUSY),
    ("42000", 3960, "Snapshot isolation transaction aborted due to update conflict.", BUSY),
    ("42000", 40501, "The service is currently busy. Retry the request after 10 seconds.", BUSY),
    ("42000", 49918, "Cannot process request. Not enough resources to process request.", BUSY),
    ("42000", 8645, "A timeout occurred while waiting for memory resources to execute the query.", BUSY),
    ("HY000", 40613, "Database 'jobs' on server 'x' is not currently available. Please retry later.", LOST),
    ("HY000", 40197, "The service has encountered an error processing your request. Please try again.", LOST),
    ("42000", 4060, 'Cannot open database "jobs" requested by the login. The login failed.', LOST),
    ("HY000", 596, "Cannot continue the execution because the session is in the kill state.", LOST),
    ("HY000", 4221, "Login to read-secondary failed due to long wait on 'HADR_DATABASE_WAIT'.", LOST),
    ("42000", 8628, "A time out occurred while waiting to optimize the query. Rerun the query.", BUSY),
    ("HY000", 6005, "SHUTDOWN is in progress.", LOST),
    ("42000", 3906, 'Failed to update database "jobs" because the database is read-only.', LOST),
    ("23000", 2601, KEY_HELD, RACE),
    ("23000", 2627, BUCKET_TAKEN, RACE),
    ("23000", 2627, ID_TAKEN, None),
    ("23000", 547, 'The INSERT statement conflicted with the CHECK constraint "positive".', None),
    ("23000", 515, ("Cannot insert the value NULL into column 'queue', table 'jobs.dbo.chokaq_job_hot'; column does "
     "not allow nulls. INSERT fails."), None),
    ("42000", 102, "Incorrect syntax near 'LIMIT'.", None),
    ("42S02", 208, "Invalid object name 'chokaq_job_hot'.", None),
    ("22001", 2628, ("String or binary data would be truncated in table 'jobs.dbo.chokaq_job_hot', column 'queue'. "
     "Truncated value: '(1205)'."), None),
    ("42000", 50000, "deadlines are (1222)", None),
    ("42000", 229, "The SELECT permission was denied on the object 'chokaq_job_hot'.", None),
]  # fmt: skip
DRIVERS: list[tuple[str, str, Transient | None]] = [
    ("08S01", "TCP Provider: Error code 0x68", LOST),
    ("08S01", "Communication link failure", LOST),
    ("08001", "TCP Provider: Error code 0x2749", LOST),
    ("HYT00", "Login timeout expired", LOST),
    ("HYT00", "Query timeout expired", BUSY),
    ("IMC06", ("The connection is broken and recovery is not possible. The connection is marked by the client driver "
     "as unrecoverable. No attempt was made to restore the connection."), LOST),
    ("HY000", "Unspecified error occurred on SQL Server. Connection may have been terminated by the server.", LOST),
    ("07002", "COUNT field incorrect or syntax error", None),
]  # fmt: skip
STANDIN: list[tuple[str, str, Transient | None]] = [
    # What servers of another make say, whose numbers are their own.
    ("40001", "deadlock detected", BUSY),
    ("42000", "canceling statement due to lock timeout", BUSY),
    ("23000", 'duplicate key value violates unique constraint "chokaq_hot_keychokaq_job_hot9c47"', RACE),
    ("23000", 'duplicate key value violates unique constraint "chokaq_job_hot_pkey"', None),
    ("23000", 'duplicate key value violates unique constraint "chokaq_queue_pkey"', RACE),
    ("42000", "terminating connection due to administrator command", LOST),
]  # fmt: skip


def wrapped(module: Any, error: BaseException) -> BaseException:
    """As Django's cursor raises it."""

    class Wrapper:
        Database = module
        errors_occurred = False

    with pytest.raises(django.db.Error) as caught, DatabaseErrorWrapper(Wrapper()):
        raise error
    assert caught.value.__cause__ is error
    return caught.value


def by_pyodbc(state: str, text: str, number: int) -> BaseException:
    """pyodbc: the SQLSTATE, and one text with the number and the ODBC function in brackets."""
    classes = {"40": pyodbc.OperationalError, "08": pyodbc.OperationalError, "HY": pyodbc.OperationalError,
               "23": pyodbc.IntegrityError, "42": pyodbc.ProgrammingError, "22": pyodbc.DataError}  # fmt: skip
    made = classes.get(state[:2], pyodbc.Error)(state, f"[{state}] {text} ({number}) (SQLExecDirectW)")
    return wrapped(pyodbc, made)


def by_mssql_python(state: str, text: str) -> BaseException:
    """mssql-python: a text for the SQLSTATE, and the message without its number."""
    with pytest.raises(mssql_python.exceptions.Exception) as caught:
        raise_exception(state, text)
    return wrapped(mssql_python, caught.value)


@pytest.mark.parametrize(("state", "number", "message", "expected"), SERVERS)
def test_what_a_server_says(state: str, number: int, message: str, expected: Transient | None) -> None:
    assert transient(by_pyodbc(state, SERVER + message, number)) is expected
    assert transient(by_pyodbc(state, SERVER + message, number).__cause__) is expected, "and without Django"


@pytest.mark.parametrize(("state", "number", "message", "expected"), SERVERS)
def test_what_a_server_says_through_mssql_python(
    state: str, number: int, message: str, expected: Transient | None
) -> None:
    assert transient(by_mssql_python(state, SERVER + message)) is expected


@pytest.mark.parametrize(("state", "message", "expected"), DRIVERS)
def test_what_the_driver_says(state: str, message: str, expected: Transient | None) -> None:
    assert transient(by_pyodbc(state, ODBC + message, 0)) is expected
    assert transient(by_mssql_python(state, ODBC + message)) is expected


@pytest.mark.parametrize(("state", "message", "expected"), STANDIN)
def test_what_another_server_says(state: str, message: str, expected: Transient | None) -> None:
    assert transient(by_pyodbc(state, SERVER + message, 33557097)) is expected
    assert transient(by_mssql_python(state, SERVER + message)) is expected


@pytest.mark.parametrize(("state", "number", "message", "expected"), SERVERS)
def test_a_duplicate_is_told_apart(state: str, number: int, message: str, expected: Transient | None) -> None:
    unique = number in (2601, 2627)
    assert is_unique_violation(by_pyodbc(state, SERVER + message, number)) is unique
    assert is_unique_violation(by_mssql_python(state, SERVER + message)) is unique
    assert is_deadlock(by_pyodbc(state, SERVER + message, number)) is (number == 1205)
    assert is_deadlock(by_mssql_python(state, SERVER + message)) is (number == 1205)


def test_the_last_of_several_messages_counts_too() -> None:
    text = (f"[42000] {SERVER}The transaction ended in the trigger. (3609) (SQLExecDirectW); "
            f"[42000] {SERVER}something else (1205)")  # fmt: skip
    assert transient(wrapped(pyodbc, pyodbc.ProgrammingError("42000", text))) is BUSY


@pytest.mark.parametrize("text", ["Attempt to use a closed connection.", "The cursor's connection has been closed."])
def test_a_connection_that_somebody_closed(text: str) -> None:
    assert transient(wrapped(pyodbc, pyodbc.ProgrammingError(text))) is LOST


def test_what_is_no_database_error_is_none_of_ours() -> None:
    assert transient(ValueError("was deadlocked on")) is None
    assert transient(TimeoutError("Query timeout expired")) is None
    assert transient(None) is None
