"""Adding to the metric buckets. T-SQL has no upsert that is safe and cheap: rows that are missing come first, as zeros.

Who is the first in ten seconds holds the place in the key until the commit (HOLDLOCK), so that two writers of one row
neither fail nor lose a count. Rows are sharded by writer: that is rare. All are written in the order of ``series``.
"""

# ruff: noqa: S608 - statements are composed of constants and column names of ours; every value is a parameter

from __future__ import annotations

from collections.abc import Sequence

from ..buckets import BUCKET_COLUMNS, NAMING_COLUMNS, SUMS, BucketRow
from ..columns import BUCKET
from .session import MSSQLSession
from .tsql import BIN2, CHANGED, LIST, PLACE, batch, lines, rows_json
from .tsql import BUCKET as TICK

_TYPES = dict.fromkeys(NAMING_COLUMNS, "nvarchar(510)") | {"series": "nvarchar(64)"}
_TYPES |= dict.fromkeys(("outcome", "reason"), "int") | dict.fromkeys(("max_ms", *SUMS), "bigint")

_NAMES = {name: _TYPES[name] for name in NAMING_COLUMNS}
_COUNTS = {name: _TYPES[name] for name in ("series", "max_ms", *SUMS)}


def _given(fields: dict[str, str]) -> str:
    """The rows to add, in the order of ``series``, each for its row of the table."""
    return f"""OPENJSON(@buckets) WITH (
    {lines(f"{name} {kind}" for name, kind in fields.items())}) AS b"""


BUCKETS_GIVEN = f"""
-- The start of the current ten seconds.
DECLARE @tick datetime2(6) =
    {TICK};
"""

BUCKETS_ADDED = f"""
INSERT INTO {BUCKET} (
    at, {lines(BUCKET_COLUMNS)})
SELECT
    @tick, {lines(f"b.{name}" if name in NAMING_COLUMNS else "0" for name in BUCKET_COLUMNS)}
FROM {_given(_NAMES)}
WHERE NOT EXISTS (
    SELECT 1 FROM {BUCKET} AS t {PLACE}
    WHERE t.at = @tick AND t.series = b.series {BIN2})
OPTION (LOOP JOIN);
UPDATE t SET
    max_ms = CASE WHEN b.max_ms > t.max_ms THEN b.max_ms ELSE t.max_ms END,
    {lines(f"{name} = t.{name} + b.{name}" for name in SUMS)}
FROM {_given(_COUNTS)}
INNER LOOP JOIN {BUCKET} AS t {CHANGED} ON t.at = @tick AND t.series = b.series {BIN2};
"""

ADD_BUCKETS = batch(BUCKETS_ADDED, prepare=BUCKETS_GIVEN, buckets=LIST)


class MSSQLBuckets(MSSQLSession):
    """Counting."""

    def _add_buckets(self, rows: Sequence[BucketRow]) -> None:
        if rows:
            self._inside(ADD_BUCKETS, buckets=buckets_json(rows))


def buckets_json(rows: Sequence[BucketRow]) -> str:
    return rows_json(BUCKET_COLUMNS, [row.values() for row in rows])
