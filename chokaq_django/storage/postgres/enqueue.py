"""Enqueue: one INSERT, with the notice inside it."""

# ruff: noqa: S608 - statements are composed of constants and column names of ours; every value is a parameter

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from ..columns import ARCHIVE, DLQ, HOT, TRASH, names
from ..contract import Enqueued, NewJob, StorageError
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

_INSTANTS = ("run_at", "delay", "deadline_at", "deadline_after")
_ALWAYS = tuple(name for name in _FIELDS if name in ("id", "queue", "type", "payload", "schema_version", "tags",
                                                     "priority", "max_attempts", "headers"))  # fmt: skip
_SOMETIMES = tuple(name for name in _FIELDS if name not in _ALWAYS)

_NOW = PostgresSession.NOW
_ZEROS = ("attempt", "crash_count", "snooze_count", "claim_number", "generation", "revision", "status")
_IGNORE = "ON CONFLICT DO NOTHING"


def _columns(values: dict[str, str]) -> dict[str, str]:
    """Column -> its SQL; ``values``: the SQL of each field of NewJob that any row has."""
    columns = {name: sql for name, sql in values.items() if name not in _INSTANTS}
    columns |= dict.fromkeys(_ZEROS, "0") | {"attempt_log": "'[]'"}
    columns |= dict.fromkeys(("created_at", "updated_at"), _NOW)
    columns |= dict.fromkeys(("run_at", "due_at"), _instant(values, "run_at", "delay", _NOW))
    if "deadline_at" in values or "deadline_after" in values:
        columns["deadline_at"] = _instant(values, "deadline_at", "deadline_after", "NULL")
    return columns


def _instant(values: dict[str, str], at: str, after: str, otherwise: str) -> str:
    given = [values[at]] if at in values else []
    if after in values:
        given.append(f"{_NOW} + make_interval(secs => {values[after]})")
    return f"COALESCE({', '.join([*given, otherwise])})" if given else otherwise


@functools.lru_cache(maxsize=256)
def insert_one(present: tuple[str, ...], *, or_nothing: bool) -> str:
    """An INSERT of one row with these optional fields, and nothing that it does not need: on the caller's connection it
    is parsed and planned anew each time."""
    columns = _columns({name: f"%({name})s" for name in (*_ALWAYS, *present)})
    ignore = _IGNORE if or_nothing else ""
    return (
        f"INSERT INTO {HOT} ({names(columns)}) VALUES ({', '.join(columns.values())}) {ignore} "
        f"RETURNING pg_notify('{CHANNEL}', queue)"
    )


@functools.lru_cache(maxsize=256)
def insert_many(varying: tuple[str, ...], same: tuple[str, ...], *, answer: bool) -> str:
    """An INSERT of many rows: fields that differ come as arrays, the others as one value.

    With ``answer`` it leaves out rows whose key is held and returns the ids of the others. Workers are told once for
    each queue. Arrays travel in binary form, which the server reads without parsing.
    """
    arrays = ", ".join(f"%({name})b::{_FIELDS[name]}[]" for name in varying)
    columns = _columns(
        {name: f"%({name})s::{_FIELDS[name]}" for name in same} | {name: f"u.{name}" for name in varying}
    )
    insert = (
        f"INSERT INTO {HOT} ({names(columns)}) SELECT {', '.join(columns.values())} "
        f"FROM unnest({arrays}) AS u({names(varying)})"
    )
    if not answer:
        return f"WITH i AS ({insert}) SELECT pg_notify('{CHANNEL}', q) FROM unnest(%(told)s::text[]) AS t(q)"
    told = f"SELECT NULL, pg_notify('{CHANNEL}', i.queue) FROM i GROUP BY i.queue"
    return f"WITH i AS ({insert} {_IGNORE} RETURNING id, queue) SELECT i.id, NULL::void FROM i UNION ALL {told}"


class EnqueueStatements(PostgresSession):
    """Inserting new jobs."""

    def enqueue(self, rows: Sequence[NewJob]) -> list[Enqueued]:
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
            answer.append(Enqueued(holder, created=holder == row.id))
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

    def _enqueue_one(self, row: NewJob) -> Enqueued:
        holder = self._again(lambda tried: self._insert_one(row, tried), single=True)
        return Enqueued(holder, created=holder == row.id)

    def _insert_one(self, row: NewJob, tried: bool) -> str:
        if tried and self._existing([row.id]):
            return row.id
        present = tuple(name for name in _SOMETIMES if getattr(row, name) is not None)
        params = {name: getattr(row, name) for name in (*_ALWAYS, *present)}
        if row.idempotency_key is None:
            self._plain_execute(insert_one(present, or_nothing=False), params)
            return row.id
        sql = insert_one(present, or_nothing=True)
        for _ in range(TRIES):
            if self._plain_execute(sql, params):
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
        varying, same = [], []
        for name in _FIELDS:
            values = [getattr(row, name) for row in rows]
            if name in ("delay", "deadline_after"):
                values = [None if value is None else float(value) for value in values]
            first = values[0]
            if name == "id" or any(value != first for value in values):
                varying.append(name)
                params[name] = values
            elif first is not None:
                same.append(name)
                params[name] = first
        if not answer:
            params["told"] = sorted({row.queue for row in rows})
        return {row[0] for row in self._query(insert_many(tuple(varying), tuple(same), answer=answer), params)}
