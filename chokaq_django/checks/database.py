"""Checks of the job database: what its settings say, and, where Django may ask the database, what the server says."""

from __future__ import annotations

import importlib
from collections.abc import Collection
from typing import Any

from django.conf import settings
from django.core import checks
from django.core.checks import CheckMessage
from django.core.exceptions import ImproperlyConfigured
from django.db import Error as DatabaseError
from django.db import NotSupportedError, connections

from ..conf import Options
from ..job.definition import nearest
from ..storage.opening import ENGINES
from .project import valid_options

_MODULES = {"sqlite": ".sqlite", "postgresql": ".postgres", "mysql": ".mysql", "microsoft": ".mssql"}
_BACKENDS = (
    "django.db.backends.sqlite3, django.db.backends.postgresql, django.db.backends.mysql (MariaDB too) and mssql "
    "(SQL Server, from mssql-django)"
)


def check_database(app_configs: object, **kwargs: Any) -> list[CheckMessage]:
    """The alias, engine and connection settings of the job database."""
    options = valid_options()
    if options is None:
        return []
    alias = options.database
    if alias not in settings.DATABASES:
        return [_unknown_alias("DATABASE", alias, "chokaq.E002")]
    config = settings.DATABASES[alias]
    vendor = vendor_of(alias)
    if vendor in _MODULES:
        return list(_engine(vendor).settings_findings(alias, config))
    return [
        checks.Error(
            f"CHOKAQ['DATABASE'] is {alias!r}, whose ENGINE {config.get('ENGINE') or '(none)'} cannot hold jobs.",
            hint=f"Supported are {_BACKENDS}. Point CHOKAQ['DATABASE'] at such a database.",
            id="chokaq.E003",
        )
    ]


def check_server(app_configs: object, databases: Collection[str] | None = None, **kwargs: Any) -> list[CheckMessage]:
    """What the job database's server says of itself, when it is among the databases that Django lets checks ask."""
    options = valid_options()
    if options is None or options.database not in (databases or ()):
        return []
    found = server_findings(options.database, options)
    if any(message.id == "chokaq.E004" for message in check_database(app_configs)):
        return [message for message in found if message.id != "chokaq.E004"]  # the settings' fault is said already
    return found


def server_findings(alias: str, options: Options) -> list[CheckMessage]:
    """Asks the database ``alias``: its version, isolation, character sets, durability, and the state of our tables.

    It reads a handful of rows of the server's catalogue and writes nothing. What cannot be asked is a finding itself.
    """
    vendor = vendor_of(alias)
    if vendor not in _MODULES:
        return []
    connection = connections[alias]
    found: list[CheckMessage] = []
    try:
        connection.ensure_connection()
        found += _engine(vendor).server_findings(connection, options)
    except NotSupportedError as error:  # Django refuses servers that are too old for it
        found.append(checks.Error(f"the job database {alias!r}: {error}", hint="Upgrade it.", id="chokaq.E009"))
    except (DatabaseError, ImproperlyConfigured) as error:
        reason = (str(error) or repr(error)).strip().splitlines()[0]
        found.append(
            checks.Warning(
                f"the job database {alias!r} ({ENGINES[vendor][0]}) cannot be asked about itself: {reason}",
                hint="Nothing is known of its version, isolation and character sets.",
                id="chokaq.W009",
            )
        )
    return found


def check_listen_database(app_configs: object, **kwargs: Any) -> list[CheckMessage]:
    """LISTEN_DATABASE must be an alias, and both it and the job database PostgreSQL: no other engine can LISTEN."""
    options = valid_options()
    if options is None or options.worker.listen_database is None:
        return []
    alias = options.worker.listen_database
    if alias not in settings.DATABASES:
        return [_unknown_alias("WORKER']['LISTEN_DATABASE", alias, "chokaq.E008")]
    for name in (alias, options.database):
        if name in settings.DATABASES and vendor_of(name) != "postgresql":
            return [
                checks.Error(
                    f"CHOKAQ['WORKER']['LISTEN_DATABASE'] needs PostgreSQL, and the database {name!r} is not.",
                    hint="Remove LISTEN_DATABASE: workers on other engines are woken without it.",
                    id="chokaq.E008",
                )
            ]
    return []


def check_read_database(app_configs: object, **kwargs: Any) -> list[CheckMessage]:
    """READ_DATABASE must be an alias, and a replica of the job database: on the same engine at least."""
    options = valid_options()
    if options is None or options.deck.read_database is None:
        return []
    alias = options.deck.read_database
    if alias not in settings.DATABASES:
        return [_unknown_alias("DECK']['READ_DATABASE", alias, "chokaq.E017")]
    if options.database in settings.DATABASES and vendor_of(alias) != vendor_of(options.database):
        return [
            checks.Error(
                f"CHOKAQ['DECK']['READ_DATABASE'] is {alias!r}, on another engine than the job database: "
                "it cannot be its replica.",
                hint="Name a replica of the job database, or remove READ_DATABASE.",
                id="chokaq.E017",
            )
        ]
    return []


def _engine(vendor: str) -> Any:
    """The module of one engine; the others' are not loaded."""
    return importlib.import_module(_MODULES[vendor], __package__)


def vendor_of(alias: str) -> str:
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
