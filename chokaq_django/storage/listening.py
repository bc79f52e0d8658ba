"""A connection that hears PostgreSQL's notices about new work."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.db import connections

if TYPE_CHECKING:
    import psycopg


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
        params = {**alive, **wrapper.get_connection_params(), **own}
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
