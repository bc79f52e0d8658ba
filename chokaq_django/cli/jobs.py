"""``chokaq jobs``: jobs by filter."""

from __future__ import annotations

import argparse
import dataclasses
import datetime as dt
from functools import partial
from typing import Any

from .. import control
from ..control import JobFilter, JobSummary, Location
from ..reading.documents import job_line, reason_name, status_name
from ..reading.listing import MOST_LISTED
from ..reading.selection import PLACES
from .arguments import after_argument, filter_arguments, filter_of, limit_argument
from .console import EMPTY, OK
from .nothing import nothing_matches
from .subcommand import Call, Subcommand
from .table import Column
from .text import brief_age, duration, instant

__all__ = ["JOBS", "list_arguments", "list_jobs"]

MOST_PAGES = 20
"""Pages that are read for one list, of which each looks at up to 10,000 jobs."""
ID = Column("ID")
QUEUE, TYPE = Column("QUEUE", flexible=True), Column("TYPE", flexible=True)
COLUMNS: dict[str, tuple[Column, ...]] = {
    "hot": (ID, Column("STATUS"), QUEUE, TYPE, Column("TRY", right=True), Column("DUE", right=True)),
    "archive": (ID, QUEUE, TYPE, Column("TOOK", right=True), Column("FINISHED", right=True)),
    "trash": (ID, Column("FROM"), QUEUE, TYPE, Column("PURGED", right=True), Column("KEPT", right=True)),
    "dlq": (ID, Column("REASON", flexible=True), QUEUE, TYPE, Column("DIED", right=True)),
}


def list_jobs(call: Call, wanted: JobFilter, now: dt.datetime, places: tuple[str, ...]) -> int:
    """The table or document of the jobs that match; ``places``: where the subcommand can look."""
    limit, after = call.options["limit"], call.options["after"]
    jobs: list[JobSummary] = []
    for _ in range(MOST_PAGES):
        page = control.list_jobs(wanted, limit=min(limit - len(jobs), MOST_LISTED), after=after)
        jobs += page.jobs
        after = page.next
        if after is None or len(jobs) >= limit:
            break
    call.console.document(
        {
            "as_of": instant(now),
            "filter": {name: _plain(name, value) for name, value in dataclasses.asdict(wanted).items()},
            "more": after is not None,
            "next": after,
            "jobs": [job_line(job, now) for job in jobs],
        }
    )
    if not jobs:
        nothing_matches(call, wanted, places)
    else:
        call.console.table(COLUMNS[wanted.place], [_cells(job, now) for job in jobs])
    more = f"There are more than these {limit:,}" if len(jobs) >= limit else "There are others to look at"
    call.console.goes_on(after, more)
    return OK if jobs else EMPTY


def _plain(name: str, value: Any) -> Any:
    return instant(value) if isinstance(value, dt.datetime) else reason_name(value) if name == "reason" else value


def _cells(job: JobSummary, now: dt.datetime) -> tuple[object, ...]:
    when = brief_age(job.at, now)
    if job.location is Location.ARCHIVE:
        return job.id, job.queue, job.type, duration((job.duration_ms or 0) / 1000), when
    if job.location is Location.DLQ:
        return job.id, reason_name(job.failure_reason), job.queue, job.type, when
    if job.location is Location.TRASH:
        kept = "for ever" if job.expires_at is None else brief_age(job.expires_at, now)
        return job.id, job.came_from, job.queue, job.type, when, kept
    status = status_name(job, now)
    return job.id, status, job.queue, job.type, f"{job.attempt}/{job.max_attempts}", brief_age(job.run_at, now)


def _jobs(call: Call) -> int:
    now = call.now()
    return list_jobs(call, filter_of(call.options, now, "active"), now, tuple(PLACES))


def list_arguments(parser: argparse.ArgumentParser, places: tuple[str, ...]) -> None:
    """Of every list of jobs."""
    filter_arguments(parser, places)
    limit_argument(parser, 20, "jobs")
    after_argument(parser)


JOBS = Subcommand(
    "jobs",
    "List jobs by queue, type, status, tag and time.",
    _jobs,
    description="Active jobs unless --status says otherwise; newest first. --since is about when a job was created, "
    "finished or died, by its status.",
    examples=[
        ("jobs --queue mail --status processing", "what runs now in a queue"),
        ("jobs --status succeeded --since 1h --limit 100", "what went well in the last hour"),
        ("jobs --tag customer-42 --json", "jobs with a tag, for a script"),
    ],
    adds=partial(list_arguments, places=tuple(PLACES)),
    exits="0 something is listed   4 nothing matches",
)
