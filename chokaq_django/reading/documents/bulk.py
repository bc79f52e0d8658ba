"""Bulk operations, their sets and jobs."""

from __future__ import annotations

from typing import Any, TypedDict

from ...models import BulkItem, BulkItemState
from ...storage import BulkCount, Conflict
from ..bulk import BulkView
from ..bulk_items import BulkOutcomes
from ..masks import mask_text
from ..patch_previews import PatchPreview
from .jobs import instant

__all__ = [
    "BulkDocument",
    "CountDocument",
    "ItemDocument",
    "OutcomesDocument",
    "PatchExampleDocument",
    "PatchPreviewDocument",
    "PatchRefusalDocument",
    "Refusal",
    "bulk_document",
    "count_document",
    "item_document",
    "outcomes_document",
    "patch_preview_document",
    "refusal",
]


class Refusal(TypedDict):
    """What was not acted on, and why. `left_alone`: nobody has to look at it, since it is what an edit asked for
    already, or a condition of a patch does not hold of it."""

    id: str
    reason: str
    left_alone: bool


def refusal(conflict: Conflict) -> Refusal:
    return {"id": conflict.id, "reason": conflict.reason, "left_alone": conflict.left_alone}


class BulkDocument(TypedDict):
    """A bulk operation. ``held``: it waits to be let go once its set is frozen. ``history``: seconds since the start,
    how many had ended by then, how many of them died."""

    id: str
    action: str
    state: str
    message: str
    where: dict[str, Any] | None
    arguments: dict[str, Any]
    undo_of: str | None
    by: str | None
    reason: str
    held: bool
    created_at: str | None
    started_at: str | None
    ended_at: str | None
    total: int
    done: int
    applied: int
    requested: int
    refused: int
    left_alone: int
    refusals: list[Refusal]
    succeeded: int
    died: int
    gone: int
    rate: float | None
    canary: int | None
    canary_decision: str
    stop_share: float | None
    history: list[list[int]]


def bulk_document(view: BulkView) -> BulkDocument:
    return {
        "id": view.id, "action": view.action.value, "state": view.state.value, "message": view.message,
        "where": None if view.where is None else dict(view.where), "arguments": dict(view.arguments),
        "undo_of": view.undo_of, "by": view.by, "reason": view.reason, "held": view.held,
        "created_at": instant(view.created_at), "started_at": instant(view.started_at),
        "ended_at": instant(view.ended_at), "total": view.total, "done": view.done, "applied": view.applied,
        "requested": view.requested, "refused": view.refused, "left_alone": view.left_alone,
        "refusals": [refusal(each) for each in view.refusals],
        "succeeded": view.succeeded, "died": view.died, "gone": view.gone, "rate": view.rate, "canary": view.canary,
        "canary_decision": view.canary_decision, "stop_share": view.stop_share,
        "history": [list(point) for point in view.history],
    }  # fmt: skip


class CountDocument(TypedDict):
    """Jobs of a set that are of one queue and type. ``ages``: ``hour``, ``day``, ``week``, ``older``."""

    queue: str
    type: str
    count: int
    oldest: str | None
    newest: str | None
    ages: dict[str, int]


def count_document(count: BulkCount) -> CountDocument:
    return {
        "queue": count.queue, "type": count.type, "count": count.count, "oldest": instant(count.oldest),
        "newest": instant(count.newest), "ages": count.ages,
    }  # fmt: skip


class ItemDocument(TypedDict):
    """A job of an operation's set and what became of it. ``note``: why it was refused or left alone."""

    job_id: str
    state: str
    note: str | None


def item_document(item: BulkItem) -> ItemDocument:
    return {"job_id": item.job_id, "state": BulkItemState(item.state).name.lower(), "note": item.why or None}


class OutcomesDocument(TypedDict):
    """What has become of an operation's jobs, in numbers of jobs. ``active``: not ended yet; ``gone``: cancelled or
    deleted."""

    succeeded: int
    died: int
    active: int
    gone: int


def outcomes_document(found: BulkOutcomes) -> OutcomesDocument:
    return {"succeeded": found.succeeded, "died": found.died, "active": found.active, "gone": found.gone}


class PatchRefusalDocument(TypedDict):
    """A job whose payload a patch would not make fit: ``path`` is where."""

    id: str
    type: str
    path: str
    reason: str


class PatchExampleDocument(TypedDict):
    """A payload before and after, JSON text with its secrets masked."""

    id: str
    type: str
    before: str
    after: str


class PatchPreviewDocument(TypedDict):
    """What a patch would do to the ``looked`` oldest jobs of a set; ``complete``: these are all. ``tested_out``: a test
    of the patch does not hold; ``elsewhere``: neither waiting nor dead."""

    looked: int
    complete: bool
    changed: int
    unfit: int
    tested_out: int
    unchanged: int
    elsewhere: int
    refusals: list[PatchRefusalDocument]
    examples: list[PatchExampleDocument]


def patch_preview_document(seen: PatchPreview) -> PatchPreviewDocument:
    return {
        "looked": seen.looked, "complete": seen.complete, "changed": seen.changed, "unfit": seen.unfit,
        "tested_out": seen.tested_out, "unchanged": seen.unchanged, "elsewhere": seen.elsewhere,
        "refusals": [{"id": r.id, "type": r.type, "path": r.path, "reason": r.reason} for r in seen.refusals],
        "examples": [
            {"id": e.id, "type": e.type, "before": mask_text(e.before).text, "after": mask_text(e.after).text}
            for e in seen.examples
        ],
    }  # fmt: skip
