"""Adding to tables whose rows add up. T-SQL has no upsert that is safe and cheap: rows that are missing come first, as
zeros.

Rows are sharded by writer, so that nobody waits for another: no place in a key is locked (HOLDLOCK), which would be
that of the neighbours too. Two that add the same row at the same moment are rare; the second looks again. All are
written in the order of ``series``.
"""

# ruff: noqa: S608 - statements are composed of constants and column names of ours; every value is a parameter

from __future__ import annotations

import functools
import textwrap
from collections.abc import Sequence
from typing import Any

from django.db import models

from ...models.fields import KeyField, ULIDField, UTCDateTimeField
from ..summed import Summed, Values
from .session import MSSQLSession
from .tsql import BIN2, BUCKET, CHANGED, LIST, LOCKED, Batch, again_if_taken, batch, lines, rows_json

TICK = f"""
-- The start of the current ten seconds.
DECLARE @tick datetime2(6) =
    {BUCKET};
"""


def _type(field: models.Field[Any, Any]) -> str:
    """The type of a column in JSON."""
    match field:
        case ULIDField():
            return f"nvarchar({field.max_length})"
        case KeyField():
            return f"nvarchar({2 * field.max_length})"  # type: ignore[operator]
        case UTCDateTimeField():
            return "datetime2(6)"
        case models.BigIntegerField():
            return "bigint"
        case models.IntegerField():
            return "int"
    return "nvarchar(max)"


@functools.cache
def added(summed: Summed, variable: str) -> str:
    """The statements that add the rows in a variable to their table; with a tick they need :data:`TICK` before them."""
    fields = {str(field.column): field for field in summed.model._meta.concrete_fields}
    types = {column: _type(field) for column, field in fields.items()}
    changed = {*summed.sums, *summed.greatest, *summed.least, *summed.latest}
    zeros = changed.difference(summed.latest, summed.moments)
    tick = "" if summed.tick is None else f"t.{summed.tick} = @tick AND "

    def new(column: str) -> str:
        if column in summed.moments:
            return f"COALESCE(b.{column}, @now)"
        # What comes of JSON has the collation of the database, and a key its own: SQL Server does not choose.
        return f"b.{column} {BIN2}" if isinstance(fields[column], KeyField) else f"b.{column}"

    place = tick + " AND ".join(f"t.{column} = {new(column)}" for column in summed.key if column != summed.tick)

    def given(columns: Sequence[str]) -> str:
        return f"""OPENJSON(@{variable}) WITH (
    {lines(f"{column} {types[column]}" for column in columns)}) AS b"""

    named = [column for column in summed.columns if column not in zeros]
    values = ["0" if column in zeros else f"b.{column}" for column in summed.columns]
    # A line may end before what is chosen.
    changes = (change.replace(" THEN ", "\nTHEN ") for change in summed.changes(new, "t.{}".format))
    missing = f"""
INSERT INTO {summed.table} (
    {lines(summed.inserted)})
SELECT
    {lines(summed.values(values, "@now", "@tick"))}
FROM {given(named)}
WHERE NOT EXISTS (
    SELECT 1 FROM {summed.table} AS t {LOCKED}
    WHERE {place})
OPTION (LOOP JOIN);
"""
    times = f"@{variable}_taken"
    return f"""
DECLARE {times} int = 0;
WHILE 1 = 1
BEGIN
{textwrap.indent(again_if_taken(missing, times=times), "    ")}
END;
UPDATE t SET
    {lines(changes)}
FROM {given([column for column in summed.columns if column in changed or column in summed.key])}
INNER LOOP JOIN {summed.table} AS t {CHANGED}
    ON {place};
"""


@functools.cache
def upsert(summed: Summed) -> Batch:
    """The batch that adds rows to their table."""
    return batch(added(summed, "rows"), prepare="" if summed.tick is None else TICK, rows=LIST)


class MSSQLSums(MSSQLSession):
    """Adding up."""

    def _add(self, summed: Summed, rows: Sequence[Values]) -> None:
        if rows:
            self._inside(upsert(summed), rows=summed_json(summed, rows))


def summed_json(summed: Summed, rows: Sequence[Values]) -> str:
    """Rows of such a table as a variable has them."""
    return rows_json(summed.columns, rows)
