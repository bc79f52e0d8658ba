"""The Django connections of threads that run jobs: what one job leaves behind is no matter of the next."""

from __future__ import annotations

import logging

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


def _tidy(connection: BaseDatabaseWrapper, busy: bool) -> None:
    until = connection.close_at
    if busy and connection.settings_dict["CONN_MAX_AGE"] == 0:
        connection.close_at = None
    connection.close_if_unusable_or_obsolete()
    connection.close_at = until
