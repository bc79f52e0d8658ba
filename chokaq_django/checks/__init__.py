"""System checks: every wrong setup is named, with what to do about it.

``manage.py check`` looks at the settings; ``manage.py check --database default`` also asks the server, as ``migrate``
does before it starts. Ids, in ``docs/reference/checks.md`` with what each means:

``chokaq.E001`` options · ``E002`` unknown database alias · ``E003`` unsupported engine · ``E004`` isolation level ·
``E005`` Channels' runworker wins · ``E006`` middleware · ``E007`` job type that cannot be stored · ``E008``
LISTEN_DATABASE · ``E009`` database too old · ``E010`` character set · ``E011`` not InnoDB · ``E012`` binary log by
statement · ``E013`` no strict mode · ``E014`` packets too small · ``E015`` compatibility level · ``E016`` collation of
a key · ``E017`` READ_DATABASE

``W001`` SQLite in memory · ``W002`` SQLite without a place · ``W003`` SQLite without WAL · ``W004`` jobs may be lost
with the server · ``W005`` SQLite gives up waiting soon · ``W006`` SQLite's deferred transactions · ``W007`` readers
block writers · ``W008`` MARS · ``W009`` the server cannot be asked · ``W010`` several writing nodes · ``W011`` the
database's character set · ``W012`` a setting called almost like CHOKAQ

``I001`` no socket for the Deck
"""

from __future__ import annotations

from django.core import checks

from .database import check_database, check_listen_database, check_read_database, check_server, server_findings
from .project import check_commands, check_middleware, check_name, check_options, check_socket, check_types

__all__ = [
    "check_commands",
    "check_database",
    "check_listen_database",
    "check_middleware",
    "check_name",
    "check_options",
    "check_read_database",
    "check_server",
    "check_socket",
    "check_types",
    "register_checks",
    "server_findings",
]


def register_checks() -> None:
    """Register every check of this package with Django."""
    for check in (
        check_options, check_name, check_database, check_listen_database, check_read_database, check_commands,
        check_middleware, check_types, check_socket,
    ):  # fmt: skip
        checks.register(check, "chokaq")
    checks.register(check_server, "chokaq", checks.Tags.database)
