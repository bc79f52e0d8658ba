"""The PostgreSQL storage: its parts put together."""

from __future__ import annotations

from .claim import PostgresClaim
from .enqueue import EnqueueStatements
from .leases import PostgresLeases
from .retention import PostgresRetention
from .rollups import PostgresRollups
from .settle import PostgresSettle


class PostgresStorage(
    EnqueueStatements, PostgresClaim, PostgresLeases, PostgresSettle, PostgresRollups, PostgresRetention
):
    """PostgreSQL 14 and later, by psycopg 3."""
