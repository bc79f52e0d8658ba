"""SQLite's dialect, connections and transactions.

*The clock.* SQL functions of SQLite know milliseconds only. A statement's now is therefore read from the host's clock
in Python, once per statement and just before it runs, and passed as a parameter in the one form that the columns have
(``models.fields.to_text``): six digits, UTC, the same value wherever the statement says now.

*Transactions.* A write transaction begins IMMEDIATE: one that begins as a reader and then writes fails at once when
another writer came between, whatever the timeout says. Private connections do not use SQLite's busy handler, which
polls up to 100 ms apart; they poll by themselves every few milliseconds for as long as OPTIONS["timeout"] says. On the
caller's connection the busy handler stays as it is. :mod:`.turns` keeps the connections of one process off each other.

*Few steps.* While the file is locked nothing is fetched or inserted row by row. Each row is a step at which Python's
global lock is given up; among busy threads it comes back milliseconds later, and all that time nobody else can write.
Rows go in as one JSON text and come out as one.
"""

# ruff: noqa: S608 - statements are composed of constants and column names of ours; every value is a parameter

from __future__ import annotations

import datetime as dt
import functools
import json
import random
import re
import sqlite3
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar, cast

from django.db.backends.base.base import BaseDatabaseWrapper

from ...models.fields import to_text
from ..base import SQLStorage
from ..columns import names
from ..contract import StorageError
from ..engine import Row
from ..summed import Summed, Values, flat
from .turns import Writing, turns_of

T = TypeVar("T")

FLOOR = (3, 35, 0)
"""The first version with RETURNING and with upserts as they are used here."""
CHECKPOINT_PAGES = 10_000
"""WAL pages after which a private connection writes them back. SQLite's 1,000 cost a third of the throughput."""
LONGEST_POLL = 0.008
_BUSY, _LOCKED = 5, 6
_NOW, _AFTER, _GIVEN = "%(now)s", "%(after)s", "%s"
_SLOT = re.compile(r"%%|%s|%\((?:now|after)\)s")


ROWS = "rowid IN (SELECT value FROM json_each(%s))"


as_json: Callable[[Any], str] = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode
"""Compact JSON for ``json_each``. Text stays text: a lone surrogate is refused when the parameter is bound."""


class SQLiteSession(SQLStorage):
    """Connection and dialect."""

    GENERATIONS = (
        "(SELECT json_extract(value, '$[0]') AS id, json_extract(value, '$[1]') AS generation FROM json_each(%s)) g"
    )
    NOW = _NOW
    BUCKET = "substr(%(now)s, 1, 18) || '0.000000'"
    LOCK = ""
    LOCK_SKIP = ""

    def __init__(self, connection: BaseDatabaseWrapper, *, private: bool) -> None:
        version = cast("Any", connection).Database.sqlite_version_info
        if version < FLOOR:
            raise StorageError(
                f"The job database {connection.alias!r} is opened with SQLite {'.'.join(map(str, version))}; "
                f"{'.'.join(map(str, FLOOR[:2]))} or newer is needed. It comes with Python's build."
            )
        super().__init__(connection, private=private)
        self._shard = ""  # one writer at a time: two would never wait for one bucket
        self._turns = turns_of(str(connection.settings_dict["NAME"]))
        self._prepared: sqlite3.Connection | None = None

    # -- dialect ------------------------------------------------------------------------------------------------------

    def _after(self, seconds: str = "%s") -> str:
        if seconds != _GIVEN:
            raise ValueError("on SQLite the seconds must be a parameter: the instant is computed before the statement")
        return _AFTER

    def _among(self, column: str, values: Sequence[Any]) -> tuple[str, list[Any]]:
        return f"{column} IN (SELECT value FROM json_each(%s))", [as_json(list(values))]

    def _by_index(self, table: str, index: str) -> str:
        return f"{table} INDEXED BY {index}"

    def _instant(self, value: dt.datetime | None) -> Any:
        return None if value is None else to_text(value)

    def now(self) -> dt.datetime:
        return dt.datetime.now(dt.UTC)

    def is_transient(self, error: BaseException) -> bool:
        return _code(error) in (_LOCKED, _BUSY)

    def _is_retried(self, error: BaseException) -> bool:
        # The caller's own connection has waited already, as long as its settings say. A lock in a shared cache does not
        # wait at all.
        return _code(error) == _LOCKED or (_code(error) == _BUSY and self.private)

    # -- statements ---------------------------------------------------------------------------------------------------

    def _query(self, sql: str, params: Sequence[Any] = ()) -> list[Row]:
        if not self.private:
            return super()._query(*bound(sql, params, "%s"))
        with self.connection.wrap_database_errors:
            return self._patiently(lambda raw: raw.execute(*bound(sql, params, "?")).fetchall())

    def _execute(self, sql: str, params: Sequence[Any] = ()) -> int:
        if not self.private:
            return super()._execute(*bound(sql, params, "%s"))
        with self.connection.wrap_database_errors:
            return self._patiently(lambda raw: raw.execute(*bound(sql, params, "?")).rowcount)

    def _one_json(self, sql: str, params: Sequence[Any] = ()) -> Any:
        """The value of a query that answers one JSON text: all its rows in one step."""
        return json.loads(self._query(sql, params)[0][0])

    def _add(self, summed: Summed, rows: Sequence[Values]) -> None:
        for part in summed.portions(rows):
            self._execute(_upsert(summed, len(part)), flat(part))

    # -- the private connection ---------------------------------------------------------------------------------------

    def _raw(self) -> sqlite3.Connection:
        """The driver's connection of a private storage, opened when it is not."""
        raw: sqlite3.Connection | None = self.connection.connection
        if raw is None or raw is not self._prepared:
            self.connection.ensure_connection()
            self.connection.set_autocommit(True)
            raw = self.connection.connection
            raw.execute("PRAGMA busy_timeout = 0")
            raw.execute(f"PRAGMA wal_autocheckpoint = {CHECKPOINT_PAGES}")
            self._prepared = raw
        return raw

    def _patiently(self, work: Callable[[sqlite3.Connection], T], writing: Writing | None = None) -> T:
        """``work(connection)``, again while others hold the file, as long as the settings let a connection wait."""
        raw = self._raw()
        try:
            return work(raw)
        except sqlite3.OperationalError as error:
            if not _is_busy(error):
                raise
        if writing is not None:
            writing.waited = True
        end = time.monotonic() + float(self.connection.settings_dict["OPTIONS"].get("timeout", 5.0))
        pause = 0.001
        while True:
            time.sleep(pause * random.uniform(0.5, 1.5))  # noqa: S311 - jitter, no secret
            try:
                return work(raw)
            except sqlite3.OperationalError as error:
                if not _is_busy(error) or time.monotonic() > end:
                    raise
            pause = min(LONGEST_POLL, pause * 1.3)

    # -- transactions -------------------------------------------------------------------------------------------------

    def _joined(self) -> bool:
        if super()._joined():
            return True
        # A transaction that the caller began with a statement of his own, which Django does not know of.
        raw = None if self.private else self.connection.connection
        return raw is not None and bool(raw.in_transaction)

    def _single_write(self, work: Callable[[], T]) -> T:
        """Like ``_single`` for one statement that writes: in this process's turn."""
        if self._joined():
            return work()

        def turn() -> T:
            with self._turns.taken:
                return work()

        return self._retrier.run(turn)

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        if not self.private:
            with self._turns.taken, self._began_by_caller():
                yield
            return
        with self._turns.worked() as writing, self.connection.wrap_database_errors:
            self._patiently(lambda raw: raw.execute("BEGIN IMMEDIATE"), writing)
            writing.began = time.monotonic()
            try:
                yield
                self._patiently(lambda raw: raw.execute("COMMIT"))
            except BaseException:
                self._roll_back()
                raise

    @contextmanager
    def _began_by_caller(self) -> Iterator[None]:
        """A transaction on the caller's connection, which is in autocommit mode. Not ``atomic``: that begins as the
        project's settings say, deferred by default."""
        super()._execute("BEGIN IMMEDIATE")
        try:
            yield
            super()._execute("COMMIT")
        except BaseException:
            self._roll_back()
            raise

    def is_marked(self, mark: object) -> bool:
        # A full disk, or a conflict clause that says ROLLBACK, ends a transaction; each statement then commits itself.
        raw = self.connection.connection
        return raw is not None and bool(raw.in_transaction)

    def _roll_back(self) -> None:
        raw = self.connection.connection
        # Some errors, a full disk among them, have already ended the transaction.
        if raw is not None and raw.in_transaction:
            raw.rollback()


@functools.lru_cache(maxsize=256)
def _upsert(summed: Summed, count: int) -> str:
    """The statement that adds so many rows to a table whose rows add up."""
    marks = summed.values([_GIVEN] * len(summed.columns), SQLiteSession.NOW, SQLiteSession.BUCKET)
    return (
        f"INSERT INTO {summed.table} ({names(summed.inserted)}) VALUES {', '.join([f'({names(marks)})'] * count)} "
        f"ON CONFLICT ({names(summed.key)}) DO UPDATE SET {names(summed.changes('excluded.{}'.format))}"
    )


def _code(error: BaseException) -> int | None:
    """SQLite's number of an error that Django has wrapped."""
    code = getattr(error.__cause__, "sqlite_errorcode", None)
    return None if code is None else code & 0xFF


def _is_busy(error: sqlite3.OperationalError) -> bool:
    return error.sqlite_errorcode & 0xFF in (_BUSY, _LOCKED)


def later(now: dt.datetime, seconds: float) -> dt.datetime:
    """``now`` and ``seconds`` more, at most the end of the year 9999."""
    try:
        return now + dt.timedelta(seconds=float(seconds))
    except OverflowError:
        return dt.datetime.max.replace(tzinfo=dt.UTC)


@functools.lru_cache(maxsize=512)
def _compiled(sql: str, mark: str) -> tuple[str, tuple[str, ...] | None]:
    """``sql`` for the driver (``?``) or for Django's cursor (``%s``), and its slots; None when all are given."""
    slots: list[str] = []

    def replace(match: re.Match[str]) -> str:
        slot = match[0]
        if slot == "%%":
            return "%" if mark == "?" else slot
        slots.append(slot)
        return mark

    text = _SLOT.sub(replace, sql)
    return text, None if all(slot == _GIVEN for slot in slots) else tuple(slots)


def bound(sql: str, params: Sequence[Any], mark: str) -> tuple[str, Sequence[Any]]:
    """The statement and its parameters, with this moment wherever it says now."""
    text, slots = _compiled(sql, mark)
    if slots is None:
        return text, params
    now = dt.datetime.now(dt.UTC)
    now_text = to_text(now)
    given = iter(params)
    values: list[Any] = []
    for slot in slots:
        if slot == _NOW:
            values.append(now_text)
        elif slot == _AFTER:
            values.append(to_text(later(now, next(given))))
        else:
            values.append(next(given))
    return text, values
