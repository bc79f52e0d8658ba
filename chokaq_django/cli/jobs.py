"""``chokaq jobs`` and ``chokaq job``."""

from __future__ import annotations

import argparse
import dataclasses
import datetime as dt
from collections.abc import Mapping
from typing import Any

import msgspec

from .. import control
from ..control.view import JobView, Location, dead_status, known
from ..models import AuditEntry, FailureReason, JobArchive, JobBase, JobDLQ, JobHot, JobStatus, JobTrash
from ..reading.selection import PLACES, JobFilter, matches, rows_of, tags_of
from ..reading.waiting import why_waiting
from .arguments import filter_arguments, filter_of, limit_argument
from .console import FINDINGS, OK
from .subcommand import Call, Subcommand
from .table import Column
from .text import age, block, brief_age, duration, instant, moment, one_line

__all__ = ["JOB", "JOBS", "job_line", "reason_name", "status_name"]

LINES = 30
"""Lines of a payload, result or error that are shown without ``--full``."""
TONES = {
    JobStatus.FAILED: "bad", JobStatus.ZOMBIE: "bad", JobStatus.PROCESSING: "warn", JobStatus.SUCCEEDED: "good",
}  # fmt: skip
ID = Column("ID")
QUEUE, TYPE = Column("QUEUE", flexible=True), Column("TYPE", flexible=True)
COLUMNS: dict[str, tuple[Column, ...]] = {
    "hot": (ID, Column("STATUS"), QUEUE, TYPE, Column("TRY", right=True), Column("DUE", right=True)),
    "archive": (ID, QUEUE, TYPE, Column("TOOK", right=True), Column("FINISHED", right=True)),
    "trash": (ID, Column("FROM"), QUEUE, TYPE, Column("PURGED", right=True), Column("KEPT", right=True)),
    "dlq": (ID, Column("REASON", flexible=True), QUEUE, TYPE, Column("DIED", right=True)),
}


def reason_name(value: int | None) -> str | None:
    """A failure reason as people know it."""
    if value is None:
        return None
    reason = known(FailureReason, value)
    return reason.label if isinstance(reason, FailureReason) else str(reason)


def status_name(row: JobBase, now: dt.datetime) -> str:
    """The status of a row, scheduled and retrying told from pending."""
    if isinstance(row, JobDLQ):
        return dead_status(row.failure_reason).name.lower()
    if isinstance(row, JobTrash):
        return "purged"
    if not isinstance(row, JobHot):
        return "succeeded"
    status = known(JobStatus, row.status)
    if status is JobStatus.PENDING:
        return "retrying" if row.attempt else "scheduled" if row.run_at > now else "pending"
    return status.name.lower() if isinstance(status, JobStatus) else str(status)


def job_line(row: JobBase, now: dt.datetime) -> dict[str, Any]:
    """A job of a list, for programs."""
    line: dict[str, Any] = {
        "id": row.pk, "status": status_name(row, now), "queue": row.queue, "type": row.type, "priority": row.priority,
        "attempt": row.attempt, "max_attempts": row.max_attempts, "tags": tags_of(row.tags),
        "created_at": instant(row.created_at), "created_by": row.created_by, "due_at": instant(row.due_at),
        "run_at": instant(row.run_at), "deadline_at": instant(row.deadline_at), "started_at": instant(row.started_at),
        "worker_id": row.worker_id,
    }  # fmt: skip
    if isinstance(row, JobHot):
        line["progress"] = row.progress
    elif isinstance(row, JobArchive):
        line |= {"finished_at": instant(row.finished_at), "duration_ms": row.duration_ms, "wait_ms": row.wait_ms}
    elif isinstance(row, JobTrash):
        line |= {
            "came_from": row.came_from, "purged_at": instant(row.purged_at), "purged_by": row.purged_by,
            "expires_at": instant(row.expires_at),
        }  # fmt: skip
    elif isinstance(row, JobDLQ):
        line |= {
            "failed_at": instant(row.failed_at), "failure_reason": reason_name(row.failure_reason),
            "error_type": row.error_type, "fingerprint": row.fingerprint,
        }  # fmt: skip
    return line


def list_jobs(call: Call, wanted: JobFilter, now: dt.datetime) -> int:
    """The table or document of the jobs that match."""
    limit = call.options["limit"]
    rows = list(matches(rows_of(wanted, call.alias, now), wanted, limit + 1))
    more = len(rows) > limit
    rows = rows[:limit]
    call.console.document(
        {
            "as_of": instant(now),
            "filter": {
                name: instant(value)
                if isinstance(value, dt.datetime)
                else reason_name(value)
                if name == "reason"
                else value
                for name, value in dataclasses.asdict(wanted).items()
            },
            "more": more,
            "jobs": [job_line(row, now) for row in rows],
        }
    )
    if not rows:
        call.console.line(f"No job matches ({one_line(wanted.sentence(), 200)}).", "warn")
        return FINDINGS
    call.console.table(COLUMNS[wanted.place], [_cells(row, now) for row in rows])
    if more:
        call.console.line()
        call.console.line(f"There are more than these {limit:,}; narrow it, or see more with --limit.")
    return OK


def _plain(value: Any) -> Any:
    return instant(value) if isinstance(value, dt.datetime) else value


def _cells(row: JobBase, now: dt.datetime) -> tuple[object, ...]:
    if isinstance(row, JobArchive):
        return row.pk, row.queue, row.type, duration(row.duration_ms / 1000), brief_age(row.finished_at, now)
    if isinstance(row, JobDLQ):
        return row.pk, reason_name(row.failure_reason), row.queue, row.type, brief_age(row.failed_at, now)
    if isinstance(row, JobTrash):
        kept = "for ever" if row.expires_at is None else brief_age(row.expires_at, now)
        return row.pk, row.came_from, row.queue, row.type, brief_age(row.purged_at, now), kept
    status = status_name(row, now)
    return row.pk, status, row.queue, row.type, f"{row.attempt}/{row.max_attempts}", brief_age(row.run_at, now)


def _jobs(call: Call) -> int:
    now = call.now()
    return list_jobs(call, filter_of(call.options, now, "active"), now)


def _jobs_arguments(parser: argparse.ArgumentParser) -> None:
    filter_arguments(parser, tuple(PLACES))
    limit_argument(parser, 20, "jobs")


# -- one job -----------------------------------------------------------------------------------------------------------


def _job(call: Call) -> int:
    job = control.get(call.options["id"])
    if job is None:
        text = call.options["id"].strip()
        hint = "" if len(text) == 26 else " Ids have 26 letters and digits; `chokaq jobs` lists them."
        call.console.document({"job": None})
        if not call.console.json:
            call.console.line(f"There is no job {one_line(text, 60)!r}: it never was, or it is deleted.{hint}", "warn")
        return FINDINGS
    now = call.now()
    reasons = why_waiting(job, call.alias, now)
    acts = AuditEntry.objects.using(call.alias).filter(target=job.id).order_by("-at", "-id")[:10]
    call.console.document(
        {
            "as_of": instant(now),
            "job": job_document(job),
            "waiting_because": reasons,
            "audit": [
                {"at": instant(act.at), "by": act.by, "action": act.action, "reason": act.reason} for act in acts
            ],
        }
    )
    if not call.console.json:
        _show(call, job, now, reasons)
        if acts:
            call.console.heading("Acts")
            for act in acts:
                why = f": {one_line(act.reason)}" if act.reason else ""
                call.console.line(f"{age(act.at, now)}  {one_line(act.action)} by {one_line(act.by or '?')}{why}")
    return OK


def job_document(job: JobView) -> dict[str, Any]:
    """Everything of a job, for programs. ``payload`` and ``result`` are JSON text, as they are stored."""
    document: dict[str, Any] = {}
    for field in dataclasses.fields(job):
        value = getattr(job, field.name)
        if isinstance(value, dt.datetime):
            value = instant(value)
        elif isinstance(value, JobStatus):
            value = value.name.lower()
        elif field.name == "failure_reason":
            value = reason_name(value)
        elif isinstance(value, tuple):
            value = [dict(item) if isinstance(item, Mapping) else item for item in value]
        elif isinstance(value, Mapping):
            value = dict(value)
        document[field.name] = value
    return document


def _show(call: Call, job: JobView, now: dt.datetime, reasons: list[str]) -> None:
    console, full = call.console, call.options["full"]
    status = job.status.name.lower() if isinstance(job.status, JobStatus) else str(job.status)
    places = {Location.HOT: "active", Location.ARCHIVE: "archive", Location.DLQ: "DLQ", Location.TRASH: "Trash"}
    where = places[job.location]
    console.paragraph(f"{job.type}  {job.id}", "head")
    if isinstance(job.status, JobStatus):
        console.line(f"{status} ({where})", TONES.get(job.status, ""))
    for reason in reasons:
        console.paragraph(f"waits: {reason}", "warn", indent="  ")
    console.line()
    crashes = f", {job.crash_count} crashes" if job.crash_count else ""
    console.pairs(
        [
            ("queue", job.queue),
            ("priority", job.priority),
            (
                "attempt",
                f"{job.attempt} of {job.max_attempts}{crashes}",
            ),
            ("progress", None if job.progress is None else f"{job.progress} % {job.progress_message or ''}".strip()),
            ("created", f"{moment(job.created_at, now)}{f' by {job.created_by}' if job.created_by else ''}"),
            ("due", moment(job.due_at, now)),
            ("may run", None if job.run_at == job.due_at else moment(job.run_at, now)),
            ("deadline", job.deadline_at and moment(job.deadline_at, now)),
            ("started", job.started_at and moment(job.started_at, now)),
            ("heartbeat", job.heartbeat_at and moment(job.heartbeat_at, now)),
            ("finished", job.finished_at and moment(job.finished_at, now)),
            ("took", None if job.duration_ms is None else duration(job.duration_ms / 1000)),
            ("waited", None if job.wait_ms is None else duration(job.wait_ms / 1000)),
            ("died", job.failed_at and moment(job.failed_at, now)),
            ("reason", reason_name(job.failure_reason)),
            ("error", job.error_type),
            ("fingerprint", job.fingerprint),
            ("purged", job.purged_at and moment(job.purged_at, now)),
            ("purged by", job.purged_by),
            ("came from", job.came_from),
            ("deleted", job.expires_at and moment(job.expires_at, now)),
            ("worker", job.worker_id),
            (
                "cancel asked",
                job.cancel_requested_at and f"{moment(job.cancel_requested_at, now)} by {job.cancel_requested_by}",
            ),
            ("tags", ", ".join(job.tags)),
            ("unique key", job.idempotency_key),
            ("group key", job.concurrency_key),
            ("resurrected", f"{job.generation} times" if job.generation > 1 else "once" if job.generation else None),
            ("changed by", job.modified_by),
            ("headers", ", ".join(f"{name}={value}" for name, value in job.headers.items())),
            ("note", job.note),
        ]
    )
    _text(call, "Payload", _pretty(job.payload), full)
    _text(call, "Result", _pretty(job.result) if job.result else "", full)
    _text(call, "Error", job.error_details or "", full)
    _attempts(call, job, now)


def _pretty(text: str) -> str:
    """JSON indented, its digits as they are."""
    try:
        return msgspec.json.format(text, indent=2)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        return text


def _text(call: Call, title: str, text: str, full: bool) -> None:
    if not text:
        return
    lines = block(text.rstrip("\n")).split("\n")
    # The end of an error says what happened.
    shown = lines if full else lines[-LINES:] if title == "Error" else lines[:LINES]
    call.console.heading(title)
    left = len(lines) - len(shown)
    note = f"({left:,} more lines: --full)" if left else ""
    if note and title == "Error":
        call.console.line(note)
    for line in shown:
        call.console.line(line if full else line[:2_000])
    if note and title != "Error":
        call.console.line(note)


def _attempts(call: Call, job: JobView, now: dt.datetime) -> None:
    if not job.attempts:
        return
    call.console.heading("Attempts")
    rows = []
    for entry in job.attempts:
        took = entry.get("duration_ms")
        error = ": ".join(str(entry[name]) for name in ("error_type", "message") if entry.get(name))
        rows.append(
            (
                entry.get("attempt", "?"),
                entry.get("outcome", "?"),
                _started(entry.get("started"), now),
                duration(took / 1000) if isinstance(took, int | float) and abs(took) < 2**53 else "-",
                error or "-",
            )
        )
    columns = (
        Column("TRY", right=True), Column("OUTCOME", flexible=True), Column("STARTED", right=True),
        Column("TOOK", right=True), Column("ERROR", flexible=True),
    )  # fmt: skip
    call.console.table(columns, rows)


def _started(value: object, now: dt.datetime) -> str:
    try:
        time = dt.datetime.fromisoformat(str(value))
        return age(time if time.tzinfo else time.replace(tzinfo=dt.UTC), now)
    except (ValueError, OverflowError):
        return "-"


def _job_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("id", metavar="ID", help="The job's id.")
    parser.add_argument("--full", action="store_true", help="Payload, result and error in full length.")


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
    adds=_jobs_arguments,
    exits="0 something is listed   1 nothing matches",
)
JOB = Subcommand(
    "job",
    "One job in full, wherever it is, and why it does not run.",
    _job,
    examples=[
        ("job 01J9Z6T0Q5W9X3V8R2K7M4N1PB", "state, times, payload, result, error, attempts, acts"),
        ("job 01J9Z6T0Q5W9X3V8R2K7M4N1PB --full --json", "for a script"),
    ],
    adds=_job_arguments,
    exits="0 found   1 there is no such job",
)
