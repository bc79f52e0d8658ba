"""Erasing a queue in steps: its jobs wherever they are, then what counts them.

What is of the queue is looked up outside of the transaction, without a lock (on SQL Server: where the database has
READ_COMMITTED_SNAPSHOT on): no table but one has an index of queues that all engines could lock by, and whoever scans a
table waits for what others have locked. Each step then takes by their keys those that are still there.
"""

# ruff: noqa: S608 - statements are composed of constants and column names of ours; every value is a parameter

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import groupby

from .columns import ARCHIVE, BUCKET, COUNTER, DLQ, GROUP, HOT, QUEUE, ROLLUP, TRASH, names
from .engine import Row, chunks
from .groups import FRESH_END
from .moves import FORGOTTEN, MoveStatements

_COUNTS = ((BUCKET, ("at", "series")), (ROLLUP, ("span", "at", "series")), (COUNTER, ("series",)))
"""Tables of counts, with their keys."""


class ErasureStatements(MoveStatements):
    """What a queue leaves behind is deleted in steps."""

    def erase_queue(self, queue: str, limit: int) -> bool:
        for table in (HOT, ARCHIVE, DLQ, TRASH):
            if ids := [row[0] for row in self._of_queue(table, ("id",), "queue", queue, limit)]:
                self._unit(lambda: self._erase_jobs(table, ids, queue))  # noqa: B023 - it is called at once
                return True
        if series := [row[0] for row in self._of_queue(GROUP, ("series",), "series", queue, limit)]:
            self._unit(lambda: self._erase_groups(series))
            return True
        for table, key in _COUNTS:
            if rows := self._of_queue(table, key, names(key), queue, limit):
                self._erase_counts(table, key, rows)
                return True
        self._unit(lambda: self._execute(f"DELETE FROM {QUEUE} WHERE name = %s", [queue]))
        return False

    def _of_queue(self, table: str, columns: Sequence[str], order: str, queue: str, limit: int) -> list[Row]:
        sql = f"SELECT {names(columns)} FROM {table} WHERE queue = %s ORDER BY {order} {self.LIMIT}"
        return self._single(lambda: self._query(sql, [queue, limit]))

    def _erase_jobs(self, table: str, ids: Sequence[str], queue: str) -> None:
        """Those of these jobs that are still there and of the queue; nobody is waited for."""
        for part in chunks(sorted(ids)):
            among, params = self._among("id", part)
            rows = self._query(
                f"SELECT {names(FORGOTTEN[table])} FROM {self._by_key(table)} {self.HINT_SKIP} "
                f"WHERE {among} AND queue = %s ORDER BY id {self.LOCK_SKIP}",
                [*params, queue],
            )
            self._forget_rows(table, rows)

    def _erase_groups(self, series: Sequence[str]) -> None:
        rows = self._locked_groups(series)
        for part in chunks(rows):
            self._delete(GROUP, [row.series for row in part], "series")
        # The totals of fingerprints have what is folded of all queues.
        folded = [row for row in rows if row.series >= FRESH_END]
        self._add_totals(replace(row, count=-row.count, total=-row.total) for row in folded)
        self._drop_totals({row.fingerprint for row in folded})

    def _erase_counts(self, table: str, key: Sequence[str], rows: Sequence[Row]) -> None:
        """Rows by their keys, in whose order they come, a transaction for each slot of time: rolling up writes one
        series in all slots before the next."""
        for slot, alike in groupby(rows, key=lambda row: row[:-1]):
            given = [self._instant(self._read_instant(value)) if column == "at" else value
                     for column, value in zip(key, slot, strict=False)]  # fmt: skip
            own = "".join(f" AND {column} = %s" for column in key[:-1])
            for part in chunks([row[-1] for row in alike]):
                among, params = self._among("series", part)
                sql = f"DELETE FROM {table} WHERE {among}{own}"
                self._unit(lambda: self._execute(sql, [*params, *given]))  # noqa: B023 - it is called at once
