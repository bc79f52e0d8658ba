"""Taking old metric buckets away, and old roll-ups."""

# ruff: noqa: S608 - statements are composed of constants and column names of ours; every value is a parameter

from __future__ import annotations

from collections.abc import Sequence

from ..columns import BUCKET, ROLLUP
from ..engine import Row
from ..rollups import TAKEN
from .session import MSSQLSession
from .tsql import CHANGED, FOUND, UNLOCKED, batch, later, lines, span

_OLD = f"""b.at <= {later("@days", "@seconds", "@microseconds")}"""
_AGE = {"days": "int", "seconds": "int", "microseconds": "int"}

TAKE_BUCKETS = batch(
    f"""
DELETE t
OUTPUT
    {lines(f"deleted.{column}" for column in TAKEN)}
FROM (
    SELECT TOP (@limit) b.at, b.series
    FROM {BUCKET} AS b {UNLOCKED}
    WHERE {_OLD}
    ORDER BY b.at, b.series) AS b
INNER LOOP JOIN {BUCKET} AS t {CHANGED} ON t.at = b.at AND t.series = b.series;
""",
    single=True,
    limit="int",
    **_AGE,
)

# Whole slots: the key is span and slot first, and nobody writes to an old one any more. Each two thousand rows are a
# transaction of their own: all of them in one would be more locks than SQL Server keeps by row.
TRIM_ROLLUPS = batch(
    f"""
SELECT @last = MAX(old.at)
FROM (
    SELECT TOP (@limit) b.at FROM {ROLLUP} AS b {FOUND}
    WHERE b.span = @span
        AND {_OLD}
    ORDER BY b.at) AS old;
WHILE @last IS NOT NULL
BEGIN
    DELETE TOP (2000) b FROM {ROLLUP} AS b {CHANGED} WHERE b.span = @span AND b.at <= @last;
    SET @deleted = @@ROWCOUNT;
    SET @all = @all + @deleted;
    IF @deleted < 2000 BREAK;
END;
""",
    prepare="DECLARE @last datetime2(6), @deleted int, @all int = 0;",
    after="SELECT @all;",
    single=True,
    limit="int",
    span="int",
    **_AGE,
)


class MSSQLRollups(MSSQLSession):
    """Metric buckets on their way out."""

    def _take_buckets(self, older_than: float, limit: int) -> Sequence[Row]:
        return self._inside(TAKE_BUCKETS, limit=limit, **_before(older_than))[-1]

    def trim_rollups(self, span: int, older_than: float, limit: int) -> int:
        return int(self._alone(TRIM_ROLLUPS, limit=limit, span=span, **_before(older_than))[0][0][0])


def _before(seconds: float) -> dict[str, int]:
    """The variables of so long ago."""
    return dict(zip(_AGE, span(-seconds), strict=True))
