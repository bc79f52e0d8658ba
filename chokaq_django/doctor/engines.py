"""What only the engine in use can tell of itself, live. One function for each; what it may not ask it leaves out."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

from django.apps import apps
from django.db import Error as DatabaseError
from django.db import connections, transaction
from django.db.backends.base.base import BaseDatabaseWrapper

from ..conf import Options
from ..sentence import Sentence
from ..storage.opening import ENGINES
from .finding import Diagnosis, Severity

__all__ = ["engine_findings", "engine_name"]

OLD = 300
"""Seconds for which an open transaction is old."""
DEAD_ROWS = 20_000
"""Dead rows of a table from which their share matters."""
CROWDED = 0.8
"""Share of the server's connections from which it is said."""
WAL_LIMIT = 256 * 2**20
DISK_LEAST = 500 * 2**20
FREE_LEAST = 100 * 2**20


def engine_name(alias: str) -> str:
    """Engine and version, as far as they can be had."""
    connection = connections[alias]
    name = ENGINES.get(connection.vendor, (connection.display_name, "", ""))[0]
    if getattr(connection, "connection", None) is None:
        return name
    if connection.vendor == "mysql":
        name = "MariaDB" if cast("Any", connection).mysql_is_mariadb else "MySQL"
    try:
        if connection.vendor == "microsoft":  # mssql-django tells its version by words of its own
            backend = cast("Any", connection)
            return "Azure SQL" if backend.to_azure_sql_db else f"{name} {backend.sql_server_version}"
        return f"{name} {'.'.join(map(str, connection.get_database_version()))}"
    except (DatabaseError, NotImplementedError, AttributeError):
        return name


def engine_findings(alias: str, options: Options) -> Iterator[Diagnosis]:
    """The engine's own findings."""
    connection = connections[alias]
    looks: dict[str, tuple[Callable[[BaseDatabaseWrapper, Options], Iterator[Diagnosis]], ...]] = {
        "sqlite": (_sqlite,),
        "postgresql": (_postgres_vacuum, _postgres_snapshots, _postgres_connections, _postgres_indexes),
        "mysql": (_mysql_transactions, _mysql_connections),
        "microsoft": (_mssql_transactions,),
    }
    for look in looks.get(connection.vendor, ()):
        try:
            with transaction.atomic(using=alias):
                yield from list(look(connection, options))
        except DatabaseError as error:
            if not connection.is_usable():
                raise
            reason = (str(error) or repr(error)).strip().splitlines()[0]
            what = look.__name__.lstrip("_").replace("_", " ")
            yield Diagnosis(
                "not_permitted",
                Severity.INFO,
                Sentence(
                    "This user may not look at %(what)s: %(reason)s",
                    what=what,
                    reason=reason,
                ),
            )


def _ask(connection: BaseDatabaseWrapper, sql: str, params: Any = ()) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(sql, list(params))
        return list(cursor.fetchall())


def _tables() -> list[str]:
    return [model._meta.db_table for model in apps.get_app_config("chokaq").get_models(include_auto_created=True)]


def _open_long(count: int, seconds: float, who: str, remedy: str) -> Diagnosis:
    others = f" ({count - 1} more are older than {OLD / 60:.0f} min)" if count > 1 else ""
    return Diagnosis(
        "old_transaction", Severity.WARNING,
        Sentence(
            "A transaction has been open for %(value)s min%(others)s: %(who)s. While it lasts, deleted "
            "rows of the job tables stay and claims slow down.",
            value=f"{seconds / 60:,.0f}", others=others, who=who,
        ), remedy,
    )  # fmt: skip


def _crowded(used: int, most: int, name: str) -> Iterator[Diagnosis]:
    if used >= CROWDED * most:
        yield Diagnosis(
            "connections_crowded", Severity.WARNING, Sentence(
                "%(used)s of the server's %(most)s connections are in use.",
                used=used, most=most,
            ),
            Sentence(
                "Raise %(name)s, lower the concurrency of workers, or share connections through a pooler.",
                name=name,
            ),
        )  # fmt: skip


# -- SQLite ------------------------------------------------------------------------------------------------------------


def _sqlite(connection: BaseDatabaseWrapper, options: Options) -> Iterator[Diagnosis]:
    name = str(connection.settings_dict["NAME"])
    file = Path(name.removeprefix("file:").partition("?")[0])
    if not file.is_file():
        return
    wal = file.with_name(f"{file.name}-wal")
    size = wal.stat().st_size if wal.is_file() else 0
    if size > WAL_LIMIT:
        yield Diagnosis(
            "wal_large", Severity.WARNING, Sentence(
                "The write-ahead log has %(value)s MB: a reader that never ends keeps it from being "
                "folded into the file, and every read gets slower.",
                value=f"{size / 2 ** 20:,.0f}",
            ),
            Sentence("Find and end the long reader, then run: PRAGMA wal_checkpoint(TRUNCATE);"),
        )  # fmt: skip
    free = shutil.disk_usage(file.parent).free
    if free < DISK_LEAST:
        yield Diagnosis(
            "disk_full", Severity.ERROR, Sentence(
                "%(value)s MB are left on the disk of the job database: when it is full, every write "
                "fails.",
                value=f"{free / 2 ** 20:,.0f}",
            ), Sentence("Make room; `RETENTION` says how long jobs that are over are kept."),
        )  # fmt: skip
    pages, unused, page = (
        _ask(connection, f"PRAGMA {what}")[0][0] for what in ("page_count", "freelist_count", "page_size")
    )
    if unused * page > FREE_LEAST and unused > pages / 2:
        yield Diagnosis(
            "file_half_empty", Severity.INFO, Sentence(
                "%(value)s of %(value2)s MB of the file are unused. They are used again before it grows.",
                value=f"{unused * page / 2 ** 20:,.0f}", value2=f"{pages * page / 2 ** 20:,.0f}",
            ), Sentence("VACUUM gives them back; stop the workers for it."),
        )  # fmt: skip


# -- PostgreSQL --------------------------------------------------------------------------------------------------------


def _postgres_vacuum(connection: BaseDatabaseWrapper, options: Options) -> Iterator[Diagnosis]:
    value = dict(_ask(connection, "SELECT name, setting FROM pg_settings WHERE name IN ('autovacuum', 'track_counts')"))
    if value.get("autovacuum") != "on" or value.get("track_counts") != "on":
        yield Diagnosis(
            "autovacuum_off", Severity.ERROR, Sentence(
                "Autovacuum is off: the job tables grow without end and claims get ever slower.",
            ),
            "ALTER SYSTEM SET autovacuum = on; ALTER SYSTEM SET track_counts = on; SELECT pg_reload_conf();",
        )  # fmt: skip
    rows = _ask(
        connection,
        "SELECT c.relname, coalesce(s.n_live_tup, 0), coalesce(s.n_dead_tup, 0), "
        "'autovacuum_enabled=false' = ANY(coalesce(c.reloptions, '{}')) OR 'autovacuum_enabled=off' = ANY(coalesce("
        "c.reloptions, '{}')) FROM pg_class c LEFT JOIN pg_stat_user_tables s ON s.relid = c.oid "
        "WHERE c.relname = ANY(%s) AND c.relkind = 'r' AND pg_table_is_visible(c.oid) ORDER BY c.relname",
        [_tables()],
    )
    for table, live, dead, off in rows:
        if off:
            yield Diagnosis(
                "autovacuum_off_for_table", Severity.ERROR, Sentence("Autovacuum is off for %(table)s.", table=table),
                f"ALTER TABLE {table} RESET (autovacuum_enabled);",
            )  # fmt: skip
        if dead > DEAD_ROWS and dead > 2 * live:
            yield Diagnosis(
                "table_bloated", Severity.WARNING, Sentence(
                    "%(table)s has %(dead)s dead rows beside %(live)s live ones.",
                    table=table, dead=dead, live=live,
                ),
                Sentence(
                    "VACUUM (ANALYZE) %(table)s; if that does not help, an old transaction, replica or "
                    "replication slot keeps them.",
                    table=table,
                ),
            )  # fmt: skip


def _postgres_snapshots(connection: BaseDatabaseWrapper, options: Options) -> Iterator[Diagnosis]:
    rows = _ask(
        connection,
        "SELECT pid, coalesce(usename, ''), coalesce(application_name, ''), coalesce(state, ''), extract(epoch FROM "
        "clock_timestamp() - xact_start)::float8 FROM pg_stat_activity WHERE xact_start < clock_timestamp() - "
        "make_interval(secs => %s) AND pid <> pg_backend_pid() AND backend_type = 'client backend' ORDER BY "
        "xact_start",
        [OLD],
    )
    if rows:
        pid, user, application, state, seconds = rows[0]
        who = f"process {pid}, user {user}{f', {application}' if application else ''}, {state or 'state not shown'}"
        yield _open_long(len(rows), seconds, who, f"End what holds it, or: SELECT pg_terminate_backend({pid});")
    slots = _ask(connection, "SELECT slot_name FROM pg_replication_slots WHERE NOT active AND (xmin IS NOT NULL OR "
                             "catalog_xmin IS NOT NULL)")  # fmt: skip
    if slots:
        names = ", ".join(str(name) for (name,) in slots)
        yield Diagnosis(
            "idle_replication_slot", Severity.WARNING, Sentence(
                "Replication slots that nobody reads keep old rows: %(names)s.",
                names=names,
            ),
            Sentence("Connect the replica again, or SELECT pg_drop_replication_slot('...');"),
        )  # fmt: skip


def _postgres_connections(connection: BaseDatabaseWrapper, options: Options) -> Iterator[Diagnosis]:
    ((used, most),) = _ask(connection, "SELECT count(*), current_setting('max_connections')::int FROM pg_stat_activity "
                                       "WHERE backend_type = 'client backend'")  # fmt: skip
    yield from _crowded(used, most, "max_connections")


def _postgres_indexes(connection: BaseDatabaseWrapper, options: Options) -> Iterator[Diagnosis]:
    rows = _ask(
        connection,
        "SELECT i.indexrelid::regclass::text FROM pg_index i JOIN pg_class c ON c.oid = i.indrelid "
        "WHERE c.relname = ANY(%s) AND NOT i.indisvalid",
        [_tables()],
    )
    for (name,) in rows:
        yield Diagnosis(
            "index_invalid",
            Severity.ERROR,
            Sentence(
                "The index %(name)s is invalid: nothing uses it.",
                name=name,
            ),
            f"REINDEX INDEX {name};",
        )


# -- MariaDB and MySQL -------------------------------------------------------------------------------------------------


def _mysql_transactions(connection: BaseDatabaseWrapper, options: Options) -> Iterator[Diagnosis]:
    rows = _ask(
        connection,
        "SELECT trx_mysql_thread_id, TIMESTAMPDIFF(SECOND, trx_started, NOW()) FROM information_schema.innodb_trx "
        "WHERE trx_started < NOW() - INTERVAL %s SECOND AND trx_mysql_thread_id <> CONNECTION_ID() ORDER BY "
        "trx_started",
        [OLD],
    )
    if rows:
        thread, seconds = rows[0]
        yield _open_long(len(rows), float(seconds), f"thread {thread}", f"End what holds it, or: KILL {thread};")


def _mysql_connections(connection: BaseDatabaseWrapper, options: Options) -> Iterator[Diagnosis]:
    ((_, used),) = _ask(connection, "SHOW GLOBAL STATUS LIKE 'Threads_connected'")
    ((_, most),) = _ask(connection, "SHOW GLOBAL VARIABLES LIKE 'max_connections'")
    yield from _crowded(int(used), int(most), "max_connections")


# -- SQL Server --------------------------------------------------------------------------------------------------------


def _mssql_transactions(connection: BaseDatabaseWrapper, options: Options) -> Iterator[Diagnosis]:
    rows = _ask(
        connection,
        "SELECT s.session_id, DATEDIFF(second, t.transaction_begin_time, GETDATE()) FROM "
        "sys.dm_tran_session_transactions s JOIN sys.dm_tran_active_transactions t ON t.transaction_id = "
        "s.transaction_id WHERE s.session_id <> @@SPID AND t.transaction_begin_time < DATEADD(second, -%s, "
        "GETDATE()) ORDER BY t.transaction_begin_time",
        [OLD],
    )
    if rows:
        session, seconds = rows[0]
        yield _open_long(len(rows), float(seconds), f"session {session}", f"End what holds it, or: KILL {session};")
