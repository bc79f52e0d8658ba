"""Storage on PostgreSQL."""

from __future__ import annotations

from django.db.backends.postgresql.psycopg_any import is_psycopg3

from ..contract import StorageError

if not is_psycopg3:
    raise StorageError("Jobs on PostgreSQL need psycopg 3, and Django found psycopg2: pip install 'psycopg[binary]'")

from .storage import PostgresStorage

__all__ = ["PostgresStorage"]
