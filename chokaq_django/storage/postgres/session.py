"""PostgreSQL's dialect, and the two ways to reach it: the caller's Django connection, or a worker's private one.

Both use psycopg's own cursors, which bind on the server. On the caller's connection they run inside Django's wrapper,
so that query logging, instrumentation and error classes are Django's; prepared statements stay as the project set them.
"""

# ruff: noqa: S608 - statements are composed of constants and column names of ours; every value is a parameter

from __future__ import annotations

import functools
import secrets
import threading
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar, cast

import msgspec
from django.db import DataError as DjangoDataError
from django.db.backends.base.base import BaseDatabaseWrapper
from psycopg import Connection, Cursor, DataError
from psycopg.errors import ConnectionTimeout, error_from_result
from psycopg.generators import execute
from psycopg.pq import ExecStatus, TransactionStatus

from ..base import SQLStorage
from ..columns import HOT, QUEUE, names
from ..engine import Row
from ..listening import connect_limit
from ..patience import Patience
from ..summed import Summed, Values
from .errors import StatementTimeoutError, is_broken, is_deadlock, is_transient
from .times import readable_rows

CHANNEL = "chokaq"
"""NOTIFY channel; the payload is the name of a queue that has new work."""

STATEMENT_LIMIT = 30.0
"""Seconds that the server gives one statement of a worker."""
CLIENT_LIMIT = STATEMENT_LIMIT + 5.0
"""Seconds after which a worker stops waiting for a server that does not even time out."""
MARK = "current_setting('chokaq.mark', true)"
"""The mark of the transaction; it ends with it."""
PREPARE_AFTER = 2
"""Executions of a statement on a private connection before it is prepared."""

Statement = tuple[str, Any]


def as_json(value: object) -> str:
    """JSON that carries lists and maps into a statement."""
    return _encoder.encode(value).decode()


_encoder = msgspec.json.Encoder()


class PostgresSession(SQLStorage):
    """Connection and dialect."""

    GENERATIONS: ClassVar[str] = (
        "(SELECT v ->> 0 AS id, (v ->> 1)::int AS generation FROM json_array_elements(%s::json) v) g"
    )
    NOW: ClassVar[str] = "statement_timestamp()"
    deadlock_spares_savepoints = True
    errors_doom_transactions = True
    BUCKET: ClassVar[str] = "date_bin('10 seconds', statement_timestamp(), TIMESTAMPTZ '2020-01-01 00:00:00+00')"

    def __init__(self, connection: BaseDatabaseWrapper, *, private: bool) -> None:
        super().__init__(connection, private=private)
        self._raw: Connection[Any] | None = None
        self._cursor: Cursor[Row] | None = None
        if private:
            # A worker's connection lives as long as the worker and has settings of its own: it is none of the pool's.
            options = connection.settings_dict["OPTIONS"]
            self._options = {key: value for key, value in options.items() if key != "pool"}
            self._limit_connect()
            connect: Any = connection.get_new_connection
            cast(Any, connection).get_new_connection = self._limited(connect)

    # -- dialect ------------------------------------------------------------------------------------------------------

    def _after(self, seconds: str = "%s") -> str:
        return f"{self.NOW} + make_interval(secs => {seconds}::float8)"

    def _among(self, column: str, values: Sequence[Any]) -> tuple[str, list[Any]]:
        return f"{column} = ANY(%s::varchar[])", [list(values)]

    def _add(self, summed: Summed, rows: Sequence[Values]) -> None:
        if rows:
            self._query(upsert(summed), [summed_json(summed, rows)])

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

    def is_transient(self, error: BaseException) -> bool:
        return is_transient(error)

    def is_deadlock(self, error: BaseException) -> bool:
        return is_deadlock(error)

    def _ran_out(self, error: BaseException) -> bool:
        return isinstance(error, StatementTimeoutError) or isinstance(error.__cause__, ConnectionTimeout)

    def _recover(self, error: BaseException) -> None:
        if is_broken(error):
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

    def _plain_execute(self, sql: str, params: dict[str, Any]) -> int:
        """Like :meth:`_execute`, for a small statement; what it returns is not fetched.

        On the caller's connection it goes through Django's own cursor, which for such statements is the faster one.
        """
        if self.private:
            return self._execute(sql, params)
        with self.connection.cursor() as cursor:
            cursor.execute(sql, params)
            return int(cursor.rowcount)

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
        self._limit_connect()
        self.connection.connect()
        self._raw = self._configure(cast(Connection[Any], self.connection.connection))
        return self._raw

    def _limit_connect(self) -> None:
        options = {**self._options, "connect_timeout": connect_limit(self._options, self._patience)}
        self.connection.settings_dict = {**self.connection.settings_dict, "OPTIONS": options}

    def _limited(self, connect: Callable[[Any], Any]) -> Callable[[Any], Any]:
        """Django's way to a new connection, one that never waits without a limit: not for what Django itself sends
        first either."""

        def limited(params: Any) -> Any:
            raw = connect(params)
            raw.wait = _limited_wait(raw, self._retrier.patience)
            return raw

        return limited

    def _configure(self, raw: Connection[Any]) -> Connection[Any]:
        """Make a new connection one for a worker."""
        self.connection.set_autocommit(True)
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
            # Rows found by their ids are locked in the order of the ids, as verbs lock them: by the index, whose scan
            # sorts the ids, and not by a bitmap, which has the order of the heap.
            "enable_bitmapscan": "off",
            # Which makes the few scans that are wanted look dear enough to compile them: 0.2 s for half a millisecond.
            "jit": "off",
            # One plan is right for all values of these statements, and planning a claim takes longer than running it.
            "plan_cache_mode": "force_generic_plan",
            "statement_timeout": f"{STATEMENT_LIMIT:.0f}s",
            "default_transaction_isolation": "read committed",
            "TimeZone": "UTC",
        }
        if self._lock_limit is not None:
            values["lock_timeout"] = f"{self._lock_limit * 1000:.0f}ms"
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

    def mark_transaction(self) -> object:
        # The driver would begin the transaction in a round trip before its first statement; here the same one marks it.
        # By a setting, because a SELECT would take the snapshot before the handler can say how it wants to be isolated.
        mark = secrets.token_hex(8)
        with self.connection.wrap_database_errors:
            raw = cast("Connection[Any]", self.connection.connection)
            with raw.lock:
                raw.pgconn.send_query(f"{_begin(raw)}; SET LOCAL chokaq.mark = '{mark}'".encode())
                results = raw.wait(execute(raw.pgconn))
            for result in results:
                if result.status != ExecStatus.COMMAND_OK:
                    raise error_from_result(result, encoding=raw.info.encoding)
        return mark

    def is_marked(self, mark: object) -> bool:
        # What the driver knows: a COMMIT was the last. Of another that has begun since, the settle statement can tell.
        raw: Any = self.connection.connection
        return raw is None or raw.info.transaction_status != TransactionStatus.IDLE


def _begin(raw: Connection[Any]) -> str:
    """The statement by which the driver would begin a transaction."""
    modes = ["BEGIN"]
    if raw.isolation_level is not None:
        modes.append(f"ISOLATION LEVEL {raw.isolation_level.name.replace('_', ' ')}")
    if raw.read_only is not None:
        modes.append("READ ONLY" if raw.read_only else "READ WRITE")
    if raw.deferrable is not None:
        modes.append("DEFERRABLE" if raw.deferrable else "NOT DEFERRABLE")
    return " ".join(modes)


def _rows(cursor: Any) -> list[Row]:
    """What a statement returned, if it returns rows. (``description`` would build an object for each column.)"""
    result = cursor.pgresult
    if result is None or result.status != ExecStatus.TUPLES_OK:
        return []
    try:
        return cursor.fetchall()  # type: ignore[no-any-return]
    except (DataError, DjangoDataError):
        return readable_rows(getattr(cursor, "cursor", cursor))  # the driver's own, of Django's wrapper


def _limited_wait(raw: Connection[Any], patience: Patience) -> Callable[..., Any]:
    """``raw.wait`` with CLIENT_LIMIT, or less of it: a server that stands still stops a worker for so long and not for
    ever."""
    wait = raw.wait

    def limited(gen: Generator[Any, Any, Any], *args: Any, **kwargs: Any) -> Any:
        return wait(_with_limit(gen, raw, min(CLIENT_LIMIT, patience.seconds)), *args, **kwargs)

    return limited


def _with_limit(gen: Generator[Any, Any, Any], raw: Connection[Any], limit: float) -> Generator[Any, Any, Any]:
    end = time.monotonic() + limit
    try:
        wanted = next(gen)
        while True:
            ready = yield wanted
            if not ready and time.monotonic() > end:
                gen.close()
                raw.close()
                raise StatementTimeoutError(f"PostgreSQL did not answer within {limit:.0f} s")
            wanted = gen.send(ready)
    except StopIteration as stop:
        return stop.value


_BINARY: Any = 1


@functools.cache
def upsert(summed: Summed, rows: str = "%s", condition: str = "true") -> str:
    """The statement that adds ``rows`` (SQL of JSON) to a table whose rows add up, if the condition holds."""
    values = summed.values([f"r.{column}" for column in summed.columns], PostgresSession.NOW, PostgresSession.BUCKET)
    return (
        f"INSERT INTO {summed.table} AS t ({names(summed.inserted)}) SELECT {names(values)} "
        f"FROM json_populate_recordset(NULL::{summed.table}, {rows}) r WHERE {condition} "
        f"ORDER BY r.{summed.columns[0]} {on_conflict(summed)}"
    )


def on_conflict(summed: Summed) -> str:
    """The end of an INSERT into ``t``, a table whose rows add up."""
    changes = summed.changes("excluded.{}".format, "t.{}".format)
    return f"ON CONFLICT ({names(summed.key)}) DO UPDATE SET {names(changes)}"


def summed_json(summed: Summed, rows: Sequence[Values]) -> str:
    """Rows of such a table as a JSON list of records."""
    return as_json([dict(zip(summed.columns, row, strict=True)) for row in rows])


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
