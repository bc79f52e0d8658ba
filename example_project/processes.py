"""Runs a few programs side by side for the demo: their lines in one stream, one Ctrl-C for all of them.

Nothing outlives the demo: each program is a process group of its own, and a small guard process that holds the other
end of a pipe ends the groups when this process is gone, even by ``kill -9``.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import IO

STOP_GRACE = 40.0  # seconds; longer than the workers' own shutdown grace of 30 s
RESTART_DELAY = 1.0  # seconds
GIVE_UP_AFTER = 3  # deaths in a row, each less than HEALTHY_AFTER after its start
HEALTHY_AFTER = 10.0  # seconds

# Reads "+pgid" and "-pgid" lines until the pipe closes, then ends the groups that are left.
GUARD = """
import os, signal, sys, time
groups = set()
for line in sys.stdin:
    (groups.add if line[0] == "+" else groups.discard)(int(line[1:]))
for number, grace in ((signal.SIGTERM, 10), (signal.SIGKILL, 0)):
    for group in groups:
        try:
            os.killpg(group, number)
        except ProcessLookupError:
            pass
    time.sleep(grace if groups else 0)
"""


@dataclass(slots=True)
class Program:
    """One program to keep running. ``name`` stands before each of its lines."""

    name: str
    command: Sequence[str]
    process: subprocess.Popen[str] | None = None
    started: float = 0.0
    early_deaths: int = 0
    start_at: float = 0.0
    reader: threading.Thread | None = field(default=None, repr=False)


class Supervisor:
    """Starts the programs, starts again what dies, and stops all of them on SIGINT or SIGTERM."""

    def __init__(self, programs: Sequence[Program], write: Callable[[str], None]) -> None:
        self._programs = programs
        self._write_line = write
        self._writing = threading.Lock()
        self._wake = threading.Event()
        self._stop = False
        self._width = max(len(program.name) for program in programs)
        self._guard: IO[str] | None = None

    def run(self) -> bool:
        """Returns when everything has stopped: True if it was asked to, False if a program kept dying."""
        with self._signals(), _foreground(), self._guarded():
            healthy = True
            while healthy and not self._stop:
                healthy = all([self._keep(program) for program in self._programs])
                self._wake.wait(0.2)
            self._say("demo", "stopping ..." if healthy else "giving up ...")
            self._stop_all()
        return healthy

    # -- one program ---------------------------------------------------------------------------------------------------

    def _keep(self, program: Program) -> bool:
        now = time.monotonic()
        if program.process is not None:
            code = program.process.poll()
            if code is None:
                return True
            self._ended(program)
            program.early_deaths = program.early_deaths + 1 if now - program.started < HEALTHY_AFTER else 0
            if program.early_deaths >= GIVE_UP_AFTER:
                return False
            self._say("demo", f"{program.name} ended with {code}, starting it again")
            program.start_at = now + RESTART_DELAY
        elif now >= program.start_at:
            self._start(program)
        return True

    def _start(self, program: Program) -> None:
        program.started = time.monotonic()
        program.process = subprocess.Popen(
            program.command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            bufsize=1,
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
            start_new_session=True,
        )
        self._tell_guard(f"+{program.process.pid}")
        program.reader = threading.Thread(target=self._read, args=(program.name, program.process), daemon=True)
        program.reader.start()

    def _ended(self, program: Program) -> None:
        """After a program's end: nothing of its group may stay, and its last lines are shown."""
        assert program.process is not None and program.reader is not None  # noqa: S101 - it was started
        _signal_group(program.process.pid, signal.SIGKILL)
        self._tell_guard(f"-{program.process.pid}")
        program.reader.join(timeout=2)
        program.process = None

    def _stop_all(self) -> None:
        running = [program for program in self._programs if program.process is not None]
        for program in running:
            if program.process is not None:
                program.process.terminate()
        end = time.monotonic() + STOP_GRACE
        for program in running:
            if program.process is not None:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    program.process.wait(max(0.0, end - time.monotonic()))
            self._ended(program)

    # -- lines ---------------------------------------------------------------------------------------------------------

    def _read(self, name: str, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None  # noqa: S101 - it is a pipe
        for line in process.stdout:
            self._say(name, line.rstrip("\n"))

    def _say(self, name: str, text: str) -> None:
        with self._writing:
            self._write_line(f"{name:<{self._width}} | {text}")

    # -- this process's own surroundings -------------------------------------------------------------------------------

    @contextlib.contextmanager
    def _signals(self) -> Iterator[None]:
        def stop(number: int, frame: object) -> None:
            self._stop = True
            self._wake.set()

        before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    @contextlib.contextmanager
    def _guarded(self) -> Iterator[None]:
        guard = subprocess.Popen(
            [sys.executable, "-c", GUARD], stdin=subprocess.PIPE, text=True, bufsize=1, start_new_session=True
        )
        self._guard = guard.stdin
        try:
            yield
        finally:
            assert guard.stdin is not None  # noqa: S101 - it is a pipe
            guard.stdin.close()
            guard.wait()

    def _tell_guard(self, line: str) -> None:
        assert self._guard is not None  # noqa: S101 - programs start inside _guarded
        self._guard.write(f"{line}\n")
        self._guard.flush()


@contextlib.contextmanager
def _foreground() -> Iterator[None]:
    """Makes this process the terminal's foreground group, so that Ctrl-C reaches it alone: ``make``, which started it,
    then sees it end with 0 instead of being interrupted itself. Without a terminal nothing is done."""
    try:
        terminal = os.open("/dev/tty", os.O_RDWR)
    except OSError:
        yield
        return
    before = os.tcgetpgrp(terminal)
    try:
        if before != os.getpgrp() or before == os.getpid():  # in the background, or already alone in front
            yield
            return
        # SIGTTOU: taking the terminal back is not an offence. SIGTSTP: Ctrl-Z would stop us but not make.
        ignored = {number: signal.signal(number, signal.SIG_IGN) for number in (signal.SIGTTOU, signal.SIGTSTP)}
        os.setpgid(0, 0)
        os.tcsetpgrp(terminal, os.getpgrp())
        try:
            yield
        finally:
            with contextlib.suppress(OSError):  # whoever started us may be gone, and its group with it
                os.tcsetpgrp(terminal, before)
                os.setpgid(0, before)
            for number, handler in ignored.items():
                signal.signal(number, handler)
    finally:
        os.close(terminal)


def _signal_group(group: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(group, number)
