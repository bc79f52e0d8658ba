"""Verbs on jobs."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Literal

from django.db import transaction

from .. import wake
from ..conf import get_options
from ..job.envelope import clean_priority, clean_tags
from ..job.failures import PayloadError
from ..models import JobDLQ
from ..storage import BulkResult, Conflict, get_storage
from .acts import PERSON_LIMIT, Operator, authorised, clean_id, on_jobs
from .payloads import check_payload, fitting
from .view import JobView, find_job

__all__ = ["cancel", "get", "resurrect"]


def get(job_id: str) -> JobView | None:
    """The job, wherever it is; None when there is none with this id."""
    clean = clean_id(job_id)
    return None if clean is None else find_job(clean, get_options().database)


def cancel(ids: str | Iterable[str], *, by: str | Operator, reason: str = "") -> BulkResult:
    """Cancel active jobs: waiting ones go to the DLQ as Cancelled (``applied``), running ones are asked to stop
    (``requested``). Needs ``chokaq.cancel``."""
    actor = authorised(by, "cancel")
    alias = get_options().database

    def act(chunk: list[str]) -> BulkResult:
        return get_storage(alias).cancel(chunk, actor[:PERSON_LIMIT])

    return on_jobs("cancel", ids, act, alias=alias, actor=actor, reason=reason, details={})


def resurrect(
    ids: str | Iterable[str],
    *,
    by: str | Operator,
    reason: str = "",
    payload: object = None,
    tags: Iterable[str] | None = None,
    priority: int | None = None,
    on_key_conflict: Literal["skip", "drop"] = "skip",
) -> BulkResult:
    """Bring dead jobs back: pending, due now, attempts counted afresh. Needs ``chokaq.resurrect``.

    ``payload`` (a job, a dict, or JSON text), ``tags`` and ``priority`` replace the job's own; None keeps them. The
    payload is checked by the codec of each job's type and needs ``chokaq.edit_payload`` too; a job that it does not
    fit is refused with the path of the bad value. ``on_key_conflict``: when another active job holds the idempotency
    key, "skip" refuses and names the holder, "drop" brings the job back without its key.
    """
    actor = authorised(by, "resurrect", *(() if payload is None else ("edit_payload",)))
    if on_key_conflict not in ("skip", "drop"):
        raise ValueError(f"on_key_conflict must be 'skip' or 'drop', got {on_key_conflict!r}")
    if payload is not None:
        check_payload(payload)
    alias = get_options().database
    new_tags = None if tags is None else clean_tags(tags)
    new_priority = None if priority is None else clean_priority(priority)

    def revive(group: list[str], text: str | None = None, schema_version: int | None = None) -> BulkResult:
        return get_storage(alias).resurrect(
            group,
            actor[:PERSON_LIMIT],
            payload=text,
            tags=new_tags,
            priority=new_priority,
            schema_version=schema_version,
            on_key_conflict=on_key_conflict,
        )

    def act(chunk: list[str]) -> BulkResult:
        transaction.on_commit(partial(wake.notify, alias), using=alias, robust=True)
        if payload is None:
            return revive(chunk)
        answer = BulkResult()
        for key, group in _by_type(alias, chunk, answer).items():
            try:
                part = revive(group, *fitting(key, payload))
            except PayloadError as error:
                part = BulkResult(refused=[Conflict(job_id, f"The payload does not fit: {error}") for job_id in group])
            answer.add(part)
        return answer

    edits = {"payload": payload is not None or None, "tags": new_tags, "priority": new_priority}
    details = {name: value for name, value in edits.items() if value is not None}
    return on_jobs("resurrect", ids, act, alias=alias, actor=actor, reason=reason, details=details)


def _by_type(alias: str, ids: list[str], answer: BulkResult) -> dict[str, list[str]]:
    """The dead jobs among ``ids`` by type key; the others are refused in ``answer``."""
    types = dict(JobDLQ.objects.using(alias).filter(pk__in=ids).values_list("pk", "type"))
    groups: dict[str, list[str]] = {}
    for job_id in ids:
        if job_id in types:
            groups.setdefault(types[job_id], []).append(job_id)
        else:
            answer.refused.append(Conflict(job_id, "There is no dead job with this id."))
    return groups
