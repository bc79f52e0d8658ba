"""Bulk operations."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Annotated, Any, Literal, TypedDict

from msgspec import UNSET, Meta, Struct, UnsetType

from .. import control
from ..control import BulkAction, BulkItemState, BulkState, BulkView, JobFilter
from ..job.envelope import EnvelopeError
from ..job.patch import PayloadPatch
from ..reading.documents import (
    BulkDocument,
    CountDocument,
    ItemDocument,
    OutcomesDocument,
    PatchPreviewDocument,
    bulk_document,
    count_document,
    instant,
    item_document,
    outcomes_document,
    patch_preview_document,
)
from ..reading.filter_text import filter_from
from ..reading.patches import shown_patch
from .endpoint import Call, Endpoint
from .errors import ApiError
from .shapes import Filter, Id, Name, OnKeyConflict, PatchBody, Reason, filter_text, patch_text

__all__ = ["ENDPOINTS"]

MOST_IDS = 100_000
Action = Literal["resurrect", "purge", "cancel", "remove", "edit", "restore"]
State = Literal["preparing", "running", "paused", "done", "cancelled", "stopped", "failed"]
ItemState = Literal["waiting", "applied", "refused", "requested", "succeeded", "died", "gone", "left_alone"]
_VERBS: dict[str, tuple[Callable[..., BulkView], tuple[str, ...]]] = {
    "resurrect": (control.bulk_resurrect, (
        "priority", "on_key_conflict", "canary", "canary_failures", "canary_timeout", "stop_at", "stop_sample",
        "stop_window", "of")),
    "purge": (control.bulk_purge, ()),
    "cancel": (control.bulk_cancel, ()),
    "remove": (control.bulk_remove, ()),
    "edit": (control.bulk_edit, ("priority", "queue", "patch")),
    "restore": (control.bulk_restore, ("on_key_conflict",)),
}  # fmt: skip
"""Action to its verb and the options that it has beside those of all."""
_OPTIONS = sorted({name for _, names in _VERBS.values() for name in names})


class BulkQuery(Struct, forbid_unknown_fields=True, kw_only=True):
    """`before`: the id of the last one of the page before."""

    state: State | None = None
    action: Action | Literal["revert"] | None = None
    by: Name | None = None
    limit: Annotated[int, Meta(ge=1, le=1_000)] = 50
    before: Id | None = None


class BulkList(TypedDict):
    """Newest first."""

    as_of: str
    operations: list[BulkDocument]


class BulkAnswer(TypedDict):
    as_of: str
    operation: BulkDocument


class BulkBody(Struct, forbid_unknown_fields=True, kw_only=True):
    """`ids` or `where`; or `of`, to resurrect what another operation acted on and is dead now. `hold`: freeze the set,
    then wait for `resume`. `rate`: jobs a second. What else there is goes with some actions only; see the reference of
    control."""

    action: Action
    ids: Annotated[list[Id], Meta(min_length=1, max_length=MOST_IDS)] | UnsetType = UNSET
    where: Filter | UnsetType = UNSET
    of: Id | UnsetType = UNSET
    reason: Reason = ""
    rate: float | None = None
    hold: bool = False
    patch: PatchBody | UnsetType = UNSET
    priority: int | UnsetType | None = UNSET
    queue: Name | UnsetType = UNSET
    on_key_conflict: OnKeyConflict | UnsetType = UNSET
    canary: int | UnsetType | None = UNSET
    canary_failures: float | UnsetType = UNSET
    canary_timeout: float | UnsetType = UNSET
    stop_at: float | UnsetType | None = UNSET
    stop_sample: int | UnsetType = UNSET
    stop_window: int | UnsetType = UNSET


class PatchQuery(Struct, forbid_unknown_fields=True, kw_only=True):
    """`ids` or `where`, whose oldest `sample` jobs the patch is tried on."""

    patch: PatchBody
    ids: Annotated[list[Id], Meta(min_length=1, max_length=MOST_IDS)] | UnsetType = UNSET
    where: Filter | UnsetType = UNSET
    sample: Annotated[int, Meta(ge=1, le=10_000)] = 1_000
    examples: Annotated[int, Meta(ge=0, le=10)] = 3


class PatchAnswer(TypedDict):
    as_of: str
    preview: PatchPreviewDocument


class PreviewAnswer(TypedDict):
    """What a filter finds now. `complete`: whether all of it was counted, and not the oldest `total` jobs only."""

    as_of: str
    total: int
    complete: bool
    counts: list[CountDocument]


class CountsAnswer(TypedDict):
    """The frozen set, counted exactly."""

    as_of: str
    counts: list[CountDocument]


class ItemsQuery(Struct, forbid_unknown_fields=True, kw_only=True):
    """`after`: `next` of the page before."""

    state: ItemState | None = None
    after: Id | None = None
    limit: Annotated[int, Meta(ge=1, le=1_000)] = 100


class ItemsAnswer(TypedDict):
    """In the order of job ids. `next`: what to give as `after` for the page that follows; null when there is none. A
    page of one state looks at 20,000 jobs at most, so it may hold fewer than `limit` and still have a next one."""

    items: list[ItemDocument]
    next: str | None


class ActBody(Struct, forbid_unknown_fields=True, kw_only=True):
    reason: Reason = ""


class ResumeBody(ActBody, forbid_unknown_fields=True, kw_only=True):
    """`rate`: a new one; null keeps the old one."""

    rate: float | None = None


class RateBody(ActBody, forbid_unknown_fields=True, kw_only=True):
    """`rate`: jobs a second; null: as fast as it goes."""

    rate: float | None


class OutcomesAnswer(TypedDict):
    """`outcomes` is null for an operation on more than 50,000 jobs."""

    as_of: str
    outcomes: OutcomesDocument | None


def _list(call: Call) -> BulkList:
    query = call.query
    views = control.bulk_list(
        state=None if query.state is None else BulkState(query.state),
        action=None if query.action is None else BulkAction(query.action),
        by=query.by, limit=query.limit, before=query.before,
    )  # fmt: skip
    return {"as_of": instant(call.now) or "", "operations": [_document(call, view) for view in views]}


def _begin(call: Call) -> BulkAnswer:
    body = call.body
    verb, options = _VERBS[body.action]
    given = {name: getattr(body, name) for name in _OPTIONS if getattr(body, name) is not UNSET}
    if "patch" in given:
        given["patch"] = patch_text(body.patch)
    for name in given:
        if name not in options:
            other = ", ".join(options) or "none of its own"
            raise ApiError(400, "invalid", f"is no option of {body.action}, which has {other}.", name)
    if [body.ids, body.where, body.of].count(UNSET) != 2:
        raise ApiError(400, "invalid", "Name the jobs by ids or by where, and not by both.", "ids")
    if body.action == "edit" and all(given.get(name) is None for name in options):
        raise ApiError(400, "invalid", "Something to change is needed: priority, queue or patch.", "priority")
    jobs: dict[str, Any] = {"ids": None if body.ids is UNSET else body.ids}
    if body.of is not UNSET:
        if body.action != "resurrect":
            raise ApiError(400, "invalid", "is for resurrect alone.", "of")
    elif body.action != "restore":
        jobs["where"] = None if body.where is UNSET else _where(call)
    elif body.ids is UNSET:
        raise ApiError(400, "invalid", "Jobs in the Trash are named by their ids.", "where")
    return _answer(call, verb(**jobs, by=call.user, reason=body.reason, rate=body.rate, hold=body.hold, **given))


def _where(call: Call) -> JobFilter:
    try:
        return filter_from(filter_text(call.body.where), call.now)
    except EnvelopeError as error:
        raise EnvelopeError(f"where.{error.field}", error.message) from None


def _answer(call: Call, view: BulkView | None) -> BulkAnswer:
    if view is None:
        raise ApiError(404, "no_such_operation", "There is no bulk operation with this id.")
    return {"as_of": instant(call.now) or "", "operation": _document(call, view)}


def _document(call: Call, view: BulkView) -> BulkDocument:
    """An operation; the values of a patch are for those who may see payloads."""
    document = bulk_document(view)
    if "patch" in document["arguments"] and not call.may("view_payload"):
        patch = PayloadPatch.stored(document["arguments"]["patch"])
        document["arguments"]["patch"] = shown_patch(patch, values=False).text()
    return document


def _try(call: Call) -> PatchAnswer:
    body = call.body
    if (body.ids is UNSET) is (body.where is UNSET):
        raise ApiError(400, "invalid", "Name the jobs by ids or by where, and not by both.", "ids")
    jobs: dict[str, Any] = {"where": _where(call)} if body.ids is UNSET else {"ids": body.ids}
    patch = patch_text(body.patch) or ""
    seen = control.preview_patch(patch, **jobs, by=call.user, sample=body.sample, examples=body.examples)
    return {"as_of": instant(call.now) or "", "preview": patch_preview_document(seen)}


def _get(call: Call) -> BulkAnswer:
    return _answer(call, control.bulk_get(call.path["operation_id"]))


def _preview(call: Call) -> PreviewAnswer:
    found = control.bulk_preview(filter_from(filter_text(call.query), call.now))
    counts = [count_document(count) for count in found.counts]
    return {"as_of": instant(call.now) or "", "total": found.total, "complete": found.complete, "counts": counts}


def _counts(call: Call) -> CountsAnswer:
    view = _get(call)["operation"]
    counts = [count_document(count) for count in control.bulk_counts(view["id"])]
    return {"as_of": instant(call.now) or "", "counts": counts}


def _items(call: Call) -> ItemsAnswer:
    query = call.query
    view = _get(call)["operation"]
    state = None if query.state is None else BulkItemState[query.state.upper()]
    page = control.bulk_items(view["id"], state=state, after=query.after, limit=query.limit)
    return {"items": [item_document(row) for row in page.items], "next": page.next}


def _outcomes(call: Call) -> OutcomesAnswer:
    found = control.bulk_outcomes(_get(call)["operation"]["id"])
    return {"as_of": instant(call.now) or "", "outcomes": None if found is None else outcomes_document(found)}


def _set_rate(call: Call) -> BulkAnswer:
    _get(call)
    body = call.body
    view = control.bulk_set_rate(call.path["operation_id"], body.rate, by=call.user, reason=body.reason)
    return _answer(call, view)


def _act(verb: Callable[..., BulkView], call: Call) -> BulkAnswer:
    _get(call)  # an id of nothing is not found, and no conflict
    rate = {} if getattr(call.body, "rate", None) is None else {"rate": call.body.rate}
    return _answer(call, verb(call.path["operation_id"], by=call.user, reason=call.body.reason, **rate))


ONE = "bulk/<str:operation_id>"
OF_ITS_VERB = "the permissions of its verb"
ENDPOINTS = (
    Endpoint("listBulk", "GET", "bulk", "Bulk operations, newest first.", _list, BulkList, query=BulkQuery),
    Endpoint("beginBulk", "POST", "bulk", "One verb on many jobs, in the background.", _begin, BulkAnswer,
             body=BulkBody, needs=OF_ITS_VERB, status=202),
    Endpoint("previewBulk", "GET", "bulk/preview", "What a filter finds now, counted by queue, type and age.", _preview,
             PreviewAnswer, query=Filter),
    Endpoint("tryPatch", "POST", "bulk/try-patch", "What a patch would do to some of a set; nothing is written.", _try,
             PatchAnswer, body=PatchQuery, needs="chokaq.edit_payload"),
    Endpoint("getBulk", "GET", ONE, "An operation with its progress.", _get, BulkAnswer, errors=(404,)),
    Endpoint("countBulk", "GET", f"{ONE}/counts", "Its frozen set by queue, type and age.", _counts, CountsAnswer,
             errors=(404,)),
    Endpoint("outcomesOfBulk", "GET", f"{ONE}/outcomes", "What has become of its jobs until now.", _outcomes,
             OutcomesAnswer, errors=(404,)),
    Endpoint("listBulkItems", "GET", f"{ONE}/items", "Its jobs and what became of each.", _items, ItemsAnswer,
             query=ItemsQuery, errors=(404,)),
    Endpoint("pauseBulk", "POST", f"{ONE}/pause", "Act on no further job for now.", partial(_act, control.bulk_pause),
             BulkAnswer, body=ActBody, needs=OF_ITS_VERB, errors=(404, 409)),
    Endpoint("resumeBulk", "POST", f"{ONE}/resume", "Go on, also after it was held or stopped by itself.",
             partial(_act, control.bulk_resume), BulkAnswer, body=ResumeBody, needs=OF_ITS_VERB, errors=(404, 409)),
    Endpoint("setBulkRate", "POST", f"{ONE}/rate", "Another drip rate from now on.", _set_rate, BulkAnswer,
             body=RateBody, needs=OF_ITS_VERB, errors=(404, 409)),
    Endpoint("skipBulkCanary", "POST", f"{ONE}/skip-canary", "Go on without waiting until the canary has ended.",
             partial(_act, control.bulk_skip_canary), BulkAnswer, body=ActBody, needs=OF_ITS_VERB, errors=(404, 409)),
    Endpoint("cancelBulk", "POST", f"{ONE}/cancel", "Act on no further job, ever.", partial(_act, control.bulk_abort),
             BulkAnswer, body=ActBody, needs=OF_ITS_VERB, errors=(404, 409)),
    Endpoint("undoBulk", "POST", f"{ONE}/undo", "Take its effects back by another operation.",
             partial(_act, control.bulk_undo), BulkAnswer, body=ResumeBody,
             needs="chokaq.purge or, for an edit, chokaq.edit_payload", status=202, errors=(404, 409)),
)  # fmt: skip
