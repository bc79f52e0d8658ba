"""One ``DATABASE_URL`` -> one entry of ``DATABASES``, with what each engine needs to carry jobs well.

The URL's query string becomes ``OPTIONS`` and wins over what is set here. Its values are percent-encoded: a space is
``%20``, ``;`` is ``%3B``, ``&`` is ``%26``; so is a password with special characters.
"""

from __future__ import annotations

from typing import Any

import environ
from django.core.exceptions import ImproperlyConfigured

# WAL lets readers and the writer work side by side. NORMAL: a commit survives the death of every process; only a power
# cut can lose the last ones (use FULL where that matters).
SQLITE_PRAGMAS = "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL;"

# Seconds. A server that vanished without a word must not hold a request for ever; a wait for a lock may be long.
CONNECT_TIMEOUT = 10
REPLY_TIMEOUT = 60

ODBC_DRIVERS = ("ODBC Driver 18 for SQL Server", "ODBC Driver 17 for SQL Server")


def database_from_url(url: str) -> dict[str, Any]:
    """The settings dictionary of ``url``. What the URL's query string says wins over the defaults set here."""
    scheme = url.partition("://")[0]
    if scheme not in environ.Env.DB_SCHEMES:
        schemes = "sqlite, postgres, mysql or mssql"
        raise ImproperlyConfigured(f"DATABASE_URL must begin with one of {schemes} and '://', not {scheme[:20]!r}.")
    database: dict[str, Any] = environ.Env.db_url_config(url)
    options: dict[str, Any] = database.setdefault("OPTIONS", {})
    engine = database["ENGINE"]
    if engine == "django.db.backends.sqlite3":
        options.setdefault("init_command", SQLITE_PRAGMAS)
        # A transaction that begins as a reader and then writes fails at once with "database is locked", whatever the
        # timeout says; one that begins IMMEDIATE waits its turn.
        options.setdefault("transaction_mode", "IMMEDIATE")
        options.setdefault("timeout", 20)
    else:
        database.setdefault("CONN_HEALTH_CHECKS", True)
        database.setdefault("CONN_MAX_AGE", 60)
    if engine == "django.db.backends.mysql":
        _mysql(options)
    elif engine == "mssql":
        _sql_server(options)
    return database


def _mysql(options: dict[str, Any]) -> None:
    """MariaDB and MySQL. ``charset`` and ``isolation_level`` are Django's own defaults, said here because jobs need
    them: another character set loses characters, another level counts rows from before a lock was taken."""
    options.setdefault("charset", "utf8mb4")
    options.setdefault("isolation_level", "read committed")
    options.setdefault("connect_timeout", CONNECT_TIMEOUT)
    # Above the server's own limit for a wait on a row lock (50 s), so that the server is the one that speaks.
    options.setdefault("read_timeout", REPLY_TIMEOUT)
    options.setdefault("write_timeout", REPLY_TIMEOUT)
    try:
        import MySQLdb  # noqa: F401 - mysqlclient, in C: the faster one
    except ImportError:
        try:
            import pymysql
        except ImportError:
            return  # Django says what is missing
        pymysql.install_as_MySQLdb()


def _sql_server(options: dict[str, Any]) -> None:
    """SQL Server and Azure SQL. Without ``driver``, ``dsn`` or ``python_driver`` in the URL: pyodbc where Microsoft's
    ODBC driver is installed, else mssql-python, which brings that driver with it."""
    options.setdefault("connection_timeout", CONNECT_TIMEOUT)
    options.setdefault("query_timeout", REPLY_TIMEOUT)  # a wait for a lock is endless by default
    if not options.keys() & {"driver", "dsn", "python_driver"}:
        driver = _installed_odbc_driver()
        options.update({"driver": driver} if driver else {"python_driver": "mssql_python"})
    if "python_driver" not in options and "mars_connection" not in str(options.get("extra_params", "")).lower():
        # Otherwise the backend believes that one connection can answer two queries at once, and ".iterator()" with a
        # query inside it fails: "Connection is busy".
        given = options.get("extra_params")
        options["extra_params"] = f"{given};MARS_Connection=no" if given else "MARS_Connection=no"


def _installed_odbc_driver() -> str | None:
    try:
        import pyodbc

        installed = pyodbc.drivers()
    except ImportError:  # the module needs unixODBC from the system
        return None
    return next((driver for driver in ODBC_DRIVERS if driver in installed), None)
