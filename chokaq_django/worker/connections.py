"""The Django connections of threads that run jobs: what one job leaves behind is no matter of the next."""

from __future__ import annotations

import logging
import re
import sqlite3
from collections.abc import Callable
from typing import Any, cast

from django.db import connections
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.backends.signals import connection_created

logger = logging.getLogger("chokaq.worker.connections")

_CHANGES_SESSION = re.compile(
    r"\s*(?:begin|start\s+transaction|use\s|lock\s+tables?\s|set\s+(?!nocount|identity_insert|constraints|local\s))",
    re.IGNORECASE,
)
"""Statements after which a session is not what it was: a transaction below Django, another mode, database or lock."""
_CHANGES_SQLITE = re.compile(r"\s*pragma\s+\w+\s*=", re.IGNORECASE)
"""The same on SQLite, whose driver tells of transactions and where Django begins its own by a statement."""
_CHANGED = "_chokaq_session_changed"


def watch_sessions() -> None:
    """From now on, know of each connection of a thread whether a handler changed its session by a statement."""
    connection_created.connect(_watch, dispatch_uid="chokaq.worker.connections")


def _watch(connection: BaseDatabaseWrapper, **kwargs: Any) -> None:
    """A new session, already set up by Django. The storages' own connections are no handler's."""
    if not any(known is connection for known in connections.all(initialized_only=True)):
        return
    setattr(connection, _CHANGED, False)
    if _note_changes not in connection.execute_wrappers:
        connection.execute_wrappers.append(_note_changes)


def _note_changes(execute: Callable[..., Any], sql: Any, params: Any, many: bool, context: dict[str, Any]) -> Any:
    connection = context["connection"]
    changes = _CHANGES_SQLITE if connection.vendor == "sqlite" else _CHANGES_SESSION
    if isinstance(sql, str) and changes.match(sql):
        setattr(connection, _CHANGED, True)
    return execute(sql, params, many, context)


def tidy_connections(*, busy: bool = True) -> None:
    """Leave nothing of one job to the next in this thread: Django's rules for the end of a request, no transaction
    that a handler forgot to end, and no session that it changed by a statement (SET, USE, LOCK TABLES). Never raises.

    ``busy``: more jobs are expected at once, so that a healthy connection is kept also where CONN_MAX_AGE is 0.
    """
    for connection in connections.all(initialized_only=True):
        try:
            forgotten = connection.in_atomic_block
            if forgotten or _in_transaction(connection) or getattr(connection, _CHANGED, False):
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


def _in_transaction(connection: BaseDatabaseWrapper) -> bool:
    """Whether the driver knows of a transaction that Django does not. Other drivers do not tell without asking the
    server; there the statement that began it was noted."""
    raw = connection.connection
    if raw is None:
        return False
    if connection.vendor == "sqlite":
        return bool(getattr(raw, "in_transaction", False))
    info = getattr(raw, "info", None)  # psycopg's
    return connection.vendor == "postgresql" and info is not None and int(info.transaction_status) != 0


def _closed_below(connection: BaseDatabaseWrapper) -> bool:
    """Whether a handler closed the driver's connection under Django, which would show only in the next job."""
    raw = connection.connection
    if raw is None:
        return False
    if connection.vendor == "mysql":
        return not getattr(raw, "open", True)
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
