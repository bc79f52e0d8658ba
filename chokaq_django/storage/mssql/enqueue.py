"""Enqueue: rows travel as one list and become one INSERT.

Rows with a key are inserted one after the other, in the order of the keys, each after a look for its key. Whoever meets
the key of an open transaction waits for its end, and nobody waits for another key: no place in the index is locked
(HOLDLOCK), which would be that of the neighbours too, as long as the caller's transaction lasts. Who inserts the key
between the look and the insert causes an error that the batch answers itself, with another look.
"""

# ruff: noqa: S608 - statements are composed of constants and column names of ours; every value is a parameter

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence

from .. import keys
from ..columns import ARCHIVE, DLQ, HOT, TRASH
from ..contract import Enqueued, NewJob
from ..engine import chunks
from .errors import KEY_INDEX
from .session import MSSQLSession
from .tsql import (
    BIN2,
    BULK,
    COMMITTED,
    FOUND,
    ID,
    INSERTED,
    LIST,
    NAME,
    again_if_taken,
    as_json,
    batch,
    by_ids,
    instant_text,
    later,
    lines,
    rows_json,
    span,
    text_fields,
    text_of,
)

BULK_TEXT = 8_000_000
"""Characters of payload in one statement, unless one row has more."""
TRIES = 50
"""How often to insert again because the holder of a key ended between the insert and the look."""

_NAMES = ("id", "queue", "type", "idempotency_key", "concurrency_key")
_NUMBERS = ("schema_version", "priority", "max_attempts")
_TEXTS = ("payload", "tags", "created_by", "headers")
_PLAIN = (*_NAMES, *_NUMBERS)
_SPANS = tuple(f"{what}_{unit}" for what in ("delay", "deadline") for unit in ("days", "seconds", "microseconds"))
_FIELDS = (
    dict.fromkeys(_NAMES, "nvarchar(4000)")
    | dict.fromkeys((*_NUMBERS, *_SPANS), "int")
    | dict.fromkeys(("run_at", "deadline_at"), "datetime2(6)")
    | text_fields(_TEXTS)
)
"""What a row brings. Names may be longer here than their columns: the insert then says so instead of cutting them."""

_ZEROS = ("attempt", "crash_count", "snooze_count", "claim_number", "generation", "revision", "status")
_DELAYED = later("r.delay_days", "r.delay_seconds", "r.delay_microseconds")
_DEADLINE = later("r.deadline_days", "r.deadline_seconds", "r.deadline_microseconds")
_COLUMNS = {name: f"r.{name}" for name in _PLAIN} | {name: text_of(name, "r") for name in _TEXTS}
_COLUMNS |= dict.fromkeys(_ZEROS, "0") | {
    "attempt_log": "N'[]'", "created_at": "@now", "updated_at": "@now", "run_at": "w.run_at", "due_at": "w.run_at",
    "deadline_at": f"COALESCE(r.deadline_at, {_DEADLINE})",
}  # fmt: skip

_INTO = f"INSERT INTO {HOT} {INSERTED} (\n    {lines(_COLUMNS)})"
_VALUES = f"SELECT\n    {lines(_COLUMNS.values())}"
_GIVEN = f"""FROM OPENJSON(@rows) WITH (
    {{}}{lines(f"{name} {kind}" for name, kind in _FIELDS.items())}) AS r"""
_WHEN = f"CROSS APPLY (SELECT COALESCE(r.run_at, {_DELAYED}, @now) AS run_at) AS w"

INSERT = batch(f"{_INTO}\n{_VALUES}\n{_GIVEN.format('')}\n{_WHEN};", single=True, rows=LIST, texts=LIST)

_KEYED = f"""
{_INTO}
OUTPUT inserted.id INTO @created (id)
{_VALUES}
FROM @row AS r
{_WHEN}
WHERE r.place = @place AND NOT EXISTS (
    SELECT 1 FROM {HOT} AS h {COMMITTED}
    WHERE h.idempotency_key = r.idempotency_key AND h.idempotency_key IS NOT NULL)
OPTION (LOOP JOIN);
"""
_TYPES = _FIELDS | dict.fromkeys(_NAMES, NAME) | {"id": ID}

# An id that exists is an error too, and no other look would help.
INSERT_KEYED = batch(
    f"""
WHILE @place <= @last
BEGIN
{textwrap.indent(again_if_taken(_KEYED, "SELECT @place += 1, @taken = 0;", times="@taken", index=KEY_INDEX), "    ")}
END;
""",
    prepare=f"""
DECLARE @row TABLE (
    {lines(["place int NOT NULL PRIMARY KEY", *(f"{name} {kind} NULL" for name, kind in _TYPES.items())])});
INSERT INTO @row (
    {lines(("place", *_FIELDS))})
SELECT
    {lines(f"r.{name}" for name in ("place", *_FIELDS))}
{_GIVEN.format("place int, ")};
DECLARE @created TABLE (id {ID} NOT NULL PRIMARY KEY);
DECLARE @taken int = 0, @place int = 0, @last int = (SELECT MAX(r.place) FROM @row AS r);
""",
    after="SELECT c.id FROM @created AS c;",
    rows=LIST,
    texts=LIST,
)

# Committed or the caller's own: who waits here waits for the holder to end or to stay.
HOLDERS = batch(
    f"""
SELECT k.item, h.id
FROM OPENJSON(@keys) WITH (item nvarchar(510) '$') AS k
INNER LOOP JOIN {HOT} AS h {FOUND} ON h.idempotency_key = k.item {BIN2} AND h.idempotency_key IS NOT NULL;
""",
    single=True,
    keys=LIST,
)

# An earlier try may just be being committed: with row versioning, too, it is waited for.
EXISTING = batch(
    "\nUNION ALL\n".join(f"SELECT t.id {by_ids(table, 't', COMMITTED)}" for table in (HOT, ARCHIVE, DLQ, TRASH)) + ";",
    single=True,
    ids=LIST,
)


class MSSQLEnqueue(MSSQLSession):
    """Inserting new jobs."""

    def enqueue(self, rows: Sequence[NewJob]) -> list[Enqueued]:
        if not rows:
            return []
        plain, keyed = keys.split(rows)
        unit = keys.knowing_tries(lambda tried: self._insert_all(plain, keyed, tried))
        return keys.answers(rows, self._single(unit) if len(rows) == 1 else self._unit(unit))

    def _insert_all(self, plain: Sequence[NewJob], keyed: Sequence[NewJob], tried: bool) -> dict[str, str]:
        """Insert all; key -> id of the job that holds it now."""
        there = self._existing([row.id for row in (*plain, *keyed)]) if tried else set()
        for part in _parts([row for row in plain if row.id not in there]):
            self._inside(INSERT, **self._rows(part))
        holders: dict[str, str] = {str(row.idempotency_key): row.id for row in keyed if row.id in there}
        for part in _parts([row for row in keyed if row.id not in there]):
            holders |= self._insert_keyed(part)
        return holders

    def _insert_keyed(self, rows: Sequence[NewJob]) -> dict[str, str]:
        holders: dict[str, str] = {}
        left = list(rows)
        for _ in range(TRIES):
            created = {job_id for (job_id,) in self._inside(INSERT_KEYED, **self._rows(left))[0]}
            holders |= {str(row.idempotency_key): row.id for row in left if row.id in created}
            left = [row for row in left if row.id not in created]
            if left:
                wanted = as_json([row.idempotency_key for row in left])
                holders |= dict(self._inside(HOLDERS, keys=wanted)[0])
                left = [row for row in left if row.idempotency_key not in holders]
            if not left:
                return holders
        raise keys.too_fast(left[0].idempotency_key)

    def _rows(self, rows: Sequence[NewJob]) -> dict[str, str]:
        """The parameters of the rows."""
        texts = self._texts()
        nothing = (None,) * 3
        listed = [
            (
                place,
                *(getattr(row, name) for name in _PLAIN),
                *(nothing if row.delay is None else span(row.delay)),
                *(nothing if row.deadline_after is None else span(row.deadline_after)),
                None if row.run_at is None else instant_text(row.run_at),
                None if row.deadline_at is None else instant_text(row.deadline_at),
                *(at for name in _TEXTS for at in texts.place(getattr(row, name))),
            )
            for place, row in enumerate(rows)
        ]
        return {"rows": rows_json(("place", *_FIELDS), listed), "texts": texts.value()}

    def _existing(self, ids: Sequence[str]) -> set[str]:
        """Which of these ids are somewhere: an earlier try did commit, although its answer was lost."""
        found = [self._inside(EXISTING, ids=as_json(part))[0] for part in chunks(list(dict.fromkeys(ids)), BULK)]
        return {job_id for rows in found for (job_id,) in rows}


def _parts(rows: Sequence[NewJob]) -> Iterator[list[NewJob]]:
    part: list[NewJob] = []
    size = 0
    for row in rows:
        if part and (len(part) == BULK or size + len(row.payload) > BULK_TEXT):
            yield part
            part, size = [], 0
        part.append(row)
        size += len(row.payload)
    if part:
        yield part
