"""The SQL Server storage: its parts put together."""

from __future__ import annotations

from .claim import MSSQLClaim
from .enqueue import MSSQLEnqueue
from .leases import MSSQLLeases
from .moves import MSSQLMoves
from .rollups import MSSQLRollups
from .settle import MSSQLSettle


class SQLServerStorage(MSSQLEnqueue, MSSQLClaim, MSSQLLeases, MSSQLSettle, MSSQLMoves, MSSQLRollups):
    """SQL Server 2017 and later, and Azure SQL, by mssql-django with pyodbc or mssql-python."""
