"""One job as people and programs look at it, wherever it is."""

from __future__ import annotations

import datetime as dt
import enum
import json
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, TypeVar

from django.db.models import Value

from ..job.attempts import read_attempts
from ..models import FailureReason, JobArchive, JobBase, JobDLQ, JobHot, JobStatus, JobTrash

__all__ = ["MODELS", "JobView", "Location", "dead_status", "find_job", "find_row", "known", "status_of", "view_of_row"]

T = TypeVar("T", list[Any], dict[str, Any])
V = TypeVar("V", bound=enum.Enum)


class Location(enum.StrEnum):
    """The table a job is in."""

    HOT = "hot"
    ARCHIVE = "archive"
    DLQ = "dlq"
    TRASH = "trash"


MODELS: dict[Location, type[JobBase]] = {
    Location.HOT: JobHot,
    Location.ARCHIVE: JobArchive,
    Location.DLQ: JobDLQ,
    Location.TRASH: JobTrash,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class JobView:
    """A job as it was when it was read. Times are aware, in UTC; ``duration_ms`` and ``wait_ms`` in milliseconds.

    ``payload`` and ``result`` are JSON text. ``attempts`` are the last executions, oldest first. What the job's table
    does not have is None. A ``status`` or ``failure_reason`` that only newer code knows is its plain number.
    """

    id: str
    location: Location
    status: JobStatus | int
    queue: str
    type: str
    schema_version: int
    payload: str
    tags: tuple[str, ...]
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
    created_at: dt.datetime
    started_at: dt.datetime | None
    run_at: dt.datetime
    due_at: dt.datetime
    deadline_at: dt.datetime | None
    idempotency_key: str | None
    concurrency_key: str | None
    headers: Mapping[str, str]
    attempts: tuple[Mapping[str, Any], ...]

    # active
    heartbeat_at: dt.datetime | None = None
    updated_at: dt.datetime | None = None
    cancel_requested_at: dt.datetime | None = None
    cancel_requested_by: str | None = None
    progress: int | None = None
    progress_message: str | None = None

    # archived
    finished_at: dt.datetime | None = None
    duration_ms: int | None = None
    wait_ms: int | None = None
    result: str | None = None

    # dead
    failure_reason: FailureReason | int | None = None
    error_type: str | None = None
    error_details: str | None = None
    fingerprint: str | None = None
    failed_at: dt.datetime | None = None
    note: str | None = None
    assignee: str | None = None
    acknowledged_at: dt.datetime | None = None

    # in the Trash, beside what the job had where it came from
    came_from: str | None = None
    purged_at: dt.datetime | None = None
    purged_by: str | None = None
    expires_at: dt.datetime | None = None


_PARSED = ("location", "status", "tags", "headers", "attempts", "failure_reason")
_PLAIN = tuple(field.name for field in fields(JobView) if field.name not in _PARSED)


def dead_status(reason: int) -> JobStatus:
    """The status shown for a job in the DLQ: it follows from the failure reason."""
    return {
        int(FailureReason.CANCELLED): JobStatus.CANCELLED,
        int(FailureReason.ZOMBIE): JobStatus.ZOMBIE,
        int(FailureReason.EXPIRED): JobStatus.EXPIRED,
    }.get(reason, JobStatus.FAILED)


def known(values: type[V], number: int) -> V | int:
    """``number`` as one of ``values``; as it is when newer code, or nobody, knows what it means."""
    try:
        return values(number)
    except ValueError:
        return number


def find_job(job_id: str, alias: str) -> JobView | None:
    """The job ``job_id`` in the database ``alias``; None when it is in none of the tables."""
    row = find_row(job_id, alias)
    return None if row is None else view_of_row(row)


def find_row(job_id: str, alias: str) -> JobBase | None:
    """The job's row, in whichever table it is."""
    # One statement says where it is: a look into one table after the other would miss a job that moves meanwhile.
    while (location := _locate(job_id, alias)) is not None:
        row = MODELS[location]._default_manager.using(alias).filter(pk=job_id).first()
        if row is not None:
            return row
    return None


def _locate(job_id: str, alias: str) -> Location | None:
    first, *others = [
        model._default_manager.using(alias).filter(pk=job_id).annotate(place=Value(str(location))).values_list("place")
        for location, model in MODELS.items()
    ]
    places = list(first.union(*others, all=True))
    return Location(places[0][0]) if places else None


def view_of_row(row: JobBase) -> JobView:
    location = next(place for place, model in MODELS.items() if isinstance(row, model))
    reason = getattr(row, "failure_reason", None)
    plain: dict[str, Any] = {name: getattr(row, name, None) for name in _PLAIN}
    return JobView(
        location=location,
        status=status_of(row),
        tags=tuple(str(tag) for tag in _parsed(row.tags, list)),
        headers=_parsed(row.headers, dict),
        attempts=tuple(read_attempts(row.attempt_log)),
        failure_reason=None if reason is None else known(FailureReason, reason),
        **plain,
    )


def status_of(row: JobBase) -> JobStatus | int:
    """In the Trash: the status that it had."""
    if isinstance(row, JobDLQ | JobTrash) and row.failure_reason is not None:
        return dead_status(row.failure_reason)
    if isinstance(row, JobHot | JobTrash) and row.status is not None:
        return known(JobStatus, row.status)
    return JobStatus.SUCCEEDED


def _parsed(text: str, kind: type[T]) -> T:
    """The JSON in ``text`` when it is a ``kind``, else an empty one: a view must open whatever the row holds."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return kind()
    return value if isinstance(value, kind) else kind()
