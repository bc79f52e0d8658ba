"""The tables that the migrations make on MySQL and on MariaDB, as statements: no server is needed to read them.

MySQL refuses what MariaDB takes: a text column with a literal as its default (error 1101), for one.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from typing import Any

import pytest
from django.core.exceptions import ImproperlyConfigured
from django.db import connections
from django.db.migrations import Migration
from django.db.migrations.loader import MigrationLoader

from example_project.databases import database_from_url

database_from_url("mysql://unread@unread/unread")  # has PyMySQL stand in for mysqlclient where that is not installed

try:
    from django.db.backends.mysql.base import DatabaseWrapper
    from django.db.backends.mysql.schema import DatabaseSchemaEditor
except ImproperlyConfigured:
    pytest.skip("neither mysqlclient nor PyMySQL is installed", allow_module_level=True)

pytestmark = pytest.mark.any_engine

ALIAS = "mysql_unconnected"
SERVERS = {"MySQL 8.0": "8.0.28", "MySQL 9": "9.7.4", "MariaDB": "10.11.6-MariaDB"}
TEXT = re.compile(r"`(\w+)` (?:tiny|medium|long)?(?:text|blob|json)\b[^,]*", re.IGNORECASE)


class Editor(DatabaseSchemaEditor):
    """Quotes values without a server that says how."""

    def quote_value(self, value: Any) -> Any:
        return f"'{value}'" if isinstance(value, str) else value


class Unconnected(DatabaseWrapper):
    """Django's backend as it is when it has asked such a server what it is."""

    SchemaEditorClass = Editor

    def __init__(self, config: dict[str, Any], version: str) -> None:
        super().__init__(config, ALIAS)
        self.__dict__["mysql_server_data"] = {
            "version": version, "default_storage_engine": "InnoDB", "sql_mode": "STRICT_TRANS_TABLES",
            "lower_case_table_names": False, "has_zoneinfo_database": True, "sql_auto_is_null": False,
        }  # fmt: skip


@pytest.fixture(params=SERVERS)
def server(request: pytest.FixtureRequest) -> Iterator[Unconnected]:
    config = {**connections.databases["default"], "ENGINE": "django.db.backends.mysql", "OPTIONS": {}}
    connections.databases[ALIAS] = config
    connections[ALIAS] = wrapper = Unconnected(dict(config), SERVERS[request.param])
    yield wrapper
    del connections[ALIAS]
    del connections.databases[ALIAS]


@functools.cache
def migrations() -> list[tuple[Migration, Any]]:
    """Each migration of this app, and the models before it."""
    loader = MigrationLoader(None)
    names = sorted(key[1] for key in loader.disk_migrations if key[0] == "chokaq")
    return [(loader.get_migration("chokaq", name), loader.project_state(("chokaq", name), at_end=False))
            for name in names]  # fmt: skip


def statements(server: Unconnected, *, backwards: bool = False) -> list[str]:
    """What ``migrate`` sends for this app."""
    found: list[str] = []
    for migration, before in migrations():
        with server.schema_editor(collect_sql=True, atomic=False) as editor:
            (migration.unapply if backwards else migration.apply)(before.clone(), editor, collect_sql=True)
        found += [sql for sql in editor.collected_sql if not sql.startswith("--")]
    assert found
    return found


@pytest.mark.parametrize("backwards", [False, True])
def test_no_text_has_a_literal_as_its_default(server: Unconnected, backwards: bool) -> None:
    texts = [column for sql in statements(server, backwards=backwards) for column in TEXT.finditer(sql)]
    assert {"original" if backwards else "history"} <= {column[1] for column in texts}
    with_default = {column[1]: column[0] for column in texts if " DEFAULT " in column[0]}
    assert with_default, "rows that are there get a value"
    for definition in with_default.values():
        assert ("DEFAULT ('" in definition) != server.mysql_is_mariadb, definition


def test_every_text_names_its_character_set(server: Unconnected) -> None:
    """Whatever the database was made with: added columns too."""
    for sql in statements(server):
        for column in re.finditer(r"`(\w+)` (?:longtext|varchar\(\d+\))([^,]*)", sql):
            assert column[2].startswith(" CHARACTER SET utf8mb4"), sql


def test_keys_tell_trailing_blanks_apart(server: Unconnected) -> None:
    collation = "utf8mb4_nopad_bin" if server.mysql_is_mariadb else "utf8mb4_0900_bin"
    found = set(re.findall(r"COLLATE (\w+)", " ".join(statements(server))))
    assert found == {collation}


def test_every_table_has_a_primary_key(server: Unconnected) -> None:
    """A replicated MySQL demands it (sql_require_primary_key)."""
    tables = [sql for sql in statements(server) if sql.startswith("CREATE TABLE")]
    assert tables
    assert [sql for sql in tables if "PRIMARY KEY" not in sql] == []
