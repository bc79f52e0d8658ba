"""What a worker costs that has nothing to do."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from chokaq_django import enqueue
from chokaq_django.conf import parse_options
from chokaq_django.storage import get_storage
from chokaq_django.worker import fetch, registry
from chokaq_django.worker.wakeup import PollingWaker

from .. import jobs
from ..helpers import wait_until
from ..ledger import Ledger
from .conftest import StartWorker
from .support import committed, settled

pytestmark = [committed, pytest.mark.slow]

BEAT = registry.BEAT  # before the fixtures of this folder
WATCHED = 20.0
"""Seconds: two scans of the rescue, four polls."""


DEFAULTS = {
    "WORKER": ("poll_interval", "idle_poll_interval"),
    "EXECUTION": ("heartbeat_min", "heartbeat_max"),
    "RECOVERY": ("worker_timeout", "scan_interval", "fetched_timeout", "zombie_timeout"),
}
"""What a project has that sets nothing, in place of the hurry of the test settings."""


class Statements:
    """Every statement that storages of this process run, counted where they hand it to their driver."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.by_thread: Counter[str] = Counter()
        self._depth = threading.local()
        for name in ("_query", "_execute"):
            for kind in type(get_storage()).__mro__:
                if name in vars(kind):
                    monkeypatch.setattr(kind, name, self._counting(vars(kind)[name]))

    def _counting(self, run: Callable[..., Any]) -> Callable[..., Any]:
        def counted(*args: Any, **named: Any) -> Any:
            depth = getattr(self._depth, "value", 0)
            if not depth:  # an engine's own form may end in the portable one
                self.by_thread[threading.current_thread().name] += 1
            self._depth.value = depth + 1
            try:
                return run(*args, **named)
            finally:
                self._depth.value = depth

        return counted

    def of_worker(self) -> Counter[str]:
        return Counter({name: n for name, n in self.by_thread.items() if name.startswith("chokaq-")})


def test_after_a_while_of_silence_a_worker_runs_about_one_statement_a_second(
    start_worker: StartWorker, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Five seconds stand for the minute.
    monkeypatch.setattr(fetch, "QUIET_AFTER", 0.5)
    monkeypatch.setattr(PollingWaker, "SHARE", 12 * PollingWaker.SHARE)
    monkeypatch.setattr(registry, "BEAT", BEAT)
    statements = Statements(monkeypatch)
    defaults, _ = parse_options({})
    assert defaults is not None
    start_worker(
        **{
            section: {name.upper(): getattr(getattr(defaults, section.lower()), name) for name in names}
            for section, names in DEFAULTS.items()
        }
    )
    settled(enqueue(jobs.NoteJob()).id)
    end = time.monotonic() + defaults.worker.idle_poll_interval
    wait_until(lambda: time.monotonic() > end, 30, what="its first idle poll")
    before = statements.of_worker()
    began = time.monotonic()
    end = began + WATCHED
    wait_until(lambda: time.monotonic() > end, 60, interval=0.5, what="two scans have passed")
    spent = statements.of_worker() - before
    rate = spent.total() / (time.monotonic() - began)
    assert rate <= 1.1, f"{rate:.2f} a second: {dict(spent)}"
