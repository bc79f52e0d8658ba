"""Taking old metric buckets away: locked and read, then deleted by their keys."""

# ruff: noqa: S608 - statements are composed of constants and column names of ours; every value is a parameter

from __future__ import annotations

from collections.abc import Sequence

from ..columns import BUCKET, names
from ..engine import Row
from ..rollups import TAKEN
from .session import MySQLSession, as_json
from .tables import json_table

_TAKEN = (
    f"DELETE b FROM {json_table({'at': 'DATETIME(6)', 'series': 'VARCHAR(32) CHARACTER SET ascii'})} "
    f"STRAIGHT_JOIN {BUCKET} b FORCE INDEX (PRIMARY) ON b.at = j.at AND b.series = j.series"
)


class RollupStatements(MySQLSession):
    """Metric buckets on their way out."""

    def _take_buckets(self, older_than: float, limit: int) -> Sequence[Row]:
        rows = self._query(
            f"SELECT {names(TAKEN)} FROM {self._by_key(BUCKET)} WHERE at <= {self._after()} ORDER BY at, series "
            f"LIMIT %s FOR UPDATE SKIP LOCKED",
            [-older_than, limit],
        )
        if rows:
            self._execute(_TAKEN, [as_json([[str(at), series] for at, series, *_ in rows])])
        return rows
