"""``chokaq queues``, ``pause`` and ``resume``."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable
from functools import partial
from typing import Any

from .. import control
from ..conf import get_options
from ..reading.documents import queue_document
from ..reading.fleet import read_workers, serves
from ..reading.queues import QueueFigures, read_queues
from ..storage import BulkResult
from .arguments import span_of
from .changes import change, changed_codes, names_arguments
from .console import OK, usage
from .names import queue_or_refused
from .program import manage
from .subcommand import Call, Subcommand
from .table import Column
from .text import at_least, duration, instant, one_line

__all__ = ["PAUSE", "QUEUE", "QUEUES", "RESUME", "queue_table"]

NO_LIMIT = ("none", "-", "")
_WHOLE = re.compile(r"-?[0-9]{1,30}")
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


def _queues(call: Call) -> int:
    now = call.now()
    name = call.options["name"]
    if name is not None:
        name = queue_or_refused(name)
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
        call.console.paragraph(f"No live worker takes jobs from: {names}. Start one: `{manage()} runworker`.", "bad")
    return OK


def _change(verb: Callable[..., BulkResult], word: str) -> Callable[[Call], int]:
    return change(verb, queue_or_refused, thing="queue", done=f"is {word}", applied=word)


_reset = change(
    control.reset_queue, queue_or_refused, thing="queue", done="has the limits of the settings", applied="reset"
)


def _set(call: Call) -> int:
    """Set the limits that are given on each of the queues."""
    options = call.options
    limits: dict[str, Any] = {}
    for name, reader in (
        ("max_workers", _whole), ("execution_timeout", _span), ("zombie_timeout", _span), ("window", _plain),
    ):  # fmt: skip
        text = options[name]
        if text is not None:
            limits[name] = None if text.strip().lower() in NO_LIMIT else reader(text.strip(), name)
    if not limits:
        usage("Which limit? Say --max-workers, --execution-timeout, --zombie-timeout or --window.")
    return _change(partial(control.set_queue, **limits), "changed")(call)


def _whole(text: str, name: str) -> int | str:
    return int(text) if _WHOLE.fullmatch(text) else text  # the verb says what is wrong with it


def _span(text: str, name: str) -> float:
    found = span_of(text)
    if found is None:
        usage(f"--{name.replace('_', '-')} {one_line(text, 60)}: give a span such as 90s, 15m or 2h, or `none`.")
    return found


def _plain(text: str, name: str) -> str:
    return text


def _name_argument(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", nargs="?", metavar="QUEUE", help="Only this queue.")


def _no_name_argument(parser: argparse.ArgumentParser) -> None:
    parser.set_defaults(name=None)


_change_arguments = partial(
    names_arguments, metavar="QUEUE", what="Names of queues.", new="Accept a name that nothing knows yet."
)


def _limit_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--max-workers", metavar="N", help="Its jobs at once, in the whole fleet.")
    parser.add_argument("--execution-timeout", metavar="SPAN", help="How long a job may run, such as 90s or 2h.")
    parser.add_argument("--zombie-timeout", metavar="SPAN", help="Without a heartbeat for so long it counts as dead.")
    parser.add_argument("--window", metavar="TEXT", help="When jobs may start, such as '22:00-06:00 Europe/Berlin'.")
    _change_arguments(parser)


CHANGED = changed_codes("unknown queue")
QUEUES = Subcommand(
    "queues",
    "Queues: what waits, since when, what runs, and their limits.",
    _queues,
    description="DUE could run now, LATER waits for its time, LAG is how long the first due job has waited. A paused "
    "or hidden queue, or one outside its window, has no lag. Counts stop at 10,000 (shown as 10,000+).",
    examples=[("queues", "all of them"), ("queues mail --json", "one of them, for a script")],
    adds=_name_argument,
    exits="0 it could be looked at   2 unknown queue",
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
    exits="0 at least one was paused   2 unknown queue   4 all were paused already",
)
RESUME = Subcommand(
    "resume",
    "Claim from paused queues again.",
    _change(control.resume_queue, "open"),
    examples=[("resume mail", "workers take its jobs again at once")],
    adds=_change_arguments,
    exits="0 at least one was resumed   2 unknown queue   4 none was paused",
)
QUEUE = Subcommand(
    "queue",
    "Set a queue's limits, give them back to the settings, hide it, show it again.",
    _queues,
    description="Without an action: the same as `queues`.",
    examples=[
        ("queue set reports --max-workers 2", "two of its jobs at once, in the whole fleet"),
        ("queue hide imports", "out of use"),
    ],
    adds=_no_name_argument,
    exits="0 they could be looked at",
    children=[
        Subcommand(
            "set",
            "Set limits of queues; `none` takes one off.",
            _set,
            examples=[
                ("queue set reports --max-workers 2 --execution-timeout 2h", "few and long ones"),
                ("queue set mail --window '08:00-18:00 Europe/Berlin'", "in office hours"),
                ("queue set mail --window none", "at any time again"),
            ],
            adds=_limit_arguments,
            exits=changed_codes("unknown queue, or a bad limit"),
        ),
        Subcommand(
            "reset",
            "Give queues the limits that the settings say, which they follow again.",
            _reset,
            examples=[("queue reset mail --reason 'the rush is over'", 'what CHOKAQ["QUEUES"] says holds again')],
            adds=_change_arguments,
            exits=CHANGED,
        ),
        Subcommand(
            "hide",
            "Take queues out of use: nothing is claimed, and they count in no figure of lag.",
            _change(control.hide_queue, "hidden"),
            examples=[("queue hide imports --reason 'moved to the new system'", "one of them")],
            adds=_change_arguments,
            exits=CHANGED,
        ),
        Subcommand(
            "show",
            "Take hidden queues into use again.",
            _change(control.show_queue, "shown"),
            examples=[("queue show imports", "workers take its jobs again")],
            adds=_change_arguments,
            exits=CHANGED,
        ),
    ],
)
