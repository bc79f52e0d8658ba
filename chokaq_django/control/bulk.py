"""The operator's verbs on many jobs: each freezes a set and leaves it to the workers, or to :func:`bulk_run`.

Operations answer at once. What they act on is a list of ids, or what a filter finds of the jobs that were there at this
moment; a later arrival does not belong to it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from ..conf import get_options
from ..job.envelope import EnvelopeError, clean_priority, clean_queue
from ..job.ids import clean_id, new_id
from ..models import BulkAction, BulkItem, BulkItemState, BulkOperation
from ..reading.bulk import AT_REST, BulkView, view_of
from ..reading.selection import JobFilter, clean_where
from ..sentence import Sentence, shown
from ..storage import BulkResult, get_storage
from ..storage.bulk_sets import OPERATION
from .acts import Operator, act_transaction, audit, authorised, clean_ids, clean_reason, log_act
from .arguments import (
    KeyConflict,
    clean_flag,
    clean_positive,
    clean_rate,
    clean_share,
    clean_whole,
    need_one,
    unusual_policy,
)
from .bulk_filters import as_given, conditions_of, place_of
from .payloads import Patch, clean_patch, may_tell, patch_permissions

__all__ = [
    "PERMISSIONS",
    "begin",
    "bulk_cancel",
    "bulk_edit",
    "bulk_purge",
    "bulk_remove",
    "bulk_restore",
    "bulk_resurrect",
]

Ids = Iterable[str] | None

PERMISSIONS: dict[BulkAction, tuple[str, ...]] = {
    BulkAction.RESURRECT: ("resurrect",),
    BulkAction.PURGE: ("purge",),
    BulkAction.CANCEL: ("cancel",),
    BulkAction.REMOVE: ("cancel", "purge"),
    BulkAction.EDIT: ("edit_payload",),
    BulkAction.RESTORE: ("purge",),
    BulkAction.REVERT: ("edit_payload",),
}
"""Those of the single verbs."""
_PLACES = {
    BulkAction.RESURRECT: ("dlq",), BulkAction.PURGE: ("dlq", "archive"), BulkAction.CANCEL: ("hot",),
    BulkAction.REMOVE: ("hot",), BulkAction.EDIT: ("hot", "dlq"),
}  # fmt: skip


def bulk_resurrect(
    ids: Ids = None,
    *,
    where: JobFilter | None = None,
    of: str | None = None,
    by: str | Operator,
    reason: str = "",
    priority: int | None = None,
    on_key_conflict: KeyConflict = "skip",
    rate: float | None = None,
    canary: int | None = None,
    canary_failures: float = 0.1,
    canary_timeout: float = 600.0,
    stop_at: float | None = None,
    stop_sample: int = 20,
    stop_window: int = 200,
    hold: bool = False,
) -> BulkView:
    """Bring dead jobs back, the oldest first. Needs ``chokaq.resurrect``. ``priority`` and ``on_key_conflict`` as in
    :func:`resurrect`. ``of``: the id of another operation, instead of ``ids`` or ``where``: what it acted on and is
    dead now, such as all that it repaired.

    ``rate``: jobs per second, None: as fast as it goes. ``canary``: bring back so many, wait until they have ended or
    ``canary_timeout`` seconds have passed, and go on if at most the share ``canary_failures`` of those that ended died.
    ``stop_at``: stop when more than this share of the jobs that ended died; judged on about the last ``stop_window``
    that ended, and not before ``stop_sample`` have. ``hold``: freeze the set, then wait for :func:`bulk_resume`.
    """
    sample, window = clean_whole("stop_sample", stop_sample), clean_whole("stop_window", stop_window)
    careful = {
        "canary": None if canary is None else clean_whole("canary", canary),
        "canary_share": clean_share("canary_failures", canary_failures),
        "canary_timeout": clean_positive("canary_timeout", canary_timeout),
        "stop_share": None if stop_at is None else clean_share("stop_at", stop_at),
        "stop_sample": sample,
        # It is made of two halves of which the older is forgotten whole, and must never be below the sample.
        "stop_window": max(window, 2 * sample),
    }
    arguments = {
        "priority": None if priority is None else clean_priority(priority),
        **unusual_policy(on_key_conflict),
    }
    return begin(BulkAction.RESURRECT, ids, where, by, reason, arguments, rate=rate, hold=hold, careful=careful, of=of)


def bulk_purge(
    ids: Ids = None, *, where: JobFilter | None = None, by: str | Operator, reason: str = "",
    rate: float | None = None, hold: bool = False,
) -> BulkView:  # fmt: skip
    """Put dead or archived jobs into the Trash. Needs ``chokaq.purge``. :func:`bulk_undo` restores them."""
    arguments = {"ttl": get_options().retention.trash}
    return begin(BulkAction.PURGE, ids, where, by, reason, arguments, rate=rate, hold=hold)


def bulk_cancel(
    ids: Ids = None, *, where: JobFilter | None = None, by: str | Operator, reason: str = "",
    rate: float | None = None, hold: bool = False,
) -> BulkView:  # fmt: skip
    """Cancel active jobs: waiting ones die as Cancelled, running ones are asked to stop. Needs ``chokaq.cancel``."""
    return begin(BulkAction.CANCEL, ids, where, by, reason, {}, rate=rate, hold=hold)


def bulk_remove(
    ids: Ids = None, *, where: JobFilter | None = None, by: str | Operator, reason: str = "",
    rate: float | None = None, hold: bool = False,
) -> BulkView:  # fmt: skip
    """Put active jobs that are not running into the Trash. Needs ``chokaq.cancel`` and ``chokaq.purge``."""
    arguments = {"ttl": get_options().retention.trash}
    return begin(BulkAction.REMOVE, ids, where, by, reason, arguments, rate=rate, hold=hold)


def bulk_restore(
    ids: Iterable[str], *, by: str | Operator, reason: str = "", on_key_conflict: KeyConflict = "skip",
    rate: float | None = None, hold: bool = False,
) -> BulkView:  # fmt: skip
    """Take jobs out of the Trash, back to where they came from. Needs ``chokaq.purge``."""
    arguments = unusual_policy(on_key_conflict)
    return begin(BulkAction.RESTORE, ids, None, by, reason, arguments, rate=rate, hold=hold)


def bulk_edit(
    ids: Ids = None, *, where: JobFilter | None = None, by: str | Operator, reason: str = "",
    priority: int | None = None, queue: str | None = None, patch: Patch | None = None, rate: float | None = None,
    hold: bool = False,
) -> BulkView:  # fmt: skip
    """Change priority, queue and payloads of waiting and dead jobs. Needs ``chokaq.edit_payload``. :func:`bulk_undo`
    gives their own back to jobs that nobody edited since.

    ``patch``: changes of each job's own payload, as in :func:`edit`; :func:`preview_patch` tries it. Whoever works the
    operation off checks the payloads, by the types that are registered there.
    """
    need_one(priority=priority, queue=queue, patch=patch)
    changed = None if patch is None else clean_patch(patch)
    arguments = {
        "priority": None if priority is None else clean_priority(priority),
        "queue": None if queue is None else clean_queue(queue),
        "patch": None if changed is None else changed.text(),
        "blind": True if changed is not None and not may_tell(changed, by) else None,
    }
    more = {} if changed is None else {"patch": changed.outline}
    return begin(BulkAction.EDIT, ids, where, by, reason, arguments, rate=rate, hold=hold, audited=more,
                 also=patch_permissions(changed))  # fmt: skip


def begin(
    action: BulkAction, ids: Ids, where: JobFilter | None, by: str | Operator, reason: str, arguments: dict[str, Any],
    *, rate: float | None, hold: bool, undo_of: str | None = None, careful: Mapping[str, Any] | None = None,
    audited: Mapping[str, Any] | None = None, also: Iterable[str] = (), of: str | None = None,
) -> BulkView:  # fmt: skip
    """Write an operation down, with its audit entry. From then on it is worked on. ``audited``: arguments as the audit
    tells them, where that is not as they are; ``also``: permissions beside those of the action."""
    actor = authorised(by, *PERMISSIONS[action], *also)
    why, hold = clean_reason(reason), clean_flag("hold", hold)
    if undo_of is None and sum(given is not None for given in (ids, where, of)) != 1:
        raise EnvelopeError("ids", Sentence("or where must name the jobs, and not both"))
    if where is not None and place_of(clean_where(where)) not in _PLACES[action]:
        fits = Sentence(
            "%(action)s is for jobs in %(places)s, and these, with status %(status)s, are in %(place)s",
            action=action.value, places=", ".join(_PLACES[action]), status=shown(where.status), place=where.place,
        )  # fmt: skip
        raise EnvelopeError("where", fits)
    bad = BulkResult()
    chosen = [] if ids is None else clean_ids(ids, bad)
    alias = get_options().database
    now = get_storage(alias).now()
    place, conditions, given = "", "[]", "{}"
    if where is not None:
        place, conditions, given = where.place, conditions_of(where, now), as_given(where)
    elif of is not None:
        source = _ended(alias, of)
        place, conditions, given = OPERATION, json.dumps(source), json.dumps({"operation": source})
    row = BulkOperation(
        id=new_id(),
        action=action.value,
        place=place,
        selection=given,
        conditions=conditions,
        arguments=json.dumps({name: value for name, value in arguments.items() if value is not None}),
        undo_of=undo_of,
        requested_by=actor,
        reason=why,
        held=hold,
        created_at=now,
        updated_at=now,
        total=len(chosen) + len(bad.refused),
        done=len(bad.refused),
        refused=len(bad.refused),
        samples=json.dumps([[each.id, each.reason] for each in bad.refused[:20]], ensure_ascii=False),
        rate=clean_rate(rate),
        **(careful or {}),
    )
    with act_transaction(alias):
        row.save(using=alias, force_insert=True)
        BulkItem.objects.using(alias).bulk_create(
            (BulkItem(operation_id=row.id, job_id=job_id, state=BulkItemState.WAITING) for job_id in chosen),
            batch_size=2_000,
        )
        told = {"action": action.value, **json.loads(row.arguments), **(audited or {})}
        told |= {"where": json.loads(row.selection)} if place else {}
        told |= {"undo_of": undo_of} if undo_of is not None else {"ids": len(chosen)} if ids is not None else {}
        audit(alias, f"bulk_{action.value}", {row.id: told}, actor, why)
    log_act(f"bulk_{action.value} {row.id}", actor, BulkResult(requested=[row.id], refused=bad.refused))
    return view_of(row)


def _ended(alias: str, operation_id: str) -> str:
    """The id of an operation that does nothing any more; ``EnvelopeError`` where there is none."""
    row = BulkOperation.objects.using(alias).filter(pk=clean_id(operation_id)).first()
    if row is None:
        raise EnvelopeError("of", Sentence("must be the id of a bulk operation"))
    if row.state not in AT_REST:
        raise EnvelopeError("of", Sentence("the operation has not ended: wait for its end, or cancel it first"))
    return str(row.id)
