"""System checks: what can be known about a wrong setup without asking the database.

``chokaq.E001`` options · ``E002`` unknown database alias · ``E003`` unsupported engine · ``E004`` isolation level ·
``E005`` Channels' runworker wins · ``E006`` middleware · ``E007`` job type that cannot be stored · ``E008``
LISTEN_DATABASE · ``E009`` SQLite too old · ``W001`` SQLite in memory · ``W002`` SQLite without a place.
"""

from __future__ import annotations

import os
import re
import sqlite3
from collections.abc import Mapping
from typing import Any

from django.conf import settings
from django.core import checks
from django.core.checks import CheckMessage
from django.core.exceptions import ImproperlyConfigured
from django.core.management import get_commands
from django.db import connections

from .conf import Options, parse_options
from .job.annotations import UnsupportedTypeError
from .job.definition import nearest
from .job.middleware import MiddlewareError, load_middleware
from .job.registry import registry

__all__ = ["register_checks"]

APP = "chokaq_django"
SQLITE_FLOOR = (3, 35)  # UPDATE ... RETURNING
_SUPPORTED = "django.db.backends.sqlite3 and django.db.backends.postgresql"
_NOT_YET = {"mysql": "MySQL and MariaDB", "microsoft": "SQL Server"}


def register_checks() -> None:
    """Register every check of this module with Django."""
    for check in (check_options, check_database, check_listen_database, check_commands, check_middleware, check_types):
        checks.register(check, "chokaq")


def _options() -> Options | None:
    """The options if they are right; when they are not, ``check_options`` says so and the other checks keep quiet."""
    return parse_options(getattr(settings, "CHOKAQ", None))[0]


def check_options(app_configs: object, **kwargs: Any) -> list[CheckMessage]:
    """Everything wrong with the CHOKAQ setting, one message each."""
    problems = parse_options(getattr(settings, "CHOKAQ", None))[1]
    return [
        checks.Error(f"{problem.where} {problem.message}.", hint=problem.hint or None, id="chokaq.E001")
        for problem in problems
    ]


def check_database(app_configs: object, **kwargs: Any) -> list[CheckMessage]:
    """The alias, engine and connection settings of the job database."""
    options = _options()
    if options is None:
        return []
    alias = options.database
    if alias not in settings.DATABASES:
        return [_unknown_alias("DATABASE", alias, "chokaq.E002")]
    config = settings.DATABASES[alias]
    vendor = _vendor(alias)
    if vendor == "sqlite":
        return _check_sqlite(alias, config)
    if vendor == "postgresql":
        return _check_isolation(alias, config)
    engine = config.get("ENGINE") or "(none)"
    soon = f"{_NOT_YET[vendor]} is not supported yet. " if vendor in _NOT_YET else ""
    return [
        checks.Error(
            f"CHOKAQ['DATABASE'] is {alias!r}, whose ENGINE {engine} cannot hold jobs. {soon}".rstrip(),
            hint=f"Supported are {_SUPPORTED}. Point CHOKAQ['DATABASE'] at such a database.",
            id="chokaq.E003",
        )
    ]


def check_listen_database(app_configs: object, **kwargs: Any) -> list[CheckMessage]:
    """LISTEN_DATABASE must be an alias, and both it and the job database PostgreSQL: no other engine can LISTEN."""
    options = _options()
    if options is None or options.worker.listen_database is None:
        return []
    alias = options.worker.listen_database
    if alias not in settings.DATABASES:
        return [_unknown_alias("WORKER']['LISTEN_DATABASE", alias, "chokaq.E008")]
    for name in (alias, options.database):
        if name in settings.DATABASES and _vendor(name) != "postgresql":
            return [
                checks.Error(
                    f"CHOKAQ['WORKER']['LISTEN_DATABASE'] needs PostgreSQL, and the database {name!r} is not.",
                    hint="Remove LISTEN_DATABASE: workers on other engines are woken without it.",
                    id="chokaq.E008",
                )
            ]
    return []


def check_commands(app_configs: object, **kwargs: Any) -> list[CheckMessage]:
    """Channels has a runworker of its own; the first app in INSTALLED_APPS wins."""
    owner = get_commands().get("runworker", APP)
    if owner == APP:
        return []
    return [
        checks.Error(
            f"`manage.py runworker` is the command of {owner!r}, not of {APP!r}.",
            hint=f"Put {APP!r} above {owner!r} in INSTALLED_APPS; ours forwards bare channel names to Channels. "
            "Until then `manage.py chokaq_worker` starts a job worker.",
            id="chokaq.E005",
        )
    ]


def check_middleware(app_configs: object, **kwargs: Any) -> list[CheckMessage]:
    """Every middleware path must lead to a callable."""
    found: list[CheckMessage] = []
    options = _options()
    for path in options.middleware if options else ():
        try:
            load_middleware([path])
        except MiddlewareError as error:
            found.append(checks.Error(f"CHOKAQ['MIDDLEWARE']: {error}", id="chokaq.E006"))
    return found


def check_types(app_configs: object, **kwargs: Any) -> list[CheckMessage]:
    """Every registered type must have fields that can be stored and come back."""
    found: list[CheckMessage] = []
    for job_type in registry.types():
        if job_type.codec is None:
            continue
        try:
            job_type.codec.compile()
        except UnsupportedTypeError as error:
            found.append(checks.Error(f"job type {job_type.key!r}: {error}", obj=job_type.cls, id="chokaq.E007"))
    return found


def _vendor(alias: str) -> str:
    """``sqlite``, ``postgresql``, ``mysql``, ``microsoft``, ...; by the engine's name when its driver is missing."""
    try:
        return connections[alias].vendor
    except (ImproperlyConfigured, ImportError):
        engine = str(settings.DATABASES[alias].get("ENGINE", "")).rpartition(".")[2]
        return {"sqlite3": "sqlite", "postgis": "postgresql", "mssql": "microsoft"}.get(engine, engine)


def _unknown_alias(option: str, alias: str, message_id: str) -> CheckMessage:
    near = nearest(alias, settings.DATABASES).removeprefix("; ")
    return checks.Error(
        f"CHOKAQ['{option}'] is {alias!r}, which is not in DATABASES.",
        hint=near or f"DATABASES has {', '.join(map(repr, settings.DATABASES))}.",
        id=message_id,
    )


def _check_sqlite(alias: str, config: Mapping[str, Any]) -> list[CheckMessage]:
    if sqlite3.sqlite_version_info < SQLITE_FLOOR:
        return [
            checks.Error(
                f"SQLite {sqlite3.sqlite_version} is too old for the job database {alias!r}.",
                hint=f"{'.'.join(map(str, SQLITE_FLOOR))} or newer is needed; it comes with Python's build.",
                id="chokaq.E009",
            )
        ]
    name = str(config.get("NAME") or "")
    if name == ":memory:" or "mode=memory" in name or name.startswith("file::memory:"):
        return [
            checks.Warning(
                f"the job database {alias!r} is SQLite in memory: a worker process cannot see its jobs.",
                hint="Give it a file as NAME.",
                id="chokaq.W001",
            )
        ]
    folder = os.path.dirname(os.path.abspath(name.removeprefix("file:").partition("?")[0]))
    if not name or not os.path.isdir(folder):
        where = f"in {folder}, which does not exist" if name else "without a NAME"
        return [
            checks.Warning(
                f"the job database {alias!r} is SQLite {where}.",
                hint="Give it a file in an existing directory as NAME.",
                id="chokaq.W002",
            )
        ]
    return []


_ISOLATION = re.compile(r"default_transaction_isolation\s*=\s*'?([a-z]+(?:(?:\\?\s|_)[a-z]+)?)", re.IGNORECASE)


def _check_isolation(alias: str, config: Mapping[str, Any]) -> list[CheckMessage]:
    """Locks are taken first and rows counted after: a snapshot from before the lock would count wrong."""
    options = config.get("OPTIONS") or {}
    level = options.get("isolation_level")
    name = _isolation_name(level) if level is not None else ""
    if not name:
        match = _ISOLATION.search(str(options.get("options", "")))
        name = re.sub(r"[\\\s_]+", " ", match[1]).upper() if match else "READ COMMITTED"
    if name == "READ COMMITTED":
        return []
    return [
        checks.Error(
            f"the job database {alias!r} runs transactions as {name}; jobs need READ COMMITTED.",
            hint="Remove the isolation level from OPTIONS, or give jobs a database alias of their own without it.",
            id="chokaq.E004",
        )
    ]


def _isolation_name(level: Any) -> str:
    """The name of a level as the driver numbers it; psycopg 2 and 3 number them differently."""
    try:
        from django.db.backends.postgresql.psycopg_any import IsolationLevel

        return IsolationLevel(level).name.replace("_", " ")
    except (ImportError, ImproperlyConfigured):
        return ""  # without a driver nothing connects, and Django says so
    except ValueError:
        return f"the unknown level {level!r}"
