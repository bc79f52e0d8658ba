"""Rows that change while one looks: what workers hold, open circuits, bulk operations under way, single jobs."""

from __future__ import annotations

import datetime as dt
from collections.abc import Collection, Iterable
from typing import Any

from django.db.models.functions import Left

from ..models import BulkOperation, BulkState, Circuit, JobArchive, JobDLQ, JobHot, JobTrash
from ..storage.engine import chunks
from .bulk import FINAL, BulkView, view_of
from .plans import live

__all__ = ["MESSAGE", "find_jobs", "leased", "operations", "unclosed_circuits"]

MESSAGE = 300
"""Characters of a job's own text that a live view gets."""
MOST_CIRCUITS = 200
OPERATIONS = 50
ENDED_LATELY = dt.timedelta(minutes=10)

_COMMON = (
    "id", "type", "queue", "attempt", "max_attempts", "generation", "revision", "priority", "worker_id", "created_at",
    "run_at", "due_at", "deadline_at", "started_at",
)  # fmt: skip
_PLACES: tuple[tuple[str, Any, tuple[str, ...]], ...] = (
    ("hot", JobHot, ("status", "heartbeat_at", "progress", "cancel_requested_at")),
    ("archive", JobArchive, ("finished_at", "duration_ms", "wait_ms")),
    ("dlq", JobDLQ, ("failed_at", "failure_reason", "error_type")),
    (
        "trash",
        JobTrash,
        ("status", "finished_at", "duration_ms", "wait_ms", "failed_at", "failure_reason", "error_type", "purged_at"),
    ),
)


def leased(alias: str, limit: int, queue: str | None = None) -> list[dict[str, Any]]:
    """The newest jobs that workers have, those that run before those that wait in a buffer. Columns by name, and the
    beginning of the job's own text as ``message``."""
    rows = live(JobHot.objects.using(alias))
    if queue is not None:
        rows = rows.filter(queue=queue)
    columns = (*_COMMON, "status", "progress", "cancel_requested_at")
    # Leased rows are as many as the fleet has slots: sorting them costs nothing that matters.
    found = rows.annotate(message=Left("progress_message", MESSAGE)).order_by("-status", "-started_at", "-id")
    return list(found.values(*columns, "message")[:limit])


def unclosed_circuits(alias: str) -> list[Circuit]:
    """Circuits that are not closed or have failures: those first that hold jobs back."""
    rows = Circuit.objects.using(alias).exclude(state=Circuit.CLOSED, failures=0)
    return list(rows.order_by("-state", "type")[:MOST_CIRCUITS])


def operations(alias: str, now: dt.datetime, ids: Collection[str] = ()) -> tuple[list[BulkView], dict[str, BulkView]]:
    """Bulk operations that are open or ended within ten minutes, the newest first; and those of ``ids``. Of those that
    have ended, the newest few are looked at."""
    rows = BulkOperation.objects.using(alias).defer("counts").order_by("-id")
    still = [str(state) for state in BulkState if state not in FINAL]
    found = [*rows.filter(state__in=still)[:OPERATIONS], *rows.filter(state__in=sorted(FINAL))[:OPERATIONS]]
    views = {row.id: view_of(row) for row in found}
    listed = [view for view in views.values() if view.ended_at is None or view.ended_at >= now - ENDED_LATELY]
    for part in chunks(sorted(set(ids) - set(views))):
        views |= {row.id: view_of(row) for row in rows.filter(pk__in=part)}
    return sorted(listed, key=lambda view: view.id, reverse=True), {pk: views[pk] for pk in ids if pk in views}


def find_jobs(alias: str, ids: Iterable[str]) -> dict[str, tuple[str, dict[str, Any]]]:
    """Where each of these jobs is, with its light columns; those that are nowhere are left out."""
    wanted = sorted(set(ids))
    found: dict[str, tuple[str, dict[str, Any]]] = {}
    for _ in range(2):  # the second look is for what has moved into a table behind the first
        for place, model, own in _PLACES:
            missing = [pk for pk in wanted if pk not in found]
            for part in chunks(missing):
                rows = model._default_manager.using(alias).filter(pk__in=part)
                columns: tuple[str, ...] = (*_COMMON, *own)
                if place == "hot":
                    rows, columns = rows.annotate(message=Left("progress_message", MESSAGE)), (*columns, "message")
                found |= {row["id"]: (place, row) for row in rows.values(*columns)}
        if len(found) == len(wanted):
            break
    return found
