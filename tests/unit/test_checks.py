"""System checks: each wrong setup is named with what to do."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings as django_settings
from django.core import checks as django_checks
from django.core.checks import CheckMessage
from django.db import connections

from chokaq_django import checks
from chokaq_django.checks import project
from chokaq_django.job.registry import registry


def found(check: Any) -> list[CheckMessage]:
    return list(check(None))


def only(check: Any) -> CheckMessage:
    (message,) = found(check)
    return message


@pytest.fixture
def database(settings: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Makes ``jobs`` a database with these settings, which nothing connects to."""

    def forget() -> None:
        if any(connection.alias == "jobs" for connection in connections.all(initialized_only=True)):
            del connections["jobs"]

    def configure(**config: Any) -> None:
        databases = {
            **settings.DATABASES,
            "jobs": connections.configure_settings({"default": {}, "jobs": config})["jobs"],
        }
        settings.CHOKAQ = {"DATABASE": "jobs"}
        monkeypatch.setattr(django_settings._wrapped, "DATABASES", databases)
        monkeypatch.setitem(connections.settings, "jobs", databases["jobs"])
        forget()

    yield configure
    forget()


def test_the_suite_itself_is_clean() -> None:
    for check in (checks.check_options, checks.check_database, checks.check_commands, checks.check_middleware):
        assert found(check) == []


@pytest.mark.parametrize("name", ["CHOCKAQ", "CHOKAK", "CHOKAQ_WORKER", "CHOKAQ_RETRY_MAX_ATTEMPTS"])
def test_a_setting_that_is_called_almost_like_ours_is_told(settings: Any, name: str) -> None:
    setattr(settings, name, {})
    message = only(checks.check_name)
    assert (message.id, message.level) == ("chokaq.W012", django_checks.WARNING)
    assert name in message.msg


@pytest.mark.parametrize("name", ["CHOKAQ", "CHOKAQ_LOG_FILE", "CACHES"])
def test_settings_of_others_are_not_told(settings: Any, name: str) -> None:
    setattr(settings, name, {})
    assert found(checks.check_name) == []


def test_checks_are_registered() -> None:
    registered = django_checks.registry.registry.get_checks()
    assert {checks.check_options, checks.check_types, checks.check_commands} <= set(registered)


def test_options(settings: Any) -> None:
    settings.CHOKAQ = {"WORKER": {"CONCURENCY": 5, "PROCESSES": 0}}
    first, second = found(checks.check_options)
    assert (first.id, first.msg) == ("chokaq.E001", "CHOKAQ['WORKER']['CONCURENCY'] is not an option.")
    assert first.hint == "did you mean 'CONCURRENCY'?"
    assert second.msg == "CHOKAQ['WORKER']['PROCESSES'] must be at least 1, got 0."
    for check in (checks.check_database, checks.check_listen_database, checks.check_middleware):
        assert found(check) == []


def test_unknown_alias(settings: Any) -> None:
    settings.CHOKAQ = {"DATABASE": "defalt"}
    message = only(checks.check_database)
    assert message.id == "chokaq.E002"
    assert message.hint == "did you mean 'default'?"
    settings.CHOKAQ = {"DATABASE": "xyz"}
    assert only(checks.check_database).hint == "DATABASES has 'default'."


@pytest.mark.parametrize("engine", ["django.db.backends.oracle", ""])
def test_unsupported_engines(database: Any, engine: str) -> None:
    database(ENGINE=engine, NAME="x")
    message = only(checks.check_database)
    assert message.id == "chokaq.E003"
    assert "cannot hold jobs" in message.msg
    for name in ("sqlite3", "postgresql", "mysql (MariaDB too)", "mssql (SQL Server"):
        assert name in str(message.hint)


@pytest.mark.parametrize(
    "config",
    [
        {"ENGINE": "django.db.backends.postgresql"},
        {"ENGINE": "django.db.backends.mysql"},
        {"ENGINE": "mssql", "OPTIONS": {"python_driver": "mssql_python"}},
    ],
)
def test_supported_engines(database: Any, config: dict[str, Any]) -> None:
    database(NAME="x", **config)
    assert found(checks.check_database) == []


@pytest.mark.parametrize(
    ("options", "level"),
    [
        ({"isolation_level": 4}, "SERIALIZABLE"),
        ({"isolation_level": 3}, "REPEATABLE READ"),
        ({"isolation_level": 99}, "the unknown level 99"),
        ({"options": "-c default_transaction_isolation=serializable"}, "SERIALIZABLE"),
        ({"options": "-c default_transaction_isolation=repeatable\\ read -c x=y"}, "REPEATABLE READ"),
    ],
)
def test_isolation(database: Any, options: dict[str, Any], level: str) -> None:
    database(ENGINE="django.db.backends.postgresql", NAME="x", OPTIONS=options)
    message = only(checks.check_database)
    assert message.id == "chokaq.E004"
    assert level in message.msg


@pytest.mark.parametrize("engine", ["django.db.backends.mysql", "mssql"])
@pytest.mark.parametrize("level", ["repeatable read", "SERIALIZABLE", "snapshot"])
def test_isolation_on_mysql_and_sql_server(database: Any, engine: str, level: str) -> None:
    options = {"isolation_level": level, "python_driver": "mssql_python"}
    database(ENGINE=engine, NAME="x", OPTIONS=options)
    message = only(checks.check_database)
    assert message.id == "chokaq.E004"
    assert f"as {level.upper()};" in message.msg
    for right in ("read committed", "READ COMMITTED", None):
        database(ENGINE=engine, NAME="x", OPTIONS={**options, "isolation_level": right})
        assert found(checks.check_database) == []


def test_charset_on_mysql(database: Any) -> None:
    for wrong in ("utf8", "latin1"):
        database(ENGINE="django.db.backends.mysql", NAME="x", OPTIONS={"charset": wrong})
        message = only(checks.check_database)
        assert message.id == "chokaq.E010"
        assert f"is spoken to in {wrong}" in message.msg
    database(ENGINE="django.db.backends.mysql", NAME="x", OPTIONS={"charset": "utf8mb4"})
    assert found(checks.check_database) == []


@pytest.mark.parametrize(
    ("options", "warned"),
    [
        ({}, True),
        ({"driver": "ODBC Driver 18 for SQL Server", "extra_params": "Encrypt=no"}, True),
        ({"extra_params": "Encrypt=no;MARS_Connection=no"}, False),
        ({"extra_params": "mars_connection = yes"}, False),
        ({"python_driver": "mssql_python"}, False),
        ({"python_driver": "MSSQL-Python"}, False),
    ],
)
def test_mars_on_sql_server(database: Any, options: dict[str, Any], warned: bool) -> None:
    database(ENGINE="mssql", NAME="x", OPTIONS=options)
    assert [message.id for message in found(checks.check_database)] == ["chokaq.W008"] * warned


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"isolation_level": 2},
        {"options": "-c statement_timeout=5"},
        {"options": "-c default_transaction_isolation='read committed'"},
        {"options": "-c default_transaction_isolation=read\\ committed -c a=b"},
    ],
)
def test_right_isolation(database: Any, options: dict[str, Any]) -> None:
    database(ENGINE="django.db.backends.postgresql", NAME="x", OPTIONS=options)
    assert found(checks.check_database) == []


@pytest.mark.parametrize("name", [":memory:", "file::memory:?cache=shared", "file:x?mode=memory"])
def test_sqlite_in_memory(database: Any, name: str) -> None:
    database(ENGINE="django.db.backends.sqlite3", NAME=name)
    found = only(checks.check_database)
    assert found.id == "chokaq.W001"
    assert '"TEST": {"NAME": ' in str(found.hint)


@pytest.mark.parametrize("name", ["", None, "/nowhere/at/all/db.sqlite3"])
def test_sqlite_without_a_place(database: Any, name: Any) -> None:
    database(ENGINE="django.db.backends.sqlite3", NAME=name, OPTIONS={"transaction_mode": "IMMEDIATE"})
    assert only(checks.check_database).id == "chokaq.W002"


def test_sqlite_in_a_file(database: Any, tmp_path: Path) -> None:
    for name in (tmp_path / "db.sqlite3", f"file:{tmp_path}/db.sqlite3?cache=private"):
        database(ENGINE="django.db.backends.sqlite3", NAME=name, OPTIONS={"transaction_mode": "IMMEDIATE"})
        assert found(checks.check_database) == []
        for options in ({}, {"transaction_mode": None}, {"transaction_mode": "deferred"}):
            database(ENGINE="django.db.backends.sqlite3", NAME=name, OPTIONS=options)
            assert only(checks.check_database).id == "chokaq.W006"


def test_sqlite_too_old(database: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    database(ENGINE="django.db.backends.sqlite3", NAME="db.sqlite3")
    monkeypatch.setattr(sqlite3, "sqlite_version_info", (3, 34, 1))
    message = only(checks.check_database)
    assert (message.id, message.hint) == ("chokaq.E009", "3.35 or newer is needed. It comes with Python's build.")


def test_listen_database(database: Any, settings: Any) -> None:
    assert found(checks.check_listen_database) == []
    settings.CHOKAQ = {"WORKER": {"LISTEN_DATABASE": "direct"}}
    message = only(checks.check_listen_database)
    assert (message.id, "CHOKAQ['WORKER']['LISTEN_DATABASE']" in message.msg) == ("chokaq.E008", True)
    database(ENGINE="django.db.backends.sqlite3", NAME="x")
    settings.CHOKAQ = {"DATABASE": "jobs", "WORKER": {"LISTEN_DATABASE": "jobs"}}
    assert "needs PostgreSQL" in only(checks.check_listen_database).msg
    database(ENGINE="django.db.backends.postgresql", NAME="x")
    settings.CHOKAQ = {"DATABASE": "jobs", "WORKER": {"LISTEN_DATABASE": "jobs"}}
    assert found(checks.check_listen_database) == []


def test_read_database(database: Any, settings: Any) -> None:
    assert found(checks.check_read_database) == []
    settings.CHOKAQ = {"DECK": {"READ_DATABASE": "replika"}}
    message = only(checks.check_read_database)
    assert (message.id, "CHOKAQ['DECK']['READ_DATABASE']" in message.msg) == ("chokaq.E017", True)
    database(ENGINE="django.db.backends.oracle", NAME="x")
    settings.CHOKAQ = {"DECK": {"READ_DATABASE": "jobs"}}
    assert "on another engine" in only(checks.check_read_database).msg
    settings.CHOKAQ = {"DATABASE": "jobs", "DECK": {"READ_DATABASE": "jobs"}}
    assert found(checks.check_read_database) == []


def test_channels_before_us(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(project, "get_commands", lambda: {"runworker": "channels"})
    message = only(checks.check_commands)
    assert message.id == "chokaq.E005"
    assert "Put 'chokaq_django' above 'channels' in INSTALLED_APPS" in str(message.hint)


def test_middleware(settings: Any) -> None:
    settings.CHOKAQ = {"MIDDLEWARE": ["tests.unit.test_context.outer", "tests.unit.nowhere.x", "json.__name__"]}
    first, second = found(checks.check_middleware)
    assert first.id == second.id == "chokaq.E006"
    assert "'tests.unit.nowhere.x' cannot be loaded: ModuleNotFoundError" in first.msg
    assert "is not callable" in second.msg


@dataclass
class Unstorable:
    what: complex


def test_types_that_cannot_be_stored() -> None:
    before = found(checks.check_types)
    registry.register(Unstorable, type="unstorable")
    registry.raw_handler("raw.*")(lambda type, payload, ctx: None)  # noqa: A006
    (message,) = [message for message in found(checks.check_types) if message not in before]
    assert message.id == "chokaq.E007"
    assert "Unstorable.what: values of complex" in message.msg


def test_without_an_asgi_application_the_deck_polls(settings: Any) -> None:
    assert found(checks.check_socket) == []
    settings.ASGI_APPLICATION = None
    message = only(checks.check_socket)
    assert (message.id, message.level) == ("chokaq.I001", django_checks.INFO)
    assert "deck_websocket" in str(message.hint)
    settings.INSTALLED_APPS = [app for app in settings.INSTALLED_APPS if app != "django.contrib.admin"]
    assert found(checks.check_socket) == [], "who has no admin has no Deck"
