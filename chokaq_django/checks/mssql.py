"""SQL Server and Azure SQL."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from typing import Any, cast

from django.core import checks
from django.core.checks import CheckMessage
from django.db import Error as DatabaseError
from django.db.backends.base.base import BaseDatabaseWrapper

from ..conf import Options
from ..storage.mssql.session import FLOOR
from .findings import READ_COMMITTED, may_lose, too_old, wrong_isolation

COMPATIBILITY_FLOOR = 130  # OPENJSON
_MSSQL_PYTHON = ("mssql_python", "mssql-python", "python")  # as mssql-django spells it
_FORCED = 2

DATABASE = """
SELECT name, compatibility_level, is_read_committed_snapshot_on, delayed_durability
FROM sys.databases WHERE database_id = DB_ID()
""".strip()
JSON = "SELECT COUNT(*) FROM OPENJSON(N'[1]')"


def settings_findings(alias: str, config: Mapping[str, Any]) -> Iterator[CheckMessage]:
    """The isolation level, and a trap of pyodbc with Microsoft's driver on Linux."""
    options = config.get("OPTIONS") or {}
    level = " ".join(str(options.get("isolation_level") or READ_COMMITTED).upper().split())
    if level != READ_COMMITTED:
        yield wrong_isolation(alias, level, "Remove isolation_level from its OPTIONS.")
    driver = str(options.get("python_driver") or "").strip().lower()
    extra = str(options.get("extra_params") or "")
    if (
        driver not in _MSSQL_PYTHON
        and os.name != "nt"
        and not re.search(r"\bmars_connection\s*=", extra, re.IGNORECASE)
    ):
        yield checks.Warning(
            f"the job database {alias!r} uses pyodbc without saying MARS_Connection: the backend believes that one "
            "connection can answer two queries at once, and .iterator() with a query inside it fails: "
            '"Connection is busy".',
            hint='Add MARS_Connection=no to OPTIONS["extra_params"], after a ";" if there is something in it, or say '
            '"python_driver": "mssql_python".',
            id="chokaq.W008",
        )


def server_findings(connection: BaseDatabaseWrapper, options: Options) -> Iterator[CheckMessage]:
    """Version, compatibility level, row versioning and durability of the database."""
    alias, backend = connection.alias, cast("Any", connection)
    if not backend.to_azure_sql_db and backend.sql_server_version < FLOOR:
        yield too_old(alias, f"SQL Server {backend.sql_server_version}", str(FLOOR))
    with connection.cursor() as cursor:
        cursor.execute(DATABASE)
        row = cursor.fetchone()
    if row is None:  # only a login that may not even see its own database
        return
    name, compatibility, versioned, durability = row
    quoted = "[" + str(name).replace("]", "]]") + "]"
    if compatibility < COMPATIBILITY_FLOOR and not _knows_json(connection):
        yield checks.Error(
            f"the job database {alias!r} has compatibility level {compatibility}: it does not know OPENJSON.",
            hint=f"ALTER DATABASE {quoted} SET COMPATIBILITY_LEVEL = 140; (or the level of your server)",
            id="chokaq.E015",
        )
    if not versioned:
        yield checks.Warning(
            f"READ_COMMITTED_SNAPSHOT is off in the job database {alias!r}: lists and counts wait for the workers' "
            "locks, and the workers for theirs.",
            hint=f"While nobody is connected: ALTER DATABASE {quoted} SET READ_COMMITTED_SNAPSHOT ON; (WITH ROLLBACK "
            "IMMEDIATE ends what still runs)",
            id="chokaq.W007",
        )
    if durability == _FORCED:
        yield may_lose(
            alias, "DELAYED_DURABILITY = FORCED", f"ALTER DATABASE {quoted} SET DELAYED_DURABILITY = ALLOWED;"
        )


def _knows_json(connection: BaseDatabaseWrapper) -> bool:
    """Servers that only speak SQL Server's protocol count their levels differently."""
    try:
        with connection.cursor() as cursor:
            cursor.execute(JSON)
            return cursor.fetchone() is not None
    except DatabaseError:
        return False
