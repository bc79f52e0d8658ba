"""Verbs on bulk operations: pause, resume, cancel, undo; and working one off in the calling process."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Any

from django.db import transaction

from .. import wake
from ..conf import get_options
from ..job.envelope import EnvelopeError
from ..job.ids import clean_id
from ..models import BulkAction, BulkOperation, BulkState
from ..reading.bulk import AT_REST, BulkView, bulk_get, view_of
from ..sentence import Sentence, shown
from ..storage import BulkResult, get_storage
from ..storage.bulk_rules import OVERRULED, WAITING
from ..storage.bulk_work import advance
from .acts import Operator, act_transaction, audit, authorised, log_act
from .arguments import clean_rate, clean_seconds
from .bulk import PERMISSIONS, begin

__all__ = [
    "BulkRefusedError",
    "bulk_abort",
    "bulk_freeze",
    "bulk_pause",
    "bulk_resume",
    "bulk_run",
    "bulk_set_rate",
    "bulk_skip_canary",
    "bulk_undo",
    "bulk_wait",
]

POLL = 0.1
FREEZE = 0.4
"""Seconds for which whoever begins a held operation waits to see what is in it."""

_AWAKE = (BulkState.PREPARING, BulkState.RUNNING)
_UNDONE_BY = {
    BulkAction.PURGE: BulkAction.RESTORE, BulkAction.REMOVE: BulkAction.RESTORE, BulkAction.EDIT: BulkAction.REVERT,
}  # fmt: skip


_NOT_NOW = {
    BulkState.PREPARING: Sentence("The operation is being prepared."),
    BulkState.RUNNING: Sentence("The operation is running."),
    BulkState.PAUSED: Sentence("The operation is paused."),
    BulkState.DONE: Sentence("The operation is done."),
    BulkState.CANCELLED: Sentence("The operation is cancelled."),
    BulkState.STOPPED: Sentence("The operation has stopped by itself."),
    BulkState.FAILED: Sentence("The operation has failed."),
}


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
    new_rate = clean_rate(rate)
    now = get_storage(get_options().database).now()

    def plan(row: BulkOperation) -> dict[str, Any]:
        state = BulkState.PREPARING if row.started_at is None else BulkState.RUNNING
        # One that was paused before its set was frozen is still to wait when it is.
        held = row.held and row.started_at is None
        changes: dict[str, Any] = {"state": state.value, "message": "", "ended_at": None, "paid_at": now, "held": held}
        if row.state == BulkState.STOPPED:
            changes["recent"] = "[]"
            if row.canary_decision == "failed":
                changes["canary_decision"] = OVERRULED
        return changes | ({"rate": new_rate} if new_rate is not None else {})

    may = (BulkState.PAUSED, BulkState.STOPPED, BulkState.FAILED)
    return _change("bulk_resume", operation_id, by, reason, may, plan)


def bulk_set_rate(operation_id: str, rate: float | None, *, by: str | Operator, reason: str = "") -> BulkView:
    """Give an operation that goes on, or is paused, another drip rate in jobs a second, from now on; None: as fast as
    it goes. Needs the permissions of the operation's own verb."""
    new_rate = clean_rate(rate)
    now = get_storage(get_options().database).now()

    def plan(row: BulkOperation) -> dict[str, Any]:
        return {"state": row.state, "rate": new_rate, "paid_at": now}

    return _change("bulk_set_rate", operation_id, by, reason, (*_AWAKE, BulkState.PAUSED), plan)


def bulk_skip_canary(operation_id: str, *, by: str | Operator, reason: str = "") -> BulkView:
    """Go on with the rest without waiting until the canary has ended. What becomes of it is not judged any more; an
    auto-stop goes on. Needs the permissions of the operation's own verb."""
    now = get_storage(get_options().database).now()

    def plan(row: BulkOperation) -> dict[str, Any]:
        if row.canary is None or row.canary_decision not in ("", WAITING):
            raise BulkRefusedError(Sentence("It waits for no canary."))
        return {"state": row.state, "canary_decision": OVERRULED, "paid_at": now}

    return _change("bulk_skip_canary", operation_id, by, reason, _AWAKE, plan)


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
    return begin(undone_by(row), None, None, by, reason, {}, rate=rate, hold=False, undo_of=row.id)


def undone_by(operation: BulkOperation | BulkView) -> BulkAction:
    """What takes the operation back; ``BulkRefusedError`` where nothing does, or it has not ended."""
    action = _UNDONE_BY.get(BulkAction(operation.action))
    if action is None:
        raise BulkRefusedError(Sentence("What this operation did cannot be undone."))
    if operation.state not in AT_REST:
        raise BulkRefusedError(Sentence("The operation has not ended: wait for its end, or cancel it first."))
    return action


def _row(operation_id: str) -> BulkOperation:
    clean = clean_id(operation_id)
    row = BulkOperation.objects.using(get_options().database).filter(pk=clean).first() if clean else None
    if row is None:
        raise BulkRefusedError(Sentence("There is no bulk operation with this id."))
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
            raise BulkRefusedError(_NOT_NOW[BulkState(row.state)])
        changes = plan(row)
        told = {} if row.state == changes["state"] else {"from": row.state, "to": changes["state"]}
        names = {"rate": "rate", "canary_decision": "canary"}
        told |= {names[name]: value for name, value in changes.items() if name in names}
        for name, value in changes.items():
            setattr(row, name, value)
        row.updated_at = get_storage(alias).now()
        row.save(using=alias, update_fields=[*changes, "updated_at"])
        audit(alias, act, {row.id: told}, actor, reason)
    log_act(f"{act} {row.id}", actor, BulkResult(applied=[row.id]))
    return view_of(row)


# -- working one off ---------------------------------------------------------------------------------------------------


def bulk_freeze(operation_id: str, *, seconds: float | None = None) -> BulkView:
    """Go on freezing the set of a held operation in the calling process, for about so long (0.4 s by default); workers
    do the rest.

    Most sets are frozen by then, so that whoever began the operation sees at once what is in it.
    """
    end = time.monotonic() + clean_seconds("seconds", FREEZE if seconds is None else seconds)
    alias = get_options().database
    operation_id = _row(operation_id).id
    while (view := bulk_get(operation_id)) is not None:
        if not view.held or view.state is not BulkState.PREPARING or time.monotonic() >= end:
            return view
        _step(alias, operation_id)
    raise BulkRefusedError(Sentence("There is no bulk operation with this id."))


def bulk_run(
    operation_id: str, *, note: Callable[[BulkView], object] = lambda view: None, every: float = 0.2
) -> BulkView:
    """Work an operation off in the calling process, whether workers run or not, until it ends, stops or is paused.

    Workers may be at it too; each chunk is done by one. ``note`` is called with its progress every ``every`` seconds.
    """
    every = clean_seconds("every", every)
    if not callable(note):
        raise EnvelopeError("note", Sentence("must be a function, got %(note)s", note=shown(note)))
    alias = get_options().database
    operation_id = _row(operation_id).id
    told = 0.0
    while True:
        pause = _step(alias, operation_id)
        if pause is None or time.monotonic() - told >= every:
            told = time.monotonic()
            view = bulk_get(operation_id)
            if view is None:
                raise BulkRefusedError(Sentence("There is no bulk operation with this id."))
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
    end = None if timeout is None else time.monotonic() + clean_seconds("timeout", timeout)
    while True:
        view = bulk_get(operation_id)
        if view is None:
            raise BulkRefusedError(Sentence("There is no bulk operation with this id."))
        if view.at_rest:
            return view
        if end is not None and time.monotonic() >= end:
            raise TimeoutError(f"the operation is {view.state.value}, {view.done} of {view.total} done")
        time.sleep(POLL)
