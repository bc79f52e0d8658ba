"""What the Deck's pages cost the database when history is large.

    DATABASE_URL=postgres://... python benchmarks/deck_scale.py --archived 1000000 --dead 200000

The database must be one of its own: it is migrated and filled (rows that are there already count), and nothing is
removed. Each page is asked for several times by an operator who may do everything. Reported are its statements and the
time that the database took for all of them together, as the client waits for it: the network is in it.
"""

# ruff: noqa: E402, T201 - a script: Django comes first, and it prints

from __future__ import annotations

import argparse
import datetime as dt
import json
import os
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
os.environ.setdefault("DJANGO_SETTINGS_MODULE", "example_project.settings")

import django

django.setup()

from django.contrib.auth import get_user_model
from django.core.management import call_command
from django.db import connection
from django.db.backends.utils import CursorWrapper
from django.test import Client
from django.test.utils import setup_test_environment
from django.urls import NoReverseMatch, reverse
from django.utils import timezone

from benchmarks.deck_rows import load
from chokaq_django.deck.feed.board import clear, get_board
from chokaq_django.deck.pages.data import forget
from chokaq_django.models import FailureGroup, JobArchive, JobDLQ, JobHot

GOAL = 150.0
"""Milliseconds in the database."""


class Watch:
    """Counts statements and adds up the time that the database takes for them."""

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        self.seconds, self.statements = 0.0, 0
        self.slowest = self._last = (0.0, "")

    def watch_fetches(self) -> None:
        """SQLite works when rows are fetched, and not before."""
        plain = CursorWrapper.__getattr__

        def watched(cursor: Any, name: str) -> Any:
            found = plain(cursor, name)
            return self._timed(found) if name.startswith("fetch") else found

        CursorWrapper.__getattr__ = watched

    def _timed(self, fetch: Callable[..., Any]) -> Callable[..., Any]:
        def timed(*args: Any) -> Any:
            began = time.perf_counter()
            try:
                return fetch(*args)
            finally:
                took = time.perf_counter() - began
                self.seconds += took
                self._last = (self._last[0] + took, self._last[1])
                self.slowest = max(self.slowest, self._last)

        return timed

    def __call__(self, execute: Callable[..., Any], sql: str, params: Any, many: bool, context: Any) -> Any:
        began = time.perf_counter()
        try:
            return execute(sql, params, many, context)
        finally:
            took = time.perf_counter() - began
            self.seconds += took
            self.statements += 1
            self._last = (took, sql)
            self.slowest = max(self.slowest, self._last)


def pages() -> dict[str, tuple[str, dict[str, Any]]]:
    """Name of a page to its address and query."""
    dead, done = JobDLQ.objects.order_by("-failed_at").first(), JobArchive.objects.order_by("-finished_at").first()
    group = FailureGroup.objects.values_list("fingerprint", flat=True).first()
    snapshot = ("chokaq_deck_data_snapshot", [])
    wanted: dict[str, tuple[tuple[str, list[str]], dict[str, Any]]] = {
        "overview, page": (("chokaq_deck_changelist", []), {}),
        "overview, figures": (snapshot, {"topic": ["overview"]}),
        "failures, figures": (snapshot, {"topic": ["failures"]}),
        "queue, figures": (snapshot, {"topic": ["queue:queue-1"]}),
        "queues": (("chokaq_deck_queues", []), {}),
        "queue": (("chokaq_deck_queue", []), {"name": "queue-1"}),
        "failures": (("chokaq_deck_failures", []), {}),
        "fleet": (("chokaq_deck_fleet", []), {}),
        "health": (("chokaq_deck_health", []), {}),
        "chart 15m": (("chokaq_deck_data_series", []), {"range": "15m"}),
        "chart 7d": (("chokaq_deck_data_series", []), {"range": "7d"}),
    }
    for name in ("jobhot", "jobarchive", "jobdlq"):
        wanted[name] = ((f"chokaq_{name}_changelist", []), {})
        wanted[f"{name}, of a queue"] = ((f"chokaq_{name}_changelist", []), {"queue": "queue-1"})
    for name in ("jobarchive", "jobdlq"):
        wanted[f"{name}, of a type"] = ((f"chokaq_{name}_changelist", []), {"type": "bench.type_07.v1"})
        middle = f"{(timezone.now() - dt.timedelta(days=12)).isoformat()}~{'0' * 26}"
        wanted[f"{name}, in the middle"] = ((f"chokaq_{name}_changelist", []), {"after": middle})
        wanted[f"{name}, back from the middle"] = ((f"chokaq_{name}_changelist", []), {"before": middle})
    wanted["audit"] = (("chokaq_auditentry_changelist", []), {})
    wanted["jobdlq, of a reason"] = (("chokaq_jobdlq_changelist", []), {"reason": "2"})
    for name, job in (("dead job", dead), ("archived job", done)):
        if job is not None:
            wanted[name] = (("chokaq_deck_job", [job.pk]), {})
    if group is not None:
        wanted["one failure"] = (("chokaq_deck_failure", [group]), {})
    found = {}
    for name, ((view, args), query) in wanted.items():
        try:
            found[name] = (reverse(f"admin:{view}", args=args), query)
        except NoReverseMatch:
            continue
    return found


def measure(times: int) -> list[dict[str, Any]]:
    """Each page several times; what was read for one is forgotten before the next."""
    client, watch = Client(), Watch()
    user, _ = get_user_model()._default_manager.get_or_create(
        **{get_user_model().USERNAME_FIELD: "bench"}, is_superuser=True, is_staff=True
    )
    client.force_login(user)
    watch.watch_fetches()
    found = []
    with connection.execute_wrapper(watch):
        for name, (address, query) in pages().items():
            samples, statements = [], 0
            for _ in range(times):
                clear()
                forget()
                watch.clear()
                response = client.get(address, query, follow=True)
                if response.status_code != 200:
                    raise SystemExit(f"{name}: {address} answered {response.status_code}: {response.content[:300]!r}")
                samples.append(watch.seconds * 1000)
                statements = watch.statements
            slowest = watch.slowest
            found.append(
                {
                    "page": name,
                    "statements": statements,
                    "first_ms": round(samples[0], 1),
                    "best_ms": round(min(samples), 1),
                    "median_ms": round(statistics.median(samples), 1),
                    "slowest_ms": round(slowest[0] * 1000, 1),
                    "slowest": slowest[1][:2_000],
                }
            )
        found.append(_second_look(watch))
    return found


def _second_look(watch: Watch) -> dict[str, Any]:
    """The feed's own look, as it is taken every half second: the first has left what need not be read again."""
    clear()
    board, samples = get_board(), []
    for _ in range(6):
        watch.clear()
        board._version += 1  # as if somebody had committed
        board.refresh(["overview"], 0.0)
        samples.append(watch.seconds * 1000)
    return {
        "page": "overview, next look",
        "statements": watch.statements,
        "first_ms": round(samples[0], 1),
        "best_ms": round(min(samples), 1),
        "median_ms": round(statistics.median(samples[1:]), 1),
        "slowest_ms": round(watch.slowest[0] * 1000, 1),
        "slowest": watch.slowest[1][:2_000],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--archived", type=int, default=1_000_000)
    parser.add_argument("--dead", type=int, default=200_000)
    parser.add_argument("--pending", type=int, default=10_000)
    parser.add_argument("--times", type=int, default=5, help="how often each page is asked for")
    parser.add_argument("--json", type=Path, help="write the figures here too")
    parser.add_argument("--slow", type=float, default=GOAL, help="milliseconds: show what is slowest beyond")
    options = parser.parse_args()
    setup_test_environment(debug=False)
    call_command("migrate", interactive=False, verbosity=0)
    wanted = {JobArchive: options.archived, JobDLQ: options.dead, JobHot: options.pending}
    there = {model: model.objects.count() for model in wanted}
    if not any(there.values()):
        load(options.archived, options.dead, options.pending, print)
    elif there != wanted:
        raise SystemExit(f"The database has other rows: {[f'{m.__name__} {n:,}' for m, n in there.items()]}")
    rows = measure(options.times)
    print(f"\n{connection.display_name}: milliseconds in the database; the goal is {GOAL:.0f}\n")
    print(f"{'page':28} {'statements':>10} {'first':>8} {'best':>8} {'median':>8} {'slowest statement':>18}")
    for row in rows:
        mark = "  <-- beyond the goal" if row["median_ms"] > GOAL else ""
        print(
            f"{row['page']:28} {row['statements']:>10} {row['first_ms']:>8} {row['best_ms']:>8} {row['median_ms']:>8} "
            f"{row['slowest_ms']:>18}{mark}"
        )
    for row in rows:
        if row["median_ms"] > options.slow:
            print(f"\n{row['page']}, {row['slowest_ms']} ms:\n{row['slowest']}")
    if options.json:
        options.json.write_text(json.dumps({"engine": connection.vendor, "rows": rows}, indent=1))


if __name__ == "__main__":
    main()
