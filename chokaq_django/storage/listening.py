"""A connection that hears PostgreSQL's notices about new work."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from django.db import connections

if TYPE_CHECKING:
    import psycopg

CONNECT_LIMIT = 10.0
"""Seconds that a worker waits for a connection, where the project names no other number of them."""


def connect_limit(options: Mapping[str, Any], patience: float = float("inf")) -> int | str:
    """``connect_timeout`` of a worker's connection: the project's own, unless ``patience`` is shorter. Libpq's is none
    and the driver's more than two minutes, for each of a host's addresses."""
    given = options.get("connect_timeout") or os.environ.get("PGCONNECT_TIMEOUT") or 0
    try:
        limit = float(given)
    except (TypeError, ValueError):
        return given  # the driver says what is wrong with it
    # Zero means no limit, and in libpq's whole seconds one means two.
    return max(2, int(min(limit if limit > 0 else CONNECT_LIMIT, patience)))


class PostgresListener:
    """LISTENs on its own connection. Used by one thread, which waits on :meth:`fileno` with ``select``.

    It needs a direct connection: transaction poolers do not pass notices on. psycopg's errors come out as they are;
    after one, close it and make a new one.
    """

    def __init__(self, alias: str, channel: str = "chokaq") -> None:
        from psycopg import Connection, sql

        wrapper: Any = connections.create_connection(alias)
        # It only ever reads: without keepalives a lost server would look like one that has nothing to say.
        alive = {"keepalives": 1, "keepalives_idle": 30, "keepalives_interval": 10, "keepalives_count": 3}
        own = {"autocommit": True, "application_name": "chokaq listen"}
        given = wrapper.get_connection_params()
        params = {**alive, **given, **own, "connect_timeout": connect_limit(given)}
        self._connection: psycopg.Connection[Any] = Connection.connect(**params)
        try:
            self._connection.execute(sql.SQL("LISTEN {}").format(sql.Identifier(channel)))
        except BaseException:
            self._connection.close()
            raise

    def fileno(self) -> int:
        """The socket, readable when there may be a notice."""
        return self._connection.fileno()

    def drain(self) -> list[str]:
        """Payloads (queue names) that have arrived, each once, without waiting."""
        return list(dict.fromkeys(notice.payload for notice in self._connection.notifies(timeout=0)))

    def close(self) -> None:
        self._connection.close()
