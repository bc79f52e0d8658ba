"""The storage on MariaDB and MySQL: its parts put together."""

# ruff: noqa: S608 - statements are composed of constants and column names of ours; every value is a parameter

from __future__ import annotations

from ..columns import HOT
from ..contract import WorkerOrders, WorkerRow
from .claim import ClaimStatements
from .enqueue import EnqueueStatements
from .rollups import RollupStatements
from .settle import SettleStatements


class MySQLStorage(EnqueueStatements, ClaimStatements, SettleStatements, RollupStatements):
    """The storage contract on MariaDB 10.6 or newer and MySQL 8.0.17 or newer."""

    # What a silent worker does all the time is one statement each, without BEGIN and COMMIT around it.

    def register(self, row: WorkerRow) -> WorkerOrders:
        return self._single(lambda: self._register(row))

    def lead(self, name: str, holder: str, ttl: float) -> bool:
        return self._single(lambda: self._lead(name, holder, ttl))

    def expire(self, limit: int) -> int:
        sql = self._overdue().removesuffix(self.LOCK_SKIP)
        return super().expire(limit) if self._single(lambda: self._query(sql, [1])) else 0

    def _overdue(self) -> str:
        return (
            f"SELECT id, queue, type FROM {HOT} FORCE INDEX (chokaq_hot_deadline) WHERE status = 0 "
            f"AND deadline_at < {self.NOW} ORDER BY deadline_at LIMIT %s FOR UPDATE SKIP LOCKED"
        )
