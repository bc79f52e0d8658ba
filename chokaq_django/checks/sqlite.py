"""SQLite: a file that the web and the workers share well."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator, Mapping
from typing import Any

from django.core import checks
from django.core.checks import CheckMessage
from django.db.backends.base.base import BaseDatabaseWrapper

from ..conf import Options
from ..storage.sqlite.session import FLOOR
from .findings import may_lose, too_old

IN_MEMORY = (
    "Give it a file as NAME; the one that tests use instead has a name of its own: "
    '"TEST": {"NAME": BASE_DIR / "test.sqlite3"}.'
)
"""What to do about a database in memory."""
LEAST_WAIT = 5  # seconds; the driver's own default


def settings_findings(alias: str, config: Mapping[str, Any]) -> Iterator[CheckMessage]:
    """The library's version, and a file that other processes can open."""
    if sqlite3.sqlite_version_info < FLOOR:
        yield too_old(
            alias, f"SQLite {sqlite3.sqlite_version}", ".".join(map(str, FLOOR[:2])), "It comes with Python's build."
        )
        return
    name = str(config.get("NAME") or "")
    if in_memory(name):
        yield checks.Warning(
            f"the job database {alias!r} is SQLite in memory: a worker process cannot see its jobs.",
            hint=IN_MEMORY,
            id="chokaq.W001",
        )
        return
    folder = os.path.dirname(os.path.abspath(name.removeprefix("file:").partition("?")[0]))
    if not name or not os.path.isdir(folder):
        where = f"in {folder}, which does not exist" if name else "without a NAME"
        yield checks.Warning(
            f"the job database {alias!r} is SQLite {where}.",
            hint="Give it a file in an existing directory as NAME.",
            id="chokaq.W002",
        )
    mode = str((config.get("OPTIONS") or {}).get("transaction_mode") or "DEFERRED").upper()
    if mode == "DEFERRED":
        yield checks.Warning(
            f"transactions of the job database {alias!r} begin as readers. One that then writes, as enqueue() in a "
            'view does, fails at once with "database is locked" when a worker wrote in between, whatever the timeout.',
            hint='Add "transaction_mode": "IMMEDIATE" to its OPTIONS.',
            id="chokaq.W006",
        )


def server_findings(connection: BaseDatabaseWrapper, options: Options) -> Iterator[CheckMessage]:
    """What this process's connections and the file itself are set to."""
    if in_memory(str(connection.settings_dict["NAME"])):
        return
    with connection.cursor() as cursor:

        def pragma(name: str) -> Any:
            return cursor.execute(f"PRAGMA {name}").fetchone()[0]

        journal, synchronous, wait = pragma("journal_mode"), pragma("synchronous"), pragma("busy_timeout")
    alias = connection.alias
    if str(journal).lower() != "wal":
        yield checks.Warning(
            f"the job database {alias!r} is SQLite with journal_mode={str(journal).upper()}: every reader stops the "
            "workers, and every write stops the readers.",
            hint='Add "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL;" to its OPTIONS.',
            id="chokaq.W003",
        )
    if synchronous == 0:
        yield may_lose(alias, "PRAGMA synchronous=OFF", "Set NORMAL or FULL: a power cut may even damage the file.")
    if wait < LEAST_WAIT * 1000:
        yield checks.Warning(
            f"connections to the job database {alias!r} give up after {wait / 1000:g} s when another process is "
            "writing.",
            hint='Add "timeout": 20 to its OPTIONS.',
            id="chokaq.W005",
        )


def in_memory(name: str) -> bool:
    """Whether this NAME is of a database that no other process has."""
    return name == ":memory:" or "mode=memory" in name or name.startswith("file::memory:")
