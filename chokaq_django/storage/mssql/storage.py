"""The SQL Server storage: its parts put together."""

from __future__ import annotations

from .enqueue import MSSQLEnqueue
from .moves import MSSQLMoves
from .replies import MSSQLReplies
from .rollups import MSSQLRollups
from .settle import MSSQLSettle


class SQLServerStorage(MSSQLEnqueue, MSSQLReplies, MSSQLSettle, MSSQLMoves, MSSQLRollups):
    """SQL Server 2017 and later, and Azure SQL, by mssql-django with pyodbc or mssql-python."""
