"""Jobs in SQLite: one writer at a time, so nothing needs a row lock, and short transactions are everything."""

# ruff: noqa: S608 - statements are composed of constants and column names of ours; every value is a parameter

from __future__ import annotations

from ..columns import HOT
from .claim import ClaimStatements
from .enqueue import EnqueueStatements
from .rollups import RollupStatements
from .settle import SettleStatements


class SQLiteStorage(EnqueueStatements, ClaimStatements, SettleStatements, RollupStatements):
    """The storage contract on SQLite 3.35 or newer."""

    # All others wait for each step, however short it is: few of them, so that hardly any claim meets one.
    sweep_pause = 0.2

    def expire(self, limit: int) -> int:
        # A look first, which keeps nobody from writing: mostly there is nothing.
        sql = f"SELECT 1 FROM {HOT} WHERE status + 0 = 0 AND deadline_at < {self.NOW} LIMIT 1"
        return super().expire(limit) if self._single(lambda: self._query(sql)) else 0
