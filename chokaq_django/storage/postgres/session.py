"""PostgreSQL's dialect, and the two ways to reach it: the caller's Django connection, or a worker's private one.

Both use psycopg's own cursors, which bind on the server. On the caller's connection they run inside Django's wrapper,
so that query logging, instrumentation and error classes are Django's; prepared statements stay as the project set them.
"""

# ruff: noqa: S608 - statements are composed of constants and column names of ours; every value is a parameter

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar, cast

import msgspec
from django.db import Error as DatabaseError
from django.db import InterfaceError, OperationalError
from django.db.backends.base.base import BaseDatabaseWrapper
from psycopg import Connection, Cursor
from psycopg.pq import ExecStatus

from ..base import SQLStorage
from ..buckets import BUCKET_COLUMNS, SUMS, BucketRow
from ..columns import BUCKET, HOT, QUEUE, names
from ..engine import Row

CHANNEL = "chokaq"
"""NOTIFY channel; the payload is the name of a queue that has new work."""

STATEMENT_LIMIT = 30.0
"""Seconds that the server gives one statement of a worker."""
CLIENT_LIMIT = STATEMENT_LIMIT + 5.0
"""Seconds after which a worker stops waiting for a server that does not even time out."""
PREPARE_AFTER = 2
"""Executions of a statement on a private connection before it is prepared."""

Statement = tuple[str, Any]

_BROKEN = ("08", "57P")
_TRANSIENT = {"40001", "40P01", "55P03", "53300", "25006"}
"""Serialization failure, deadlock, lock not available, too many connections, read-only server (failover)."""


def as_json(value: object) -> str:
    """JSON that carries lists and maps into a statement."""
    return _encoder.encode(value).decode()


_encoder = msgspec.json.Encoder()


class StatementTimeoutError(OperationalError):
    """The server did not answer within CLIENT_LIMIT; the connection was closed."""


class PostgresSession(SQLStorage):
    """Connection and dialect."""

    NOW: ClassVar[str] = "statement_timestamp()"
    BUCKET: ClassVar[str] = "date_bin('10 seconds', statement_timestamp(), TIMESTAMPTZ '2020-01-01 00:00:00+00')"

    def __init__(self, connection: BaseDatabaseWrapper, *, private: bool) -> None:
        super().__init__(connection, private=private)
        self._raw: Connection[Any] | None = None
        self._cursor: Cursor[Row] | None = None
        if private and "pool" in connection.settings_dict["OPTIONS"]:
            # A worker's connection lives as long as the worker and has settings of its own: it is none of the pool's.
            options = {key: value for key, value in connection.settings_dict["OPTIONS"].items() if key != "pool"}
            connection.settings_dict = {**connection.settings_dict, "OPTIONS": options}

    # -- dialect ------------------------------------------------------------------------------------------------------

    def _after(self, seconds: str = "%s") -> str:
        return f"{self.NOW} + make_interval(secs => {seconds}::float8)"

    def _among(self, column: str, values: Sequence[Any]) -> tuple[str, list[Any]]:
        return f"{column} = ANY(%s::varchar[])", [list(values)]

    def _add_buckets(self, rows: Sequence[BucketRow]) -> None:
        if rows:
            self._query(ADD_BUCKETS, [bucket_json(rows)])

    def _pairs(self, queues: Sequence[str]) -> list[tuple[str, int]]:
        rows = self._query(
            f"{PAIRS} SELECT queue, priority FROM p WHERE priority IS NOT NULL", {"queues": list(queues)}
        )
        return cast("list[tuple[str, int]]", rows)

    def pending_queues(self) -> list[str]:
        return [row[0] for row in self._single(lambda: self._query(_PENDING_QUEUES))]

    def _announce(self, queues: Sequence[str]) -> None:
        self._query("SELECT pg_notify(%s, q) FROM unnest(%s::text[]) AS u(q)", [CHANNEL, list(queues)])

    # -- errors -------------------------------------------------------------------------------------------------------

    def _is_transient(self, error: BaseException) -> bool:
        if isinstance(error, StatementTimeoutError) or not isinstance(error, DatabaseError):
            return False
        state = _sqlstate(error)
        if state is None:
            return isinstance(error, (OperationalError, InterfaceError))
        return state in _TRANSIENT or state.startswith(_BROKEN)

    def _recover(self, error: BaseException) -> None:
        state = _sqlstate(error)
        if state is None or state == "25006" or state.startswith(_BROKEN):
            self.connection.close()

    # -- statements ---------------------------------------------------------------------------------------------------

    def _query(self, sql: str, params: Sequence[Any] | dict[str, Any] = ()) -> list[Row]:
        if not self.private:
            with self._shared_cursor() as cursor:
                cursor.execute(sql, params)
                return _rows(cursor)
        with self.connection.wrap_database_errors:
            cursor = self._private_cursor()
            cursor.execute(sql, params)
            return _rows(cursor)

    def _plain_query(self, sql: str, params: dict[str, Any]) -> list[Row]:
        """Like :meth:`_query`, for a small statement whose rows hold text only.

        On the caller's connection it goes through Django's own cursor, which for such statements is the faster one.
        """
        if self.private:
            return self._query(sql, params)
        with self.connection.cursor() as cursor:
            cursor.execute(sql, params)
            return cursor.fetchall()  # type: ignore[no-any-return]

    def _execute(self, sql: str, params: Sequence[Any] | dict[str, Any] = ()) -> int:
        if not self.private:
            with self._shared_cursor() as cursor:
                cursor.execute(sql, params)
                return int(cursor.rowcount)
        with self.connection.wrap_database_errors:
            cursor = self._private_cursor()
            cursor.execute(sql, params)
            return int(cursor.rowcount)

    def _together(self, statements: Sequence[Statement]) -> list[list[Row]]:
        """Run statements that do not depend on one another's rows in one transaction and, privately, one round trip."""
        if len(statements) == 1:
            return [self._single(lambda: self._query(*statements[0]))]
        if not self.private:
            return self._unit(lambda: [self._query(*statement) for statement in statements])
        return self._retrier.run(lambda: self._pipeline(statements))

    def _pipeline(self, statements: Sequence[Statement]) -> list[list[Row]]:
        with self.connection.wrap_database_errors:
            connection = self._connected()
            # Statements between two syncs are one transaction: all of them apply, or none.
            with connection.pipeline():
                cursors = [self._new_cursor(connection) for _ in statements]
                for cursor, (sql, params) in zip(cursors, statements, strict=True):
                    cursor.execute(sql, params)
            return [_rows(cursor) for cursor in cursors]

    def _shared_cursor(self) -> Any:
        connection: Any = self.connection
        connection.close_if_health_check_failed()
        connection.ensure_connection()
        with connection.wrap_database_errors:
            cursor = Cursor(connection.connection)
            # In binary form instants are aware whatever USE_TZ is: Django's own loader is for text only.
            cursor.format = _BINARY
            return connection._prepare_cursor(cursor)

    # -- the private connection ---------------------------------------------------------------------------------------

    def _private_cursor(self) -> Any:
        connection = self._connected()
        if self._cursor is None or self._cursor.connection is not connection:
            self._cursor = self._new_cursor(connection)
        return self._cursor

    @staticmethod
    def _new_cursor(connection: Connection[Any]) -> Any:
        cursor: Cursor[Row] = Cursor(connection)
        cursor.format = _BINARY
        return cursor

    def _connected(self) -> Connection[Any]:
        raw = self._raw
        if raw is not None and not raw.closed and self.connection.connection is raw:
            return raw
        self.connection.close()
        self.connection.connect()
        self._raw = self._configure(cast(Connection[Any], self.connection.connection))
        return self._raw

    def _configure(self, raw: Connection[Any]) -> Connection[Any]:
        """Make a new connection one for a worker."""
        self.connection.set_autocommit(True)
        raw.wait = _limited_wait(raw)  # type: ignore[method-assign]
        settings = self.connection.settings_dict
        if settings.get("DISABLE_SERVER_SIDE_CURSORS"):
            # A transaction pooler: the session is not ours, neither its settings nor its prepared statements.
            return raw
        if settings["OPTIONS"].get("prepare_threshold") is None:
            raw.prepare_threshold = PREPARE_AFTER
        values = {
            "application_name": f"chokaq {threading.current_thread().name}"[:63],
            # A plan made while the table was empty must not read all of it once rows arrive.
            "enable_seqscan": "off",
            # Which makes the few scans that are wanted look dear enough to compile them: 0.2 s for half a millisecond.
            "jit": "off",
            # One plan is right for all values of these statements, and planning a claim takes longer than running it.
            "plan_cache_mode": "force_generic_plan",
            "statement_timeout": f"{STATEMENT_LIMIT:.0f}s",
            "default_transaction_isolation": "read committed",
            "TimeZone": "UTC",
        }
        calls = ", ".join(["set_config(%s, %s, false)"] * len(values))
        with self._new_cursor(raw) as cursor:
            cursor.execute(f"SELECT {calls}", [part for item in values.items() for part in item])
        return raw

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        if not self.private:
            with super()._transaction():
                yield
            return
        with self.connection.wrap_database_errors, self._connected().transaction():
            yield


def _rows(cursor: Any) -> list[Row]:
    """What a statement returned, if it returns rows. (``description`` would build an object for each column.)"""
    result = cursor.pgresult
    return cursor.fetchall() if result is not None and result.status == ExecStatus.TUPLES_OK else []


def _limited_wait(raw: Connection[Any]) -> Callable[..., Any]:
    """``raw.wait`` with CLIENT_LIMIT: a server that stands still stops a worker for so long and not for ever."""
    wait = raw.wait

    def limited(gen: Generator[Any, Any, Any], *args: Any, **kwargs: Any) -> Any:
        return wait(_with_limit(gen, raw), *args, **kwargs)

    return limited


def _with_limit(gen: Generator[Any, Any, Any], raw: Connection[Any]) -> Generator[Any, Any, Any]:
    end = time.monotonic() + CLIENT_LIMIT
    try:
        wanted = next(gen)
        while True:
            ready = yield wanted
            if not ready and time.monotonic() > end:
                gen.close()
                raw.close()
                raise StatementTimeoutError(f"PostgreSQL did not answer within {CLIENT_LIMIT:.0f} s")
            wanted = gen.send(ready)
    except StopIteration as stop:
        return stop.value


def _sqlstate(error: BaseException | None) -> str | None:
    """The SQLSTATE of a driver's error, or of the one that Django wrapped."""
    while error is not None:
        state = getattr(error, "sqlstate", None)
        if state:
            return str(state)
        error = error.__cause__
    return None


_BINARY: Any = 1

_ADDED = ", ".join(f"{column} = t.{column} + excluded.{column}" for column in SUMS)
BUCKET_UPSERT = f"ON CONFLICT (at, series) DO UPDATE SET max_ms = greatest(t.max_ms, excluded.max_ms), {_ADDED}"
BUCKET_ROWS = (
    f"SELECT {PostgresSession.BUCKET}, {names(BUCKET_COLUMNS, 'r')} FROM json_populate_recordset(NULL::{BUCKET}, %s) r"
)
ADD_BUCKETS = f"INSERT INTO {BUCKET} AS t (at, {names(BUCKET_COLUMNS)}) {BUCKET_ROWS} ORDER BY series {BUCKET_UPSERT}"


def bucket_json(rows: Sequence[BucketRow]) -> str:
    """Bucket rows as a JSON list of records."""
    return as_json([dict(zip(BUCKET_COLUMNS, row.values(), strict=True)) for row in rows])


_FIRST = f"SELECT h.priority FROM {HOT} h WHERE h.queue = q.queue AND h.status = 0 ORDER BY h.priority DESC LIMIT 1"
_NEXT = (
    f"SELECT h.priority FROM {HOT} h WHERE h.queue = p.queue AND h.status = 0 AND h.priority < p.priority "
    "ORDER BY h.priority DESC LIMIT 1"
)
OPEN = f"NOT EXISTS (SELECT 1 FROM {QUEUE} s WHERE s.name = {{}} AND (s.is_paused OR NOT s.is_active))"
"""That a queue is neither paused nor hidden."""
PAIRS = (
    f"WITH RECURSIVE p(queue, ord, priority) AS ("
    f"SELECT q.queue, q.ord, ({_FIRST}) FROM unnest(%(queues)s::varchar[]) WITH ORDINALITY q(queue, ord) "
    f"WHERE {OPEN.format('q.queue')} "
    f"UNION ALL SELECT p.queue, p.ord, ({_NEXT}) FROM p WHERE p.priority IS NOT NULL)"
)
"""A loose index scan: the priorities present in each open queue, by one seek each."""

_PENDING_QUEUES = (
    f"WITH RECURSIVE p(queue) AS ("
    f"(SELECT queue FROM {HOT} WHERE status = 0 ORDER BY queue LIMIT 1) UNION ALL "
    f"SELECT (SELECT h.queue FROM {HOT} h WHERE h.status = 0 AND h.queue > p.queue ORDER BY h.queue LIMIT 1) "
    f"FROM p WHERE p.queue IS NOT NULL) SELECT queue FROM p WHERE queue IS NOT NULL"
)
