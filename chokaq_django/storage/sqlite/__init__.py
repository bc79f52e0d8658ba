"""Storage on SQLite."""

from __future__ import annotations

from .storage import SQLiteStorage

__all__ = ["SQLiteStorage"]
