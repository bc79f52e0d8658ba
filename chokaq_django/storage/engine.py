"""What an engine provides: its connection, its transactions and the words of its dialect.

Portable statements are written with ``%s`` parameters and the hooks of :class:`Engine`. An engine overrides the hooks,
and whole operations where its own form is faster.
"""

from __future__ import annotations

import datetime as dt
import functools
import math
import secrets
from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar, TypeVar

from django.db import Error as DatabaseError
from django.db import InterfaceError, OperationalError, transaction
from django.db.backends.base.base import BaseDatabaseWrapper

from ..models.fields import from_db
from .buckets import BUCKETS, BucketRow
from .contract import Storage
from .retry import Retrier
from .summed import Summed, Values

T = TypeVar("T")
Row = tuple[Any, ...]

CHUNK = 500
"""Ids in one statement of a sweep or of an operator's verb."""


def chunks(items: Sequence[T], size: int = CHUNK) -> Iterator[Sequence[T]]:
    """``items`` in slices of at most ``size``."""
    for start in range(0, len(items), size):
        yield items[start : start + size]


class Engine(Storage):
    """Connection, transactions and dialect of one engine; operations are in its subclasses.

    ``private``: the connection is this object's own (workers); it is opened at the first statement, reopened after a
    loss, closed by :meth:`close`. Otherwise it is the calling thread's Django connection, whose transaction is joined.
    """

    # -- dialect: values ----------------------------------------------------------------------------------------------

    NOW: ClassVar[str]
    """SQL of the server's clock, as a value of the instant columns."""

    BUCKET: ClassVar[str]
    """SQL of the start of the current ten seconds, by the server's clock."""

    LIMIT: ClassVar[str] = "LIMIT %s"
    """SQL after ORDER BY that keeps the first ``%s`` rows."""

    LOCK: ClassVar[str] = "FOR UPDATE"
    """SQL at the end of a SELECT that locks its rows; empty where a write transaction locks all."""

    LOCK_SKIP: ClassVar[str] = "FOR UPDATE SKIP LOCKED"
    """The same, passing over rows that others have locked."""

    HINT: ClassVar[str] = ""
    """SQL after a table's name in a SELECT that locks (SQL Server's table hints)."""

    HINT_SKIP: ClassVar[str] = ""
    """The same, passing over rows that others have locked."""

    GENERATIONS: ClassVar[str]
    """SQL of a table ``g`` out of a JSON list (the parameter) of pairs: id and generation."""

    INSERT_IGNORE: ClassVar[tuple[str, str]] = ("INSERT INTO", "ON CONFLICT DO NOTHING")
    """First and last words of an INSERT that leaves out rows whose key exists, without an error. Used with VALUES and
    with SELECT (which then always has a WHERE)."""

    @abstractmethod
    def _after(self, seconds: str = "%s") -> str:
        """SQL of the instant ``seconds`` (SQL of a float) after the server's now; negative is before."""

    @abstractmethod
    def _among(self, column: str, values: Sequence[Any]) -> tuple[str, list[Any]]:
        """A condition that ``column`` is one of ``values`` (at most a few hundred, at least one) and its parameters."""

    def _by_index(self, table: str, index: str) -> str:
        """``table`` as a SELECT names it that reads along this index, whatever the planner thinks of its table."""
        return table

    def _by_key(self, table: str) -> str:
        """``table`` as a statement names it that locks or changes rows found by their primary keys."""
        return table

    def _instant(self, value: dt.datetime | None) -> Any:
        """An aware datetime as a parameter that is stored and compared as an instant column."""
        return value

    def _read_instant(self, value: Any) -> dt.datetime | None:
        """A value of an instant column as an aware datetime in UTC."""
        return from_db(value)

    def _read_time(self, value: Any) -> dt.time | None:
        """A value of a TimeField's column."""
        return dt.time.fromisoformat(value) if isinstance(value, str) else value

    # -- dialect: statements ------------------------------------------------------------------------------------------

    @abstractmethod
    def _add(self, summed: Summed, rows: Sequence[Values]) -> None:
        """Add the rows, no two of one key, to a table whose rows add up: insert, or add to the row of the same key.
        They are in the order of their first column, in which they are written, so that two writers never wait for each
        other in a circle."""

    def _add_buckets(self, rows: Sequence[BucketRow]) -> None:
        """Add the rows to the metric buckets of the current ten seconds."""
        self._add(BUCKETS, [row.values() for row in rows])

    @abstractmethod
    def _pairs(self, queues: Sequence[str]) -> list[tuple[str, int]]:
        """The (queue, priority) pairs of Pending rows in these queues that are active and not paused, by seeks and not
        by reading the rows; in any order."""

    def _announce(self, queues: Sequence[str]) -> None:
        """Wake workers that listen for these queues once the transaction commits. Nothing where there is no notice."""

    # -- connection ---------------------------------------------------------------------------------------------------

    def __init__(self, connection: BaseDatabaseWrapper, *, private: bool) -> None:
        self.connection = connection
        self.private = private
        self.alias = connection.alias
        self._lock_limit: float | None = None
        """Seconds that a statement waits for a lock; None: as long as the engine's module says for all."""
        self._retrier = Retrier(self._is_retried, self._recover, self._ran_out)

    @property
    def errors(self) -> int:
        return self._retrier.errors

    def hurry(self, longest_pause: float, patience: float = math.inf) -> None:
        self._retrier.longest_pause = min(self._retrier.longest_pause, longest_pause)
        self._retrier.patience.hurry(patience)

    def limit_lock_waits(self, seconds: float) -> None:
        self._lock_limit = seconds

    @property
    def _patience(self) -> float:
        """Seconds that a try may wait for its connection and for each statement, where the engine's own limits are
        longer."""
        return self._retrier.patience.seconds

    @functools.cached_property
    def _shard(self) -> str:
        """Shard of the metric buckets that this object writes outside of a worker's settle."""
        return secrets.token_hex(4)

    @abstractmethod
    def is_transient(self, error: BaseException) -> bool:
        """As the contract says; no engine does without it."""

    def _is_retried(self, error: BaseException) -> bool:
        """Whether a unit of ours that failed so is run again: after what is transient, unless this connection has
        waited already."""
        return self.is_transient(error)

    def _ran_out(self, error: BaseException) -> bool:
        """Whether it is this side that gave up waiting for the server. No engine that waits for none has to say so."""
        return False

    def _recover(self, error: BaseException) -> None:
        """After a transient error, outside of any transaction: drop the connection if it is broken."""
        if isinstance(error, (OperationalError, InterfaceError)) and not self._usable():
            self.connection.close()

    def _usable(self) -> bool:
        return self.connection.connection is not None and self.connection.is_usable()

    def close(self) -> None:
        if self.private:
            self.connection.close()

    # -- statements ---------------------------------------------------------------------------------------------------

    def _query(self, sql: str, params: Sequence[Any] = ()) -> list[Row]:
        """Run one statement that returns rows, and fetch them all."""
        with self.connection.cursor() as cursor:
            cursor.execute(sql, params)
            return cursor.fetchall()  # type: ignore[no-any-return]

    def _execute(self, sql: str, params: Sequence[Any] = ()) -> int:
        """Run one statement; how many rows it changed."""
        with self.connection.cursor() as cursor:
            cursor.execute(sql, params)
            return int(cursor.rowcount)

    def _delete(self, table: str, ids: Sequence[str], key: str = "id") -> int:
        """Delete rows by the job ids (at most a few hundred, at least one) in ``key``, the first column of the table's
        primary key; how many there were."""
        among, params = self._among(key, ids)
        return self._execute(f"DELETE FROM {table} WHERE {among}", params)  # noqa: S608 - names of ours

    def _returning(self, update: str, columns: str, params: Sequence[Any]) -> list[Row]:
        """Run an UPDATE with WHERE; these columns of the rows that it changed, as they are now."""
        return self._query(f"{update} RETURNING {columns}", params)

    # -- transactions -------------------------------------------------------------------------------------------------

    def _joined(self) -> bool:
        """Whether the caller has a transaction open: then nothing is begun, committed or retried here."""
        return not self.private and (self.connection.in_atomic_block or not self.connection.get_autocommit())

    def _unit(self, work: Callable[[], T]) -> T:
        """``work()`` in one transaction: the caller's open one, or one of ours, retried as a whole when transient."""
        if self._joined():
            return work()

        def unit() -> T:
            with self._transaction():
                return work()

        return self._retrier.run(unit)

    def _single(self, work: Callable[[], T]) -> T:
        """Like :meth:`_unit` for work that is one statement, which needs no BEGIN where the connection autocommits."""
        return work() if self._joined() else self._retrier.run(work)

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        """A transaction of our own (READ COMMITTED where the engine has levels) that may write; none is open yet."""
        if not self.private:
            with transaction.atomic(using=self.alias):
                yield
            return
        self.connection.set_autocommit(False)
        try:
            yield
            self.connection.commit()
        except BaseException:
            try:
                self.connection.rollback()
            except DatabaseError:
                self.connection.close()
            raise
        finally:
            if self.connection.connection is not None:
                self.connection.set_autocommit(True)

    def now(self) -> dt.datetime:
        return self._single(lambda: self._read_instant(self._query(f"SELECT {self.NOW}")[0][0]))  # type: ignore[return-value]
