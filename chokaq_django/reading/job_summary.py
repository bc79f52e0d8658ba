"""A job of a list: what is told of it without what jobs and their callers wrote."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from typing import Any

from ..models import JobBase, JobStatus
from .job import Location, status_of
from .selection import PLACES, tags_of

__all__ = ["JobSummary", "summary_of"]


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSummary:
    """A job of a list. ``at``: the time that the list is about. Times are aware, in UTC."""

    id: str
    location: Location
    status: JobStatus | int
    at: dt.datetime
    queue: str
    type: str
    priority: int
    tags: tuple[str, ...]
    attempt: int
    max_attempts: int
    revision: int
    generation: int
    worker_id: str | None
    created_by: str | None
    created_at: dt.datetime
    started_at: dt.datetime | None
    run_at: dt.datetime
    due_at: dt.datetime
    deadline_at: dt.datetime | None
    idempotency_key: str | None
    concurrency_key: str | None
    progress: int | None
    duration_ms: int | None
    wait_ms: int | None
    failure_reason: int | None
    error_type: str | None
    fingerprint: str | None
    came_from: str | None
    purged_by: str | None
    expires_at: dt.datetime | None


def summary_of(row: JobBase, location: Location) -> JobSummary:
    plain: dict[str, Any] = {name: getattr(row, name, None) for name in _PLAIN}
    at = getattr(row, PLACES[location])
    return JobSummary(location=location, status=status_of(row), at=at, tags=tuple(tags_of(row.tags)), **plain)


_PLAIN = tuple(name for name in JobSummary.__slots__ if name not in ("location", "status", "at", "tags"))
