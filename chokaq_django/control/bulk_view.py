"""Bulk operations as people and programs look at them."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ..conf import get_options
from ..job.envelope import EnvelopeError
from ..models import BulkAction, BulkItem, BulkItemState, BulkOperation, BulkState
from ..storage import BulkCount, Conflict, get_storage
from .acts import clean_id

__all__ = ["BulkView", "bulk_counts", "bulk_get", "bulk_items", "bulk_list", "bulk_of_job", "view_of"]

MOST_LISTED = 1_000
FINAL = frozenset({BulkState.DONE, BulkState.CANCELLED})
AT_REST = FINAL | {BulkState.STOPPED, BulkState.FAILED}
"""States in which nothing is done to jobs until somebody says so; and there is nothing to wait for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BulkView:
    """A bulk operation as it was when it was read. Times are aware, in UTC; counts are of jobs.

    ``where``: the filter as it was given, None for a selection by id. ``total`` grows while the state is "preparing".
    ``done`` of them were acted on: ``applied``, ``requested`` of their workers, or ``refused``; ``refusals`` has the
    first of these. ``succeeded``, ``died`` and ``gone``: what has become of those applied, known as far as a canary
    or an auto-stop watches. ``message``: why it stopped or failed.
    """

    id: str
    action: BulkAction
    state: BulkState
    message: str
    where: Mapping[str, Any] | None
    arguments: Mapping[str, Any]
    undo_of: str | None
    by: str | None
    reason: str
    created_at: dt.datetime
    started_at: dt.datetime | None
    ended_at: dt.datetime | None
    updated_at: dt.datetime
    total: int
    done: int
    applied: int
    requested: int
    refused: int
    refusals: tuple[Conflict, ...]
    succeeded: int
    died: int
    gone: int
    rate: float | None
    canary: int | None
    canary_decision: str
    stop_share: float | None

    @property
    def share(self) -> float:
        """How much of it is done, from 0 to 1; 0 while it is being prepared."""
        if self.started_at is None:
            return 0.0
        return self.done / self.total if self.total else 1.0

    @property
    def at_rest(self) -> bool:
        """Whether it has ended, or stopped until somebody says otherwise. A paused one waits, and is not at rest."""
        return self.state in AT_REST


def view_of(row: BulkOperation) -> BulkView:
    return BulkView(
        id=row.id,
        action=BulkAction(row.action),
        state=BulkState(row.state),
        message=row.message,
        where=json.loads(row.selection) if row.place else None,
        arguments=json.loads(row.arguments),
        undo_of=row.undo_of,
        by=row.requested_by,
        reason=row.reason,
        created_at=row.created_at,
        started_at=row.started_at,
        ended_at=row.ended_at,
        updated_at=row.updated_at,
        total=row.total,
        done=row.done,
        applied=row.applied,
        requested=row.requested,
        refused=row.refused,
        refusals=tuple(Conflict(job_id, why) for job_id, why in json.loads(row.samples)),
        succeeded=row.succeeded,
        died=row.died,
        gone=row.gone,
        rate=row.rate,
        canary=row.canary,
        canary_decision=row.canary_decision,
        stop_share=row.stop_share,
    )


def bulk_get(operation_id: str) -> BulkView | None:
    """The operation with its progress now; None when there is none with this id."""
    clean = clean_id(operation_id)
    row = BulkOperation.objects.using(get_options().database).filter(pk=clean).first() if clean else None
    return None if row is None else view_of(row)


def bulk_list(*, state: BulkState | str | None = None, limit: int = 50, before: str | None = None) -> list[BulkView]:
    """Operations, the newest first. ``before``: the id of the last one of the page before."""
    if isinstance(limit, bool) or not isinstance(limit, int) or not 1 <= limit <= MOST_LISTED:
        raise EnvelopeError("limit", f"must be from 1 to {MOST_LISTED:,}, got {limit!r}")
    rows = BulkOperation.objects.using(get_options().database).order_by("-id")
    if state is not None:
        if state not in BulkState.values:
            raise EnvelopeError("state", f"must be one of {', '.join(BulkState.values)}, got {state!r}")
        rows = rows.filter(state=BulkState(state).value)
    if before is not None:
        rows = rows.filter(id__lt=before)
    return [view_of(row) for row in rows[:limit]]


def bulk_items(
    operation_id: str, *, state: BulkItemState | int | None = None, after: str = "", limit: int = 100
) -> list[BulkItem]:
    """Jobs of an operation in the order of their ids: ``job_id``, ``state``, and in ``note`` why one was refused.

    ``after``: the job id of the last one of the page before.
    """
    rows = BulkItem.objects.using(get_options().database).filter(operation_id=clean_id(operation_id), job_id__gt=after)
    if state is not None:
        rows = rows.filter(state=int(state))
    return list(rows.order_by("job_id")[: max(1, min(limit, MOST_LISTED))])


def bulk_of_job(job_id: str) -> Iterator[tuple[BulkView, BulkItem]]:
    """The operations that a job was selected by, the oldest first, each with what became of the job in it."""
    alias = get_options().database
    items = {item.operation_id: item for item in BulkItem.objects.using(alias).filter(job_id=clean_id(job_id))}
    for row in BulkOperation.objects.using(alias).filter(pk__in=list(items)).order_by("id"):
        yield view_of(row), items[row.id]


def bulk_counts(operation_id: str) -> list[BulkCount]:
    """The frozen set by queue, type and age, counted exactly, as far as its jobs are in Hot, Archive or DLQ now."""
    clean = clean_id(operation_id)
    return get_storage(get_options().database).bulk_frozen(clean) if clean else []
