"""The operator's verbs on many jobs: each freezes a set and leaves it to the workers, or to :func:`bulk_run`.

Operations answer at once. What they act on is a list of ids, or what a filter finds of the jobs that were there at this
moment; a later arrival does not belong to it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, Literal

from ..conf import get_options
from ..job.envelope import EnvelopeError, clean_priority, clean_queue
from ..job.failures import safe_text
from ..job.ids import new_id
from ..models import BulkAction, BulkItem, BulkItemState, BulkOperation
from ..reading.selection import JobFilter
from ..storage import BulkResult, get_storage
from .acts import REASON_LIMIT, Operator, act_transaction, audit, authorised, clean_ids, log_act
from .bulk_filters import as_given, conditions_of, place_of
from .bulk_view import BulkView, view_of

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
MOST_PER_SECOND = 10_000.0


def bulk_resurrect(
    ids: Ids = None,
    *,
    where: JobFilter | None = None,
    by: str | Operator,
    reason: str = "",
    priority: int | None = None,
    on_key_conflict: Literal["skip", "drop"] = "skip",
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
    :func:`resurrect`.

    ``rate``: jobs per second, None: as fast as it goes. ``canary``: bring back so many, wait until they have ended or
    ``canary_timeout`` seconds have passed, and go on if at most the share ``canary_failures`` of those that ended died.
    ``stop_at``: stop when more than this share of the jobs that ended died; judged on about the last ``stop_window``
    that ended, and not before ``stop_sample`` have. ``hold``: freeze the set, then wait for :func:`bulk_resume`.
    """
    if on_key_conflict not in ("skip", "drop"):
        raise ValueError(f"on_key_conflict must be 'skip' or 'drop', got {on_key_conflict!r}")
    sample, window = _whole("stop_sample", stop_sample), _whole("stop_window", stop_window)
    careful = {
        "canary": None if canary is None else _whole("canary", canary),
        "canary_share": _share("canary_failures", canary_failures),
        "canary_timeout": _positive("canary_timeout", canary_timeout),
        "stop_share": None if stop_at is None else _share("stop_at", stop_at),
        "stop_sample": sample,
        # It is made of two halves of which the older is forgotten whole, and must never be below the sample.
        "stop_window": max(window, 2 * sample),
    }
    arguments = {
        "priority": None if priority is None else clean_priority(priority),
        "on_key_conflict": on_key_conflict if on_key_conflict != "skip" else None,
    }
    return begin(BulkAction.RESURRECT, ids, where, by, reason, arguments, rate=rate, hold=hold, careful=careful)


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
    ids: Iterable[str], *, by: str | Operator, reason: str = "", on_key_conflict: Literal["skip", "drop"] = "skip",
    rate: float | None = None, hold: bool = False,
) -> BulkView:  # fmt: skip
    """Take jobs out of the Trash, back to where they came from. Needs ``chokaq.purge``."""
    if on_key_conflict not in ("skip", "drop"):
        raise ValueError(f"on_key_conflict must be 'skip' or 'drop', got {on_key_conflict!r}")
    arguments = {"on_key_conflict": on_key_conflict if on_key_conflict != "skip" else None}
    return begin(BulkAction.RESTORE, ids, None, by, reason, arguments, rate=rate, hold=hold)


def bulk_edit(
    ids: Ids = None, *, where: JobFilter | None = None, by: str | Operator, reason: str = "",
    priority: int | None = None, queue: str | None = None, rate: float | None = None, hold: bool = False,
) -> BulkView:  # fmt: skip
    """Change priority, queue or both of waiting and dead jobs. Needs ``chokaq.edit_payload``. :func:`bulk_undo` gives
    their own back to jobs that nobody edited since."""
    if priority is None and queue is None:
        raise TypeError("bulk_edit() needs something to change: priority or queue")
    arguments = {
        "priority": None if priority is None else clean_priority(priority),
        "queue": None if queue is None else clean_queue(queue),
    }
    return begin(BulkAction.EDIT, ids, where, by, reason, arguments, rate=rate, hold=hold)


def begin(
    action: BulkAction, ids: Ids, where: JobFilter | None, by: str | Operator, reason: str, arguments: dict[str, Any],
    *, rate: float | None, hold: bool, undo_of: str | None = None, careful: Mapping[str, Any] | None = None,
) -> BulkView:  # fmt: skip
    """Write an operation down, with its audit entry. From then on it is worked on."""
    actor = authorised(by, *PERMISSIONS[action])
    if undo_of is None and (ids is None) is (where is None):
        raise TypeError("a bulk operation needs ids or where, and not both")
    if where is not None and place_of(where) not in _PLACES[action]:
        raise EnvelopeError("where", f"{action.value} is for jobs in {' or '.join(_PLACES[action])}, and these, with "
                            f"status {where.status!r}, are in {where.place}")  # fmt: skip
    bad = BulkResult()
    chosen = [] if ids is None else clean_ids(ids, bad)
    alias = get_options().database
    now = get_storage(alias).now()
    conditions, given = ("[]", "{}") if where is None else (conditions_of(where, now), as_given(where))
    row = BulkOperation(
        id=new_id(),
        action=action.value,
        place="" if where is None else where.place,
        selection=given,
        conditions=conditions,
        arguments=json.dumps({name: value for name, value in arguments.items() if value is not None}),
        undo_of=undo_of,
        requested_by=actor,
        reason=safe_text(reason.strip(), REASON_LIMIT),
        held=bool(hold),
        created_at=now,
        updated_at=now,
        total=len(chosen) + len(bad.refused),
        done=len(bad.refused),
        refused=len(bad.refused),
        samples=json.dumps([[each.id, each.reason] for each in bad.refused[:20]], ensure_ascii=False),
        rate=None if rate is None else _rate(rate),
        **(careful or {}),
    )
    with act_transaction(alias):
        row.save(using=alias, force_insert=True)
        BulkItem.objects.using(alias).bulk_create(
            (BulkItem(operation_id=row.id, job_id=job_id, state=BulkItemState.WAITING) for job_id in chosen),
            batch_size=2_000,
        )
        told = {"action": action.value, **json.loads(row.arguments)}
        told |= {"where": json.loads(row.selection)} if where is not None else {}
        told |= {"undo_of": undo_of} if undo_of is not None else {"ids": len(chosen)} if ids is not None else {}
        audit(alias, f"bulk_{action.value}", {row.id: told}, actor, reason)
    log_act(f"bulk_{action.value} {row.id}", actor, BulkResult(requested=[row.id], refused=bad.refused))
    return view_of(row)


# -- what is given -----------------------------------------------------------------------------------------------------


def _rate(value: object) -> float:
    number = _positive("rate", value)
    if number > MOST_PER_SECOND:
        raise EnvelopeError("rate", f"must be at most {MOST_PER_SECOND:,.0f} a second, got {number:g}")
    return number


def _positive(name: str, value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 1e9:
        raise EnvelopeError(name, f"must be a number above 0, got {value!r}")
    return float(value)


def _share(name: str, value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
        raise EnvelopeError(name, f"must be a share from 0 to 1, got {value!r}")
    return float(value)


def _whole(name: str, value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= 1_000_000:
        raise EnvelopeError(name, f"must be a whole number from 1 to 1,000,000, got {value!r}")
    return value
