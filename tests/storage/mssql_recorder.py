"""A SQL Server storage without a server: a driver that writes down what it is sent and answers as it is told."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from django.db import connections

from tests.helpers import need_mssql_backend

need_mssql_backend()

import mssql.base  # noqa: E402 - it cannot be loaded everywhere

from chokaq_django.storage.mssql import SQLServerStorage  # noqa: E402

if TYPE_CHECKING:
    from chokaq_django.storage.contract import Storage

ALIAS = "recorded"
SETTINGS = {
    "ENGINE": "mssql", "NAME": "chokaq", "USER": "", "PASSWORD": "", "HOST": "", "PORT": "", "OPTIONS": {},
    "AUTOCOMMIT": True, "ATOMIC_REQUESTS": False, "CONN_MAX_AGE": 0, "CONN_HEALTH_CHECKS": False, "TIME_ZONE": None,
    "TEST": {"CHARSET": None, "COLLATION": None, "MIGRATE": True, "MIRROR": None, "NAME": None},
}  # fmt: skip

Results = list[list[tuple[Any, ...]]]
_SETTINGS_OF_A_SESSION = (
    "SELECT @@TRANCOUNT",
    "SET DATEFORMAT",
    "SET LANGUAGE",
    "SET LOCK_TIMEOUT",
    "\nSET LOCK_TIMEOUT",
    "SELECT LEN(",
)


@dataclass
class Answer:
    """What the next statement that contains ``text`` gets: results, or an error."""

    text: str
    results: Results | BaseException


@dataclass
class Sent:
    """A statement as it reached the driver, and its parameters."""

    sql: str
    params: tuple[Any, ...]

    @property
    def rendered(self) -> str:
        """With ``@p1``, ``@p2`` ... for the parameters, as the server sees it."""
        numbers = iter(range(1, len(self.params) + 1))
        return re.sub(r"\?", lambda _: f"@p{next(numbers)}", self.sql)


@dataclass
class Recorder:
    """The fake server."""

    sent: list[Sent] = field(default_factory=list)
    answers: list[Answer] = field(default_factory=list)
    closed: int = 0
    opened: int = 0

    def answer(self, text: str, *results: list[tuple[Any, ...]]) -> None:
        self.answers.append(Answer(text, list(results)))

    def fail(self, text: str, error: BaseException) -> None:
        self.answers.append(Answer(text, error))

    def run(self, sql: str, params: Sequence[Any]) -> Results:
        if sql.startswith("SELECT @@TRANCOUNT"):
            return [[(1,)]]
        self.sent.append(Sent(sql, tuple(params)))
        assert sql.count("?") == len(params), sql
        for answer in self.answers:
            if answer.text in sql:
                self.answers.remove(answer)
                if isinstance(answer.results, BaseException):
                    raise answer.results
                return answer.results
        if "SELECT LEN(" in sql:
            return [[(2,)]]
        if "SELECT @@ROWCOUNT;" in sql:
            return [[(1,)]]
        return [[], []] if re.search("SELECT|OUTPUT", sql) else []

    def statements(self) -> list[Sent]:
        """Without those that only set up a session."""
        return [sent for sent in self.sent if not sent.sql.startswith(_SETTINGS_OF_A_SESSION)]


class _Cursor:
    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._results: Results = []
        self.rowcount = -1

    def execute(self, sql: str, params: Sequence[Any] = ()) -> _Cursor:
        self._results = list(self._recorder.run(sql, params))
        return self

    @property
    def description(self) -> list[tuple[str]] | None:
        return [("column",)] if self._results else None

    def fetchall(self) -> list[tuple[Any, ...]]:
        rows, self._results[0] = self._results[0], []
        return rows

    def fetchone(self) -> tuple[Any, ...] | None:
        return self._results[0].pop(0) if self._results and self._results[0] else None

    def nextset(self) -> bool:
        self._results = self._results[1:]
        return bool(self._results)

    def close(self) -> None:
        pass

    def __enter__(self) -> _Cursor:
        return self

    def __exit__(self, *error: object) -> None:
        pass


class _Connection:
    def __init__(self, recorder: Recorder) -> None:
        self.autocommit = False
        self.timeout = 0
        self._recorder = recorder

    def cursor(self) -> _Cursor:
        return _Cursor(self._recorder)

    def commit(self) -> None:
        self._recorder.sent.append(Sent("-- commit by the driver", ()))

    def rollback(self) -> None:
        self._recorder.sent.append(Sent("-- rollback by the driver", ()))

    def close(self) -> None:
        self._recorder.closed += 1


class RecordingWrapper(mssql.base.DatabaseWrapper):  # type: ignore[misc]
    """mssql-django's wrapper over the fake driver."""

    sql_server_version = 2017
    to_azure_sql_db = False

    def __init__(self, recorder: Recorder) -> None:
        super().__init__(dict(SETTINGS), ALIAS)
        self.recorder = recorder

    def get_new_connection(self, conn_params: Any) -> _Connection:
        self.recorder.opened += 1
        return _Connection(self.recorder)

    def init_connection_state(self) -> None:
        self._is_microsoft_driver = True
        self.supports_mars = False

    def ensure_connection(self) -> None:  # pytest-django guards Django's own against tests without a database
        if self.connection is None:
            with self.wrap_database_errors:
                self.connect()


def private_storage(recorder: Recorder) -> Any:
    """As a worker opens it."""
    return _storage(RecordingWrapper(recorder), private=True)


@contextmanager
def callers_storage(recorder: Recorder) -> Iterator[Any]:
    """On a thread's Django connection."""
    with registered(recorder) as wrapper:
        yield _storage(wrapper, private=False)


@contextmanager
def registered(recorder: Recorder) -> Iterator[RecordingWrapper]:
    """A Django connection of this thread, by the name ALIAS."""
    connections.databases[ALIAS] = dict(SETTINGS)
    connections[ALIAS] = wrapper = RecordingWrapper(recorder)
    try:
        yield wrapper
    finally:
        del connections[ALIAS]
        del connections.databases[ALIAS]


def _storage(wrapper: Any, *, private: bool) -> Storage:
    storage = SQLServerStorage(wrapper, private=private)
    storage._shard = "shard"
    storage._retrier.sleep = lambda pause: None
    return storage


# -- Microsoft's parser ------------------------------------------------------------------------------------------------


def parser() -> str:
    """The path of maxdop, which is Microsoft's parser and a formatter on top of it."""
    found = shutil.which("maxdop", path=str(Path(sys.executable).parent)) or shutil.which("maxdop")
    if found is None:
        pytest.skip("maxdop, Microsoft's parser of T-SQL, is not installed: pip install maxdop")
    return found


def parsed(sql: str, version: str) -> str:
    """``sql`` formatted; AssertionError with the parser's message when the grammar of ``version`` rejects it."""
    done = subprocess.run(
        [parser(), "--parser-version", version], input=sql, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, f"{done.stderr}\n{sql}"
    return done.stdout
