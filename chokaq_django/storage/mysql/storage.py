"""The storage on MariaDB and MySQL: its parts put together."""

# ruff: noqa: S608 - statements are composed of constants and column names of ours; every value is a parameter

from __future__ import annotations

from ..columns import HOT
from .claim import ClaimStatements
from .enqueue import EnqueueStatements
from .settle import SettleStatements


class MySQLStorage(EnqueueStatements, ClaimStatements, SettleStatements):
    """The storage contract on MariaDB 10.6 or newer and MySQL 8.0.17 or newer."""

    def _overdue(self) -> str:
        return (
            f"SELECT id, queue, type FROM {HOT} FORCE INDEX (chokaq_hot_deadline) WHERE status = 0 "
            f"AND deadline_at < {self.NOW} ORDER BY deadline_at LIMIT %s FOR UPDATE SKIP LOCKED"
        )
