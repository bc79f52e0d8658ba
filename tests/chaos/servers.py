"""A database server of a test's own, to be stopped, stalled and restarted at will."""

from __future__ import annotations

import glob
import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
from abc import ABC, abstractmethod
from pathlib import Path
from types import TracebackType
from typing import Any, ClassVar, Self

from ..helpers import wait_until


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class PrivateServer(ABC):
    """A server in a temporary folder, on a free port.

    Servers refuse to run as root; the ``account`` exists wherever their packages are.
    """

    account: ClassVar[str]
    places: ClassVar[list[str]]
    """Folders of the programs beside those of PATH, as patterns."""
    programs: ClassVar[tuple[str, ...]]

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix=f"chokaq-{self.account}-"))
        self.port = free_port()
        self.user = self.account if os.geteuid() == 0 else None
        if self.user:
            shutil.chown(self.folder, self.user)

    @classmethod
    def program(cls, name: str) -> str | None:
        """The path of a program, the newest version of it."""
        folders = [place for pattern in cls.places for place in sorted(glob.glob(pattern), reverse=True)]
        return shutil.which(name, path=os.pathsep.join([*folders, os.environ.get("PATH", "")]))

    @classmethod
    def installed(cls) -> bool:
        """Whether this machine has the programs."""
        return all(cls.program(name) for name in cls.programs)

    @property
    def data(self) -> str:
        return str(self.folder / "data")

    @property
    @abstractmethod
    def url(self) -> str:
        """Its ``DATABASE_URL``."""

    @abstractmethod
    def start(self) -> None:
        """Returns when it answers."""

    @abstractmethod
    def stop(self) -> None:
        """As if its power were cut: no warning, no shutdown; the next start recovers from the log."""

    @abstractmethod
    def pids(self) -> list[int]:
        """Its processes."""

    def stall(self) -> None:
        """Every server process stands still: connections stay open, nothing answers."""
        for pid in self.pids():
            try:
                os.kill(pid, signal.SIGSTOP)
            except ProcessLookupError:  # one that was about to end
                continue

    def resume(self) -> None:
        for pid in self.pids():
            os.kill(pid, signal.SIGCONT)

    def run(self, name: str, *arguments: str, check: bool = True) -> None:
        done = subprocess.run(
            [self.program(name) or name, *arguments],
            cwd=self.folder, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
            timeout=60, **self.as_user(),
        )  # fmt: skip
        if check and done.returncode:
            raise RuntimeError(f"{name} failed: {done.stderr}")

    def as_user(self) -> dict[str, Any]:
        return {"user": self.user, "group": pwd.getpwnam(self.user).pw_gid} if self.user else {}

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)


class PrivatePostgres(PrivateServer):
    """With trust authentication for user ``postgres``."""

    account = "postgres"
    places = ["/usr/lib/postgresql/*/bin"]
    programs = ("initdb", "postgres", "pg_ctl")

    def __init__(self) -> None:
        super().__init__()
        self.run("initdb", "-D", self.data, "-U", "postgres", "-A", "trust", "--encoding=UTF8", "--no-sync")

    @property
    def url(self) -> str:
        return f"postgres://postgres@127.0.0.1:{self.port}/postgres"

    def start(self) -> None:
        options = f"-p {self.port} -c listen_addresses=127.0.0.1 -c unix_socket_directories={self.folder}"
        log = str(self.folder / "log")
        self.run("pg_ctl", "-D", self.data, "-l", log, "-o", options, "-w", "-t", "50", "start")

    def stop(self) -> None:
        self.run("pg_ctl", "-D", self.data, "-m", "immediate", "-w", "stop", check=False)

    def pids(self) -> list[int]:
        main = int((Path(self.data) / "postmaster.pid").read_text().split()[0])
        children = Path(f"/proc/{main}/task/{main}/children").read_text().split()
        return [main, *map(int, children)]


class PrivateMariaDB(PrivateServer):
    """Without passwords; it has one database, ``jobs``. ``options``: of the server, without the dashes."""

    account = "mysql"
    places = ["/usr/sbin", "/usr/bin"]
    programs = ("mariadbd", "mariadb-install-db")
    own_options: ClassVar[tuple[str, ...]] = ("--skip-grant-tables",)

    def __init__(self, *options: str) -> None:
        super().__init__()
        self._options = options
        self._process: subprocess.Popen[bytes] | None = None
        (self.folder / "init.sql").write_text("CREATE DATABASE IF NOT EXISTS jobs;")
        self.install()

    def install(self) -> None:
        """Fill the data folder."""
        self.run(
            "mariadb-install-db", "--no-defaults", f"--datadir={self.data}", "--auth-root-authentication-method=normal",
            "--skip-test-db", "--skip-name-resolve",
        )  # fmt: skip

    @property
    def url(self) -> str:
        return f"mysql://root@127.0.0.1:{self.port}/jobs"

    def connect(self) -> Any:
        import MySQLdb  # the driver of this engine only

        return MySQLdb.connect(host="127.0.0.1", port=self.port, user="root", connect_timeout=5, autocommit=True)

    def start(self) -> None:
        log = (self.folder / "log").open("ab")
        options = {
            "datadir": self.data, "socket": self.folder / "socket", "port": self.port, "bind-address": "127.0.0.1",
            "init-file": self.folder / "init.sql", "pid-file": self.folder / "pid",
        }  # fmt: skip
        self._process = subprocess.Popen(
            [
                self.program(self.programs[0]) or self.programs[0], "--no-defaults",
                *(f"--{name}={value}" for name, value in options.items()), *self.own_options,
                "--character-set-server=utf8mb4", *(f"--{option}" for option in self._options),
            ],
            cwd=self.folder, stdin=subprocess.DEVNULL, stdout=log, stderr=log, **self.as_user(),
        )  # fmt: skip
        wait_until(self._answers, 50, what=f"{self.programs[0]} answers")

    def _answers(self) -> bool:
        assert self._process is not None
        if self._process.poll() is not None:
            raise RuntimeError(f"{self.programs[0]} ended: {(self.folder / 'log').read_text()[-2000:]}")
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", self.port)):
                return False
        # It listens a moment before it lets anybody in, and then lets them wait.
        self.connect().close()
        return True

    def stop(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def pids(self) -> list[int]:
        assert self._process is not None
        return [self._process.pid]


class PrivateMySQL(PrivateMariaDB):
    """The same of MySQL, which does not listen when it asks nobody for a password."""

    places: ClassVar[list[str]] = []
    programs = ("mysqld",)
    own_options = ("--mysqlx=OFF", "--skip-log-bin", "--secure-file-priv=NULL")

    @classmethod
    def installed(cls) -> bool:
        if not super().installed():
            return False
        told = subprocess.run([cls.program("mysqld") or "", "--version"], capture_output=True, text=True, check=False)
        return "MariaDB" not in told.stdout  # which has a program of this name too

    def install(self) -> None:
        self.run("mysqld", "--no-defaults", "--initialize-insecure", f"--datadir={self.data}")


def private_server(connection: Any) -> type[PrivateServer] | None:
    """A server of the kind that the connection is one to; None where there is no such."""
    if connection.vendor == "mysql":
        return PrivateMariaDB if connection.mysql_is_mariadb else PrivateMySQL
    return PrivatePostgres if connection.vendor == "postgresql" else None
