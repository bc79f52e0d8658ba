"""Jobs: lists, one job, and the verbs on some."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from typing import Annotated, Any, TypedDict

from msgspec import UNSET, Meta, Struct, UnsetType

from .. import control
from ..control import JobView
from ..job import verbatim
from ..reading.documents import JobDocument, JobLine, instant, job_document, job_line
from ..reading.filter_text import filter_from
from ..reading.masks import MASK, mask_members, mask_text
from ..reading.seen import JOB, plain_attempt
from ..reading.waiting import why_waiting
from .endpoint import Call, Endpoint
from .errors import ApiError
from .shapes import (
    Filter,
    Id,
    IdsBody,
    KeyBody,
    Name,
    PatchBody,
    Raw,
    Reason,
    VerbAnswer,
    filter_text,
    patch_text,
    raw_text,
    told,
)

__all__ = ["ENDPOINTS"]

Tags = Annotated[list[Annotated[str, Meta(max_length=100)]], Meta(max_length=50)]
_ESCAPED_MASK = json.dumps(MASK)[1:-1].lower()


class JobsQuery(Filter, forbid_unknown_fields=True, kw_only=True):
    """A page of a list."""

    limit: Annotated[int, Meta(ge=1, le=1_000)] = 50
    after: Annotated[str, Meta(max_length=80, description="`next` of the page before.")] | None = None


class JobList(TypedDict):
    """Newest first. `next`: what to give as `after` for the page that follows; null when there is none. A page may hold
    fewer jobs than `limit` and still have a next one."""

    as_of: str
    jobs: list[JobLine]
    next: str | None


class JobAnswer(TypedDict):
    """`masked`: whether texts were left out, which need the permission view_payload, or values hidden by their names.
    `waiting_because`: why it does not run, all that holds."""

    as_of: str
    masked: bool
    job: JobDocument
    waiting_because: list[str]


class RevealBody(Struct, forbid_unknown_fields=True):
    reason: Reason = ""


class ResurrectBody(KeyBody, forbid_unknown_fields=True, kw_only=True):
    """`payload`, `tags` and `priority` replace the job's own; a payload needs edit_payload too. Its numbers stay as
    they are written; a string is taken as JSON text."""

    payload: Raw | UnsetType = UNSET
    tags: Tags | None = None
    priority: int | None = None


class EditBody(Struct, forbid_unknown_fields=True, kw_only=True):
    """`ids`, or `revisions`: id to the revision that the editor saw. What is left out stays. `patch` changes what
    each job has, `payload` is the same for all of them."""

    ids: Annotated[list[Id], Meta(min_length=1, max_length=1_000)] | UnsetType = UNSET
    revisions: Annotated[dict[Id, int], Meta(min_length=1, max_length=1_000)] | UnsetType = UNSET
    reason: Reason = ""
    payload: Raw | UnsetType = UNSET
    patch: PatchBody | UnsetType = UNSET
    tags: Tags | None = None
    priority: int | None = None
    queue: Name | None = None
    type: Name | None = None


def _list(call: Call) -> JobList:
    page = control.list_jobs(
        filter_from(filter_text(call.query), call.now), limit=call.query.limit, after=call.query.after
    )
    as_of = instant(call.now) or ""
    return {"as_of": as_of, "jobs": [job_line(job, call.now) for job in page.jobs], "next": page.next}


def _get(call: Call) -> JobAnswer:
    return _answer(call, control.get(call.path["job_id"]), revealed=False)


def _reveal(call: Call) -> JobAnswer:
    job = control.reveal(call.path["job_id"], by=call.user, reason=call.body.reason)
    return _answer(call, job, revealed=True)


def _answer(call: Call, job: JobView | None, *, revealed: bool) -> JobAnswer:
    if job is None:
        raise ApiError(404, "no_such_job", "There is no job with this id: it never was, or it is deleted.")
    document, masked = job_document(job), False
    if not call.may("view_payload"):
        masked = _left_out(document)
    elif not revealed:
        masked = _hidden(document)
    reasons = [str(hold) for hold in why_waiting(job, call.alias, call.now)]
    return {"as_of": instant(call.now) or "", "masked": masked, "job": document, "waiting_because": reasons}


def _left_out(document: Any) -> bool:
    """Leave what everybody may see; of the rest the names of headers, and what is plain of attempts."""
    kept = {
        "headers": dict.fromkeys(document["headers"], MASK),
        "attempts": [plain_attempt(attempt) for attempt in document["attempts"]],
    }
    document.update({name: kept.get(name) for name in document.keys() - JOB})
    return True


def _hidden(document: Any) -> bool:
    """Hide values by the names of their fields."""
    hidden = 0
    for name in ("payload", "result"):
        if document[name]:
            masked = mask_text(document[name])
            document[name], hidden = masked.text, hidden + masked.hidden
    shown, count = mask_members({str(name): str(value) for name, value in document["headers"].items()})
    document["headers"] = shown
    return hidden + count > 0


def _verb(verb: Callable[..., Any], call: Call) -> VerbAnswer:
    return told(verb(call.body.ids, by=call.user, reason=call.body.reason))


def _verb_with_key(verb: Callable[..., Any], call: Call) -> VerbAnswer:
    body = call.body
    return told(verb(body.ids, by=call.user, reason=body.reason, on_key_conflict=body.on_key_conflict))


def _resurrect(call: Call) -> VerbAnswer:
    body = call.body
    answer = control.resurrect(
        body.ids, by=call.user, reason=body.reason, on_key_conflict=body.on_key_conflict,
        payload=_payload(body.payload), tags=body.tags, priority=body.priority,
    )  # fmt: skip
    return told(answer)


def _edit(call: Call) -> VerbAnswer:
    body = call.body
    if (body.ids is UNSET) is (body.revisions is UNSET):
        raise ApiError(400, "invalid", "Name the jobs by ids or by revisions, and not by both.", "ids")
    changes = {"payload": _payload(body.payload), "patch": patch_text(body.patch), "tags": body.tags,
               "priority": body.priority, "queue": body.queue, "type": body.type}  # fmt: skip
    if all(value is None for value in changes.values()):
        raise ApiError(400, "invalid", f"Something to change is needed: {', '.join(changes)}.")
    if changes["payload"] is not None and changes["patch"] is not None:
        raise ApiError(400, "invalid", "Give a payload or a patch, and not both.", "patch")
    jobs = body.revisions if body.ids is UNSET else body.ids
    return told(control.edit(jobs, by=call.user, reason=body.reason, **changes))


def _payload(value: Raw | UnsetType) -> str | None:
    text = raw_text(value)
    if text is None:
        return None
    if value is not UNSET and bytes(value)[:1] != b'"':
        try:
            verbatim.read(text)  # how deep JSON may be nested must not depend on how deep this Python goes
        except ValueError as error:
            raise ApiError(400, "not_json", f"The payload is {error}.", "payload") from None
    if MASK in text or _ESCAPED_MASK in text.lower():
        # Who sends back what was shown masked would store the mask.
        raise ApiError(400, "masked", "The payload has values that were masked: reveal the job first.", "payload")
    return text


ENDPOINTS = (
    Endpoint("listJobs", "GET", "jobs", "Jobs that a filter finds, newest first.", _list, JobList, query=JobsQuery),
    Endpoint("getJob", "GET", "jobs/<str:job_id>", "One job, wherever it is.", _get, JobAnswer, errors=(404,)),
    Endpoint(
        "revealJob", "POST", "jobs/<str:job_id>/reveal", "One job with the values that are masked by name; audited.",
        _reveal, JobAnswer, body=RevealBody, needs="chokaq.view_payload", errors=(404,),
    ),
    Endpoint(
        "cancelJobs", "POST", "jobs/cancel", "Cancel waiting jobs, ask running ones to stop.",
        partial(_verb, control.cancel), VerbAnswer, body=IdsBody, needs="chokaq.cancel",
    ),
    Endpoint(
        "removeJobs", "POST", "jobs/remove", "Active jobs that do not run into the Trash.",
        partial(_verb, control.remove), VerbAnswer, body=IdsBody, needs="chokaq.cancel and chokaq.purge",
    ),
    Endpoint(
        "resurrectJobs", "POST", "jobs/resurrect", "Bring dead jobs back.", _resurrect, VerbAnswer, body=ResurrectBody,
        needs="chokaq.resurrect",
    ),
    Endpoint(
        "runJobsAgain", "POST", "jobs/run-again", "Enqueue archived jobs once more, as new jobs.",
        partial(_verb_with_key, control.run_again), VerbAnswer, body=KeyBody, needs="chokaq.resurrect",
    ),
    Endpoint(
        "editJobs", "POST", "jobs/edit", "Change waiting and dead jobs.", _edit, VerbAnswer, body=EditBody,
        needs="chokaq.edit_payload",
    ),
    Endpoint(
        "purgeJobs", "POST", "jobs/purge", "Dead and archived jobs into the Trash.", partial(_verb, control.purge),
        VerbAnswer, body=IdsBody, needs="chokaq.purge",
    ),
    Endpoint(
        "restoreJobs", "POST", "jobs/restore", "Jobs out of the Trash, as they were.",
        partial(_verb_with_key, control.restore), VerbAnswer, body=KeyBody, needs="chokaq.purge",
    ),
)  # fmt: skip
