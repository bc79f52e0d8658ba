"""The Django connections of threads that run jobs: what one job leaves behind is no matter of the next."""

from __future__ import annotations

import logging
import sqlite3
from typing import Any, cast

from django.db import connections
from django.db.backends.base.base import BaseDatabaseWrapper

logger = logging.getLogger("chokaq.worker.connections")


def tidy_connections(*, busy: bool = True) -> None:
    """Leave nothing of one job to the next in this thread: Django's rules for the end of a request, and no transaction
    that a handler forgot to end. Never raises.

    ``busy``: more jobs are expected at once, so that a healthy connection is kept also where CONN_MAX_AGE is 0.
    """
    for connection in connections.all(initialized_only=True):
        try:
            forgotten = connection.in_atomic_block
            if forgotten:
                connection.close()
            else:
                _tidy(connection, busy)
        except Exception as error:  # noqa: BLE001 - of any driver; the connection is given up, the outcome counts
            logger.info("A connection to %r could not be closed: %s", connection.alias, error)
            forgotten = True
        if forgotten:
            del connections[connection.alias]


def close_before_fork() -> None:
    """Close every connection of this process, those too that a pool keeps under Django's: a child would inherit their
    sockets, and read what was answered to another process. Children make their own."""
    connections.close_all()
    for connection in connections.all(initialized_only=True):
        close_pool = getattr(connection, "close_pool", None)  # PostgreSQL's, with "pool" in OPTIONS
        if close_pool is not None:
            close_pool()
        if connection.vendor == "microsoft":
            pooling = getattr(cast("Any", connection).Database, "pooling", None)
            if callable(pooling):
                # mssql-python's, which is on unless told otherwise. It stays off: workers keep their connections, and
                # it may hand out one that the server has ended. (pyodbc's has no end; unixODBC pools only on demand.)
                pooling(enabled=False)


def _closed_below(connection: BaseDatabaseWrapper) -> bool:
    """Whether a handler closed the driver's connection under Django, which would show only in the next job."""
    raw = connection.connection
    if raw is None:
        return False
    if connection.vendor != "sqlite":
        return bool(getattr(raw, "closed", False))
    try:
        raw.total_changes  # noqa: B018 - the cheapest question that a closed connection refuses
    except sqlite3.ProgrammingError:
        return True
    return False


def _tidy(connection: BaseDatabaseWrapper, busy: bool) -> None:
    if _closed_below(connection):
        connection.close()
        return
    until = connection.close_at
    if busy and connection.settings_dict["CONN_MAX_AGE"] == 0:
        connection.close_at = None
    connection.close_if_unusable_or_obsolete()
    connection.close_at = until
