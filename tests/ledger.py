"""What jobs did, counted outside of any database: one line for each event in a file that everybody appends to.

Jobs write with :func:`note`; tests read with :class:`Ledger`. The file is named by an environment variable, so that
worker processes that a test starts write into the same one. Gates are files next to it: a job waits for one, a test
opens it.
"""

from __future__ import annotations

import json
import os
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import Any

VARIABLE = "CHOKAQ_TEST_LEDGER"


@dataclass(frozen=True, slots=True)
class Entry:
    """One event. ``at``: the machine's monotonic clock, the same for all processes; ``more``: what the job added."""

    word: str
    job: str
    name: str
    attempt: int
    pid: int
    at: float
    more: dict[str, Any]


_own: ContextVar[str] = ContextVar("ledger")


def _path() -> str:
    """Where the calling job writes: what the variable said when its thread, or its task, first asked. A handler that
    outlives its test in a thread must neither write into the next test's file nor go by its gates."""
    if threading.current_thread() is threading.main_thread():
        return os.environ[VARIABLE]
    path = _own.get("")
    if not path:
        _own.set(path := os.environ[VARIABLE])
    return path


def note(word: str, *, job: str = "", name: str = "", attempt: int = 0, **more: Any) -> None:
    """Append one line. A single write to a file opened for appending: whole lines, in the order in which they happened,
    also after kill -9 of the writer."""
    line = json.dumps([word, job, name, attempt, os.getpid(), time.monotonic(), more]) + "\n"
    file = os.open(_path(), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.write(file, line.encode())
    finally:
        os.close(file)


def gate_is_open(name: str) -> bool:
    return os.path.exists(f"{_path()}.{name}")


def wait_at_gate(name: str, told_to_stop: Callable[[], bool] = lambda: False, longest: float = 60.0) -> bool:
    """For handlers: wait until the test opens the gate; False when told to stop first, or after ``longest`` seconds."""
    end = time.monotonic() + longest
    while not gate_is_open(name):
        if told_to_stop() or time.monotonic() > end:
            return False
        time.sleep(0.005)  # handler
    return True


class Ledger:
    """The test's side of the file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def entries(self, word: str | None = None) -> list[Entry]:
        """All events in order, or those called ``word``."""
        if not self.path.exists():
            return []
        # What follows the last newline is a line that a killed process did not finish, or one being written.
        lines = self.path.read_text().split("\n")[:-1]
        found = [Entry(*json.loads(line)) for line in lines]
        return [entry for entry in found if word is None or entry.word == word]

    def count(self, word: str = "ran") -> int:
        return len(self.entries(word))

    def names(self, word: str = "ran") -> list[str]:
        return [entry.name for entry in self.entries(word)]

    def per_job(self, word: str = "ran") -> Counter[str]:
        """Job id -> how often."""
        return Counter(entry.job for entry in self.entries(word))

    def most_at_once(self) -> int:
        """The largest number of jobs between their ``enter`` and ``leave`` at one time.

        Both lines are written inside the job, while it holds its lease; the order of the lines is that of the events.
        """
        inside: set[tuple[str, int]] = set()
        most = 0
        for entry in self.entries():
            key = (entry.job, entry.attempt)
            if entry.word == "enter":
                inside.add(key)
                most = max(most, len(inside))
            elif entry.word == "leave":
                inside.discard(key)
        return most

    def open_gate(self, name: str) -> None:
        Path(f"{self.path}.{name}").touch()

    def close_gate(self, name: str) -> None:
        Path(f"{self.path}.{name}").unlink(missing_ok=True)
