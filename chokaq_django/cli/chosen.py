"""Which jobs a verb is to act on: those named, or those that a filter finds, frozen before anybody is asked."""

from __future__ import annotations

import datetime as dt
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import islice

from .. import control
from ..control import JobFilter
from ..control.acts import clean_id
from ..reading.job import MODELS, Location
from .arguments import filter_of
from .console import usage
from .program import typed
from .subcommand import Call
from .table import Column
from .text import age, one_line

__all__ = ["CONFIRM_FROM", "SHOWN", "Chosen", "asked_for", "choose", "elsewhere", "named", "show_chosen"]

CONFIRM_FROM = 25
"""Jobs from which a person is asked, or --yes is wanted."""
SHOWN = 10
AT_ONCE = 500
WHERE = {
    Location.HOT: "it is active", Location.ARCHIVE: "it has succeeded", Location.DLQ: "it is dead",
    Location.TRASH: "it is in the Trash",
}  # fmt: skip


@dataclass(slots=True)
class Chosen:
    """A frozen selection: these ids and no later ones; of a filter's, how many are of which queue and type."""

    ids: list[str] = field(default_factory=list)
    kinds: Counter[tuple[str, str]] = field(default_factory=Counter)
    oldest: dt.datetime | None = None


def choose(call: Call, default: str, places: tuple[str, ...]) -> tuple[Chosen, JobFilter | None]:
    """The frozen set of ids, the oldest first, and the filter it came from."""
    options = call.options
    wanted = asked_for(call, default, places)
    if wanted is None:
        return Chosen(ids=named(options["ids"])), None
    found = Chosen()
    for job in islice(control.iter_jobs(wanted, oldest_first=True), options["limit"]):
        found.ids.append(job.id)
        found.kinds[job.queue, job.type] += 1
        found.oldest = found.oldest or job.at
    return found, wanted


def asked_for(call: Call, default: str, places: tuple[str, ...]) -> JobFilter | None:
    """The filter; None where ids are named instead."""
    options = call.options
    wanted = filter_of(options, call.now(), default, places)
    nothing = wanted.is_everything and not options.get("status")
    if options["ids"]:
        if not nothing or options["all"]:
            usage("Name ids or a filter, not both.")
        return None
    if nothing and not options["all"]:
        usage("Which jobs? Name ids, or a filter such as --queue mail; --all for every one. Try it with --dry-run.")
    return wanted


def named(given: Sequence[str]) -> list[str]:
    """The ids of the command line, each once; ``-`` stands for those on standard input."""
    ids: dict[str, None] = {}
    for text in given:
        for word in sys.stdin.read().split() if text == "-" else [text]:
            job_id = clean_id(word)
            if job_id is None:
                usage(f"{one_line(word, 60)!r} is no job id, which has 26 letters and digits: `{typed('jobs')}`.")
            ids[job_id] = None
    if not ids:
        usage("Standard input holds no id.")
    return list(ids)


def elsewhere(call: Call, ids: Sequence[str], places: tuple[str, ...]) -> dict[str, str]:
    """Those of the ids whose jobs are in none of these places, and where they are, in words: an act refuses them."""
    left = dict.fromkeys(ids, "there is no such job")
    for place, model in MODELS.items():
        for start in range(0, len(ids), AT_ONCE):
            rows = model._default_manager.using(call.alias).filter(pk__in=ids[start : start + AT_ONCE])
            for job_id in rows.values_list("pk", flat=True):
                if place in places:
                    left.pop(job_id, None)
                elif job_id in left:
                    left[job_id] = WHERE[place]
    return left


def show_chosen(call: Call, found: Chosen, word: str, *, headed: bool = True) -> None:
    """How many of which queue and type, or which; ``headed``: below a line that counts them."""
    console = call.console
    if headed:
        console.line(f"{len(found.ids):,} {'job' if len(found.ids) == 1 else 'jobs'} to {word}.", "head")
    if found.kinds:
        kinds = found.kinds.most_common(SHOWN)
        columns = (Column("JOBS", right=True), Column("QUEUE", flexible=True), Column("TYPE", flexible=True))
        console.table(columns, [(f"{count:,}", queue, type_key) for (queue, type_key), count in kinds])
        if len(found.kinds) > SHOWN:
            console.line(f"... and {len(found.kinds) - SHOWN:,} more kinds.")
        if found.oldest is not None:
            console.line(f"The oldest is from {age(found.oldest, call.now())}.")
    elif len(found.ids) <= SHOWN:
        for job_id in found.ids:
            job = control.get(job_id)
            what = f"{job.type}, queue {job.queue}" if job is not None else "there is no such job"
            console.paragraph(what, indent="  ", mark=f"{job_id}  ")
