"""Whether anything has been committed since the last look, by what each engine can tell for next to nothing."""

from __future__ import annotations

from typing import Any

from django.db import connections

from ...storage.data_version import SQLiteWatcher

__all__ = ["Probe"]

_SNAPSHOT = "SELECT pg_current_snapshot()::text"
"""Transactions that have ended and that run: two equal ones see the same rows. Of the whole server, standbys too."""
_LOG = (
    "SHOW GLOBAL STATUS WHERE variable_name IN "
    "('Innodb_lsn_current', 'Innodb_redo_log_current_lsn', 'Innodb_log_write_requests')"
)
"""How far InnoDB's log has come (MariaDB's name, MySQL's since 8.0.30), and in how many pieces (an older MySQL tells no
more): a commit writes into it."""


class Probe:
    """Remembers how the database was. One cheap read on the calling thread's connection; on SQLite none at all.

    It may say "changed" of what other applications on the same server did. For one thread at a time.
    """

    def __init__(self, alias: str) -> None:
        self._alias = alias
        self._seen: Any = None
        self._watcher: SQLiteWatcher | None = None

    def changed(self) -> bool:
        """Whether there may be something new since the last call; True the first time, and where nothing tells."""
        vendor = connections[self._alias].vendor
        if vendor == "sqlite":
            if self._watcher is None:
                self._watcher = SQLiteWatcher(self._alias)
            return self._watcher.changed()
        if vendor not in ("postgresql", "mysql"):
            return True
        seen = self._read(_SNAPSHOT if vendor == "postgresql" else _LOG)
        changed = not seen or seen != self._seen
        self._seen = seen
        return changed

    def _read(self, sql: str) -> list[Any]:
        with connections[self._alias].cursor() as cursor:
            cursor.execute(sql)
            return list(cursor.fetchall())

    def close(self) -> None:
        """Give up its connection; the next call says "changed"."""
        if self._watcher is not None:
            self._watcher.close()
        self._watcher, self._seen = None, None
