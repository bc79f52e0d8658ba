"""Storage on PostgreSQL."""

from __future__ import annotations

from .storage import PostgresStorage

__all__ = ["PostgresStorage"]
