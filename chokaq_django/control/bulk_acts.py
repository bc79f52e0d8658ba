"""Verbs on bulk operations: pause, resume, cancel, undo; and working one off in the calling process."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Any

from django.db import transaction

from .. import wake
from ..conf import get_options
from ..models import BulkAction, BulkOperation, BulkState
from ..storage import get_storage
from ..storage.bulk_work import advance
from .acts import Operator, act_transaction, audit, authorised, clean_id
from .bulk import PERMISSIONS, _rate, begin
from .bulk_view import AT_REST, BulkView, bulk_get, view_of

__all__ = ["BulkRefusedError", "bulk_abort", "bulk_pause", "bulk_resume", "bulk_run", "bulk_undo", "bulk_wait"]

POLL = 0.1

_AWAKE = (BulkState.PREPARING, BulkState.RUNNING)
_UNDONE_BY = {
    BulkAction.PURGE: BulkAction.RESTORE, BulkAction.REMOVE: BulkAction.RESTORE, BulkAction.EDIT: BulkAction.REVERT,
}  # fmt: skip


class BulkRefusedError(Exception):
    """A verb on an operation that does not apply to it as it is; the message says why."""


def bulk_pause(operation_id: str, *, by: str | Operator, reason: str = "") -> BulkView:
    """Stop acting on further jobs until :func:`bulk_resume`. Needs the permissions of the operation's own verb."""
    return _change("bulk_pause", operation_id, by, reason, _AWAKE, lambda row: {"state": BulkState.PAUSED.value})


def bulk_resume(
    operation_id: str, *, by: str | Operator, reason: str = "", rate: float | None = None
) -> BulkView:  # fmt: skip
    """Go on with an operation that was paused or held, that stopped by itself, or failed.

    ``rate``: a new drip rate; None keeps the old one. What stopped it is overruled: it does not wait for its canary
    again, and its auto-stop begins to count anew.
    """
    new_rate = None if rate is None else _rate(rate)
    now = get_storage(get_options().database).now()

    def plan(row: BulkOperation) -> dict[str, Any]:
        state = BulkState.PREPARING if row.started_at is None else BulkState.RUNNING
        changes: dict[str, Any] = {"state": state.value, "message": "", "ended_at": None, "paid_at": now, "held": False}
        if row.state == BulkState.STOPPED:
            changes["recent"] = "[]"
            if row.canary_decision == "failed":
                changes["canary_decision"] = "overruled"
        return changes | ({"rate": new_rate} if new_rate is not None else {})

    may = (BulkState.PAUSED, BulkState.STOPPED, BulkState.FAILED)
    return _change("bulk_resume", operation_id, by, reason, may, plan)


def bulk_abort(operation_id: str, *, by: str | Operator, reason: str = "") -> BulkView:
    """Cancel an operation: no further job is acted on, ever. What was done stays; :func:`bulk_undo` takes it back."""
    now = get_storage(get_options().database).now()
    may = (*_AWAKE, BulkState.PAUSED, BulkState.STOPPED, BulkState.FAILED)
    changes = {"state": BulkState.CANCELLED.value, "ended_at": now}
    return _change("bulk_abort", operation_id, by, reason, may, lambda row: changes)


def bulk_undo(operation_id: str, *, by: str | Operator, reason: str = "", rate: float | None = None) -> BulkView:
    """Take an operation's effects back by another one: what it purged or removed is restored, what it edited gets its
    own priority and queue again unless somebody edited it since. Needs the permissions of the verb that does it."""
    row = _row(operation_id)
    action = _UNDONE_BY.get(BulkAction(row.action))
    if action is None:
        raise BulkRefusedError(f"What {row.action} did cannot be undone.")
    if row.state not in AT_REST:
        raise BulkRefusedError(f"The operation is {row.state}: wait for its end, or cancel it first.")
    return begin(action, None, None, by, reason, {}, rate=rate, hold=False, undo_of=row.id)


def _row(operation_id: str) -> BulkOperation:
    clean = clean_id(operation_id)
    row = BulkOperation.objects.using(get_options().database).filter(pk=clean).first() if clean else None
    if row is None:
        raise BulkRefusedError("There is no bulk operation with this id.")
    return row


def _change(
    act: str, operation_id: str, by: str | Operator, reason: str, may: tuple[BulkState, ...],
    plan: Callable[[BulkOperation], dict[str, Any]],
) -> BulkView:  # fmt: skip
    """Change an operation's row between two of its steps, each of which locks it."""
    action = BulkAction(_row(operation_id).action)
    actor = authorised(by, *PERMISSIONS[action])
    alias = get_options().database
    with act_transaction(alias):
        row = BulkOperation.objects.using(alias).select_for_update().get(pk=clean_id(operation_id))
        if row.state not in may:
            raise BulkRefusedError(f"The operation is {row.state}.")
        changes = plan(row)
        told = {"from": row.state, "to": changes["state"]} | {n: v for n, v in changes.items() if n == "rate"}
        for name, value in changes.items():
            setattr(row, name, value)
        row.updated_at = get_storage(alias).now()
        row.save(using=alias, update_fields=[*changes, "updated_at"])
        audit(alias, act, {row.id: told}, actor, reason)
    return view_of(row)


# -- working one off ---------------------------------------------------------------------------------------------------


def bulk_run(
    operation_id: str, *, note: Callable[[BulkView], object] = lambda view: None, every: float = 0.2
) -> BulkView:
    """Work an operation off in the calling process, whether workers run or not, until it ends, stops or is paused.

    Workers may be at it too; each chunk is done by one. ``note`` is called with its progress every ``every`` seconds.
    """
    alias = get_options().database
    operation_id = _row(operation_id).id
    told = 0.0
    while True:
        pause = _step(alias, operation_id)
        if pause is None or time.monotonic() - told >= every:
            told = time.monotonic()
            view = bulk_get(operation_id)
            if view is None:
                raise BulkRefusedError("There is no bulk operation with this id.")
            note(view)
            if pause is None:
                return view
        if pause:
            time.sleep(pause)


def _step(alias: str, operation_id: str) -> float | None:
    """One step on the calling thread's connection; seconds until the next, None when nothing goes on by itself."""
    step = advance(get_storage(alias), operation_id)
    if step.wakes:
        transaction.on_commit(partial(wake.notify, alias), using=alias, robust=True)
    return step.pause


def bulk_wait(operation_id: str, timeout: float | None = None) -> BulkView:
    """Wait until an operation, which workers work off, has ended or stopped; ``TimeoutError`` after ``timeout`` s."""
    end = None if timeout is None else time.monotonic() + timeout
    while True:
        view = bulk_get(operation_id)
        if view is None:
            raise BulkRefusedError("There is no bulk operation with this id.")
        if view.at_rest:
            return view
        if end is not None and time.monotonic() >= end:
            raise TimeoutError(f"the operation is {view.state.value}, {view.done} of {view.total} done")
        time.sleep(POLL)
