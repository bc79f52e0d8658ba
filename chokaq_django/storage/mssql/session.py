"""SQL Server's dialect, connections and transactions.

*The clock.* Every batch reads it once, into ``@now``, with the six digits that the columns have. Portable statements
say ``@now`` too, and get the declaration in front.

*Parameters.* Each batch declares its variables with their types, and the parameters are their values: a key stays a key
of nvarchar, whatever a driver declares. Lists come as one JSON text. A NULL is written into the statement: drivers
would ask the server for the type of a parameter without a value, and an error of theirs would end the transaction.

*Locks.* READ COMMITTED throughout. Rows are locked in the order of their ids.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import functools
import re
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar, TypeVar

from django.db import Error as DatabaseError
from django.db import OperationalError, transaction
from django.db.backends.base.base import BaseDatabaseWrapper

from ..base import SQLStorage
from ..contract import StorageError
from ..engine import Row
from .errors import Transient, is_deadlock, transient
from .tsql import AFTER, BIN2, BUCKET, LOCKED, NOW, UNLOCKED, Batch, Texts, as_json, instant_text, span, statement

T = TypeVar("T")

FLOOR = 2017
"""The first release that mssql-django knows well, and one with OPENJSON."""
STATEMENT_LIMIT = 30
"""Seconds that a worker waits for one statement."""
CONNECT_LIMIT = 10
"""Seconds that a sign of life waits for a connection, at most."""
LOCK_LIMIT = 10
"""Seconds that a worker's statement waits for a lock."""
_CONFIGURE = f"""
SET LOCK_TIMEOUT {LOCK_LIMIT * 1000};
SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
SET ANSI_NULLS, ANSI_PADDING, ANSI_WARNINGS, ARITHABORT, CONCAT_NULL_YIELDS_NULL, QUOTED_IDENTIFIER, XACT_ABORT ON;
SET NUMERIC_ROUNDABORT OFF;
"""
"""What filtered indexes require of a session that writes, and what a worker wants of it."""
_LANGUAGE = "SET LANGUAGE us_english"
"""Of the server's messages: mssql-python tells no numbers, and errors are known by what they say."""
_SLOT = re.compile(f"{re.escape(AFTER)}|%%|%s")

_WIDTH, _WIDE = "SELECT LEN(N'\U0001d11e')", 2
"""Whether a character beyond U+FFFF counts as two, which the database's collation decides."""
_LOUD = "SET NOCOUNT OFF;"
_MARK = """
DECLARE @read int;
SELECT @read = COUNT(*) FROM chokaq_queue WHERE name = N'';
SELECT CASE WHEN @@TRANCOUNT > 0 THEN CURRENT_TRANSACTION_ID() END;
"""
"""The number of the transaction. One that a driver begins implicitly does not begin before a table is read."""
_ROLL_BACK = "IF @@TRANCOUNT > 0 ROLLBACK TRANSACTION"


class MSSQLSession(SQLStorage):
    """Connection and dialect."""

    GENERATIONS: ClassVar[str] = (
        "OPENJSON(CAST(%s AS nvarchar(max))) WITH (id nvarchar(26) '$[0]', generation int '$[1]') AS g"
    )
    NOW: ClassVar[str] = NOW
    BUCKET: ClassVar[str] = BUCKET
    LIMIT = "OFFSET 0 ROWS FETCH NEXT %s ROWS ONLY"
    LOCK = ""
    LOCK_SKIP = ""
    HINT = LOCKED
    HINT_SKIP = UNLOCKED
    HINT_ALL = "WITH (TABLOCK, HOLDLOCK)"
    """Nothing moves meanwhile. On each table of a statement: one without it would be read as it was when the statement
    began, and the others as they are when their locks are got. Only a repair does this, which somebody runs by hand."""

    def __init__(self, connection: BaseDatabaseWrapper, *, private: bool) -> None:
        super().__init__(connection, private=private)
        self._raw: Any = None
        self._wide: bool | None = None
        self._open = False
        self._sent_at = 0.0
        given = connection.settings_dict["OPTIONS"].get("connection_timeout")
        self._connect_limit = min(given or CONNECT_LIMIT, CONNECT_LIMIT)

    # -- dialect ------------------------------------------------------------------------------------------------------

    def _after(self, seconds: str = "%s") -> str:
        if seconds != "%s":
            raise ValueError("on SQL Server the seconds must be a parameter: it becomes three integers")
        return AFTER

    def _among(self, column: str, values: Sequence[Any]) -> tuple[str, list[Any]]:
        listed = "FROM OPENJSON(CAST(%s AS nvarchar(max))) WITH (item nvarchar(510) '$') AS j"
        return f"{column} IN (SELECT j.item {BIN2} {listed})", [as_json(list(values))]

    def _by_index(self, table: str, index: str) -> str:
        return f"{table} WITH (INDEX ({index}), FORCESEEK)"

    def _instant(self, value: dt.datetime | None) -> Any:
        # As text, which means the same in every language and of which no driver cuts the fraction.
        return None if value is None else instant_text(value)

    def _texts(self) -> Texts:
        return Texts(self._is_wide)

    def _is_wide(self) -> bool:
        if self._wide is None and self.private and not self._open:
            self._retrier.run(self._connected)
        if self._wide is None:  # Never retried by itself: that could begin anew in the middle of a transaction.
            self._wide = self._query(_WIDTH)[0][0] == _WIDE
        return self._wide

    # -- errors -------------------------------------------------------------------------------------------------------

    def is_transient(self, error: BaseException) -> bool:
        return transient(error) is not None

    def is_deadlock(self, error: BaseException) -> bool:
        return is_deadlock(error)

    def _ran_out(self, error: BaseException) -> bool:
        # No driver says so of a connection that is dead as it does of a statement that takes its time.
        waited = time.monotonic() - self._sent_at
        return self.private and isinstance(error, DatabaseError) and waited >= 0.9 * self._limit(STATEMENT_LIMIT)

    def _recover(self, error: BaseException) -> None:
        if transient(error) is Transient.LOST:
            self._drop()

    def _drop(self) -> None:
        """Close a connection that may be broken: the next statement opens another."""
        try:
            self.connection.close()
        except DatabaseError:
            self.connection.connection = None
        self._raw = None

    # -- statements ---------------------------------------------------------------------------------------------------

    def _results(self, sql: str, params: Sequence[Any] = ()) -> list[list[Row]]:
        """Run a batch; the rows of each of its results. It is read to its end: an error of its last statement comes
        after the rows of the first."""
        if self.private:
            self._connected()
        if params:
            sql, params = bound(sql, params)
        if self.private or not sql.startswith("SET NOCOUNT"):
            return self._run(sql, params)
        # It would stay, and Django could not tell how many rows its own statements change.
        try:
            return self._run(f"{sql}\n{_LOUD}", params)
        except DatabaseError as error:
            if transient(error) is not Transient.LOST:
                with contextlib.suppress(DatabaseError):
                    self._run(_LOUD, ())
            raise

    def _run(self, sql: str, params: Sequence[Any]) -> list[list[Row]]:
        results: list[list[Row]] = []
        self._sent_at = time.monotonic()
        try:
            with self.connection.cursor() as cursor:
                cursor.execute(sql, params or None)
                while True:
                    if cursor.description is not None:
                        results.append(cursor.fetchall())
                    if not cursor.nextset():
                        return results
        except DatabaseError as error:
            if self._retrier.patience.hurries and self._ran_out(error):
                self._drop()  # the connection may be dead: what is tried next, a rollback too, would wait for it again
            raise

    def _query(self, sql: str, params: Sequence[Any] = ()) -> list[Row]:
        return self._results(statement(sql, count=False), params)[0]

    def _execute(self, sql: str, params: Sequence[Any] = ()) -> int:
        return int(self._results(statement(sql, count=True), params)[0][0][0])

    def _returning(self, update: str, columns: str, params: Sequence[Any]) -> list[Row]:
        assignments, _, condition = update.rpartition(" WHERE ")
        inserted = ", ".join(f"inserted.{column.strip()}" for column in columns.split(","))
        return self._query(f"{assignments} OUTPUT {inserted} WHERE {condition}", params)

    def _inside(self, batch: Batch, **values: Any) -> list[list[Row]]:
        """Run a batch in the transaction that is open."""
        return self._results(batch.inside, [values[name] for name, _ in batch.given])

    def _alone(self, batch: Batch, **values: Any) -> list[list[Row]]:
        """Run a batch as a unit: one round trip on a worker's connection, else in the caller's transaction or ours."""
        if self.private:
            return self._retrier.run(lambda: self._whole(batch, values))
        if batch.single:
            return self._single(lambda: self._inside(batch, **values))
        return self._unit(lambda: self._inside(batch, **values))

    def _once(self, batch: Batch, **values: Any) -> list[list[Row]]:
        """Like :meth:`_alone` for what is told at once that it would have to wait: to ask again is the caller's."""
        return self._whole(batch, values) if self.private else self._alone(batch, **values)

    def _whole(self, batch: Batch, values: dict[str, Any]) -> list[list[Row]]:
        try:
            return self._results(batch.alone, [values[name] for name, _ in batch.given])
        except BaseException:
            self._roll_back()
            raise

    # -- the private connection ---------------------------------------------------------------------------------------

    def _connected(self) -> None:
        """Open the private connection when it is not, as one for a worker; never in the middle of a transaction, the
        rest of which would then be done without its beginning."""
        raw = self.connection.connection
        if raw is not None and raw is self._raw:
            if (limit := self._limit(STATEMENT_LIMIT)) != raw.timeout:
                raw.timeout = limit
            return
        if self._open:
            raise OperationalError("08003", "[08003] The connection was lost in the middle of a transaction.")
        if raw is not None:
            self._drop()
        self._hurry_connect()
        self._sent_at = time.monotonic()
        self.connection.connect()
        raw = self.connection.connection
        with self.connection.wrap_database_errors:
            # Transactions are begun and ended by statements here, which costs no switch of the mode around each.
            raw.autocommit = True
            raw.timeout = self._limit(STATEMENT_LIMIT)
        server: Any = self.connection
        if not server.to_azure_sql_db and server.sql_server_version < FLOOR:
            raise StorageError(
                f"The job database {self.alias!r} is SQL Server {server.sql_server_version}; "
                f"{FLOOR} or newer is needed."
            )
        with self.connection.cursor() as cursor:
            cursor.execute(_CONFIGURE)
            if self._lock_limit is not None:
                cursor.execute(f"SET LOCK_TIMEOUT {self._lock_limit * 1000:.0f}")
            cursor.execute(_LANGUAGE)  # by itself: the server answers with a message, behind which a batch may end
            if self._wide is None:
                cursor.execute(_WIDTH)
                self._wide = cursor.fetchall()[0][0] == _WIDE
        self._raw = raw

    def _limit(self, seconds: int) -> int:
        """So many seconds, or the patience, in the whole ones that drivers want."""
        return seconds if seconds <= self._patience else max(1, int(self._patience))

    def _hurry_connect(self) -> None:
        """Limit the next connection's login, where this storage hurries; the driver's own tries again are ours then."""
        if not self._retrier.patience.hurries:
            return
        settings = self.connection.settings_dict
        limits = {"connection_timeout": self._limit(self._connect_limit), "connection_retries": 0}
        self.connection.settings_dict = {**settings, "OPTIONS": {**settings["OPTIONS"], **limits}}

    # -- transactions -------------------------------------------------------------------------------------------------

    def _unit(self, work: Callable[[], T]) -> T:
        if not self._joined():
            return super()._unit(work)
        # An error of one statement does not end a transaction here: a savepoint makes that part all or nothing.
        with transaction.atomic(using=self.alias):
            return work()

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        if not self.private:
            with super()._transaction():
                yield
            return
        self._results("BEGIN TRANSACTION")
        self._open = True
        try:
            yield
            self._results("COMMIT TRANSACTION")
        except BaseException:
            self._roll_back()
            raise
        finally:
            self._open = False

    def mark_transaction(self) -> object:
        # The victim of a deadlock has lost the whole transaction; it may catch the error and go on in another.
        return self._results(_MARK)[0][0][0]

    def is_marked(self, mark: object) -> bool:
        return bool(self._results(_MARK)[0][0][0] == mark)

    def _roll_back(self) -> None:
        if self.connection.connection is None or self.connection.connection is not self._raw:
            return  # whatever was open went with its connection
        try:
            with contextlib.closing(self.connection.cursor()) as cursor:
                cursor.execute(_ROLL_BACK)
        except DatabaseError:
            self._drop()


@functools.lru_cache(maxsize=512)
def _slots(sql: str) -> tuple[str, ...]:
    return tuple(match for match in _SLOT.findall(sql) if match != "%%")


def bound(sql: str, params: Sequence[Any]) -> tuple[str, list[Any]]:
    """The statement with its NULLs in place, and the parameters that are left; seconds as three integers."""
    values: list[Any] = []
    nulls = False
    for slot, value in zip(_slots(sql), params, strict=True):
        nulls = nulls or value is None
        if slot == AFTER:
            values += span(value)
        else:
            values.append(value)
    if nulls:
        rest = iter(values)
        # AFTER has slots of its own, none of which is NULL.
        sql = re.sub("%%|%s", lambda match: _null(match[0], rest), sql)
    return sql, [value for value in values if value is not None]


def _null(slot: str, values: Iterator[Any]) -> str:
    return "NULL" if slot == "%s" and next(values) is None else slot
