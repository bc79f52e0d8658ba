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
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import IO

STOP_GRACE = 40.0  # seconds; longer than the workers' own shutdown grace of 30 s
CHECK_INTERVAL = 0.2  # seconds
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


# Becomes the program once the guard knows of it: killed between a start and a later word to the guard, the demo would
# leave the program behind.
ANNOUNCED = """
import os, sys
guard = int(sys.argv[1])
os.write(guard, b"+%d\\n" % os.getpid())
os.close(guard)
os.execvp(sys.argv[2], sys.argv[2:])
"""


@dataclass(frozen=True, slots=True)
class Program:
    """One program to keep running. ``name`` stands before each of its lines. One that needs the others is stopped
    before them."""

    name: str
    command: Sequence[str]
    needs_others: bool = False


class _Run:
    """One life of a program, in a process group of its own that ``guard`` knows of; its lines go to ``say`` until it
    ends."""

    def __init__(self, program: Program, say: Callable[[str, str], None], guard: IO[str]) -> None:
        self.started = time.monotonic()
        self.process = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", ANNOUNCED, str(guard.fileno()), *program.command],
            pass_fds=[guard.fileno()],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            bufsize=1,
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
            start_new_session=True,
        )
        self._reader = threading.Thread(target=self._read, args=(program.name, say), daemon=True)
        self._reader.start()

    def _read(self, name: str, say: Callable[[str, str], None]) -> None:
        for line in self.process.stdout or ():
            say(name, line.rstrip("\n"))

    def clear(self) -> None:
        """After its end, or instead of it: nothing of the group may stay, and its last lines are shown."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        self._reader.join(timeout=2)


class Supervisor:
    """Starts the programs, starts again what dies, and stops all of them on SIGINT or SIGTERM."""

    def __init__(self, programs: Sequence[Program], write: Callable[[str], None]) -> None:
        self._programs = programs
        self._write_line = write
        self._writing = threading.Lock()
        self._width = max(len(program.name) for program in programs)
        self._stop = threading.Event()
        self._runs: dict[str, _Run] = {}
        self._early_deaths: Counter[str] = Counter()

    def run(self) -> bool:
        """Returns when everything has stopped: True if it was asked to, False if a program kept dying."""
        with self._signals(), _foreground(), _guard() as guard:
            healthy = True
            while healthy and not self._stop.is_set():
                for program in self._programs:
                    healthy = healthy and self._keep(program, guard)
                self._stop.wait(CHECK_INTERVAL)
            self._say("demo", "stopping ..." if healthy else "giving up ...")
            self._stop_all(guard)
        return healthy

    def _keep(self, program: Program, guard: IO[str]) -> bool:
        """Starts the program if it is not running; False when that is of no use any more."""
        run = self._runs.get(program.name)
        if run is not None:
            code = run.process.poll()
            if code is None:
                return True
            self._clear(run, guard)
            early = time.monotonic() - run.started < HEALTHY_AFTER
            self._early_deaths[program.name] = self._early_deaths[program.name] + 1 if early else 0
            if self._early_deaths[program.name] >= GIVE_UP_AFTER:
                self._say("demo", f"{program.name} ended with {code} once more")
                return False
            self._say("demo", f"{program.name} ended with {code}, starting it again")
        self._runs[program.name] = _Run(program, self._say, guard)
        return True

    def _stop_all(self, guard: IO[str]) -> None:
        for needs_others in (True, False):
            names = [program.name for program in self._programs if program.needs_others == needs_others]
            runs = [self._runs[name] for name in names if name in self._runs]
            for run in runs:
                run.process.terminate()
            end = time.monotonic() + STOP_GRACE
            for run in runs:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    run.process.wait(max(0.0, end - time.monotonic()))
                self._clear(run, guard)

    def _clear(self, run: _Run, guard: IO[str]) -> None:
        run.clear()
        guard.write(f"-{run.process.pid}\n")

    def _say(self, name: str, text: str) -> None:
        with self._writing:
            self._write_line(f"{name:<{self._width}} | {text}")

    @contextlib.contextmanager
    def _signals(self) -> Iterator[None]:
        before = {number: signal.signal(number, self._asked) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _asked(self, number: int, frame: object) -> None:
        self._stop.set()


@contextlib.contextmanager
def _guard() -> Iterator[IO[str]]:
    """The pipe to a guard process: programs write ``+pgid`` lines to it, and we ``-pgid`` lines. A group still on its
    list when the pipe closes is ended."""
    guard = subprocess.Popen(
        [sys.executable, "-c", GUARD], stdin=subprocess.PIPE, text=True, bufsize=1, start_new_session=True
    )
    if guard.stdin is None:
        raise RuntimeError("no pipe to the guard process")
    try:
        yield guard.stdin
    finally:
        guard.stdin.close()
        guard.wait()


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
