"""The verb that changes what a job will do."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from typing import Any

from django.db import transaction

from .. import wake
from ..conf import get_options
from ..job.envelope import EnvelopeError, clean_priority, clean_queue, clean_tags, clean_type
from ..job.failures import PayloadError
from ..job.ids import clean_id
from ..job.registry import registry
from ..models import AuditEntry, JobBase, JobDLQ, JobHot
from ..sentence import Sentence, shown
from ..storage import BulkResult, Conflict, EditResult, JobEdit, get_storage
from ..storage.contract import NotRenewedError, Renew, StoredPayload
from ..storage.engine import CHUNK, chunks
from ..storage.patching import patching
from .acts import PERSON_LIMIT, Operator, authorised, bounded_ids, each_of, lock_ahead, on_jobs
from .arguments import need_one
from .patience import Patience
from .payloads import (
    Patch,
    check_payload,
    clean_patch,
    fits,
    fitting,
    may_quote,
    may_see_payloads,
    may_tell,
    patch_permissions,
)

__all__ = ["changes_since", "edit"]

LONGEST = 20.0
"""Seconds that one call looks at stored payloads, of which one of a megabyte takes a third of a second; in a caller's
transaction their rows are locked all the while."""
PAYLOADS = 50
"""Payloads in memory at a time."""
MOST_CHANGES = 10
"""Changes of others that a refusal tells of."""

NO_TIME = Sentence("There was no time left for this job: edit the rest by another call, or by a bulk operation.")

Revisions = dict[str, int | None]
_Stored = tuple[str, int, str, int]
"""Type, revision, payload (where it is asked for) and schema version."""


# -- edit --------------------------------------------------------------------------------------------------------------


def edit(
    ids: str | Iterable[str] | Mapping[str, int],
    *,
    by: str | Operator,
    reason: str = "",
    revision: int | None = None,
    payload: object = None,
    patch: Patch | None = None,
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

    ``patch``: changes of each job's own payload, see :func:`clean_patch`. The outcome is checked like a payload; a job
    whose payload does not pass a test of the patch, or would not fit, stays as it is and is refused. A patch that does
    more than set fields at the top asks what is there, and needs ``chokaq.view_payload`` too.

    A call looks at stored payloads for about LONGEST seconds; jobs that it has not come to by then are refused.
    """
    changed = None if patch is None else clean_patch(patch)
    actor = authorised(by, "edit_payload", *patch_permissions(changed))
    seen = _revisions(ids, revision)
    changes = JobEdit(
        tags=None if tags is None else clean_tags(tags),
        priority=None if priority is None else clean_priority(priority),
        queue=None if queue is None else clean_queue(queue),
        type=None if type is None else _known_type(type),
    )
    need_one(payload=payload, patch=patch, tags=tags, priority=priority, queue=queue, type=type)
    if payload is not None:
        if changed is not None:
            raise EnvelopeError("patch", Sentence("cannot be given together with a payload"))
        check_payload(payload)
    alias = get_options().database
    may_see, patience = may_see_payloads(by), Patience(LONGEST)
    if changed is not None:
        quotes = partial(may_quote, may_see=may_see)
        renew = patching(changed, sees=may_see, quotes=quotes, tells=may_tell(changed, by))
        changes.renew = _in_time(renew, patience)
    before: dict[str, dict[str, Any]] = {}

    def act(chunk: list[str]) -> BulkResult:
        answer = BulkResult()
        if patience.over:
            answer.refused = [Conflict(job_id, NO_TIME) for job_id in chunk]
            return answer
        transaction.on_commit(partial(wake.notify, alias), using=alias, robust=True)
        for part, revised in _fitted(
            alias, {i: seen.get(i) for i in chunk}, payload, changes, answer, may_see, patience
        ):
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
        if changed is not None:
            told["patch"] = changed.outline
        return told | ({"payload": True} if payload is not None else {})

    return on_jobs(
        "edit", list(seen), act, alias=alias, actor=actor, reason=reason, details=details, places=("hot", "dlq")
    )


def _revisions(ids: str | Iterable[str] | Mapping[str, int], revision: int | None) -> dict[Any, int | None]:
    """Id, clean where it is one, to the revision that the editor saw."""

    def clean(key: object) -> object:
        return clean_id(key) or (key if isinstance(key, str) else shown(key, 64))

    if isinstance(ids, Mapping):
        if revision is not None:
            raise EnvelopeError("revision", Sentence("is of one job; the dict of ids has the revisions"))
        found: dict[Any, int | None] = {clean(key): value for key, value in bounded_ids(ids.items())}
    else:
        found = {clean(key): revision for key in each_of(ids)}
        if revision is not None and len(found) > 1:
            raise EnvelopeError("revision", Sentence("is of one job; give many as a dict of id to revision"))
    for value in found.values():
        if value is not None and (isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 2**31):
            raise EnvelopeError(
                "revision", Sentence("must be an integer, 0 or more, got %(value)s", value=shown(value))
            )
    return found


def _known_type(key: str) -> str:
    key = clean_type(key)
    if registry.get(key) is None:
        raise EnvelopeError(
            "type", Sentence("%(key)s is not registered here%(hint)s", key=repr(key), hint=registry.nearest_key(key))
        )
    return key


def _fitted(
    alias: str,
    seen: Revisions,
    payload: object,
    changes: JobEdit,
    answer: BulkResult,
    may_see: bool,
    patience: Patience,
) -> Iterable[tuple[Revisions, JobEdit]]:
    """The jobs of a chunk in groups that get the same edit. What does not fit its type is refused in ``answer``: what
    a codec says may quote a stored value, for those who ``may_see`` it."""
    if changes.renew is not None or (payload is None and changes.type is None):
        yield seen, changes
        return
    groups: dict[tuple[str | None, int | None], Revisions] = {}
    texts: dict[str, tuple[str, int] | PayloadError] = {}
    for job_id, row in _stored(alias, list(seen), with_payload=payload is None):
        revision = seen[job_id]
        if patience.over:
            answer.refused.append(Conflict(job_id, NO_TIME))
            continue
        if row is None:
            answer.refused.append(Conflict(job_id, Sentence("There is no waiting or dead job with this id.")))
            continue
        key, stored_revision, text, version = row
        if payload is None:
            patience.begin()
        try:
            new = (None, None) if payload is None else _fitting_once(texts, changes.type or key, payload)
            if payload is None and registry.get(key) is not registry.get(str(changes.type)):
                fits(str(changes.type), text, version)
        except PayloadError as error:
            answer.refused.append(Conflict(job_id, _why_unfit(error, given=payload is not None, may_see=may_see)))
            continue
        # What was checked is what is edited: whoever comes between is found by the revision.
        groups.setdefault(new, {})[job_id] = stored_revision if revision is None else revision
    if len(groups) > 1:
        lock_ahead(alias, list(seen), ("hot", "dlq"))
    for (text_, version_), part in groups.items():
        yield part, JobEdit(text_, version_, changes.tags, changes.priority, changes.queue, changes.type)


def _why_unfit(error: PayloadError, *, given: bool, may_see: bool) -> str:
    """Why a payload, ``given`` or stored, does not fit. Where it does not tells what a stored one holds."""
    if not (given or may_see):
        return Sentence("The payload does not fit the other type.")
    why = error if given or may_quote(error.path, may_see=True) else error.plain_path
    return Sentence("The payload does not fit: %(why)s", why=str(why))


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


def _stored(alias: str, ids: list[str], *, with_payload: bool) -> Iterator[tuple[str, _Stored | None]]:
    """The waiting and dead jobs among ``ids``; None of the others."""
    columns = ("pk", "type", "revision", "schema_version", *(("payload",) if with_payload else ()))
    models: tuple[type[JobBase], ...] = (JobDLQ, JobHot)
    for part in chunks(ids, PAYLOADS if with_payload else CHUNK):
        found: dict[str, _Stored] = {}
        for model in models:
            rows = model._default_manager.using(alias).filter(pk__in=part).values_list(*columns)
            for pk, key, revision, version, *text in rows:
                found[pk] = (key, revision, text[0] if text else "", version)
        yield from ((job_id, found.get(job_id)) for job_id in part)


def _in_time(renew: Renew, patience: Patience) -> Renew:
    """``renew``, as long as there is time."""

    def limited(job: StoredPayload) -> tuple[str, int]:
        if patience.over:
            raise NotRenewedError(NO_TIME)
        patience.begin()
        return renew(job)

    return limited


# -- what others changed -----------------------------------------------------------------------------------------------


def _tell_changes(alias: str, answer: EditResult, seen: Mapping[str, int | None]) -> None:
    """Add to each refusal for its revision what was changed since the one that the editor saw."""
    if not answer.outdated:
        return
    answer.refused = [
        Conflict(each.id, " ".join([each.reason, *changes_since(alias, each.id, seen[each.id] or 0)]))
        if each.id in answer.outdated
        else each
        for each in answer.refused
    ]


def changes_since(alias: str, job_id: str, revision: int) -> list[str]:
    """Sentences on the edits that came after a revision, the oldest first."""
    entries = AuditEntry.objects.using(alias).filter(target=job_id, action="edit").order_by("-at", "-id")[:MOST_CHANGES]
    told = []
    for entry in reversed(entries):
        details = json.loads(entry.details)
        if details.pop("revision", 0) > revision:
            told.append(f"{entry.by}: {', '.join(_change(name, value) for name, value in details.items())}.")
    return told


def _change(name: str, value: Any) -> str:
    if isinstance(value, dict):
        return f"{name} {value['from']} -> {value['to']}"
    return f"payload: {', '.join(value)}" if name == "patch" else f"a new {name}"
