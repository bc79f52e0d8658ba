"""``chokaq audit``."""

from __future__ import annotations

import argparse
import datetime as dt
from collections.abc import Sequence
from dataclasses import fields

from .. import control
from ..models import AuditEntry
from ..reading.acts import ActFilter, list_acts
from ..reading.documents import audit_document
from ..reading.reach import LONGEST_SEARCH
from .arguments import after_argument, limit_argument, range_arguments, range_of, text_of
from .console import EMPTY, OK, meant
from .subcommand import Call, Subcommand
from .table import Column
from .text import brief_age, instant, moment

__all__ = ["AUDIT"]

VERBS = tuple(name for name in control.__all__ if name.islower())
"""Most acts are called like the verb that does them."""
COLUMNS = (
    Column("WHEN", right=True), Column("WHO", flexible=True), Column("DID"), Column("TO", flexible=True, least=26),
    Column("WHY", flexible=True),
)  # fmt: skip


def _filter(call: Call, now: dt.datetime) -> tuple[ActFilter, bool]:
    """What is asked for, and whether it was bounded here: what has no index is looked for in the last days."""
    options = call.options
    named = {name: text_of(options, name) for name in ("target", "by", "action")}
    since, until = range_of(options, now)
    bounded = since is None and named["target"] is None and (named["by"] or named["action"]) is not None
    if bounded:
        until = until or now
        since = until - LONGEST_SEARCH
    return ActFilter(**named, since=since, until=until), bounded


def _audit(call: Call) -> int:
    now = call.now()
    where, bounded = _filter(call, now)
    page = list_acts(where, limit=call.options["limit"], after=call.options["after"])
    entries = page.rows
    call.console.document(
        {
            "as_of": instant(now),
            "filter": {each.name: _plain(getattr(where, each.name)) for each in fields(where)},
            "more": page.next is not None,
            "next": page.next,
            "entries": [audit_document(entry, may_see=True) for entry in entries],
        }
    )
    if entries:
        _show(call, entries, now)
    else:
        narrowed = where != ActFilter() or call.options["after"]
        near = "" if where.action is None else meant(where.action, VERBS)
        call.console.line(f"No act is recorded that fits.{near}" if narrowed else "No act is recorded yet.", "warn")
    if bounded:
        days = LONGEST_SEARCH.days
        call.console.line()
        call.console.paragraph(
            f"Looked at {days} days, to {moment(where.until, now)}. For earlier ones --until, or --since and --until, "
            f"at most {days} days apart; with --target there is no bound."
        )
    call.console.goes_on(page.next, f"There are more than these {len(entries):,}")
    return OK if entries else EMPTY


def _show(call: Call, entries: Sequence[AuditEntry], now: dt.datetime) -> None:
    if call.options.get("verbosity", 1) > 1:
        for entry in entries:
            call.console.heading(f"{entry.action} {entry.target}")
            call.console.pairs(
                [
                    ("when", moment(entry.at, now)),
                    ("who", entry.by),
                    ("why", entry.reason),
                    ("details", "" if entry.details == "{}" else entry.details),
                ]
            )
        return
    call.console.table(
        COLUMNS,
        [
            (brief_age(entry.at, now), entry.by or "-", entry.action, entry.target, entry.reason or "-")
            for entry in entries
        ],
    )


def _plain(value: object) -> object:
    return instant(value) if isinstance(value, dt.datetime) else value


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--target",
        metavar="ID",
        help="Acts on this job, queue, worker, type, bulk operation, failure group or option, by its id or name.",
    )
    parser.add_argument("--by", metavar="NAME", help="Acts of this person or program.")
    parser.add_argument(
        "--action",
        metavar="NAME",
        help="What was done, as DID has it: cancel, remove, resurrect, run_again, edit, purge, restore, annotate, "
        "triage, reveal, pause_queue, set_queue, open_circuit, stop_worker, set_setting, bulk_resurrect and the like.",
    )
    range_arguments(parser)
    limit_argument(parser, 20, "entries")
    after_argument(parser)


AUDIT = Subcommand(
    "audit",
    "Who did what, when and why; newest first.",
    _audit,
    description="Every operator act leaves an entry, whether it was done here, in admin or by code. `-v 2` shows what "
    f"changed. --by and --action without --target look at {LONGEST_SEARCH.days} days at a time: the last ones, unless "
    "--since and --until say which.",
    examples=[
        ("audit --since 1d", "the last day"),
        ("audit --target mail -v 2", "what was done to a queue, with what changed"),
        ("audit --by ada --action cancel --limit 100", "what somebody cancelled within a week"),
        ("audit --by ada --until 7d", "the week before"),
    ],
    adds=_arguments,
    exits="0 something is listed   4 nothing fits",
)
