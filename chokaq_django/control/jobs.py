"""Verbs on jobs."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

from django.db import transaction

from .. import wake
from ..conf import get_options
from ..job.envelope import clean_priority, clean_tags
from ..job.failures import PayloadError
from ..job.ids import clean_id
from ..models import JobDLQ
from ..reading.job import JobView, find_job
from ..sentence import Sentence
from ..storage import BulkResult, Conflict, Copies, get_storage
from .acts import PERSON_LIMIT, Operator, authorised, lock_ahead, on_jobs
from .arguments import KeyConflict, clean_key_conflict, unusual_policy
from .payloads import check_payload, fitting

__all__ = ["cancel", "get", "resurrect", "run_again"]


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

    return on_jobs("cancel", ids, act, alias=alias, actor=actor, reason=reason, details={}, places=("hot",))


def resurrect(
    ids: str | Iterable[str],
    *,
    by: str | Operator,
    reason: str = "",
    payload: object = None,
    tags: Iterable[str] | None = None,
    priority: int | None = None,
    on_key_conflict: KeyConflict = "skip",
) -> BulkResult:
    """Bring dead jobs back: pending, due now, attempts counted afresh. Needs ``chokaq.resurrect``.

    ``payload`` (a job, a dict, or JSON text), ``tags`` and ``priority`` replace the job's own; None keeps them. The
    payload is checked by the codec of each job's type and needs ``chokaq.edit_payload`` too; a job that it does not
    fit is refused with the path of the bad value. ``on_key_conflict``: when another active job holds the idempotency
    key, "skip" refuses and names the holder, "drop" brings the job back without its key.
    """
    actor = authorised(by, "resurrect", *(() if payload is None else ("edit_payload",)))
    clean_key_conflict(on_key_conflict)
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
        groups = _by_type(alias, chunk, answer)
        if len(groups) > 1:
            lock_ahead(alias, chunk, ("dlq",))
        for key, group in groups.items():
            try:
                part = revive(group, *fitting(key, payload))
            except PayloadError as error:
                part = BulkResult(
                    refused=[
                        Conflict(job_id, Sentence("The payload does not fit: %(error)s", error=str(error)))
                        for job_id in group
                    ]
                )
            answer.add(part)
        return answer

    edits = {"payload": payload is not None or None, "tags": new_tags, "priority": new_priority}
    details = {name: value for name, value in edits.items() if value is not None} | unusual_policy(on_key_conflict)
    return on_jobs("resurrect", ids, act, alias=alias, actor=actor, reason=reason, details=details, places=("dlq",))


def run_again(
    ids: str | Iterable[str],
    *,
    by: str | Operator,
    reason: str = "",
    on_key_conflict: KeyConflict = "skip",
) -> Copies:
    """Enqueue archived jobs once more, each as a new job that is due now. Needs ``chokaq.resurrect``.

    The answer's ``new_ids`` maps each old id to the new one; the new job's header ``chokaq-run-again-of`` names the old
    one, and so does the audit. ``on_key_conflict``: when an active job holds the idempotency key, "skip" refuses and
    names the holder, "drop" makes the new job without a key.
    """
    actor = authorised(by, "resurrect")
    clean_key_conflict(on_key_conflict)
    alias = get_options().database
    new_ids: dict[str, str] = {}

    def act(chunk: list[str]) -> BulkResult:
        transaction.on_commit(partial(wake.notify, alias), using=alias, robust=True)
        part = get_storage(alias).run_again(chunk, actor[:PERSON_LIMIT], on_key_conflict=on_key_conflict)
        new_ids.update(part.new_ids)
        return part

    answer = on_jobs(
        "run_again",
        ids,
        act,
        alias=alias,
        actor=actor,
        reason=reason,
        details=lambda job_id: {"new": new_ids[job_id], **unusual_policy(on_key_conflict)},
        places=("archive",),
    )
    return Copies(answer.applied, answer.requested, answer.refused, new_ids)


def _by_type(alias: str, ids: list[str], answer: BulkResult) -> dict[str, list[str]]:
    """The dead jobs among ``ids`` by type key; the others are refused in ``answer``."""
    types = dict(JobDLQ.objects.using(alias).filter(pk__in=ids).values_list("pk", "type"))
    groups: dict[str, list[str]] = {}
    for job_id in ids:
        if job_id in types:
            groups.setdefault(types[job_id], []).append(job_id)
        else:
            answer.refused.append(Conflict(job_id, Sentence("There is no dead job with this id.")))
    return groups
