"""One ``DATABASE_URL`` -> one entry of ``DATABASES``, with what each engine needs to carry jobs well."""

from __future__ import annotations

from typing import Any

import environ

# WAL lets readers and the writer work side by side. NORMAL: a commit survives the death of every process; only a power
# cut can lose the last ones (use FULL where that matters).
SQLITE_PRAGMAS = "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL;"


def database_from_url(url: str) -> dict[str, Any]:
    """The settings dictionary of ``url``. What the URL's query string says wins over the defaults set here."""
    database: dict[str, Any] = environ.Env.db_url_config(url)
    options = database.setdefault("OPTIONS", {})
    if database["ENGINE"] == "django.db.backends.sqlite3":
        options.setdefault("init_command", SQLITE_PRAGMAS)
        # A transaction that begins as a reader and then writes fails at once with "database is locked", whatever the
        # timeout says; one that begins IMMEDIATE waits its turn.
        options.setdefault("transaction_mode", "IMMEDIATE")
        options.setdefault("timeout", 20)
    else:
        database.setdefault("CONN_HEALTH_CHECKS", True)
        database.setdefault("CONN_MAX_AGE", 60)
    return database
