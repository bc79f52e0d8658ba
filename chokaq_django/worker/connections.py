"""The Django connections of threads that run jobs: what one job leaves behind is no matter of the next."""

from __future__ import annotations

import logging
import sqlite3
import weakref
from collections.abc import Callable
from typing import Any, cast

from django.db import connections
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.backends.signals import connection_created

from .statements import leaves_session

logger = logging.getLogger("chokaq.worker.connections")

_CLEAN = "_chokaq_clean_session"
_CURSORS = "_chokaq_cursors"
_HOOKS = "_chokaq_hooks"
"""Attributes of a connection: its driver's connection, while nobody has changed that session, the cursors that somebody
still holds, and the hooks that stay between jobs."""
_watching = False


def watch_sessions() -> None:
    """From now on, know of each connection of a thread what a handler did to its session."""
    global _watching
    connection_created.connect(_watch, dispatch_uid="chokaq.worker.connections")
    _watching = True


def _watch(connection: BaseDatabaseWrapper, **kwargs: Any) -> None:
    """A new session, already set up by Django. (One whose setting up failed is never seen here, and so not clean.) The
    storages' own connections are no handler's."""
    if not any(known is connection for known in connections.all(initialized_only=True)):
        return
    setattr(connection, _CLEAN, connection.connection)
    setattr(connection, _CURSORS, weakref.WeakSet())
    if _note_changes not in connection.execute_wrappers:
        # First: ``execute_wrapper()`` takes off the last at its end, and a handler may be inside it now.
        connection.execute_wrappers.insert(0, _note_changes)
    if not hasattr(connection, _HOOKS):
        setattr(connection, _HOOKS, ([_note_changes], False))


def _note_changes(execute: Callable[..., Any], sql: Any, params: Any, many: bool, context: dict[str, Any]) -> Any:
    connection = context["connection"]
    getattr(connection, _CURSORS).add(context["cursor"])
    if getattr(connection, _CLEAN) is not None:
        text = sql.as_string(connection.connection) if hasattr(sql, "as_string") else sql  # psycopg's composed SQL
        if not (isinstance(text, str) and leaves_session(connection.vendor, text)):
            setattr(connection, _CLEAN, None)
    return execute(sql, params, many, context)


def tidy_connections(*, busy: bool = True, shared: bool = False) -> None:
    """Leave nothing of one job to the next in this thread: Django's rules for the end of a request, no transaction
    that a handler forgot to end, no cursor that it left open, no session that it changed, and no hook that it put on
    the connection. Never raises.

    ``busy``: more jobs are expected at once, so that a healthy connection is kept also where CONN_MAX_AGE is 0.
    ``shared``: other jobs are at work in this thread; what one of them may be reading is left alone.
    """
    for connection in connections.all(initialized_only=True):
        cursors, hooked = _held_cursors(connection), not shared and _hooks(connection) != _own_hooks(connection)
        given_up = connection.in_atomic_block or hooked
        if (connection.connection is None and not given_up) or (shared and cursors):
            continue
        try:
            if (
                given_up or _closed_below(connection) or _left_behind(connection)
                or not all(_closes(cursor, connection.vendor) for cursor in cursors)
            ):  # fmt: skip
                _end_session(connection)
            else:
                _tidy(connection, busy)
        except Exception as error:  # noqa: BLE001 - of any driver; the connection is given up, the outcome counts
            logger.info("A connection to %r could not be closed: %s", connection.alias, error)
            given_up = True
        if given_up:
            del connections[connection.alias]
        if hooked and busy:
            _open_unhooked(connection.alias)


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


def _left_behind(connection: BaseDatabaseWrapper) -> bool:
    """Whether the session is another than Django knows: changed by a statement, or with a transaction that the driver
    knows of. Not every driver does, without asking the server; there the statement that began it was noted."""
    raw: Any = connection.connection
    if _watching and getattr(connection, _CLEAN, None) is not raw:
        return True
    if connection.vendor == "sqlite":
        return bool(raw.in_transaction)
    autocommit = raw.get_autocommit() if connection.vendor == "mysql" else raw.autocommit
    if bool(autocommit) != connection.get_autocommit():
        return True
    return connection.vendor == "postgresql" and int(raw.info.transaction_status) != 0


def _hooks(connection: BaseDatabaseWrapper) -> tuple[list[Any], bool]:
    """What Django lets others put on a connection, in force for every statement."""
    return list(connection.execute_wrappers), connection.force_debug_cursor


def _own_hooks(connection: BaseDatabaseWrapper) -> tuple[list[Any], bool]:
    known: tuple[list[Any], bool] = getattr(connection, _HOOKS, ([], False))
    return known


def _open_unhooked(alias: str) -> None:
    """Open a connection while no handler runs. What is on it then is the application's, which hooks each connection by
    Django's signal, and stays; of one that a job opened nobody could tell."""
    try:
        connection = connections[alias]
        connection.ensure_connection()
        setattr(connection, _HOOKS, _hooks(connection))
    except Exception as error:  # noqa: BLE001 - of any driver; the next job finds out for itself
        logger.info("A connection to %r could not be opened: %s", alias, error)


def _held_cursors(connection: BaseDatabaseWrapper) -> list[Any]:
    """Cursors that somebody holds and that are not known to be closed: not every driver's tell. An error that was
    caught holds some until the garbage is collected."""
    return [cursor for cursor in getattr(connection, _CURSORS, ()) if not getattr(cursor, "closed", False)]


def _closes(cursor: Any, vendor: str) -> bool:
    """Close a cursor, which may have rows to give, and so a lock, a snapshot or the whole line; whether that is gone.
    Nothing happens to one that is closed."""
    if vendor == "mysql":
        result = getattr(cursor, "_result", None)  # mysqlclient's is there while rows are on the line, PyMySQL's always
        if result is not None and getattr(result, "unbuffered_active", True):
            return False  # it would read all of them
    try:
        cursor.close()
    except Exception:  # noqa: BLE001 - of any driver; the connection is closed instead
        return False
    return True


def _end_session(connection: BaseDatabaseWrapper) -> None:
    if connection.connection is not None and getattr(connection, "pool", None) is not None:
        connection.connection.close()  # or the pool would hand the session out again
    connection.close()


def _closed_below(connection: BaseDatabaseWrapper) -> bool:
    """Whether a handler closed the driver's connection under Django, which would show only in the next job."""
    raw = connection.connection
    if connection.vendor == "mysql":
        return not getattr(raw, "open", True)
    if connection.vendor != "sqlite":
        return bool(getattr(raw, "closed", False))
    try:
        raw.total_changes  # noqa: B018 - the cheapest question that a closed one refuses
    except sqlite3.ProgrammingError:
        return True
    return False


def _tidy(connection: BaseDatabaseWrapper, busy: bool) -> None:
    until = connection.close_at
    if busy and connection.settings_dict["CONN_MAX_AGE"] == 0:
        connection.close_at = None
    connection.close_if_unusable_or_obsolete()
    connection.close_at = until
