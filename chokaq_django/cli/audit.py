"""``chokaq audit``."""

from __future__ import annotations

import argparse
import json
from typing import Any

from ..models import AuditEntry
from .arguments import limit_argument, time_of
from .console import FINDINGS, OK
from .subcommand import Call, Subcommand
from .table import Column
from .text import brief_age, instant, moment

__all__ = ["AUDIT"]

COLUMNS = (
    Column("WHEN", right=True), Column("WHO", flexible=True), Column("DID"), Column("TO", flexible=True, least=26),
    Column("WHY", flexible=True),
)  # fmt: skip


def _details(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def _audit(call: Call) -> int:
    now, options = call.now(), call.options
    rows = AuditEntry.objects.using(call.alias).order_by("-at", "-id")
    for name, column in (("target", "target"), ("by", "by"), ("action", "action")):
        if options[name] is not None:
            rows = rows.filter(**{column: options[name].strip()})
    if options["since"] is not None:
        rows = rows.filter(at__gte=time_of(options["since"], now))
    entries = list(rows[: options["limit"]])
    call.console.document(
        {
            "as_of": instant(now),
            "entries": [
                {
                    "id": entry.pk,
                    "at": instant(entry.at),
                    "by": entry.by,
                    "action": entry.action,
                    "target": entry.target,
                    "reason": entry.reason,
                    "details": _details(entry.details),
                }
                for entry in entries
            ],
        }
    )
    if not entries:
        call.console.line("No act is recorded that fits.", "warn")
        return FINDINGS
    if options.get("verbosity", 1) > 1:
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
        return OK
    call.console.table(
        COLUMNS,
        [
            (brief_age(entry.at, now), entry.by or "-", entry.action, entry.target, entry.reason or "-")
            for entry in entries
        ],
    )
    return OK


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--target", metavar="ID", help="Acts on this job, queue, worker or type.")
    parser.add_argument("--by", metavar="NAME", help="Acts of this person or program.")
    parser.add_argument("--action", metavar="NAME", help="Such as cancel, resurrect, pause_queue.")
    parser.add_argument("--since", metavar="TIME", help="Since 15m, 2h, 7d ago, or since a time.")
    limit_argument(parser, 20, "entries")


AUDIT = Subcommand(
    "audit",
    "Who did what, when and why; newest first.",
    _audit,
    description="Every operator act leaves an entry, whether it was done here, in admin or by code. `-v 2` shows what "
    "changed.",
    examples=[
        ("audit --since 1d", "the last day"),
        ("audit --target mail -v 2", "what was done to a queue, with what changed"),
        ("audit --by ada --action cancel --limit 100", "what somebody cancelled"),
    ],
    adds=_arguments,
    exits="0 something is listed   1 nothing fits",
)
