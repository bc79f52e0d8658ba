"""``chokaq job``."""

from __future__ import annotations

import argparse
import datetime as dt

import msgspec

from .. import control
from ..models import JobStatus
from ..reading.acts import acts_on
from ..reading.documents import job_document, reason_name
from ..reading.job import JobView, Location
from ..reading.waiting import why_waiting
from .console import EMPTY, OK
from .program import typed
from .subcommand import Call, Subcommand
from .table import Column
from .text import age, block, duration, instant, moment, one_line

__all__ = ["JOB"]

MOST_ACTS = 10
LINES = 30
"""Lines of a payload, result or error that are shown without ``--full``."""
TONES = {
    JobStatus.FAILED: "bad", JobStatus.ZOMBIE: "bad", JobStatus.PROCESSING: "warn", JobStatus.SUCCEEDED: "good",
}  # fmt: skip


def _job(call: Call) -> int:
    now, job = call.now(), control.get(call.options["id"])
    if job is None:
        text = call.options["id"].strip()
        hint = "" if len(text) == 26 else f" Ids have 26 letters and digits; `{typed('jobs')}` lists them."
        call.console.document({"as_of": instant(now), "job": None, "waiting_because": [], "audit": []})
        call.console.paragraph(f"There is no job {one_line(text, 60)!r}: it never was, or it is deleted.{hint}", "warn")
        return EMPTY
    reasons = [str(hold) for hold in why_waiting(job, call.alias, now)]
    acts = acts_on(job.id, MOST_ACTS)
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
            ("revision", job.revision),
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


JOB = Subcommand(
    "job",
    "One job in full, wherever it is, and why it does not run.",
    _job,
    examples=[
        ("job 01J9Z6T0Q5W9X3V8R2K7M4N1PB", "state, times, payload, result, error, attempts, acts"),
        ("job 01J9Z6T0Q5W9X3V8R2K7M4N1PB --full --json", "for a script"),
    ],
    adds=_job_arguments,
    exits="0 found   4 there is no such job",
)
