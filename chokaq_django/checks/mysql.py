"""MariaDB and MySQL."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, cast

from django.apps import apps
from django.core import checks
from django.core.checks import CheckMessage
from django.db.backends.base.base import BaseDatabaseWrapper

from ..conf import Options
from ..storage.mysql.session import MARIADB_FLOOR, MYSQL_FLOOR
from .findings import READ_COMMITTED, may_lose, too_old, wrong_isolation

CHARSET = "utf8mb4"
PACKET_ROOM = 1_048_576
"""Bytes of a statement beside its largest payload, whose every character may have to be escaped."""

_VARIABLES = (
    "binlog_format", "character_set_connection", "character_set_database", "default_storage_engine",
    "group_replication_group_name", "innodb_flush_log_at_trx_commit", "log_bin", "max_allowed_packet", "sql_mode",
    "transaction_isolation", "tx_isolation", "wsrep_on",
)  # fmt: skip
_CHARACTERS = re.compile(r" CHARACTER SET (\w+)(?: COLLATE (\w+))?$")


def settings_findings(alias: str, config: Mapping[str, Any]) -> Iterator[CheckMessage]:
    """Isolation level and character set, whose defaults in Django are the right ones."""
    options = config.get("OPTIONS") or {}
    level = options.get("isolation_level", READ_COMMITTED)
    if level is not None and str(level).upper() != READ_COMMITTED:
        yield wrong_isolation(
            alias, str(level).upper(), "Remove isolation_level from its OPTIONS: Django's default is the right one."
        )
    charset = str(options.get("charset", CHARSET))
    if charset.lower() != CHARSET:
        yield checks.Error(
            f"the job database {alias!r} is spoken to in {charset}: emoji and many other characters cannot be sent.",
            hint=f"Remove charset from its OPTIONS: Django's default is {CHARSET}.",
            id="chokaq.E010",
        )


def server_findings(connection: BaseDatabaseWrapper, options: Options) -> Iterator[CheckMessage]:
    """The server's version, this session's variables and our tables."""
    backend = cast("Any", connection)
    mariadb = bool(backend.mysql_is_mariadb)
    server, floor = ("MariaDB", MARIADB_FLOOR) if mariadb else ("MySQL", MYSQL_FLOOR)
    version = tuple(backend.mysql_version)
    if version < floor:
        yield too_old(connection.alias, f"{server} {_dotted(version)}", _dotted(floor))
    names = ", ".join(["%s"] * len(_VARIABLES))
    value = {
        name.lower(): text
        for name, text in _ask(connection, f"SHOW VARIABLES WHERE Variable_name IN ({names})", _VARIABLES)
    }
    yield from _session(connection.alias, server, value, options)
    yield from _engine(connection, server, value)
    yield from _character_sets(connection, value)


def _session(alias: str, server: str, value: Mapping[str, str], options: Options) -> Iterator[CheckMessage]:
    # MariaDB before 11.1 knows the older name only.
    level = (value.get("transaction_isolation") or value.get("tx_isolation") or "").replace("-", " ")
    if level != READ_COMMITTED:
        yield wrong_isolation(
            alias, level, 'Say "isolation_level": "read committed" in its OPTIONS, and no other in its init_command.'
        )
    elif value.get("log_bin") == "ON" and value.get("binlog_format") == "STATEMENT":
        yield checks.Error(
            f"the server of the job database {alias!r} logs statements (binlog_format=STATEMENT), with which InnoDB "
            "refuses every write at READ COMMITTED (error 1665).",
            hint="SET GLOBAL binlog_format = 'ROW', and the same in the server's configuration.",
            id="chokaq.E012",
        )
    if not {"STRICT_TRANS_TABLES", "STRICT_ALL_TABLES"} & set(value.get("sql_mode", "").split(",")):
        yield checks.Error(
            f"the job database {alias!r} is not in strict mode: {server} cuts off what does not fit instead of "
            "refusing it.",
            hint="Add STRICT_TRANS_TABLES to the server's sql_mode, or to its OPTIONS: "
            '"init_command": "SET sql_mode = CONCAT(@@sql_mode, \',STRICT_TRANS_TABLES\')".',
            id="chokaq.E013",
        )
    packet, least = int(value.get("max_allowed_packet", 0)), 2 * options.max_payload_bytes + PACKET_ROOM
    if packet < least:
        yield checks.Error(
            f"the server of the job database {alias!r} refuses statements of more than {packet:,} bytes "
            f"(max_allowed_packet); a payload of CHOKAQ['MAX_PAYLOAD_BYTES'] ({options.max_payload_bytes:,}) may need "
            f"{least:,}.",
            hint=f"SET GLOBAL max_allowed_packet = {max(16 * 1_048_576, _up(least))}, and the same in the server's "
            "configuration; or lower MAX_PAYLOAD_BYTES.",
            id="chokaq.E014",
        )
    flush = value.get("innodb_flush_log_at_trx_commit", "1")
    if flush != "1":
        yield may_lose(alias, f"innodb_flush_log_at_trx_commit = {flush}", "Set it to 1.")
    group = "replication group" if value.get("group_replication_group_name") else "Galera cluster"
    if group == "replication group" or value.get("wsrep_on") == "ON":
        yield checks.Warning(
            f"the job database {alias!r} is a node of a {group}: a row that is locked on one node is free "
            "on another, and the later commit fails as a deadlock.",
            hint="Let all workers write to one and the same node.",
            id="chokaq.W010",
        )


def _engine(connection: BaseDatabaseWrapper, server: str, value: Mapping[str, str]) -> Iterator[CheckMessage]:
    alias = connection.alias
    if not _ask(connection, "SELECT 1 FROM information_schema.engines WHERE engine = 'InnoDB' AND support <> 'NO'"):
        yield checks.Error(
            f"the server of the job database {alias!r} runs without InnoDB: no other engine has transactions and row "
            "locks that jobs can rely on.",
            hint="Remove skip-innodb from its configuration.",
            id="chokaq.E011",
        )
        return
    tables = _rows_of_our_tables(connection, "table_name, engine", "tables")
    wrong = [table for table, engine in tables if str(engine).lower() != "innodb"]
    if wrong:
        yield checks.Error(
            f"tables of the job database {alias!r} are not InnoDB: {', '.join(wrong)}.",
            hint=" ".join(f"ALTER TABLE {table} ENGINE = InnoDB;" for table in wrong),
            id="chokaq.E011",
        )
    elif value.get("default_storage_engine", "").lower() != "innodb":
        yield checks.Error(
            f"new tables of the job database {alias!r} will be {value.get('default_storage_engine')}, not InnoDB.",
            hint='Set default_storage_engine = InnoDB in the server\'s configuration, or add "init_command": "SET '
            'default_storage_engine = InnoDB" to its OPTIONS.',
            id="chokaq.E011",
        )


def _character_sets(connection: BaseDatabaseWrapper, value: Mapping[str, str]) -> Iterator[CheckMessage]:
    alias = connection.alias
    spoken = value.get("character_set_connection")
    if spoken != CHARSET:
        yield checks.Error(
            f"the job database {alias!r} is spoken to in {spoken}: emoji and many other characters cannot be sent.",
            hint=f"Remove charset, and SET NAMES in init_command, from its OPTIONS: Django's default is {CHARSET}.",
            id="chokaq.E010",
        )
    stored = value.get("character_set_database")
    if stored != CHARSET:
        # Job tables name their character set themselves. What handlers write to, does not.
        name = connection.ops.quote_name(connection.settings_dict["NAME"])
        yield checks.Warning(
            f"the database of {alias!r} makes tables in {stored}: jobs can hold any character, the project's own "
            "tables cannot.",
            hint=f"ALTER DATABASE {name} CHARACTER SET {CHARSET}; it changes no table that exists.",
            id="chokaq.W011",
        )
    yield from _columns(connection)


def _columns(connection: BaseDatabaseWrapper) -> Iterator[CheckMessage]:
    """Every text column of ours against what its field says. A whole table "converted to" one character set has also
    lost the collations of its keys, so the remedy names each column with its full type."""
    fields = {
        (model._meta.db_table, field.column): field
        for model in apps.get_app_config("chokaq").get_models(include_auto_created=True)
        for field in model._meta.local_concrete_fields
    }
    foreign: dict[str, list[str]] = {}
    merged: dict[str, list[str]] = {}
    columns = _rows_of_our_tables(
        connection, "table_name, column_name, character_set_name, collation_name, is_nullable", "columns"
    )
    for table, column, charset, collation, nullable in columns:
        field = fields.get((table, column))
        if charset is None or field is None:
            continue
        wanted = str(field.db_parameters(connection)["type"])
        said = _CHARACTERS.search(wanted)
        wanted_charset, wanted_collation = (said[1], said[2]) if said else (CHARSET, None)
        remedy = (
            f"MODIFY {connection.ops.quote_name(column)} {wanted}{'' if said else f' CHARACTER SET {CHARSET}'}"
            f"{'' if nullable == 'YES' else ' NOT NULL'}"
        )
        if charset != wanted_charset:
            foreign.setdefault(table, []).append(remedy)
        elif wanted_collation and collation != wanted_collation:
            merged.setdefault(table, []).append(remedy)
    for table, remedies in foreign.items():
        yield checks.Error(
            f"{table} in the job database {connection.alias!r} has columns that are not {CHARSET}: emoji and many "
            "other characters cannot be stored.",
            hint=_alter(table, [f"DEFAULT CHARACTER SET {CHARSET}", *remedies]),
            id="chokaq.E010",
        )
    for table, remedies in merged.items():
        yield checks.Error(
            f"{table} in the job database {connection.alias!r} has keys that are not compared byte by byte: 'A' and "
            "'a', or 'a' and 'a ', are one.",
            hint=_alter(table, remedies),
            id="chokaq.E016",
        )


def _alter(table: str, remedies: Iterable[str]) -> str:
    return f"ALTER TABLE {table} {', '.join(remedies)};"


def _rows_of_our_tables(connection: BaseDatabaseWrapper, columns: str, view: str) -> list[tuple[Any, ...]]:
    tables = [model._meta.db_table for model in apps.get_app_config("chokaq").get_models(include_auto_created=True)]
    names = ", ".join(["%s"] * len(tables))
    return _ask(
        connection,
        f"SELECT {columns} FROM information_schema.{view} "  # noqa: S608 - constants of this module
        f"WHERE table_schema = DATABASE() AND table_name IN ({names}) ORDER BY 1, 2",
        tables,
    )


def _ask(connection: BaseDatabaseWrapper, sql: str, params: Iterable[Any] = ()) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(sql, list(params))
        return list(cursor.fetchall())


def _dotted(version: tuple[int, ...]) -> str:
    return ".".join(map(str, version))


def _up(size: int) -> int:
    """``size`` rounded up to whole mebibytes."""
    return -(-size // 1_048_576) * 1_048_576
