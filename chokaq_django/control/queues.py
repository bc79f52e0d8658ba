"""Verbs on queues."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from django.db import transaction

from .. import wake
from ..conf import QueueOptions, Window, get_options
from ..conf.rules import clean_window
from ..job.definition import UNSET, Unset
from ..job.durations import Duration, to_seconds
from ..job.envelope import EnvelopeError, clean_key, clean_queue
from ..models import Queue
from ..sentence import Sentence, shown
from ..storage import BulkResult, Conflict, get_storage
from ..storage.contract import QueueRow
from .acts import PERSON_LIMIT, Operator, act_transaction, audit, authorised, log_act
from .arguments import missing_one

__all__ = ["clean_limits", "hide_queue", "pause_queue", "reset_queue", "resume_queue", "set_queue", "show_queue"]

MOST_WORKERS = 1_000_000
LONGEST_TIMEOUT = 366 * 86_400
"""Seconds."""
SWITCHES = {"is_paused", "is_active"}
"""What is no limit: whoever turns one of these does not sign for the limits."""


def pause_queue(name: str, *, by: str | Operator, reason: str = "") -> BulkResult:
    """Stop claiming from the queue; its jobs keep their place, running ones go on. Needs ``chokaq.operate``."""
    return _change_queue("pause_queue", name, {"is_paused": True}, by, reason, Sentence("The queue is paused already."))


def resume_queue(name: str, *, by: str | Operator, reason: str = "") -> BulkResult:
    """Claim from the queue again. Needs ``chokaq.operate``."""
    return _change_queue("resume_queue", name, {"is_paused": False}, by, reason, Sentence("The queue is not paused."))


def hide_queue(name: str, *, by: str | Operator, reason: str = "") -> BulkResult:
    """Stop claiming from the queue, and leave it out where open queues are shown: it is out of use.

    Needs ``chokaq.operate``.
    """
    return _change_queue("hide_queue", name, {"is_active": False}, by, reason, Sentence("The queue is hidden already."))


def show_queue(name: str, *, by: str | Operator, reason: str = "") -> BulkResult:
    """Take a hidden queue into use again. Needs ``chokaq.operate``."""
    return _change_queue("show_queue", name, {"is_active": True}, by, reason, Sentence("The queue is not hidden."))


def set_queue(
    name: str,
    *,
    by: str | Operator,
    reason: str = "",
    max_workers: int | Unset | None = UNSET,
    zombie_timeout: Duration | Unset | None = UNSET,
    execution_timeout: Duration | Unset | None = UNSET,
    window: str | Window | Unset | None = UNSET,
) -> BulkResult:
    """Set limits of the queue; None takes a limit off. Needs ``chokaq.operate``. From then on the queue keeps its own
    limits, whatever the settings say, until :func:`reset_queue`.

    ``max_workers``: jobs of the queue at once in the whole fleet. ``zombie_timeout``: time without a heartbeat after
    which a running job counts as dead, longer than EXECUTION.HEARTBEAT_MAX. ``execution_timeout``: how long a job may
    run. ``window``: when its jobs may start, as text such as ``"22:00-06:00 Europe/Berlin"``. ``EnvelopeError`` for a
    bad value.
    """
    changes: dict[str, Any] = clean_limits(
        max_workers=max_workers, zombie_timeout=zombie_timeout, execution_timeout=execution_timeout
    )
    if window is not UNSET:
        changes |= _window(window)
    if not changes:
        raise missing_one("max_workers", "zombie_timeout", "execution_timeout", "window")
    return _change_queue("set_queue", name, changes, by, reason, Sentence("The queue has these limits already."))


def reset_queue(name: str, *, by: str | Operator, reason: str = "") -> BulkResult:
    """Give the queue the limits that the project's settings say, no limits where they do not name it; it follows them
    again from now on. Needs ``chokaq.operate``."""
    unchanged = Sentence("Nobody has set its limits: they are what the project's settings say.")
    return _change_queue("reset_queue", name, _said, by, reason, unchanged)


def _said(name: str) -> dict[str, Any]:
    """A row's columns as the settings have them."""
    limits = get_options().queues.get(name, QueueOptions())
    return {
        "max_workers": limits.max_workers,
        "zombie_timeout": limits.zombie_timeout,
        "execution_timeout": limits.execution_timeout,
        **_window_columns(limits.window),
        "updated_by": None,
    }


def clean_limits(
    *,
    max_workers: int | Unset | None = UNSET,
    zombie_timeout: Duration | Unset | None = UNSET,
    execution_timeout: Duration | Unset | None = UNSET,
) -> dict[str, int | float | None]:
    """The limits of :func:`set_queue` that are given, checked, times in seconds; ``EnvelopeError`` for a bad one."""
    limits: dict[str, int | float | None] = {}
    if max_workers is not UNSET:
        limits["max_workers"] = None if max_workers is None else _cap(max_workers)
    if zombie_timeout is not UNSET:
        limits["zombie_timeout"] = None if zombie_timeout is None else _zombie_timeout(zombie_timeout)
    if execution_timeout is not UNSET:
        limits["execution_timeout"] = (
            None if execution_timeout is None else _timeout("execution_timeout", execution_timeout)
        )
    return limits


def _cap(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise EnvelopeError("max_workers", Sentence("must be an integer, got %(value)s", value=shown(value)))
    if not 1 <= value <= MOST_WORKERS:
        raise EnvelopeError(
            "max_workers",
            Sentence(
                "must be from 1 to %(most_workers)s, got %(value)s; to stop a queue, pause it",
                most_workers=MOST_WORKERS,
                value=shown(value),
            ),
        )
    return int(value)


def _timeout(field: str, value: Duration) -> float:
    try:
        seconds = to_seconds(value)
    except (TypeError, ValueError) as error:
        raise EnvelopeError(field, str(error)) from None
    if seconds > LONGEST_TIMEOUT:
        raise EnvelopeError(
            field,
            Sentence(
                "must be at most %(longest_timeout)s seconds, got %(value)s",
                longest_timeout=LONGEST_TIMEOUT,
                value=shown(value),
            ),
        )
    return seconds


def _zombie_timeout(value: Duration) -> float:
    seconds = _timeout("zombie_timeout", value)
    heartbeat = get_options().execution.heartbeat_max
    if seconds <= heartbeat:
        raise EnvelopeError(
            "zombie_timeout",
            Sentence("must be longer than the time between heartbeats (%(heartbeat)s s)", heartbeat=f"{heartbeat:g}"),
        )
    return seconds


def _window(value: object) -> dict[str, Any]:
    """The window's columns."""
    if value is None:
        return _window_columns(None)
    text = f"{value.start:%H:%M}-{value.end:%H:%M} {value.zone}" if isinstance(value, Window) else value
    try:
        return _window_columns(clean_window(text))
    except ValueError as error:
        raise EnvelopeError("window", str(error)) from None


def _window_columns(window: Window | None) -> dict[str, Any]:
    start, end, zone = window or (None, None, None)
    return {"window_start": start, "window_end": end, "window_zone": zone}


def _change_queue(
    action: str, name: str, wanted: dict[str, Any] | Callable[[str], dict[str, Any]], by: str | Operator, reason: str,
    unchanged: str,
) -> BulkResult:  # fmt: skip
    """Have the row's columns be as wanted, which may be a function of its name. Who changes limits signs for them."""
    actor = authorised(by, "operate")
    alias = get_options().database
    answer = BulkResult()
    with act_transaction(alias):
        row = _queue_row(alias, name)
        changes = wanted(row.name) if callable(wanted) else wanted
        old = {field: getattr(row, field) for field, value in changes.items() if getattr(row, field) != value}
        if old:
            details = {field: {"from": value, "to": changes[field]} for field, value in old.items()}
            new = {field: changes[field] for field in old}
            if new.keys() - SWITCHES:
                new["updated_at"] = get_storage(alias).now()
                new["updated_by"] = changes.get("updated_by", actor[:PERSON_LIMIT])
            for field, value in new.items():
                setattr(row, field, value)
            row.save(using=alias, update_fields=list(new))
            audit(alias, action, {row.name: details}, actor, reason)
            transaction.on_commit(partial(wake.notify, alias, (row.name,)), using=alias, robust=True)
            answer.applied.append(row.name)
        else:
            answer.refused.append(Conflict(row.name, unchanged))
    log_act(action, actor, answer)
    return answer


def _queue_row(alias: str, name: str) -> Queue:
    """The control row of the queue, locked; made from the settings when there is none yet."""
    rows = Queue.objects.using(alias).select_for_update()
    # A row may bear a name that no job could be enqueued under: it was written by other means.
    row = rows.filter(pk=clean_key(name, "queue") or "").first()
    if row is None:
        clean = clean_queue(name)
        get_storage(alias).seed_queue(QueueRow.new(clean, get_options().queues.get(clean)))
        row = rows.get(pk=clean)
    return row
