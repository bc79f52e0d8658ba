"""``DATABASE_URL`` of the example project and of the suite, on every engine."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

import pytest
from django.core.exceptions import ImproperlyConfigured

from example_project import databases
from example_project.databases import database_from_url

from .. import helpers
from ..helpers import database_url

SQL_SERVER = "mssql://sa:Pa%3Bs%2Bw%40rd@host:1433/shop"


def test_mysql_has_what_jobs_need() -> None:
    config = database_from_url("mysql://shop:secret@db:3306/shop")
    assert config["ENGINE"] == "django.db.backends.mysql"
    assert (config["OPTIONS"]["charset"], config["OPTIONS"]["isolation_level"]) == ("utf8mb4", "read committed")
    assert config["OPTIONS"]["read_timeout"] > 50  # innodb_lock_wait_timeout
    given = database_from_url("mysql://shop:secret@db/shop?read_timeout=5&charset=latin1")["OPTIONS"]
    assert (given["read_timeout"], given["charset"]) == (5, "latin1")


def test_pymysql_stands_in_for_mysqlclient(monkeypatch: pytest.MonkeyPatch) -> None:
    installed: list[bool] = []
    driver = ModuleType("pymysql")
    driver.install_as_MySQLdb = lambda: installed.append(True)  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "pymysql", driver)
    monkeypatch.setitem(sys.modules, "MySQLdb", ModuleType("MySQLdb"))
    database_from_url("mysql://shop@db/shop")
    assert installed == []
    monkeypatch.setitem(sys.modules, "MySQLdb", None)  # as if it were not installed
    database_from_url("mysql://shop@db/shop")
    assert installed == [True]
    monkeypatch.setitem(sys.modules, "pymysql", None)
    database_from_url("mysql://shop@db/shop")  # Django says what is missing


@pytest.mark.parametrize(
    ("query", "installed", "expected"),
    [
        ("?python_driver=mssql_python", databases.ODBC_DRIVERS[0], {"python_driver": "mssql_python"}),
        ("", databases.ODBC_DRIVERS[1], {"driver": databases.ODBC_DRIVERS[1], "extra_params": "MARS_Connection=no"}),
        ("", None, {"python_driver": "mssql_python"}),
        (
            "?driver=ODBC%20Driver%2018%20for%20SQL%20Server&extra_params=Encrypt=no%3BTrustServerCertificate=yes",
            None,
            {
                "driver": "ODBC Driver 18 for SQL Server",
                "extra_params": "Encrypt=no;TrustServerCertificate=yes;MARS_Connection=no",
            },
        ),
        ("?dsn=shop&extra_params=MARS_Connection=yes", None, {"dsn": "shop", "extra_params": "MARS_Connection=yes"}),
    ],
)
def test_sql_servers_driver(
    monkeypatch: pytest.MonkeyPatch, query: str, installed: str | None, expected: dict[str, Any]
) -> None:
    monkeypatch.setattr(databases, "_installed_odbc_driver", lambda: installed)
    config = database_from_url(SQL_SERVER + query)
    timeouts = {"connection_timeout": 10, "query_timeout": 60}
    assert config["OPTIONS"] == expected | timeouts
    assert (config["ENGINE"], config["PASSWORD"]) == ("mssql", "Pa;s+w@rd")


@pytest.mark.parametrize(
    "url",
    [
        "mysql://shop:a%2Fb@db:3306/shop?read_timeout=7",
        SQL_SERVER + "?python_driver=mssql_python&extra_params=Encrypt=no%3BTrustServerCertificate=yes",
        SQL_SERVER + "?driver=ODBC%20Driver%2018%20for%20SQL%20Server",
        "postgres://shop:secret@db:5432/shop?sslmode=require",
    ],
)
def test_another_process_connects_in_the_same_way(monkeypatch: pytest.MonkeyPatch, url: str) -> None:
    config = database_from_url(url)

    class Connection:
        vendor = {"mssql": "microsoft", "mysql": "mysql"}.get(config["ENGINE"].rpartition(".")[2], "postgresql")
        settings_dict = {"OPTIONS": {}, **config}

    monkeypatch.setattr(helpers, "connections", {"default": Connection})
    assert database_from_url(database_url()) == config


@pytest.mark.parametrize("url", ["", "demo.sqlite3", "postgress://shop@db/shop"])
def test_what_is_no_address_of_a_database_is_said(url: str) -> None:
    with pytest.raises(ImproperlyConfigured, match="must begin with one of sqlite, postgres, mysql or mssql"):
        database_from_url(url)
