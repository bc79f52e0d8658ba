"""Enqueue: one INSERT, whose rows come as one JSON text when there are many."""

# ruff: noqa: S608 - statements are composed of constants and column names of ours; every value is a parameter

from __future__ import annotations

import datetime as dt
import functools
from collections.abc import Sequence
from typing import Any

from ...models.fields import to_text
from ..columns import HOT, names
from ..contract import Enqueued, NewJob
from .session import SQLiteSession, as_json, later

_TIMES = ("created_at", "updated_at", "run_at", "due_at", "deadline_at")
_PLAIN = (
    "id", "queue", "type", "payload", "schema_version", "tags", "priority", "max_attempts", "created_by", "headers",
    "idempotency_key", "concurrency_key",
)  # fmt: skip
_GIVEN = (*_PLAIN, *_TIMES)
_FIRST = {
    "attempt": "0", "crash_count": "0", "snooze_count": "0", "claim_number": "0", "generation": "0", "revision": "0",
    "attempt_log": "'[]'", "status": "0",
}  # fmt: skip
"""SQL of the columns that every new row has alike."""

_INTO = f"INSERT INTO {HOT} ({names((*_GIVEN, *_FIRST))})"
_IGNORE = "ON CONFLICT (idempotency_key) WHERE idempotency_key IS NOT NULL DO NOTHING"
"""Only a key that is held: an id that exists is an error."""
_ONE = f"{_INTO} VALUES ({', '.join(['%s'] * len(_GIVEN))}, {', '.join(_FIRST.values())}) {_IGNORE}"


class EnqueueStatements(SQLiteSession):
    """Inserting new jobs."""

    def enqueue(self, rows: Sequence[NewJob]) -> list[Enqueued]:
        if not rows:
            return []
        if len(rows) > 1:
            return self._unit(lambda: self._enqueue_many(rows))
        # One statement is a transaction by itself.
        return [self._single_write(lambda: self._enqueue_one(rows[0]))]

    def _enqueue_one(self, row: NewJob) -> Enqueued:
        while not self._execute(_ONE, _values(row, dt.datetime.now(dt.UTC))):
            holders = self._holders([row.idempotency_key])
            if holders:
                return Enqueued(holders[row.idempotency_key], created=False)
            # The holder has ended between the two statements: the key is free again.
        return Enqueued(row.id, created=True)

    def _enqueue_many(self, rows: Sequence[NewJob]) -> list[Enqueued]:
        now = dt.datetime.now(dt.UTC)
        varying, scalars, table = _split([_values(row, now) for row in rows])
        if self._execute(_insert_many(varying), [*scalars, table]) == len(rows):
            return [Enqueued(row.id, created=True) for row in rows]
        holders = self._holders([row.idempotency_key for row in rows if row.idempotency_key is not None])
        answers = []
        for row in rows:
            holder = row.id if row.idempotency_key is None else holders[row.idempotency_key]
            answers.append(Enqueued(holder, created=holder == row.id))
        return answers

    def _holders(self, keys: Sequence[str | None]) -> dict[str | None, str]:
        """Idempotency key -> id of the active job that holds it."""
        among, params = self._among("idempotency_key", keys)
        return dict(self._query(f"SELECT idempotency_key, id FROM {HOT} WHERE {among}", params))


def _values(row: NewJob, now: dt.datetime) -> list[Any]:
    """The values of _GIVEN."""
    text = to_text(now)
    run_at = text
    if row.run_at is not None:
        run_at = to_text(row.run_at)
    elif row.delay is not None:
        run_at = to_text(later(now, row.delay))
    deadline = None
    if row.deadline_at is not None:
        deadline = to_text(row.deadline_at)
    elif row.deadline_after is not None:
        deadline = to_text(later(now, row.deadline_after))
    return [
        row.id, row.queue, row.type, row.payload, row.schema_version, row.tags, row.priority, row.max_attempts,
        row.created_by, row.headers, row.idempotency_key, row.concurrency_key, text, text, run_at, run_at, deadline,
    ]  # fmt: skip


def _split(rows: Sequence[Sequence[Any]]) -> tuple[tuple[int, ...], list[Any], str]:
    """Columns that differ between the rows, by their place in _GIVEN; the values of the others; the former as JSON."""
    varying, scalars, columns = [], [], []
    for place, values in enumerate(zip(*rows, strict=True)):
        first = values[0]
        if place == 0 or any(value != first for value in values):
            varying.append(place)
            columns.append(values)
        else:
            scalars.append(first)
    return tuple(varying), scalars, as_json(list(zip(*columns, strict=True)))


@functools.lru_cache(maxsize=64)
def _insert_many(varying: tuple[int, ...]) -> str:
    """An INSERT of the rows of one JSON table; columns that do not vary are parameters before it."""
    places = {place: index for index, place in enumerate(varying)}
    values = [
        f"json_extract(j.value, '$[{places[place]}]')" if place in places else "%s" for place in range(len(_GIVEN))
    ]
    return f"{_INTO} SELECT {', '.join([*values, *_FIRST.values()])} FROM json_each(%s) j WHERE true {_IGNORE}"
