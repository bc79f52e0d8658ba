"""The settings that decide whether an accepted job survives a crash, as the engine states them."""

from __future__ import annotations

from typing import Any

from django.db import connections

__all__ = ["durability"]


def durability(alias: str) -> dict[str, str]:
    """Name to value, of Django's connection to the database ``alias``."""
    connection = connections[alias]
    with connection.cursor() as cursor:

        def ask(sql: str) -> list[tuple[Any, ...]]:
            cursor.execute(sql)
            return list(cursor.fetchall())

        match connection.vendor:
            case "sqlite":
                levels = {0: "OFF", 1: "NORMAL", 2: "FULL", 3: "EXTRA"}
                level = ask("PRAGMA synchronous")[0][0]
                return {
                    "journal_mode": str(ask("PRAGMA journal_mode")[0][0]).upper(),
                    "synchronous": levels.get(level, str(level)),
                }
            case "postgresql":
                rows = ask("SELECT name, setting FROM pg_settings WHERE name IN ('fsync', 'synchronous_commit')")
            case "mysql":
                rows = ask(
                    "SHOW VARIABLES WHERE Variable_name IN ('innodb_flush_log_at_trx_commit', 'sync_binlog', 'log_bin')"
                )
            case "microsoft":
                rows = ask(
                    "SELECT 'delayed_durability', delayed_durability_desc FROM sys.databases "
                    "WHERE database_id = DB_ID()"
                )
            case _:
                rows = []
        return {str(name): str(value) for name, value in sorted(rows)}
