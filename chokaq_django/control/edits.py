"""Verbs that change what a job will do: edit, and run again."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any, Literal

from django.db import transaction

from .. import wake
from ..conf import get_options
from ..job.envelope import EnvelopeError, clean_priority, clean_queue, clean_tags, clean_type
from ..job.failures import PayloadError
from ..job.registry import registry
from ..models import AuditEntry, JobBase, JobDLQ, JobHot
from ..storage import BulkResult, Conflict, Copies, EditResult, JobEdit, get_storage
from .acts import PERSON_LIMIT, Operator, authorised, clean_id, on_jobs
from .payloads import check_payload, fits, fitting

__all__ = ["edit", "run_again"]

MOST_CHANGES = 10
"""Changes of others that a refusal tells of."""

Revisions = dict[str, int | None]


# -- edit --------------------------------------------------------------------------------------------------------------


def edit(
    ids: str | Iterable[str] | Mapping[str, int],
    *,
    by: str | Operator,
    reason: str = "",
    revision: int | None = None,
    payload: object = None,
    tags: Iterable[str] | None = None,
    priority: int | None = None,
    queue: str | None = None,
    type: str | None = None,  # noqa: A002 - the word for it everywhere
) -> BulkResult:
    """Change waiting (Pending) and dead jobs; what is None stays. Needs ``chokaq.edit_payload``.

    ``revision``: the one that the editor saw, of a single job; or ``ids`` is a dict of id to revision. A job that was
    edited since is refused, and told what changed. Without a revision the edit wins over whatever was there.

    ``payload``: a job, a dict, or JSON text, checked by the codec of the job's type; one that does not fit is refused
    with the path of the bad value. The payload that it replaces is kept (``PayloadVersion``). ``type``: the key of
    another registered type, or an alias; a payload that stays must fit it too. ``EnvelopeError`` for a bad value.
    """
    actor = authorised(by, "edit_payload")
    seen = _revisions(ids, revision)
    changes = JobEdit(
        tags=None if tags is None else clean_tags(tags),
        priority=None if priority is None else clean_priority(priority),
        queue=None if queue is None else clean_queue(queue),
        type=None if type is None else _known_type(type),
    )
    if payload is not None:
        check_payload(payload)
    elif changes == JobEdit():
        raise TypeError("edit() needs something to change: payload, tags, priority, queue or type")
    alias = get_options().database
    before: dict[str, dict[str, Any]] = {}

    def act(chunk: list[str]) -> BulkResult:
        transaction.on_commit(partial(wake.notify, alias), using=alias, robust=True)
        answer = BulkResult()
        for part, revised in _fitted(alias, {i: seen.get(i) for i in chunk}, payload, changes, answer):
            done = get_storage(alias).edit(part, actor[:PERSON_LIMIT], revised)
            before.update(done.before)
            _tell_changes(alias, done, part)
            answer.add(done)
        return answer

    def details(job_id: str) -> dict[str, Any]:
        old = before.pop(job_id)
        told: dict[str, Any] = {"revision": old["revision"] + 1}
        for name in ("queue", "type", "priority", "tags"):
            new = getattr(changes, name)
            if new is not None and new != old[name]:
                told[name] = {"from": old[name], "to": new}
        return told | ({"payload": True} if payload is not None else {})

    return on_jobs("edit", list(seen), act, alias=alias, actor=actor, reason=reason, details=details)


def _revisions(ids: str | Iterable[str] | Mapping[str, int], revision: int | None) -> dict[Any, int | None]:
    """Id, clean where it is one, to the revision that the editor saw."""
    if isinstance(ids, Mapping):
        if revision is not None:
            raise TypeError("give the revisions in the dict, or revision= with one id")
        found: dict[Any, int | None] = {clean_id(key) or key: value for key, value in ids.items()}
    else:
        found = {clean_id(key) or key: revision for key in ((ids,) if isinstance(ids, str) else ids)}
        if revision is not None and len(found) > 1:
            raise TypeError("revision= is of one job; give many as a dict of id to revision")
    for value in found.values():
        if value is not None and (isinstance(value, bool) or not isinstance(value, int)):
            raise EnvelopeError("revision", f"must be an integer, got {value!r}")
    return found


def _known_type(key: str) -> str:
    key = clean_type(key)
    if registry.get(key) is None:
        raise EnvelopeError("type", f"{key!r} is not registered here{registry.nearest_key(key)}")
    return key


def _fitted(
    alias: str, seen: Revisions, payload: object, changes: JobEdit, answer: BulkResult
) -> Iterable[tuple[Revisions, JobEdit]]:
    """The jobs of a chunk in groups that get the same edit. What does not fit its type is refused in ``answer``."""
    if payload is None and changes.type is None:
        yield seen, changes
        return
    groups: dict[tuple[str | None, int | None], Revisions] = {}
    texts: dict[str, tuple[str, int] | PayloadError] = {}
    found = _stored(alias, list(seen), with_payload=payload is None)
    for job_id, revision in seen.items():
        row = found.get(job_id)
        if row is None:
            answer.refused.append(Conflict(job_id, "There is no waiting or dead job with this id."))
            continue
        key, stored_revision, text, version = row
        try:
            new = (None, None) if payload is None else _fitting_once(texts, changes.type or key, payload)
            if payload is None and registry.get(key) is not registry.get(str(changes.type)):
                fits(str(changes.type), text, version)
        except PayloadError as error:
            answer.refused.append(Conflict(job_id, f"The payload does not fit: {error}"))
            continue
        # What was checked is what is edited: whoever comes between is found by the revision.
        groups.setdefault(new, {})[job_id] = stored_revision if revision is None else revision
    for (text_, version_), part in groups.items():
        yield part, JobEdit(text_, version_, changes.tags, changes.priority, changes.queue, changes.type)


def _fitting_once(texts: dict[str, tuple[str, int] | PayloadError], key: str, payload: object) -> tuple[str, int]:
    if key not in texts:
        try:
            texts[key] = fitting(key, payload)
        except PayloadError as error:
            texts[key] = error
    known = texts[key]
    if isinstance(known, PayloadError):
        raise known
    return known


def _stored(alias: str, ids: list[str], *, with_payload: bool) -> dict[str, tuple[str, int, str, int]]:
    """Id to type, revision, payload (only where it is asked for) and schema version of waiting and dead jobs."""
    columns = ("pk", "type", "revision", "schema_version", *(("payload",) if with_payload else ()))
    models: tuple[type[JobBase], ...] = (JobDLQ, JobHot)
    found = {}
    for model in models:
        for pk, key, revision, version, *text in (
            model._default_manager.using(alias).filter(pk__in=ids).values_list(*columns)
        ):
            found[pk] = (key, revision, text[0] if text else "", version)
    return found


# -- what others changed -----------------------------------------------------------------------------------------------


def _tell_changes(alias: str, answer: EditResult, seen: Mapping[str, int | None]) -> None:
    """Add to each refusal for its revision what was changed since the one that the editor saw."""
    if not answer.outdated:
        return
    answer.refused = [
        Conflict(each.id, " ".join([each.reason, *_changes_since(alias, each.id, seen[each.id] or 0)]))
        if each.id in answer.outdated
        else each
        for each in answer.refused
    ]


def _changes_since(alias: str, job_id: str, revision: int) -> list[str]:
    entries = AuditEntry.objects.using(alias).filter(target=job_id, action="edit").order_by("-at", "-id")[:MOST_CHANGES]
    told = []
    for entry in reversed(entries):
        details = json.loads(entry.details)
        if details.pop("revision", 0) > revision:
            told.append(f"{entry.by}: {', '.join(_change(name, value) for name, value in details.items())}.")
    return told


def _change(name: str, value: Any) -> str:
    return f"{name} {value['from']} -> {value['to']}" if isinstance(value, dict) else f"a new {name}"


# -- run again ---------------------------------------------------------------------------------------------------------


def run_again(
    ids: str | Iterable[str],
    *,
    by: str | Operator,
    reason: str = "",
    on_key_conflict: Literal["skip", "drop"] = "skip",
) -> Copies:
    """Enqueue archived jobs once more, each as a new job that is due now. Needs ``chokaq.resurrect``.

    The answer's ``new_ids`` maps each old id to the new one; the new job's header ``chokaq-run-again-of`` names the old
    one, and so does the audit. ``on_key_conflict``: when an active job holds the idempotency key, "skip" refuses and
    names the holder, "drop" makes the new job without a key.
    """
    actor = authorised(by, "resurrect")
    if on_key_conflict not in ("skip", "drop"):
        raise ValueError(f"on_key_conflict must be 'skip' or 'drop', got {on_key_conflict!r}")
    alias = get_options().database
    new_ids: dict[str, str] = {}

    def act(chunk: list[str]) -> BulkResult:
        transaction.on_commit(partial(wake.notify, alias), using=alias, robust=True)
        part = get_storage(alias).run_again(chunk, actor[:PERSON_LIMIT], on_key_conflict=on_key_conflict)
        new_ids.update(part.new_ids)
        return part

    answer = on_jobs(
        "run_again", ids, act, alias=alias, actor=actor, reason=reason, details=lambda job_id: {"new": new_ids[job_id]}
    )
    return Copies(answer.applied, answer.requested, answer.refused, new_ids)
