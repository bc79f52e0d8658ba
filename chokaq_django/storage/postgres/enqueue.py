"""Enqueue: one INSERT, with the notice inside it."""

# ruff: noqa: S608 - statements are composed of constants and column names of ours; every value is a parameter

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from ..columns import ARCHIVE, DLQ, HOT, HOT_COLUMNS, TRASH, names
from ..contract import Inserted, NewJob, StorageError
from ..engine import chunks
from .session import CHANNEL, PostgresSession

T = TypeVar("T")

BULK = 5_000
"""Rows of one statement."""
TRIES = 50
"""How often to insert again because the holder of a key ended between the conflict and the look."""

_FIELDS = {
    "id": "text", "queue": "text", "type": "text", "payload": "text", "schema_version": "int4", "tags": "text",
    "priority": "int4", "max_attempts": "int4", "created_by": "text", "run_at": "timestamptz", "delay": "float8",
    "deadline_at": "timestamptz", "deadline_after": "float8", "idempotency_key": "text", "concurrency_key": "text",
    "headers": "text",
}  # fmt: skip
"""Fields of NewJob in their order, and what each is on the server."""

_NOW = PostgresSession.NOW
_ZEROS = ("attempt", "crash_count", "snooze_count", "claim_number", "generation", "revision", "status")
_TARGET = [column for column in HOT_COLUMNS if column in _FIELDS or column in _ZEROS] + [
    "created_at", "updated_at", "due_at", "attempt_log",
]  # fmt: skip


def _insert(values: dict[str, str], source: str) -> str:
    """An INSERT of new jobs; ``values``: the SQL of each field."""

    def instant(at: str, after: str) -> str:
        return f"COALESCE({values[at]}, {_NOW} + make_interval(secs => {values[after]}))"

    run_at = f"COALESCE({instant('run_at', 'delay')}, {_NOW})"
    known = {
        **values,
        **dict.fromkeys(_ZEROS, "0"),
        **dict.fromkeys(("created_at", "updated_at"), _NOW),
        **dict.fromkeys(("run_at", "due_at"), run_at),
        "deadline_at": instant("deadline_at", "deadline_after"),
        "attempt_log": "'[]'",
    }
    return f"INSERT INTO {HOT} ({names(_TARGET)}) SELECT {', '.join(known[column] for column in _TARGET)}{source}"


_IGNORE = "ON CONFLICT DO NOTHING"
_NOTIFY = f"RETURNING id, pg_notify('{CHANNEL}', queue)"
_ONE = _insert({name: f"%({name})s::{sql_type}" for name, sql_type in _FIELDS.items()}, "")
INSERT_ONE = f"{_ONE} {_NOTIFY}"
INSERT_ONE_OR_NOTHING = f"{_ONE} {_IGNORE} {_NOTIFY}"


@functools.lru_cache(maxsize=256)
def insert_many(varying: tuple[str, ...], *, answer: bool) -> str:
    """An INSERT of many rows: fields that differ come as arrays, the others as one value.

    With ``answer`` it leaves out rows whose key is held and returns the ids of the others. Workers are told once for
    each queue. Arrays travel in binary form, which the server reads without parsing.
    """
    values = {name: f"%({name})s::{sql_type}" for name, sql_type in _FIELDS.items()} | {
        name: f"u.{name}" for name in varying
    }
    arrays = ", ".join(f"%({name})b::{_FIELDS[name]}[]" for name in varying)
    insert = _insert(values, f" FROM unnest({arrays}) AS u({names(varying)})")
    told = f"SELECT NULL::text, pg_notify('{CHANNEL}', q) FROM unnest(%(told)s::text[]) AS t(q)"
    if not answer:
        return f"WITH i AS ({insert}) {told}"
    told = f"SELECT NULL, pg_notify('{CHANNEL}', i.queue) FROM i GROUP BY i.queue"
    return f"WITH i AS ({insert} {_IGNORE} RETURNING id, queue) SELECT i.id, NULL::void FROM i UNION ALL {told}"


class EnqueueStatements(PostgresSession):
    """Inserting new jobs."""

    def enqueue(self, rows: Sequence[NewJob]) -> list[Inserted]:
        if not rows:
            return []
        if len(rows) == 1:
            return [self._enqueue_one(rows[0])]
        plain = [row for row in rows if row.idempotency_key is None]
        # Two calls that hold keys the other one waits for would deadlock: keys are always inserted in one order.
        first: dict[str, NewJob] = {}
        for row in rows:
            if row.idempotency_key is not None:
                first.setdefault(row.idempotency_key, row)
        keyed = [first[key] for key in sorted(first)]
        holders = self._again(lambda tried: self._insert_all(plain, keyed, tried))
        answer = []
        for row in rows:
            holder = row.id if row.idempotency_key is None else holders[row.idempotency_key]
            answer.append(Inserted(holder, created=holder == row.id))
        return answer

    def _again(self, work: Callable[[bool], T], *, single: bool = False) -> T:
        """Run ``work(tried)``, in the caller's transaction or retried; ``tried``: an earlier try may have committed."""
        tries = 0

        def unit() -> T:
            nonlocal tries
            tries += 1
            return work(tries > 1)

        return self._single(unit) if single else self._unit(unit)

    # -- one ----------------------------------------------------------------------------------------------------------

    def _enqueue_one(self, row: NewJob) -> Inserted:
        holder = self._again(lambda tried: self._insert_one(row, tried), single=True)
        return Inserted(holder, created=holder == row.id)

    def _insert_one(self, row: NewJob, tried: bool) -> str:
        if tried and self._existing([row.id]):
            return row.id
        params = {name: getattr(row, name) for name in _FIELDS}
        if row.idempotency_key is None:
            self._query(INSERT_ONE, params)
            return row.id
        for _ in range(TRIES):
            if self._query(INSERT_ONE_OR_NOTHING, params):
                return row.id
            holders = self._holders([row.idempotency_key])
            if holders:
                return holders[row.idempotency_key]
        raise StorageError(f"the idempotency key {row.idempotency_key!r} is taken and freed too fast to say by whom")

    def _holders(self, keys: Sequence[str]) -> dict[str, str]:
        """Key -> id of the active job that holds it."""
        sql = f"SELECT idempotency_key, id FROM {HOT} WHERE idempotency_key = ANY(%s::varchar[])"
        return {row[0]: row[1] for row in self._query(sql, [list(keys)])}

    def _existing(self, ids: Sequence[str]) -> set[str]:
        """Which of these ids are somewhere: an earlier try did commit, although its answer was lost."""
        tables = " UNION ALL ".join(
            f"SELECT id FROM {table} WHERE id = ANY(%(ids)s::varchar[])" for table in (HOT, ARCHIVE, DLQ, TRASH)
        )
        return {row[0] for row in self._query(tables, {"ids": list(ids)})}

    # -- many ---------------------------------------------------------------------------------------------------------

    def _insert_all(self, plain: Sequence[NewJob], keyed: Sequence[NewJob], tried: bool) -> dict[str, str]:
        """Insert all; key -> id of the job that holds it now."""
        there = self._existing([row.id for row in (*plain, *keyed)]) if tried else set()
        for part in chunks([row for row in plain if row.id not in there], BULK):
            self._insert_rows(part, answer=False)
        holders: dict[str, str] = {str(row.idempotency_key): row.id for row in keyed if row.id in there}
        for part in chunks([row for row in keyed if row.id not in there], BULK):
            holders |= self._insert_keyed(part)
        return holders

    def _insert_keyed(self, rows: Sequence[NewJob]) -> dict[str, str]:
        holders: dict[str, str] = {}
        left = list(rows)
        for _ in range(TRIES):
            created = self._insert_rows(left, answer=True)
            holders |= {str(row.idempotency_key): row.id for row in left if row.id in created}
            left = [row for row in left if row.id not in created]
            if left:
                holders |= self._holders([str(row.idempotency_key) for row in left])
                left = [row for row in left if row.idempotency_key not in holders]
            if not left:
                return holders
        raise StorageError(
            f"the idempotency key {left[0].idempotency_key!r} is taken and freed too fast to say by whom"
        )

    def _insert_rows(self, rows: Sequence[NewJob], *, answer: bool) -> set[str]:
        params: dict[str, Any] = {}
        varying = []
        for name in _FIELDS:
            values = [getattr(row, name) for row in rows]
            first = values[0]
            if name == "id" or any(value != first for value in values):
                varying.append(name)
                params[name] = values
            else:
                params[name] = first
        if not answer:
            params["told"] = sorted({row.queue for row in rows})
        return {row[0] for row in self._query(insert_many(tuple(varying), answer=answer), params)}
