"""Enqueue: plain INSERTs, which never swallow an error; who holds an idempotency key is looked up beside them.

A row whose key is held fails with error 1062. That undoes the statement and not the caller's transaction, but it leaves
a lock on the holder's key until the transaction ends, for which the holder's worker would have to wait. So inside the
caller's transaction a look comes first, and the error only where another producer came between. Where the look would be
of an old snapshot (REPEATABLE READ), it comes after the error and locks.
"""

# ruff: noqa: S608 - statements are composed of constants and column names of ours; every value is a parameter

from __future__ import annotations

import functools
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from django.db import IntegrityError

from ...models.fields import to_text
from .. import keys
from ..columns import ARCHIVE, DLQ, HOT, TRASH, names
from ..contract import Enqueued, NewJob, StorageError
from ..engine import chunks
from .errors import is_duplicate
from .session import LAST_INSTANT, MySQLSession, as_json, size
from .tables import TEXT, json_table

BULK = 2_000
"""Rows of one statement, at most."""
TRIES = 50
"""How often to insert again because the holder of a key came or went between the INSERT and the look."""

_FIELDS = {
    "id": TEXT, "queue": TEXT, "type": TEXT, "schema_version": "INT", "tags": TEXT, "priority": "INT",
    "max_attempts": "INT", "created_by": TEXT, "run_at": "DATETIME(6)", "delay": "DOUBLE",
    "deadline_at": "DATETIME(6)", "deadline_after": "DOUBLE", "idempotency_key": TEXT, "concurrency_key": TEXT,
    "headers": TEXT, "payload": TEXT,
}  # fmt: skip
"""Fields of NewJob, and what each is in a JSON table: text as long as it likes, so that nothing is cut there."""
_ZEROS = ("attempt", "crash_count", "snooze_count", "claim_number", "generation", "revision", "status")
_NOW = MySQLSession.NOW
_HELD = f"SELECT idempotency_key, id FROM {HOT} FORCE INDEX (chokaq_hot_key) WHERE "


def _instant(values: dict[str, str], at: str, after: str, otherwise: str) -> str:
    given = [values[at]] if at in values else []
    if after in values:
        # NULL where there are no seconds, and where they lead beyond the last instant.
        instant = f"{_NOW} + INTERVAL {values[after]} SECOND"
        given += [instant, f"IF({values[after]} IS NULL, NULL, '{LAST_INSTANT}')"]
    return f"COALESCE({', '.join([*given, otherwise])})" if given else otherwise


def _columns(values: dict[str, str]) -> dict[str, str]:
    """Column -> its SQL; ``values``: the SQL of each field that any row has."""
    columns = {
        name: sql for name, sql in values.items() if name not in ("run_at", "delay", "deadline_at", "deadline_after")
    }
    columns |= dict.fromkeys(_ZEROS, "0") | {"attempt_log": "'[]'"}
    columns |= dict.fromkeys(("created_at", "updated_at"), _NOW)
    columns |= dict.fromkeys(("run_at", "due_at"), _instant(values, "run_at", "delay", _NOW))
    if "deadline_at" in values or "deadline_after" in values:
        columns["deadline_at"] = _instant(values, "deadline_at", "deadline_after", "NULL")
    return columns


@functools.lru_cache(maxsize=256)
def insert_one(present: tuple[str, ...]) -> str:
    """An INSERT of one row that has these fields."""
    columns = _columns({name: f"%({name})s" for name in present})
    return f"INSERT INTO {HOT} ({names(columns)}) VALUES ({', '.join(columns.values())})"


@functools.lru_cache(maxsize=256)
def insert_many(varying: tuple[str, ...], same: tuple[str, ...]) -> str:
    """An INSERT of the rows of one JSON table with the fields that vary; the others are one value for all."""
    columns = _columns({name: f"%({name})s" for name in same} | {name: f"j.{name}" for name in varying})
    table = json_table({name: _FIELDS[name] for name in varying}).replace("%s", "%(rows)s")
    return f"INSERT INTO {HOT} ({names(columns)}) SELECT {', '.join(columns.values())} FROM {table}"


def _values(row: NewJob) -> dict[str, Any]:
    """The fields that the row has, as a statement or a JSON table takes them."""
    values = {name: value for name in _FIELDS if (value := getattr(row, name)) is not None}
    for name in ("run_at", "deadline_at"):
        if name in values:
            values[name] = to_text(values[name])
    for name in ("delay", "deadline_after"):
        if name in values:
            values[name] = float(values[name])
    return values


class EnqueueStatements(MySQLSession):
    """Inserting jobs: new ones, and old ones that come back."""

    INSERT_IGNORE = ("INSERT INTO", "")
    """A plain INSERT: which rows to leave out is known before, or learned from the error."""

    def enqueue(self, rows: Sequence[NewJob]) -> list[Enqueued]:
        if not rows:
            return []
        if len(rows) == 1:
            return [self._enqueue_one(rows[0])]
        plain, keyed = keys.split(rows)
        holders = self._unit(keys.knowing_tries(lambda tried: self._insert_all(plain, keyed, tried)))
        return keys.answers(rows, holders)

    # -- one ----------------------------------------------------------------------------------------------------------

    def _enqueue_one(self, row: NewJob) -> Enqueued:
        holder = self._single(keys.knowing_tries(lambda tried: self._insert_one(row, tried)))
        return Enqueued(holder, created=holder == row.id)

    def _insert_one(self, row: NewJob, tried: bool) -> str:
        if tried and self._existing([row.id]):
            return row.id
        key = row.idempotency_key
        values = _values(row)
        sql = insert_one(tuple(values))
        if key is None:
            self._execute(sql, values)
            return row.id
        look = self._looks_first()
        for _ in range(TRIES):
            if look and key in (held := self._holders([key])):
                return held[key]
            try:
                self._execute(sql, values)
            except IntegrityError as error:
                if not is_duplicate(error):
                    raise
                look = True
            else:
                return row.id
        raise keys.too_fast(key)

    def _looks_first(self) -> bool:
        """Whether to look for the holder before the INSERT: where a duplicate's lock would stay for long, and a look
        sees what is there now."""
        return self._joined() and self._reads_committed

    def _holders(self, keys: Collection[str]) -> dict[str, str]:
        """Key -> id of the active job that holds it."""
        lock = "" if self._reads_committed else " LOCK IN SHARE MODE"
        held: dict[str, str] = {}
        for part in chunks(list(keys)):
            among, params = self._among("idempotency_key", part)
            held |= dict(self._query(f"{_HELD}{among}{lock}", params))
        return held

    def _existing(self, ids: Sequence[str]) -> set[str]:
        """Which of these ids are somewhere: an earlier try did commit, although its answer was lost. The lock waits for
        a commit that the server is still about."""
        found: set[str] = set()
        for part in chunks(ids):
            among, params = self._among("id", part)
            hot = f"SELECT id FROM {HOT} FORCE INDEX (PRIMARY) WHERE {among} LOCK IN SHARE MODE"
            found |= {row[0] for row in self._query(hot, params)}
            tables = " UNION ALL ".join(f"SELECT id FROM {table} WHERE {among}" for table in (ARCHIVE, DLQ, TRASH))
            found |= {row[0] for row in self._query(tables, params * 3)}
        return found

    # -- many ---------------------------------------------------------------------------------------------------------

    def _insert_all(self, plain: Sequence[NewJob], keyed: Sequence[NewJob], tried: bool) -> dict[str, str]:
        """Insert all; key -> id of the job that holds it now."""
        there = self._existing([row.id for row in (*plain, *keyed)]) if tried else set()
        self._insert_rows([row for row in plain if row.id not in there])
        holders: dict[str, str] = {str(row.idempotency_key): row.id for row in keyed if row.id in there}
        for part in chunks([row for row in keyed if row.id not in there], BULK):
            holders |= self._insert_keyed(part)
        return holders

    def _insert_keyed(self, rows: Sequence[NewJob]) -> dict[str, str]:
        left = {str(row.idempotency_key): row for row in rows}
        holders: dict[str, str] = {}
        look = self._reads_committed or not self._joined()
        for _ in range(TRIES):
            if look:
                holders |= self._holders(left)
                left = {key: row for key, row in left.items() if key not in holders}
            try:
                self._insert_rows(list(left.values()))
            except IntegrityError as error:
                if not is_duplicate(error):
                    raise
                look = True
            else:
                return holders | {key: row.id for key, row in left.items()}
        raise keys.too_fast(next(iter(left)))

    def _insert_rows(self, rows: Sequence[NewJob]) -> None:
        for part in chunks(rows, BULK):
            values = [_values(row) for row in part]
            present = [name for name in _FIELDS if any(name in each for each in values)]
            first = values[0]
            varying = tuple(
                name for name in present if name == "id" or any(each.get(name) != first.get(name) for each in values)
            )
            same = {name: first[name] for name in present if name not in varying}
            sql = insert_many(varying, tuple(same))
            self._insert_table(sql, same, [[each.get(name) for name in varying] for each in values], values)

    def _insert_table(
        self, sql: str, same: dict[str, Any], table: list[list[Any]], values: Sequence[dict[str, Any]]
    ) -> None:
        text = as_json(table)
        # In the statement each quote and backslash of the JSON has another backslash before it.
        if 2 * size(text) < self._room():
            self._execute(sql, {**same, "rows": text})
        elif len(table) == 1:
            self._execute(insert_one(tuple(values[0])), values[0])
        else:
            half = len(table) // 2
            self._insert_table(sql, same, table[:half], values[:half])
            self._insert_table(sql, same, table[half:], values[half:])

    # -- jobs that come back -------------------------------------------------------------------------------------------

    def _into_hot(
        self, source: str, ids: Sequence[str], changed: Mapping[str, str], given: Mapping[str, object], *,
        keep_key: bool,
    ) -> None:  # fmt: skip
        for _ in range(TRIES):
            free = self._keys_free(source, ids) if keep_key else ids
            if not free:
                return
            try:
                super()._into_hot(source, free, changed, given, keep_key=keep_key)
            except IntegrityError as error:
                if not keep_key or not is_duplicate(error):
                    raise
            else:
                return
        raise StorageError("the idempotency keys of these jobs are taken and freed too fast to say by whom")

    def _keys_free(self, source: str, ids: Sequence[str]) -> list[str]:
        """Rows, locked by this transaction, that have no key or one that nobody holds; one row for each key."""
        among, params = self._among("id", ids)
        lock = "" if self._reads_committed else " LOCK IN SHARE MODE"
        rows = self._query(f"SELECT id, idempotency_key FROM {source} WHERE {among} ORDER BY id{lock}", params)
        taken: set[str] = set(self._holders({key for _, key in rows if key is not None}))
        free = []
        for job_id, key in rows:
            if key is None or key not in taken:
                free.append(job_id)
                taken.add(key)
        return free
