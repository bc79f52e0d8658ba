"""What tests of several folders share: waiting for a state, and real worker processes."""

from __future__ import annotations

import importlib
import json
import logging
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar
from urllib.parse import quote, urlencode

import pytest
import redis
from django.core.exceptions import ImproperlyConfigured
from django.db import connections
from django.db.backends.base.base import BaseDatabaseWrapper

T = TypeVar("T")
ROOT = Path(__file__).resolve().parent.parent


def wait_until(
    predicate: Callable[[], T | None], deadline: float = 30.0, *, what: str = "", interval: float = 0.02
) -> T:
    """The first true value of ``predicate``, asked every ``interval`` seconds; AssertionError after ``deadline`` s.

    This is the one place of the suite where time passes without an event: a test waits for a state, never for a time.
    """
    end = time.monotonic() + deadline
    while True:
        value = predicate()
        if value:
            return value
        if time.monotonic() >= end:
            raise AssertionError(f"not within {deadline:g} s: {what or predicate}")
        time.sleep(interval)


def bare_loggers(monkeypatch: pytest.MonkeyPatch) -> logging.Logger:
    """As in a program that has set up no logging; the logger ``chokaq``."""
    ours = logging.getLogger("chokaq")
    monkeypatch.setattr(logging.getLogger(), "handlers", [])
    monkeypatch.setattr(ours, "handlers", [])
    monkeypatch.setattr(ours, "level", ours.level)
    return ours


def database_url(alias: str = "default") -> str:
    """The ``DATABASE_URL`` of the database that this test is connected to: the test database, not the one named in
    settings. Another process that gets it sees the same rows."""
    config = connections[alias].settings_dict
    if connections[alias].vendor == "sqlite":
        return f"sqlite:///{config['NAME']}"
    scheme = {"postgresql": "postgres", "mysql": "mysql", "microsoft": "mssql"}[connections[alias].vendor]
    user = quote(str(config["USER"] or ""), safe="")
    password = f":{quote(str(config['PASSWORD']), safe='')}" if config["PASSWORD"] else ""
    port = f":{config['PORT']}" if config["PORT"] else ""
    # The driver, its timeouts and what else decides how a connection behaves must be the same in the other process.
    options = {key: value for key, value in config["OPTIONS"].items() if type(value) in (str, int)}
    query = f"?{urlencode(options, quote_via=quote)}" if options else ""
    return f"{scheme}://{user}{password}@{quote(str(config['HOST'] or ''), safe='.')}{port}/{config['NAME']}{query}"


KILL = {
    "postgresql": ("SELECT pg_backend_pid()", "SELECT pg_terminate_backend(%s)"),
    "mysql": ("SELECT CONNECTION_ID()", "KILL %s"),
    "microsoft": ("SELECT @@SPID", "KILL %s"),
}


def kill_connection(victim: BaseDatabaseWrapper, by: BaseDatabaseWrapper) -> None:
    """Ends a connection on the server's side, as a failover or an administrator would."""
    ask, end = KILL[victim.vendor]
    with victim.cursor() as cursor:
        cursor.execute(ask)
        (number,) = cursor.fetchone()
    with by.cursor() as cursor:
        cursor.execute(end % int(number))  # SQL Server's KILL takes no parameter


def keep_versions(connection: BaseDatabaseWrapper) -> None:
    """Row versioning in the database that one is connected to: our documentation of SQL Server asks for it, and a new
    database is without. Snapshots are the tests' own, which look at all tables in one moment (storage/invariants.py).
    """
    if connection.vendor != "microsoft":
        return
    with connection.cursor() as cursor:
        cursor.execute("SELECT @@VERSION")
        if not cursor.fetchone()[0].startswith("Microsoft"):
            return  # whoever only speaks like SQL Server has versions of rows, and no settings for them
        for setting in ("READ_COMMITTED_SNAPSHOT ON WITH ROLLBACK IMMEDIATE", "ALLOW_SNAPSHOT_ISOLATION ON"):
            cursor.execute(f"ALTER DATABASE CURRENT SET {setting}")


def need_mssql_backend() -> None:
    """To be called at the top of a module that builds SQL Server's statements without a server: it skips the module
    where mssql-django cannot be loaded (pyodbc needs the system's libodbc2), and fails it in CI."""
    try:
        importlib.import_module("mssql.base")
    except (ImproperlyConfigured, ImportError) as error:
        reason = f"the mssql-django backend cannot be loaded: {error}"
        if os.environ.get("CI") == "true":
            pytest.fail(reason, pytrace=False)
        pytest.skip(reason, allow_module_level=True)


def redis_url() -> str | None:
    """The Redis for tests, at ``CHOKAQ_TEST_REDIS_URL`` or where one usually is; None if none answers, which fails in
    CI."""
    url = os.environ.get("CHOKAQ_TEST_REDIS_URL", "redis://127.0.0.1:6379/0")
    try:
        redis.Redis.from_url(url, socket_connect_timeout=3).ping()
    except redis.RedisError as error:
        if os.environ.get("CI") == "true":
            pytest.fail(f"no Redis at CHOKAQ_TEST_REDIS_URL ({url}): {error}", pytrace=False)
        return None
    return url


NO_REDIS = "no Redis answers at CHOKAQ_TEST_REDIS_URL (default: this machine's)"


class ProjectProcess:
    """A Python process of the project, against the test database, in a process group of its own.

    ``arguments`` are Python's. ``options`` are sections of ``CHOKAQ`` laid over those of ``tests/settings.py``. ``env``
    is added to the environment. Its output goes to a file: read it with :attr:`output`.
    """

    def __init__(
        self, *arguments: str, options: Mapping[str, Any] | None = None, env: Mapping[str, str] | None = None
    ) -> None:
        self._log = tempfile.NamedTemporaryFile("w+", prefix="chokaq-process-", suffix=".log")  # noqa: SIM115
        self.process = subprocess.Popen(
            [sys.executable, *arguments],
            cwd=ROOT,
            env={
                **os.environ,
                "DJANGO_SETTINGS_MODULE": "tests.settings",
                "DATABASE_URL": database_url(),
                "CHOKAQ_TEST_OPTIONS": json.dumps(options or {}),
                "PYTHONUNBUFFERED": "1",
                **(env or {}),
            },
            stdin=subprocess.DEVNULL,
            stdout=self._log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def output(self) -> str:
        """Everything printed so far, standard output and error together."""
        return Path(self._log.name).read_text(errors="replace")

    def signal(self, number: int) -> None:
        """Sends ``number`` to the process itself; a supervisor passes on what concerns its children."""
        self.process.send_signal(number)

    def signal_group(self, number: int) -> None:
        """Sends ``number`` to the process and all its children at once, if any is left."""
        try:
            os.killpg(self.pid, number)
        except ProcessLookupError:
            return

    def kill(self) -> None:
        """SIGKILL to the whole group: what a power cut does."""
        self.signal_group(signal.SIGKILL)
        self.process.wait()

    def wait(self, timeout: float = 30.0) -> int:
        """The exit code; AssertionError with the output if it is still running after ``timeout`` seconds."""
        try:
            return self.process.wait(timeout)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"the process still runs after {timeout:g} s:\n{self.output}") from None

    def stop(self, timeout: float = 30.0) -> int:
        """SIGTERM, then :meth:`wait`."""
        if self.process.poll() is None:
            self.signal(signal.SIGTERM)
        return self.wait(timeout)

    def close(self) -> None:
        """Makes sure that nothing of it is left."""
        self.signal_group(signal.SIGCONT)
        self.kill()
        self._log.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class WorkerProcess(ProjectProcess):
    """One real ``manage.py runworker``. ``arguments`` are the command's."""

    def __init__(
        self,
        *arguments: str,
        options: Mapping[str, Any] | None = None,
        env: Mapping[str, str] | None = None,
        command: str = "runworker",
    ) -> None:
        super().__init__(str(ROOT / "manage.py"), command, *arguments, options=options, env=env)
