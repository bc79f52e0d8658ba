"""Taking old metric buckets away: one statement that finds, locks, deletes and returns them."""

# ruff: noqa: S608 - statements are composed of constants and column names of ours; every value is a parameter

from __future__ import annotations

from collections.abc import Sequence

from ..columns import BUCKET, names
from ..engine import Row
from ..rollups import TAKEN
from .session import PostgresSession


class PostgresRollups(PostgresSession):
    """Metric buckets on their way out."""

    def _take_buckets(self, older_than: float, limit: int) -> Sequence[Row]:
        oldest = (
            f"SELECT ctid FROM {BUCKET} WHERE at <= {self._after()} ORDER BY at, series LIMIT %s FOR UPDATE SKIP LOCKED"
        )
        return self._query(
            f"DELETE FROM {BUCKET} WHERE ctid = ANY(ARRAY({oldest})) RETURNING {names(TAKEN)}", [-older_than, limit]
        )
