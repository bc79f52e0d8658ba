"""Jobs in SQLite: one writer at a time, so nothing needs a row lock, and short transactions are everything."""

from __future__ import annotations

from .claim import ClaimStatements
from .enqueue import EnqueueStatements
from .settle import SettleStatements


class SQLiteStorage(EnqueueStatements, ClaimStatements, SettleStatements):
    """The storage contract on SQLite 3.35 or newer."""
