"""Opens the storage of a job database: on the caller's own connection, or on a private one."""

from __future__ import annotations

import functools
import importlib

from django.db import connections
from django.db.backends.base.base import BaseDatabaseWrapper

from ..conf import get_options
from .contract import Storage, StorageError

ENGINES = {
    "postgresql": ("PostgreSQL", ".postgres", "PostgresStorage"),
    "sqlite": ("SQLite", ".sqlite", "SQLiteStorage"),
    "mysql": ("MariaDB and MySQL", ".mysql", "MySQLStorage"),
    "microsoft": ("SQL Server", ".mssql", "SQLServerStorage"),
}
"""Vendor of a Django connection -> name for people, module, class."""


def get_storage(alias: str | None = None) -> Storage:
    """The storage on the calling thread's Django connection; it joins the transaction that is open there.

    ``alias``: the job database, by default the one that the settings name. Not to be kept or passed to other threads.
    """
    return _storage(connections[alias or get_options().database], private=False)


def open_storage(alias: str | None = None) -> Storage:
    """A storage with a connection of its own, for one service of a worker. The caller closes it."""
    wrapper = connections.create_connection(alias or get_options().database)
    wrapper.inc_thread_sharing()
    return _storage(wrapper, private=True)


def _storage(connection: BaseDatabaseWrapper, *, private: bool) -> Storage:
    if connection.vendor not in ENGINES:
        supported = ", ".join(name for name, _, _ in ENGINES.values())
        raise StorageError(
            f"Jobs cannot be stored in the database {connection.alias!r}: its engine {connection.display_name} is not "
            f"supported. Supported engines: {supported}. Name a job database with CHOKAQ['DATABASE']."
        )
    return _engine(connection.vendor)(connection, private=private)  # type: ignore[call-arg]


@functools.cache
def _engine(vendor: str) -> type[Storage]:
    _, module, name = ENGINES[vendor]
    engine: type[Storage] = getattr(importlib.import_module(module, __package__), name)
    return engine
