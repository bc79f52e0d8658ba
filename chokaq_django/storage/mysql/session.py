"""The dialect of MariaDB and MySQL, connections and transactions.

Only what both servers understand is used: SKIP LOCKED, JSON_TABLE and VALUES() in an upsert; no RETURNING, which MySQL
does not have. Statements on a private connection go to the driver's own cursor; on the caller's connection they go
through Django's, so that query logging and instrumentation see them.
"""

# ruff: noqa: S608 - statements are composed of constants and column names of ours; every value is a parameter

from __future__ import annotations

import datetime as dt
import functools
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar

import msgspec
from django.db import Error as DatabaseError
from django.db import IntegrityError, transaction
from django.db.backends.base.base import BaseDatabaseWrapper

from ...models.fields import as_utc
from ..base import SQLStorage
from ..columns import names
from ..contract import StorageError
from ..engine import Row
from ..summed import Summed, Values, flat
from .errors import BROKEN, DUPLICATE_KEY, NO_SAVEPOINT, code_of, is_broken, is_deadlock, is_transient
from .packets import LEAST, bytes_of, too_large, too_large_error
from .tables import ID, IDS, json_table

MARIADB_FLOOR, MYSQL_FLOOR = (10, 6), (8, 0, 17)
"""The first versions with SKIP LOCKED, and with a binary collation that tells 'a' from 'a '."""

STATEMENT_LIMIT = 30
"""Seconds that the server gives one statement of a worker."""
CLIENT_LIMIT = STATEMENT_LIMIT + 5
"""Seconds after which a worker stops waiting for a server that does not even time out."""
CONNECT_LIMIT = 10
LOCK_LIMIT = 10
"""Seconds that a worker waits for a row that somebody else has locked; then its transaction is done again."""
LAST_INSTANT = "9999-12-31 23:59:59.999999"

_SESSION = {
    # Strict: what does not fit is an error, whatever the server's own mode is.
    "sql_mode": "STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION",
    "innodb_lock_wait_timeout": LOCK_LIMIT,
    "lock_wait_timeout": STATEMENT_LIMIT,
    "wait_timeout": 28_800,
}
_READ_COMMITTED = "read committed"
_MARK = "chokaq_begin"
_PACKET = "_chokaq_packet"

Params = Sequence[Any] | dict[str, Any]


def as_json(value: object) -> str:
    """JSON that carries lists into a statement."""
    return _encoder.encode(value).decode()


def size(text: str) -> int:
    """Bytes that a text has on the wire."""
    return len(text) if text.isascii() else len(text.encode(errors="surrogatepass"))


_encoder = msgspec.json.Encoder()


class MySQLSession(SQLStorage):
    """Connection and dialect."""

    GENERATIONS: ClassVar[str] = json_table({"id": ID, "generation": "INT"}, "g")
    NOW: ClassVar[str] = "UTC_TIMESTAMP(6)"
    """The same in all of a statement, and not touched by the session's time zone."""
    BUCKET: ClassVar[str] = "UTC_TIMESTAMP() - INTERVAL MOD(SECOND(UTC_TIMESTAMP()), 10) SECOND"

    def __init__(self, connection: BaseDatabaseWrapper, *, private: bool) -> None:
        super().__init__(connection, private=private)
        self._raw: Any = None
        self._sent_at = 0.0
        self._waits = float(CLIENT_LIMIT)
        self._hurried: float | None = None
        if private:
            options = connection.settings_dict["OPTIONS"]
            self._most = {
                name: min(options.get(name) or limit, limit)
                for name, limit in (
                    ("connect_timeout", CONNECT_LIMIT), ("read_timeout", CLIENT_LIMIT), ("write_timeout", CLIENT_LIMIT)
                )
            }  # fmt: skip
            own = {"charset": "utf8mb4", "use_unicode": True, "isolation_level": _READ_COMMITTED}
            connection.settings_dict = {**connection.settings_dict, "OPTIONS": {**options, **self._most, **own}}
            self._limit()

    # -- dialect ------------------------------------------------------------------------------------------------------

    def _after(self, seconds: str = "%s") -> str:
        return f"COALESCE({self.NOW} + INTERVAL {seconds} SECOND, '{LAST_INSTANT}')"

    def _among(self, column: str, values: Sequence[Any]) -> tuple[str, list[Any]]:
        return f"{column} IN ({', '.join(['%s'] * len(values))})", list(values)

    # Where a table is small, the planner prefers to scan it, and then waits for every row that anybody has locked: the
    # uncommitted jobs of a long web transaction, for one. Rows are found by their keys, whatever the planner thinks.

    def _by_index(self, table: str, index: str) -> str:
        return f"{table} FORCE INDEX ({index})"

    def _by_key(self, table: str) -> str:
        return f"{table} FORCE INDEX (PRIMARY)"

    def _delete(self, table: str, ids: Sequence[str], key: str = "id") -> int:
        # A DELETE takes no notice of FORCE INDEX, but of the order of a join.
        sql = f"DELETE h FROM {IDS} STRAIGHT_JOIN {self._by_key(f'{table} h')} ON h.{key} = j.id"
        return self._execute(sql, [as_json(list(ids))])

    def _instant(self, value: dt.datetime | None) -> Any:
        return None if value is None else as_utc(value).replace(tzinfo=None)

    def _add(self, summed: Summed, rows: Sequence[Values]) -> None:
        for part in summed.portions(rows):
            self._execute(upsert(summed, len(part)), flat(part))

    def _insert_unless_there(self, table: str, columns: Sequence[str], values: str, params: Sequence[object]) -> bool:
        # Not INSERT IGNORE: that stores cut values and swallows every other error too. A duplicate key undoes the
        # statement only, not the transaction.
        try:
            self._execute(f"INSERT INTO {table} ({names(columns)}) VALUES ({values})", params)
        except IntegrityError as error:
            if code_of(error) != DUPLICATE_KEY:
                raise
            return False
        return True

    # -- errors -------------------------------------------------------------------------------------------------------

    def is_transient(self, error: BaseException) -> bool:
        if self.private and time.monotonic() - self._sent_at >= 0.9 * self._waits:
            return False  # the server stands still: who called decides when to try again
        return is_transient(error)

    def _ran_out(self, error: BaseException) -> bool:
        # No driver says so by its error.
        return isinstance(error, DatabaseError) and time.monotonic() - self._sent_at >= 0.9 * self._waits

    def is_deadlock(self, error: BaseException) -> bool:
        return is_deadlock(error)

    def _recover(self, error: BaseException) -> None:
        if is_broken(error):
            self.connection.close()

    # -- statements ---------------------------------------------------------------------------------------------------

    def _query(self, sql: str, params: Params = ()) -> list[Row]:
        if not self.private:
            with self.connection.cursor() as cursor:
                cursor.execute(sql, params)
                return list(cursor.fetchall())
        with self.connection.wrap_database_errors:
            return self._send(sql, params).fetchall()  # type: ignore[no-any-return]

    def _execute(self, sql: str, params: Params = ()) -> int:
        if self._joined() and (length := bytes_of(sql, params)) >= LEAST and length >= self._room():
            # Not sent at all: the server would hang up, and with the connection goes the caller's transaction.
            raise too_large(self.alias, length, self._room())
        try:
            if not self.private:
                with self.connection.cursor() as cursor:
                    cursor.execute(sql, params)
                    return int(cursor.rowcount)
            with self.connection.wrap_database_errors:
                return int(self._send(sql, params).rowcount)
        except DatabaseError as error:
            instead = too_large_error(self.connection, error, sql, params)
            if instead is None:
                raise
            if not self._joined():
                self.connection.close()
            raise instead from error

    def _returning(self, update: str, columns: str, params: Sequence[Any]) -> list[Row]:
        # Two statements of one transaction. No UPDATE of ours changes a column of its own condition.
        if not self._execute(update, params):
            return []
        _, _, condition = update.rpartition(" WHERE ")
        return self._query(
            f"SELECT {columns} FROM {update.split()[1]} WHERE {condition}",
            params[len(params) - condition.count("%s") :],
        )

    def _send(self, sql: str, params: Params = ()) -> Any:
        raw = self._connected()
        self._sent_at = time.monotonic()
        cursor = raw.cursor(self._cursor_class)
        try:
            cursor.execute(sql, params)
        except Exception as error:
            if code_of(error) in BROKEN:
                self.connection.close()
            raise
        return cursor

    # -- the private connection ---------------------------------------------------------------------------------------

    @property
    def _cursor_class(self) -> Any:
        return self.connection.Database.cursors.Cursor  # type: ignore[attr-defined]

    def _connected(self) -> Any:
        """The driver's connection of a private storage, opened when it is not."""
        raw = self.connection.connection
        # The patience changes between two units only, so no transaction is left in its middle.
        if raw is None or raw is not self._raw or self._hurried != self._patience:
            self.connection.close()
            self._limit()
            self._sent_at = time.monotonic()
            self.connection.connect()
            self.connection.set_autocommit(True)
            raw = self._configure(self.connection.connection)
            self._raw = raw
        return raw

    def _limit(self) -> None:
        """What the next connection waits for its server, all its life: the drivers take it when they connect only."""
        self._hurried = self._patience
        # In whole seconds, as mysqlclient wants them.
        limits = {
            name: limit if limit <= self._hurried else max(1, int(self._hurried)) for name, limit in self._most.items()
        }
        settings = self.connection.settings_dict
        self.connection.settings_dict = {**settings, "OPTIONS": {**settings["OPTIONS"], **limits}}
        self._waits = float(limits["read_timeout"])

    def _configure(self, raw: Any) -> Any:
        """Make a new connection one for a worker."""
        connection: Any = self.connection
        version, mariadb = connection.mysql_version, connection.mysql_is_mariadb
        if version < (MARIADB_FLOOR if mariadb else MYSQL_FLOOR):
            raise StorageError(
                f"The job database {self.alias!r} is {connection.display_name} {'.'.join(map(str, version))}; "
                "MariaDB 10.6 or MySQL 8.0.17 or newer is needed."
            )
        values: dict[str, Any] = {
            **_SESSION,
            **({"innodb_lock_wait_timeout": max(1, round(self._lock_limit))} if self._lock_limit is not None else {}),
            **({"max_statement_time": STATEMENT_LIMIT} if mariadb else {"max_execution_time": STATEMENT_LIMIT * 1000}),
        }
        with raw.cursor(self._cursor_class) as cursor:
            cursor.execute(f"SET {', '.join(f'SESSION {name} = %s' for name in values)}", list(values.values()))
            cursor.execute("SELECT @@max_allowed_packet")
            setattr(connection, _PACKET, (raw, int(cursor.fetchall()[0][0])))
        return raw

    def _room(self) -> int:
        """Bytes that one statement may have; the server is asked once for each session, to which it does not change."""
        raw, room = getattr(self.connection, _PACKET, (None, 0))
        if raw is None or raw is not self.connection.connection:
            room = int(self._query("SELECT @@max_allowed_packet")[0][0])
            setattr(self.connection, _PACKET, (self.connection.connection, room))
        return int(room)

    # -- transactions -------------------------------------------------------------------------------------------------

    @property
    def _reads_committed(self) -> bool:
        """Whether a plain SELECT sees what is committed now. The caller's own transaction may be REPEATABLE READ."""
        if self.private:
            return True
        self.connection.ensure_connection()
        return getattr(self.connection, "isolation_level", None) == _READ_COMMITTED

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        if not self.private:
            if not self._reads_committed:
                self._execute("SET TRANSACTION ISOLATION LEVEL READ COMMITTED")  # of the next one only
            with transaction.atomic(using=self.alias):
                yield
            return
        with self.connection.wrap_database_errors:
            self._send("START TRANSACTION")
            try:
                yield
                self._send("COMMIT")
            except BaseException:
                self._roll_back()
                raise

    def mark_transaction(self) -> object:
        # A deadlock here undoes the whole transaction, and TRUNCATE and DDL commit it: savepoints end with it.
        return self._execute(f"SAVEPOINT {_MARK}")

    def is_marked(self, mark: object) -> bool:
        try:
            self._execute(f"RELEASE SAVEPOINT {_MARK}")
        except DatabaseError as error:
            if code_of(error) != NO_SAVEPOINT:
                raise
            return False
        return True

    def _roll_back(self) -> None:
        """The whole unit: after a lock timeout the server has undone the last statement only."""
        if self.connection.connection is None:
            return
        try:
            self._send("ROLLBACK")
        except Exception:  # noqa: BLE001 - what cannot be rolled back is dropped, which rolls it back
            self.connection.close()


@functools.lru_cache(maxsize=256)
def upsert(summed: Summed, count: int) -> str:
    """The statement that adds so many rows to a table whose rows add up."""
    marks = summed.values(["%s"] * len(summed.columns), MySQLSession.NOW, MySQLSession.BUCKET)
    return (
        f"INSERT INTO {summed.table} ({names(summed.inserted)}) VALUES {', '.join([f'({names(marks)})'] * count)} "
        f"ON DUPLICATE KEY UPDATE {names(summed.changes('VALUES({})'.format))}"
    )
