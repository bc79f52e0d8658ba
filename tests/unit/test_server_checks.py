"""Database checks: what the server in use says, and what each wrong answer leads to."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.core import checks as django_checks
from django.core.checks import CheckMessage
from django.core.management import call_command
from django.db import DatabaseError, NotSupportedError, connection, connections

from chokaq_django import checks
from chokaq_django.checks import mssql, mysql, postgres, sqlite
from chokaq_django.conf import get_options
from example_project.databases import database_from_url

from ..chaos.servers import PrivateMariaDB


def ids(messages: list[CheckMessage]) -> list[str | None]:
    return [message.id for message in messages]


def only(messages: list[CheckMessage]) -> CheckMessage:
    (message,) = messages
    return message


@pytest.fixture
def another(db: None) -> Iterator[Any]:
    """Connections to the same server and database as the test's, with other settings."""
    made = []

    def connect(**config: Any) -> Any:
        wrapper = connections.create_connection("default")
        options = {**wrapper.settings_dict["OPTIONS"], **config.pop("OPTIONS", {})}
        options = {key: value for key, value in options.items() if value is not None}
        wrapper.settings_dict = {**wrapper.settings_dict, **config, "OPTIONS": options}
        made.append(wrapper)
        return wrapper

    yield connect
    for wrapper in made:
        wrapper.close()


# -- when they run -----------------------------------------------------------------------------------------------------


@pytest.mark.django_db
def test_the_suites_own_server_is_clean() -> None:
    allowed = {"chokaq.W007"} if connection.vendor == "microsoft" else set()  # said of who only speaks like it
    assert set(ids(checks.server_findings("default", get_options()))) <= allowed


def test_only_where_django_may_ask(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    monkeypatch.setattr(checks.database, "server_findings", lambda alias, options: asked.append(alias) or [])
    for databases in (None, [], ["other"]):
        assert checks.check_server(None, databases=databases) == []
    assert asked == []
    checks.check_server(None, databases=["default"])
    call_command("check", "--database", "default")
    assert asked == ["default", "default"]
    assert django_checks.Tags.database in checks.check_server.tags  # type: ignore[attr-defined]


def test_one_fault_is_said_once(monkeypatch: pytest.MonkeyPatch) -> None:
    level = django_checks.Error("isolation", id="chokaq.E004")
    other = django_checks.Error("other", id="chokaq.E012")
    monkeypatch.setattr(checks.database, "server_findings", lambda alias, options: [level, other])
    assert checks.check_server(None, databases=["default"]) == [level, other]
    monkeypatch.setattr(checks.database, "check_database", lambda app_configs: [level])
    assert checks.check_server(None, databases=["default"]) == [other]


@pytest.mark.parametrize(
    ("error", "message_id", "level"),
    [
        (NotSupportedError("PostgreSQL 15 or later is required (found 13)."), "chokaq.E009", django_checks.ERROR),
        (DatabaseError("connection refused\nmore"), "chokaq.W009", django_checks.WARNING),
    ],
)
def test_no_answer(monkeypatch: pytest.MonkeyPatch, error: Exception, message_id: str, level: int) -> None:
    def fail() -> None:
        raise error

    monkeypatch.setattr(connection, "ensure_connection", fail)
    message = only(checks.server_findings("default", get_options()))
    assert (message.id, message.level) == (message_id, level)
    assert str(error).splitlines()[0] in message.msg
    assert "more" not in message.msg


# -- SQLite ------------------------------------------------------------------------------------------------------------


def on_sqlite(path: Path, **options: Any) -> list[CheckMessage]:
    wrapper = connections.create_connection("default") if connection.vendor == "sqlite" else _sqlite_wrapper()
    wrapper.settings_dict = {**wrapper.settings_dict, "NAME": str(path), "OPTIONS": options}
    try:
        return list(sqlite.server_findings(wrapper, get_options()))
    finally:
        wrapper.close()


def _sqlite_wrapper() -> Any:
    from django.db.backends.sqlite3.base import DatabaseWrapper

    config = connections.configure_settings({"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": "x"}})
    return DatabaseWrapper(config["default"], "default")


@pytest.mark.django_db
def test_sqlite(tmp_path: Path) -> None:
    path = tmp_path / "jobs.sqlite3"
    journal, lose, wait = on_sqlite(path, timeout=1, init_command="PRAGMA synchronous=OFF")
    assert ids([journal, lose, wait]) == ["chokaq.W003", "chokaq.W004", "chokaq.W005"]
    assert "journal_mode=DELETE" in journal.msg
    assert "give up after 1 s" in wait.msg
    assert on_sqlite(path, init_command="PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL;") == []
    assert on_sqlite(path) == []  # WAL stays with the file, 5 s are the driver's default
    assert on_sqlite(Path(":memory:")) == []


# -- PostgreSQL --------------------------------------------------------------------------------------------------------


@pytest.mark.skipif(connection.vendor != "postgresql", reason="asks a PostgreSQL server")
def test_postgresql(another: Any) -> None:
    set_by_role = "-c default_transaction_isolation=serializable -c synchronous_commit=off"
    level, lose = postgres.server_findings(another(OPTIONS={"options": set_by_role}), get_options())
    assert ids([level, lose]) == ["chokaq.E004", "chokaq.W004"]
    assert "as SERIALIZABLE" in level.msg
    assert "synchronous_commit = off" in lose.msg
    said = {"options": "-c default_transaction_isolation=serializable", "isolation_level": 2}
    assert list(postgres.server_findings(another(OPTIONS=said), get_options())) == []


# -- MariaDB and MySQL -------------------------------------------------------------------------------------------------

needs_mysql = pytest.mark.skipif(connection.vendor != "mysql", reason="asks a MariaDB or MySQL server")


@pytest.fixture
def database_in(another: Any) -> Iterator[Any]:
    """Makes a database in some character set, and connects to it."""
    name = f"{connection.settings_dict['NAME']}_checks"

    def make(charset: str) -> Any:
        with connection.cursor() as cursor:
            cursor.execute(f"CREATE DATABASE {name} CHARACTER SET {charset}")
        return another(NAME=name)

    yield make
    with connection.cursor() as cursor:
        cursor.execute(f"DROP DATABASE IF EXISTS {name}")


def follow(wrapper: Any, message: CheckMessage) -> None:
    """Does what the hint says."""
    with wrapper.cursor() as cursor:
        for statement in filter(None, str(message.hint).partition(" it changes")[0].strip().split(";")):
            cursor.execute(statement)


@needs_mysql
def test_mysql_session(another: Any) -> None:
    wrong = {
        "isolation_level": "repeatable read",
        "charset": "latin1",
        "init_command": "SET sql_mode = ''",
    }
    level, mode, charset = mysql.server_findings(another(OPTIONS=wrong), get_options())
    assert ids([level, mode, charset]) == ["chokaq.E004", "chokaq.E013", "chokaq.E010"]
    assert "as REPEATABLE READ" in level.msg
    assert "spoken to in latin1" in charset.msg
    right = {"init_command": str(mode.hint).partition('"init_command": "')[2].rstrip('".')}
    assert list(mysql.server_findings(another(OPTIONS=right), get_options())) == []


@needs_mysql
@pytest.mark.usefixtures("transactional_db")
@pytest.mark.parametrize("charset", ["latin1", "utf8mb3"])
def test_mysql_database_of_another_character_set(database_in: Any, charset: str) -> None:
    wrapper = database_in(charset)
    message = only(list(mysql.server_findings(wrapper, get_options())))
    assert message.id == "chokaq.W011"
    assert f"makes tables in {charset}" in message.msg
    follow(wrapper, message)
    assert list(mysql.server_findings(wrapper, get_options())) == []


@needs_mysql
@pytest.mark.usefixtures("transactional_db")
def test_mysql_tables_of_another_character_set(database_in: Any) -> None:
    from chokaq_django.models import AuditEntry, JobHot

    wrapper = database_in("utf8mb4")
    with wrapper.schema_editor() as editor:
        editor.create_model(JobHot)
        editor.create_model(AuditEntry)
    assert list(mysql.server_findings(wrapper, get_options())) == []
    with wrapper.cursor() as cursor:
        cursor.execute("ALTER TABLE chokaq_job_hot CONVERT TO CHARACTER SET latin1")
        cursor.execute("ALTER TABLE chokaq_audit_entry CONVERT TO CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci")
    foreign, merged = mysql.server_findings(wrapper, get_options())
    assert ids([foreign, merged]) == ["chokaq.E010", "chokaq.E016"]
    assert "chokaq_job_hot" in foreign.msg
    assert "chokaq_audit_entry" in merged.msg
    follow(wrapper, foreign)
    follow(wrapper, merged)
    assert list(mysql.server_findings(wrapper, get_options())) == []
    with wrapper.cursor() as cursor:  # what the remedies made is what migrations make
        cursor.execute("SHOW CREATE TABLE chokaq_job_hot")
        repaired = cursor.fetchone()[1]
    with connection.cursor() as cursor:
        cursor.execute("SHOW CREATE TABLE chokaq_job_hot")
        original = cursor.fetchone()[1]
    columns = [[line for line in text.splitlines() if line.startswith("  `")] for text in (repaired, original)]
    assert columns[0] == columns[1]


@needs_mysql
@pytest.mark.usefixtures("transactional_db")
def test_mysql_tables_of_another_engine(database_in: Any) -> None:
    wrapper = database_in("utf8mb4")
    with wrapper.cursor() as cursor:
        cursor.execute("CREATE TABLE chokaq_worker (id int) ENGINE = MyISAM")
        cursor.execute("SET default_storage_engine = MyISAM")
    message = only(list(mysql.server_findings(wrapper, get_options())))
    assert message.id == "chokaq.E011"
    follow(wrapper, message)
    later = only(list(mysql.server_findings(wrapper, get_options())))
    assert later.msg.endswith("will be MyISAM, not InnoDB.")


@needs_mysql
@pytest.mark.skipif(not PrivateMariaDB.installed(), reason="no programs of MariaDB for a server of its own")
@pytest.mark.usefixtures("transactional_db")
def test_mysql_server_with_everything_wrong(another: Any) -> None:
    wrong = (
        "skip-innodb", "default-storage-engine=Aria", "sql-mode=", "max-allowed-packet=1M", "log-bin=changes",
        "binlog-format=STATEMENT", "character-set-server=latin1",
    )  # fmt: skip
    with PrivateMariaDB(*wrong) as server:
        place = {**database_from_url(server.url), "TEST": connection.settings_dict["TEST"]}
        found = list(mysql.server_findings(another(**place), get_options()))
    assert ids(found) == ["chokaq.E012", "chokaq.E013", "chokaq.E014", "chokaq.E011", "chokaq.W011"]
    assert all(message.hint for message in found)


GOOD = {
    "transaction_isolation": "READ-COMMITTED",
    "sql_mode": "STRICT_TRANS_TABLES,NO_ENGINE_SUBSTITUTION",
    "max_allowed_packet": "16777216",
    "log_bin": "ON",
    "binlog_format": "ROW",
    "innodb_flush_log_at_trx_commit": "1",
}


@pytest.mark.parametrize(
    ("changed", "found"),
    [
        ({}, []),
        ({"transaction_isolation": "REPEATABLE-READ", "binlog_format": "STATEMENT"}, ["chokaq.E004"]),
        ({"transaction_isolation": None, "tx_isolation": "READ-COMMITTED"}, []),
        ({"binlog_format": "STATEMENT"}, ["chokaq.E012"]),
        ({"binlog_format": "STATEMENT", "log_bin": "OFF"}, []),
        ({"binlog_format": "MIXED"}, []),
        ({"sql_mode": "NO_ENGINE_SUBSTITUTION"}, ["chokaq.E013"]),
        ({"sql_mode": "STRICT_ALL_TABLES"}, []),
        ({"max_allowed_packet": "1048576"}, ["chokaq.E014"]),
        ({"innodb_flush_log_at_trx_commit": "0"}, ["chokaq.W004"]),
        ({"innodb_flush_log_at_trx_commit": "2"}, ["chokaq.W004"]),
        ({"group_replication_group_name": "6f3b1a52-0c1e-4a55-9c2e-0242ac110002"}, ["chokaq.W010"]),
        ({"group_replication_group_name": ""}, []),
        ({"wsrep_on": "ON"}, ["chokaq.W010"]),
        ({"wsrep_on": "OFF"}, []),
    ],
)
def test_mysql_variables(changed: dict[str, str | None], found: list[str]) -> None:
    value = {name: text for name, text in {**GOOD, **changed}.items() if text is not None}
    assert ids(list(mysql._session("default", "MariaDB", value, get_options()))) == found


def test_mysql_packets_follow_the_payload_limit(settings: Any) -> None:
    settings.CHOKAQ = {**settings.CHOKAQ, "MAX_PAYLOAD_BYTES": 20_000_000}
    message = only(list(mysql._session("default", "MySQL", GOOD, get_options())))
    assert message.id == "chokaq.E014"
    assert "may need 41,048,576" in message.msg
    assert "max_allowed_packet = 41943040" in str(message.hint)


# -- SQL Server --------------------------------------------------------------------------------------------------------


class SQLServer:
    """Answers as a server with these properties would."""

    alias = "default"

    def __init__(
        self, row: tuple[Any, ...] | None, version: int = 2022, azure: bool = False, json: bool = False
    ) -> None:
        self.row, self.sql_server_version, self.to_azure_sql_db, self.json = row, version, azure, json
        self.asked: list[str] = []

    def cursor(self) -> Any:
        return self

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *error: object) -> None:
        return

    def execute(self, sql: str) -> None:
        self.asked.append(sql)
        if sql == mssql.JSON and not self.json:
            raise DatabaseError("Invalid object name 'OPENJSON'.")

    def fetchone(self) -> tuple[Any, ...] | None:
        return self.row


@pytest.mark.parametrize(
    ("server", "found"),
    [
        (SQLServer(("jobs", 160, True, 0)), []),
        (SQLServer(("jobs", 160, True, 1)), []),
        (SQLServer(("jobs", 130, True, 0), version=2017), []),
        (SQLServer(("jobs", 130, True, 0), version=2016), ["chokaq.E009"]),
        (SQLServer(("jobs", 160, True, 0), version=2014, azure=True), []),  # Azure calls itself version 12
        (SQLServer(("jobs", 120, True, 0)), ["chokaq.E015"]),
        (SQLServer(("jobs", 120, True, 0), json=True), []),
        (SQLServer(("jobs", 160, False, 0)), ["chokaq.W007"]),
        (SQLServer(("jobs", 160, True, 2)), ["chokaq.W004"]),
        (SQLServer(None), []),
    ],
)
def test_sql_server(server: Any, found: list[str]) -> None:
    assert ids(list(mssql.server_findings(server, get_options()))) == found
    assert server.asked[0] == mssql.DATABASE


@pytest.mark.parametrize("version", ["2017", "2022"])
@pytest.mark.parametrize("question", [mssql.DATABASE, mssql.JSON])
def test_sql_server_understands_the_questions(version: str, question: str) -> None:
    maxdop = Path(sys.executable).with_name("maxdop")
    done = subprocess.run([maxdop, "--parser-version", version], input=question, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_sql_server_remedies_quote_the_name() -> None:
    server: Any = SQLServer(("my]jobs", 110, False, 2))
    hints = [str(message.hint) for message in mssql.server_findings(server, get_options())]
    assert len(hints) == 3
    assert all("ALTER DATABASE [my]]jobs] SET " in hint for hint in hints)
