"""Failure groups, and what people note on them and on single dead jobs."""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypedDict

from msgspec import Meta, Struct

from .. import control
from ..job.envelope import clean_key
from ..reading.documents import GroupDocument, group_document, instant
from ..reading.filter_text import reason_from
from ..reading.groups import GroupView, read_group, read_groups
from .endpoint import Call, Endpoint
from .errors import ApiError
from .shapes import IdsBody, Name, Reason, VerbAnswer, told

__all__ = ["ENDPOINTS"]

Note = Annotated[str, Meta(max_length=10_000)]
Person = Annotated[str, Meta(max_length=150, description="Who looks after it; an empty text for nobody.")]


class FailuresQuery(Struct, forbid_unknown_fields=True, kw_only=True):
    """`order`: the largest first, or those that came last."""

    queue: Name | None = None
    type: Name | None = None
    reason: Annotated[str, Meta(max_length=40)] | None = None
    acknowledged: bool | None = None
    order: Literal["count", "last_seen"] = "count"
    limit: Annotated[int, Meta(ge=1, le=500)] = 50


class FailureList(TypedDict):
    as_of: str
    groups: list[GroupDocument]


class FailureAnswer(TypedDict):
    as_of: str
    group: GroupDocument


class TriageBody(Struct, forbid_unknown_fields=True, kw_only=True):
    """What is left out stays."""

    reason: Reason = ""
    note: Note | None = None
    assignee: Person | None = None
    acknowledged: bool | None = None


class AnnotateBody(IdsBody, forbid_unknown_fields=True, kw_only=True):
    """What is left out stays. A job that is resurrected leaves these notes behind."""

    note: Note | None = None
    assignee: Person | None = None
    acknowledged: bool | None = None


def _list(call: Call) -> FailureList:
    query = call.query
    reason = None if query.reason is None else reason_from(query.reason)
    groups = read_groups(
        call.alias, call.now, query.limit, order=query.order, queue=clean_key(query.queue, "queue"),
        type=clean_key(query.type, "type"), reason=reason, acknowledged=query.acknowledged,
    )  # fmt: skip
    return {"as_of": instant(call.now) or "", "groups": [_document(call, group) for group in groups]}


def _get(call: Call) -> FailureAnswer:
    fingerprint = call.path["fingerprint"].lower()
    group = read_group(call.alias, call.now, fingerprint) if fingerprint.isalnum() else None
    if group is None:
        raise ApiError(404, "no_such_group", "No job has died of this, as far as is known.")
    return {"as_of": instant(call.now) or "", "group": _document(call, group)}


def _document(call: Call, group: GroupView) -> GroupDocument:
    document = group_document(group, call.now)
    if not call.may("view_payload"):
        document["message"] = None
    return document


def _triage(call: Call) -> VerbAnswer:
    return told(control.triage(call.path["fingerprint"], by=call.user, reason=call.body.reason, **_noted(call)))


def _annotate(call: Call) -> VerbAnswer:
    return told(control.annotate(call.body.ids, by=call.user, reason=call.body.reason, **_noted(call)))


def _noted(call: Call) -> dict[str, Any]:
    noted = {name: getattr(call.body, name) for name in ("note", "assignee", "acknowledged")}
    if all(value is None for value in noted.values()):
        raise ApiError(400, "invalid", f"Something to note is needed: {', '.join(noted)}.")
    return noted


ENDPOINTS = (
    Endpoint("listFailures", "GET", "failures", "Dead jobs in groups that died alike.", _list, FailureList,
             query=FailuresQuery),
    Endpoint("getFailure", "GET", "failures/<str:fingerprint>", "One group, also when no job of it is dead any more.",
             _get, FailureAnswer, errors=(404,)),
    Endpoint("triageFailure", "POST", "failures/<str:fingerprint>/triage", "Note something on a group.", _triage,
             VerbAnswer, body=TriageBody, needs="chokaq.operate"),
    Endpoint("annotateJobs", "POST", "jobs/annotate", "Note something on dead jobs.", _annotate, VerbAnswer,
             body=AnnotateBody, needs="chokaq.operate"),
)  # fmt: skip
