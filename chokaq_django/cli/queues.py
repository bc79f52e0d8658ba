"""``chokaq queues``, ``pause`` and ``resume``."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

from .. import control
from ..conf import get_options
from ..reading.fleet import read_workers, serves
from ..reading.queues import QueueFigures, known_queues, read_queues
from ..storage import BulkResult
from .arguments import act_arguments, actor
from .console import FINDINGS, OK, meant, usage
from .subcommand import Call, Subcommand
from .table import Column
from .text import at_least, duration, instant, one_line

__all__ = ["PAUSE", "QUEUES", "RESUME", "known_or_refused", "queue_document", "queue_table"]

COLUMNS = (
    Column("QUEUE", flexible=True), Column("STATE"), Column("DUE", right=True), Column("LATER", right=True),
    Column("BUFFERED", right=True), Column("RUNNING", right=True), Column("CAP", right=True), Column("LAG", right=True),
)  # fmt: skip


def queue_table(call: Call, queues: list[QueueFigures], now: Any) -> None:
    """The table of queues; late ones stand out."""
    late = get_options().health
    tones, rows = [], []
    for figures in queues:
        lag = figures.lag(now)
        tone = "bad" if lag >= late.lag_unhealthy else "warn" if lag >= late.lag_degraded or not figures.is_open else ""
        tones.append(tone)
        rows.append(
            (
                figures.name,
                figures.state,
                at_least(figures.due, figures.capped),
                at_least(figures.scheduled, figures.capped),
                figures.fetched,
                figures.processing,
                figures.max_workers or "-",
                duration(lag) if lag else "-",
            )
        )
    call.console.table(COLUMNS, rows, tones)


def queue_document(figures: QueueFigures, now: Any) -> dict[str, Any]:
    window = figures.window
    return {
        "name": figures.name,
        "state": figures.state,
        "paused": figures.is_paused,
        "hidden": not figures.is_active,
        "in_window": figures.in_window,
        "window": f"{window[0]:%H:%M}-{window[1]:%H:%M} {window[2]}" if window else None,
        "due": figures.due,
        "scheduled": figures.scheduled,
        "counts_capped": figures.capped,
        "fetched": figures.fetched,
        "processing": figures.processing,
        "lag_seconds": round(figures.lag(now), 3),
        "oldest_due_at": instant(figures.oldest),
        "max_workers": figures.max_workers,
        "execution_timeout": figures.execution_timeout,
        "zombie_timeout": figures.zombie_timeout,
    }


def _queues(call: Call) -> int:
    now = call.now()
    name = call.options["name"]
    if name is not None:
        name = known_or_refused(name)
    queues = read_queues(call.alias, now, only=name)
    workers = read_workers(call.alias, now)
    call.console.document(
        {
            "as_of": instant(now),
            "queues": [
                {**queue_document(figures, now), "has_live_worker": serves(workers, figures.name)} for figures in queues
            ],
        }
    )
    if not queues:
        call.console.line("There is no queue yet: one appears with its first job.")
        return OK
    queue_table(call, queues, now)
    idle = [figures.name for figures in queues if figures.due and figures.is_open and not serves(workers, figures.name)]
    if idle:
        call.console.line()
        names = ", ".join(map(one_line, idle))
        call.console.paragraph(f"No live worker takes jobs from: {names}. Start one: `manage.py runworker`.", "bad")
    return OK


def known_or_refused(name: str, *, new: bool = False) -> str:
    """``name`` trimmed, if settings, code, a control row or a waiting job knows it; else a usage error."""
    name = name.strip()
    known = known_queues()
    if name in known or (new and name):
        return name
    hint = f" Known queues: {', '.join(map(one_line, sorted(known)[:10]))}." if known else " There is no queue yet."
    return usage(f"There is no queue {one_line(name, 100)!r}.{meant(name, known)}{hint}")


def _change(verb: Callable[..., BulkResult], word: str) -> Callable[[Call], int]:
    def run(call: Call) -> int:
        names = [known_or_refused(name, new=call.options["new"]) for name in call.options["names"]]
        by, reason = actor(call.options), call.options["reason"]
        answers = [verb(name, by=by, reason=reason) for name in dict.fromkeys(names)]
        applied = [name for answer in answers for name in answer.applied]
        refused = [conflict for answer in answers for conflict in answer.refused]
        call.console.document(
            {"by": by, word: applied, "refused": [{"queue": each.id, "reason": each.reason} for each in refused]}
        )
        for name in applied:
            call.console.line(f"{one_line(name)} is {word}.", "good")
        for conflict in refused:
            call.console.line(f"{one_line(conflict.id)}: {conflict.reason}", "warn")
        return OK if applied else FINDINGS

    return run


def _name_argument(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", nargs="?", metavar="QUEUE", help="Only this queue.")


def _change_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("names", nargs="+", metavar="QUEUE", help="Names of queues.")
    parser.add_argument("--new", action="store_true", help="Accept a name that nothing knows yet.")
    act_arguments(parser)


QUEUES = Subcommand(
    "queues",
    "Queues: what waits, since when, what runs, and their limits.",
    _queues,
    description="DUE could run now, LATER waits for its time, LAG is how long the first due job has waited. A paused "
    "or hidden queue, or one outside its window, has no lag. Counts stop at 10,000 (shown as 10,000+).",
    examples=[("queues", "all of them"), ("queues mail --json", "one of them, for a script")],
    adds=_name_argument,
)
PAUSE = Subcommand(
    "pause",
    "Claim nothing more from queues; running jobs go on.",
    _change(control.pause_queue, "paused"),
    description="Jobs keep their place and can still be enqueued. Workers notice within about a second.",
    examples=[
        ("pause mail --reason 'provider is down'", "stop sending mail, and say why in the audit"),
        ("pause mail reports --by ada", "two queues, in somebody's name"),
    ],
    adds=_change_arguments,
    exits="0 at least one was paused   1 all were paused already   2 unknown queue",
)
RESUME = Subcommand(
    "resume",
    "Claim from paused queues again.",
    _change(control.resume_queue, "open"),
    examples=[("resume mail", "workers take its jobs again at once")],
    adds=_change_arguments,
    exits="0 at least one was resumed   1 none was paused   2 unknown queue",
)
