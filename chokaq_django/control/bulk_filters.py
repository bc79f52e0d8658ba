"""Filters of bulk operations: checked, put into the form that the storage reads, and counted."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ..conf import get_options
from ..job.envelope import EnvelopeError, clean_key, clean_time
from ..models import FailureReason, JobStatus
from ..reading.selection import STATUSES, JobFilter
from ..storage import BulkCount, get_storage

__all__ = ["BulkPreview", "as_given", "bulk_preview", "conditions_of", "place_of"]

MOST_COUNTED = 100_000

_FINISHED_OTHERWISE = (FailureReason.CANCELLED, FailureReason.ZOMBIE, FailureReason.EXPIRED)
_REASONS = {
    "cancelled": [FailureReason.CANCELLED],
    "zombie": [FailureReason.ZOMBIE],
    "expired": [FailureReason.EXPIRED],
    "failed": [reason for reason in FailureReason if reason not in _FINISHED_OTHERWISE],
}
_HOT = {
    "pending": JobStatus.PENDING, "due": JobStatus.PENDING, "scheduled": JobStatus.PENDING,
    "retrying": JobStatus.PENDING, "fetched": JobStatus.FETCHED, "processing": JobStatus.PROCESSING,
    "awaiting": JobStatus.AWAITING,
}  # fmt: skip
_TIME = {"hot": "created_at", "archive": "finished_at", "dlq": "failed_at"}


@dataclass(frozen=True, slots=True)
class BulkPreview:
    """What a filter finds now. ``complete``: whether all of it was counted, and not the oldest ``total`` jobs only."""

    total: int
    counts: tuple[BulkCount, ...]
    complete: bool


def bulk_preview(where: JobFilter, *, limit: int = MOST_COUNTED) -> BulkPreview:
    """Count what a filter finds now by queue, type and age, without freezing it; at most ``limit`` jobs.

    For an exact count of what an operation will act on, begin it with ``hold=True`` and ask :func:`bulk_counts`.
    """
    storage = get_storage(get_options().database)
    found = storage.bulk_count(place_of(where), conditions_of(where, storage.now()), limit + 1)
    total = sum(count.count for count in found)
    return BulkPreview(min(total, limit), tuple(found), total <= limit)


def place_of(where: JobFilter) -> str:
    """Where such jobs are; ``EnvelopeError`` for a status that there is not."""
    if where.status not in STATUSES:
        raise EnvelopeError("status", f"must be one of {', '.join(STATUSES)}, got {where.status!r}")
    return where.place


def conditions_of(where: JobFilter, now: dt.datetime) -> str:
    """The filter as JSON for the storage; ``EnvelopeError`` for a bad one."""
    place = place_of(where)
    found: list[tuple[str, str, Any]] = []
    if where.status in _HOT:
        found.append(("status", "=", int(_HOT[where.status])))
    if where.status in ("due", "scheduled"):
        found.append(("run_at", "<=" if where.status == "due" else ">", now.isoformat()))
    if where.status == "retrying":
        found.append(("attempt", ">", 0))
    if where.status in _REASONS:
        found.append(("failure_reason", "in", [int(reason) for reason in _REASONS[where.status]]))
    for name in ("queue", "type"):
        value = clean_key(getattr(where, name), name)
        if value is not None:
            found.append((name, "=", value))
    found += _of_dead_jobs(where, place)
    if where.tag is not None:
        if not isinstance(where.tag, str):
            raise EnvelopeError("tag", f"must be a string, got {where.tag!r}")
        found.append(("tags", "has", json.dumps(where.tag, ensure_ascii=False)))
    since = clean_time(where.since, "since")
    if since is not None:
        found.append((_TIME[place], ">=", since.astimezone(dt.UTC).isoformat()))
    return json.dumps(found, ensure_ascii=False)


def _of_dead_jobs(where: JobFilter, place: str) -> Sequence[tuple[str, str, Any]]:
    found: list[tuple[str, str, Any]] = []
    if where.reason is not None:
        if where.reason not in list(FailureReason):
            raise EnvelopeError("reason", f"must be a FailureReason, got {where.reason!r}")
        found.append(("failure_reason", "=", int(where.reason)))
    fingerprint = clean_key(where.fingerprint, "fingerprint")
    if fingerprint is not None:
        found.append(("fingerprint", "from", fingerprint))
    if found and place != "dlq":
        raise EnvelopeError("where", f"a reason or fingerprint is of dead jobs only; these are in {place}")
    return found


def as_given(where: JobFilter) -> str:
    """The filter as JSON for people."""
    named = {"status": where.status, "queue": where.queue, "type": where.type, "fingerprint": where.fingerprint,
             "tag": where.tag, "reason": None if where.reason is None else FailureReason(where.reason).name,
             "since": None if where.since is None else where.since.isoformat()}  # fmt: skip
    return json.dumps({name: value for name, value in named.items() if value is not None}, ensure_ascii=False)
