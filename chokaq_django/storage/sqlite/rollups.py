"""Taking old metric buckets away: out as one JSON text, then deleted. Nobody else writes meanwhile."""

# ruff: noqa: S608 - statements are composed of constants and column names of ours; every value is a parameter

from __future__ import annotations

from collections.abc import Sequence

from ..columns import BUCKET, names
from ..engine import Row
from ..rollups import TAKEN
from .session import SQLiteSession


class RollupStatements(SQLiteSession):
    """Metric buckets on their way out."""

    def roll_up(self, older_than: float, limit: int) -> int:
        # A look first, which keeps nobody from writing: mostly there is nothing.
        sql = f"SELECT 1 FROM {BUCKET} WHERE at <= {self._after()} LIMIT 1"
        return super().roll_up(older_than, limit) if self._single(lambda: self._query(sql, [-older_than])) else 0

    def _take_buckets(self, older_than: float, limit: int) -> Sequence[Row]:
        oldest = f"SELECT * FROM {BUCKET} WHERE at <= {self._after()} ORDER BY at, series LIMIT %s"
        rows: list[Row] = self._one_json(
            f"SELECT json_group_array(json_array({names(TAKEN)})) FROM ({oldest})", [-older_than, limit]
        )
        if rows:
            at, series = max((row[0], row[1]) for row in rows)
            self._execute(f"DELETE FROM {BUCKET} WHERE (at, series) <= (%s, %s)", [at, series])
        return rows
