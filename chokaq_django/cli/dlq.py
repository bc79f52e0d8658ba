"""``chokaq dlq`` and ``chokaq dlq list``."""

from __future__ import annotations

import argparse
import datetime as dt
import shlex
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from .. import control
from ..control import JobSummary
from ..models import JobDLQ
from ..reading.documents import reason_name
from .arguments import filter_arguments, filter_of, limit_argument, positive
from .console import EMPTY, OK
from .jobs import list_arguments, list_jobs
from .nothing import nothing_matches
from .program import typed
from .subcommand import Call, Subcommand
from .table import Column
from .text import brief_age, instant, one_line

__all__ = ["DLQ", "dead_groups"]

LOOKED_AT = 10_000
"""Dead jobs that are grouped, the newest."""
SHORT = 12
"""Digits of a fingerprint that are shown; --fingerprint takes as few."""
SAMPLES = 500
"""Types and queues that one group names."""


@dataclass(slots=True)
class Group:
    """Dead jobs that have one thing in common."""

    key: object
    count: int = 0
    first: dt.datetime | None = None
    last: dt.datetime | None = None
    sample: str = ""
    reason: int | None = None
    error_type: str | None = None
    types: Counter[str] = field(default_factory=Counter)
    queues: Counter[str] = field(default_factory=Counter)


def dead_groups(jobs: Iterable[JobSummary], by: str, most: int = LOOKED_AT) -> tuple[list[Group], bool]:
    """Groups of the newest dead jobs, the largest first, and whether there are older ones that were not looked at."""
    groups: dict[object, Group] = {}
    for looked, job in enumerate(jobs):
        if looked == most:
            return _largest_first(groups), True
        key = {"fingerprint": job.fingerprint, "reason": job.failure_reason, "type": job.type, "queue": job.queue}[by]
        group = groups.setdefault(
            key, Group(key, sample=job.id, reason=job.failure_reason, error_type=job.error_type, last=job.at)
        )
        group.count += 1
        group.first = job.at
        group.types[job.type] += 1
        group.queues[job.queue] += 1
    return _largest_first(groups), False


def _largest_first(groups: Mapping[object, Group]) -> list[Group]:
    return sorted(groups.values(), key=lambda group: (-group.count, str(group.key)))


def _groups(call: Call) -> int:
    now, by, limit = call.now(), call.options["group_by"], call.options["limit"]
    wanted = filter_of(call.options, now, "dead", ("dlq",))
    groups, older = dead_groups(control.iter_jobs(wanted), by, call.options["look_at"])
    call.console.document(
        {
            "as_of": instant(now),
            "group_by": by,
            "looked_at_all": not older,
            "groups": [_document(group, by) for group in groups[:limit]],
        }
    )
    if not groups:
        if wanted.is_everything:
            call.console.line("No dead job: nothing needs you.", "good")
        else:
            nothing_matches(call, wanted)
        return EMPTY
    named = (Column("REASON", flexible=True), Column("ERROR", flexible=True)) if by == "fingerprint" else ()
    columns = (
        Column(by.upper(), flexible=by in ("type", "queue")), Column("JOBS", right=True), *named,
        Column("TYPES" if by != "type" else "REASON", flexible=True), Column("FIRST", right=True),
        Column("LAST", right=True),
    )  # fmt: skip
    call.console.table(columns, [_row(group, by, now) for group in groups[:limit]])
    if older:
        call.console.line()
        call.console.paragraph(
            f"The newest {call.options['look_at']:,} dead jobs are grouped; there are older ones. Narrow it, or "
            "--look-at more."
        )
    if len(groups) > limit:
        call.console.line(f"{len(groups) - limit:,} smaller groups are left out: --limit.")
    if groups[0].key is None:  # of jobs that died before there were fingerprints
        return OK
    call.console.line()
    key = shlex.quote(one_line(_key_text(groups[0].key, by)))
    option = {"reason": "failure"}.get(by, by)
    call.console.line("See the first of these, or what would come back:")
    call.console.line(f"  {typed(f'dlq list --{option} {key}')}")
    call.console.line(f"  {typed(f'resurrect --{option} {key} --dry-run')}")
    return OK


def _key_text(key: object, by: str) -> str:
    if by == "reason":
        return str(reason_name(key if isinstance(key, int) else None))
    if by == "fingerprint":
        return str(key)[:SHORT] if key is not None else "(none)"
    return str(key)


def _row(group: Group, by: str, now: dt.datetime) -> tuple[object, ...]:
    types = ", ".join(name for name, _ in group.types.most_common(3)) + (", …" if len(group.types) > 3 else "")
    named = (reason_name(group.reason), (group.error_type or "-").rpartition(".")[2]) if by == "fingerprint" else ()
    other = types if by != "type" else reason_name(group.reason)
    return (
        _key_text(group.key, by),
        f"{group.count:,}",
        *named,
        other,
        brief_age(group.first, now),
        brief_age(group.last, now),
    )


def _document(group: Group, by: str) -> dict[str, Any]:
    return {
        "key": reason_name(group.reason) if by == "reason" else group.key,
        "count": group.count,
        "first_failed_at": instant(group.first),
        "last_failed_at": instant(group.last),
        "sample_id": group.sample,
        "sample_reason": reason_name(group.reason),
        "sample_error_type": group.error_type,
        "types": dict(group.types.most_common(SAMPLES)),
        "queues": dict(group.queues.most_common(SAMPLES)),
    }


def _list(call: Call) -> int:
    now = call.now()
    wanted = filter_of(call.options, now, "dead", ("dlq",))
    if not JobDLQ.objects.using(call.alias).exists() and not call.console.json:
        call.console.line("No dead job: nothing needs you.", "good")
        return EMPTY
    return list_jobs(call, wanted, now, ("dlq",))


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--group-by", choices=["fingerprint", "reason", "type", "queue"], default="fingerprint",
        help="What like failures share (default: fingerprint).",
    )  # fmt: skip
    parser.add_argument(
        "--look-at", type=positive, default=LOOKED_AT, metavar="N",
        help="Group the newest N dead jobs (default: 10,000).",
    )  # fmt: skip
    filter_arguments(parser, ("dlq",))
    limit_argument(parser, 20, "groups")


DLQ = Subcommand(
    "dlq",
    "Dead jobs, grouped by like failures; or listed.",
    _groups,
    description="A fingerprint stands for one kind of failure: reason, exception type, message without its numbers, "
    "and the line of your code.",
    examples=[
        ("dlq", "what needs a person"),
        ("dlq --group-by type --since 1d", "which types died within a day"),
        ("dlq list --failure Timeout --queue reports", "single jobs"),
    ],
    adds=_arguments,
    exits="0 there are some   4 nothing matches",
    children=[
        Subcommand(
            "list",
            "Single dead jobs, newest first.",
            _list,
            examples=[("dlq list --type email.send.v1 --limit 50", "the last of one type")],
            adds=partial(list_arguments, places=("dlq",)),
            exits="0 something is listed   4 nothing matches",
        )
    ],
)
