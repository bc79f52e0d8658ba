"""A PostgreSQL server of a test's own, to be stopped, stalled and restarted at will."""

from __future__ import annotations

import glob
import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
from pathlib import Path
from types import TracebackType
from typing import Self


def postgres_programs() -> Path | None:
    """The folder with ``initdb`` and ``postgres``, if this machine has them."""
    folders = [*sorted(glob.glob("/usr/lib/postgresql/*/bin"), reverse=True)]
    if found := shutil.which("initdb"):
        folders.append(str(Path(found).resolve().parent))
    for folder in folders:
        if all((Path(folder) / name).exists() for name in ("initdb", "postgres", "pg_ctl")):
            return Path(folder)
    return None


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class PrivatePostgres:
    """A server in a temporary folder, on a free port, with trust authentication for user ``postgres``."""

    def __init__(self, programs: Path) -> None:
        self._programs = programs
        self._folder = Path(tempfile.mkdtemp(prefix="chokaq-pg-"))
        self.port = free_port()
        # The server refuses to run as root; the account of that name exists wherever the packages are.
        self._user = "postgres" if os.geteuid() == 0 else None
        if self._user:
            shutil.chown(self._folder, self._user)
        self._run("initdb", "-D", self._data, "-U", "postgres", "-A", "trust", "--encoding=UTF8", "--no-sync")

    @property
    def _data(self) -> str:
        return str(self._folder / "data")

    @property
    def url(self) -> str:
        return f"postgres://postgres@127.0.0.1:{self.port}/postgres"

    def _run(self, program: str, *arguments: str, check: bool = True) -> None:
        account = {"user": self._user, "group": pwd.getpwnam(self._user).pw_gid} if self._user else {}
        done = subprocess.run(
            [str(self._programs / program), *arguments],
            cwd=self._folder, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
            timeout=60, **account,  # type: ignore[arg-type]
        )  # fmt: skip
        if check and done.returncode:
            raise RuntimeError(f"{program} failed: {done.stderr}")

    def start(self) -> None:
        options = f"-p {self.port} -c listen_addresses=127.0.0.1 -c unix_socket_directories={self._folder}"
        log = str(self._folder / "log")
        self._run("pg_ctl", "-D", self._data, "-l", log, "-o", options, "-w", "-t", "50", "start")

    def stop(self) -> None:
        """As if its power were cut: no warning, no shutdown; the next start recovers from the log."""
        self._run("pg_ctl", "-D", self._data, "-m", "immediate", "-w", "stop", check=False)

    def _pids(self) -> list[int]:
        main = int((Path(self._data) / "postmaster.pid").read_text().split()[0])
        children = Path(f"/proc/{main}/task/{main}/children").read_text().split()
        return [main, *map(int, children)]

    def stall(self) -> None:
        """Every server process stands still: connections stay open, nothing answers."""
        for pid in self._pids():
            os.kill(pid, signal.SIGSTOP)

    def resume(self) -> None:
        for pid in self._pids():
            os.kill(pid, signal.SIGCONT)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
        shutil.rmtree(self._folder, ignore_errors=True)
