"""Jobs, in lists and in full."""

from __future__ import annotations

import dataclasses
import datetime as dt
from collections.abc import Mapping
from typing import Any, NotRequired, TypedDict

from ...models import FailureReason, JobStatus
from ..job import JobView, Location, known
from ..job_summary import JobSummary

__all__ = ["JobDocument", "JobLine", "instant", "job_document", "job_line", "reason_name", "status_name"]


def instant(value: dt.datetime | None) -> str | None:
    """For programs: ISO 8601 in UTC, with its offset."""
    return None if value is None else value.astimezone(dt.UTC).isoformat()


def reason_name(value: int | None) -> str | None:
    """A failure reason as people know it."""
    if value is None:
        return None
    reason = known(FailureReason, value)
    return reason.label if isinstance(reason, FailureReason) else str(reason)


class JobLine(TypedDict):
    """A job of a list; what its place does not have is left out."""

    id: str
    status: str
    queue: str
    type: str
    priority: int
    attempt: int
    max_attempts: int
    tags: list[str]
    created_at: str | None
    created_by: str | None
    due_at: str | None
    run_at: str | None
    deadline_at: str | None
    started_at: str | None
    worker_id: str | None
    progress: NotRequired[int | None]
    finished_at: NotRequired[str | None]
    duration_ms: NotRequired[int | None]
    wait_ms: NotRequired[int | None]
    failed_at: NotRequired[str | None]
    failure_reason: NotRequired[str | None]
    error_type: NotRequired[str | None]
    fingerprint: NotRequired[str | None]
    came_from: NotRequired[str | None]
    purged_at: NotRequired[str | None]
    purged_by: NotRequired[str | None]
    expires_at: NotRequired[str | None]


def status_name(job: JobSummary, now: dt.datetime) -> str:
    """The status of a job, scheduled and retrying told from pending."""
    if job.location is Location.TRASH:
        return "purged"
    if job.status is JobStatus.PENDING:
        return "retrying" if job.attempt else "scheduled" if job.run_at > now else "pending"
    return job.status.name.lower() if isinstance(job.status, JobStatus) else str(job.status)


def job_line(job: JobSummary, now: dt.datetime) -> JobLine:
    """A job of a list. ``now`` is the database's."""
    line: JobLine = {
        "id": job.id, "status": status_name(job, now), "queue": job.queue, "type": job.type, "priority": job.priority,
        "attempt": job.attempt, "max_attempts": job.max_attempts, "tags": list(job.tags),
        "created_at": instant(job.created_at), "created_by": job.created_by, "due_at": instant(job.due_at),
        "run_at": instant(job.run_at), "deadline_at": instant(job.deadline_at), "started_at": instant(job.started_at),
        "worker_id": job.worker_id,
    }  # fmt: skip
    at = instant(job.at)
    if job.location is Location.HOT:
        line |= {"progress": job.progress}
    elif job.location is Location.ARCHIVE:
        line |= {"finished_at": at, "duration_ms": job.duration_ms, "wait_ms": job.wait_ms}
    elif job.location is Location.TRASH:
        expires = instant(job.expires_at)
        line |= {"came_from": job.came_from, "purged_at": at, "purged_by": job.purged_by, "expires_at": expires}
    else:
        reason = reason_name(job.failure_reason)
        line |= {
            "failed_at": at, "failure_reason": reason, "error_type": job.error_type, "fingerprint": job.fingerprint,
        }  # fmt: skip
    return line


class JobDocument(TypedDict):
    """Everything of a job. ``payload`` and ``result`` are JSON text, as they are stored: no number passes through a
    reader that would round it."""

    id: str
    location: str
    status: str
    queue: str
    type: str
    schema_version: int
    payload: str | None
    tags: list[str]
    priority: int
    attempt: int
    max_attempts: int
    crash_count: int
    snooze_count: int
    claim_number: int
    generation: int
    revision: int
    worker_id: str | None
    created_by: str | None
    modified_by: str | None
    created_at: str
    started_at: str | None
    run_at: str
    due_at: str
    deadline_at: str | None
    idempotency_key: str | None
    concurrency_key: str | None
    headers: dict[str, Any]
    attempts: list[dict[str, Any]]
    heartbeat_at: str | None
    updated_at: str | None
    cancel_requested_at: str | None
    cancel_requested_by: str | None
    progress: int | None
    progress_message: str | None
    finished_at: str | None
    duration_ms: int | None
    wait_ms: int | None
    result: str | None
    failure_reason: str | None
    error_type: str | None
    error_details: str | None
    fingerprint: str | None
    failed_at: str | None
    note: str | None
    assignee: str | None
    acknowledged_at: str | None
    came_from: str | None
    purged_at: str | None
    purged_by: str | None
    expires_at: str | None


def job_document(job: JobView) -> JobDocument:
    """Everything of a job."""
    document: dict[str, Any] = {}
    for each in dataclasses.fields(job):
        value = getattr(job, each.name)
        if isinstance(value, dt.datetime):
            value = instant(value)
        elif each.name == "status":
            value = value.name.lower() if isinstance(value, JobStatus) else str(value)
        elif each.name == "failure_reason":
            value = reason_name(value)
        elif isinstance(value, tuple):
            value = [dict(item) if isinstance(item, Mapping) else item for item in value]
        elif isinstance(value, Mapping):
            value = dict(value)
        elif isinstance(value, Location):
            value = value.value
        document[each.name] = value
    return document  # type: ignore[return-value]  # the names are those of JobView
