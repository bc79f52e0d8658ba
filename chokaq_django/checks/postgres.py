"""PostgreSQL. Its floor is Django's own, and Django refuses an older server by itself."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from django.core import checks
from django.core.checks import CheckMessage
from django.core.exceptions import ImproperlyConfigured
from django.db.backends.base.base import BaseDatabaseWrapper

from ..conf import Options
from .findings import READ_COMMITTED, may_lose, wrong_isolation

_ISOLATION = re.compile(r"default_transaction_isolation\s*=\s*'?([a-z]+(?:(?:\\?\s|_)[a-z]+)?)", re.IGNORECASE)
_SETTINGS = ("default_transaction_isolation", "fsync", "server_encoding", "synchronous_commit")


def settings_findings(alias: str, config: Mapping[str, Any]) -> Iterator[CheckMessage]:
    """The isolation level, as OPTIONS give it in either of two ways."""
    options = config.get("OPTIONS") or {}
    level = options.get("isolation_level")
    name = _isolation_name(level) if level is not None else ""
    if not name:
        match = _ISOLATION.search(str(options.get("options", "")))
        name = re.sub(r"[\\\s_]+", " ", match[1]).upper() if match else READ_COMMITTED
    if name != READ_COMMITTED:
        yield wrong_isolation(
            alias,
            name,
            "Remove the isolation level from OPTIONS, or give jobs a database alias of their own without it.",
        )


def server_findings(connection: BaseDatabaseWrapper, options: Options) -> Iterator[CheckMessage]:
    """What holds for Django's connections, whoever set it: the server, the database or the role."""
    alias = connection.alias
    with connection.cursor() as cursor:
        cursor.execute("SELECT name, setting FROM pg_settings WHERE name = ANY(%s)", [list(_SETTINGS)])
        value: dict[str, str] = dict(cursor.fetchall())
    level = value["default_transaction_isolation"].upper()
    # A level in OPTIONS is not in this setting: the driver says it at each BEGIN.
    if level != READ_COMMITTED and "isolation_level" not in connection.settings_dict["OPTIONS"]:
        yield wrong_isolation(
            alias,
            level,
            "Reset default_transaction_isolation of the server, the database or the role, or name "
            "IsolationLevel.READ_COMMITTED in OPTIONS['isolation_level'].",
        )
    if value["server_encoding"] != "UTF8":
        yield checks.Error(
            f"the job database {alias!r} is encoded as {value['server_encoding']}: text outside of it cannot be "
            "stored.",
            hint="Give jobs a database made with ENCODING 'UTF8'.",
            id="chokaq.E010",
        )
    if value["fsync"] != "on":
        yield may_lose(alias, "fsync = off", "Set it to on: the whole database may be damaged.")
    elif value["synchronous_commit"] == "off":
        yield may_lose(
            alias,
            "synchronous_commit = off",
            "Set it to on, or silence this warning if the fraction of a second is worth it.",
        )


def _isolation_name(level: Any) -> str:
    """The name of a level as the driver numbers it; psycopg 2 and 3 number them differently."""
    try:
        from django.db.backends.postgresql.psycopg_any import IsolationLevel

        return IsolationLevel(level).name.replace("_", " ")
    except (ImportError, ImproperlyConfigured):
        return ""  # without a driver nothing connects, and Django says so
    except ValueError:
        return f"the unknown level {level!r}"
