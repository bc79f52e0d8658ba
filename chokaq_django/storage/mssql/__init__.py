"""Storage on SQL Server and Azure SQL."""

from __future__ import annotations

from .storage import SQLServerStorage

__all__ = ["SQLServerStorage"]
