"""The PostgreSQL storage: its parts put together."""

from __future__ import annotations

from .enqueue import EnqueueStatements
from .replies import PostgresReplies
from .retention import PostgresRetention
from .rollups import PostgresRollups
from .settle import PostgresSettle


class PostgresStorage(EnqueueStatements, PostgresReplies, PostgresSettle, PostgresRollups, PostgresRetention):
    """PostgreSQL 14 and later, by psycopg 3."""
