"""Storage on MariaDB and MySQL."""

from __future__ import annotations

from .storage import MySQLStorage

__all__ = ["MySQLStorage"]
