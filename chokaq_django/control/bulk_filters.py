"""Filters of bulk operations: checked, put into the form that the storage reads, and counted."""

from __future__ import annotations

import datetime as dt
import json
from dataclasses import dataclass
from typing import Any

from ..conf import get_options
from ..job.envelope import EnvelopeError
from ..reading.limits import clean_limit
from ..reading.selection import PLACES, JobFilter, clean_where
from ..sentence import Sentence, shown
from ..storage import BulkCount, get_storage

__all__ = ["BulkPreview", "as_given", "bulk_preview", "conditions_of", "place_of"]

MOST_COUNTED = 100_000
"""Jobs that a preview counts, at most."""


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
    where, limit = clean_where(where), clean_limit(limit, MOST_COUNTED)
    storage = get_storage(get_options().database)
    found = storage.bulk_count(place_of(where), conditions_of(where, storage.now()), limit + 1)
    total = sum(count.count for count in found)
    return BulkPreview(min(total, limit), tuple(found), total <= limit)


def place_of(where: JobFilter) -> str:
    """Where such jobs are; ``EnvelopeError`` for a status that there is not, or whose jobs are in the Trash."""
    if where.place == "trash":
        raise EnvelopeError(
            "status", Sentence("must be of jobs in Hot, Archive or DLQ, got %(status)s", status=shown(where.status))
        )
    return where.place


def conditions_of(where: JobFilter, now: dt.datetime) -> str:
    """The filter as JSON for the storage; ``EnvelopeError`` for a bad one."""
    found = [
        (PLACES[where.place] if column == "at" else column, how, _stored(column, value))
        for column, how, value in where.conditions(now)
    ]
    return json.dumps(found, ensure_ascii=False)


def _stored(column: str, value: Any) -> Any:
    if isinstance(value, dt.datetime):
        return value.isoformat()
    return json.dumps(value, ensure_ascii=False) if column == "tags" else value


def as_given(where: JobFilter) -> str:
    """The filter as JSON for people."""
    return json.dumps({"status": where.status, **where.given()}, ensure_ascii=False)
