"""The form of a new bulk operation: what it proposes, and what it asks for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from django.utils.translation import gettext as _

from .. import control
from ..conf import get_options
from ..control import BulkAction, BulkView, JobFilter
from ..job.envelope import EnvelopeError
from .patch_form import patch_of, rows_of

__all__ = ["begin", "proposed"]

CAREFUL_FROM = 100
"""Jobs from which a canary is proposed."""


def begin(
    action: BulkAction, ids: list[str] | None, where: JobFilter | None, form: Mapping[str, str], user: Any,
    *, of: str | None = None,
) -> BulkView:  # fmt: skip
    """The operation that a form asks for, held; ``EnvelopeError`` for a bad field."""
    given: dict[str, Any] = {
        "by": user, "reason": form.get("why", ""), "hold": True, "rate": _number(form, "rate", float),
    }  # fmt: skip
    keys: Literal["skip", "drop"] = "drop" if form.get("drop_key") else "skip"
    match action:
        case BulkAction.RESURRECT:
            careful = {
                "canary": _number(form, "canary", int),
                "canary_failures": _share(form, "canary_failures", 0.1),
                "stop_at": _share(form, "stop_at", None),
            }
            priority = _number(form, "new_priority", int)
            return control.bulk_resurrect(
                ids, where=where, of=of, on_key_conflict=keys, priority=priority, **careful, **given
            )
        case BulkAction.RESTORE:
            return control.bulk_restore(ids or [], on_key_conflict=keys, **given)
        case BulkAction.EDIT:
            priority, queue = _number(form, "new_priority", int), form.get("new_queue", "").strip() or None
            patch = patch_of(rows_of(form), may_see=user.has_perm("chokaq.view_payload"))
            if priority is None and queue is None and patch is None:
                raise EnvelopeError("patch", _("nothing to change: name a field, a new priority or a new queue"))
            return control.bulk_edit(ids, where=where, priority=priority, queue=queue, patch=patch, **given)
        case BulkAction.PURGE:
            return control.bulk_purge(ids, where=where, **given)
        case BulkAction.CANCEL:
            return control.bulk_cancel(ids, where=where, **given)
        case _:
            return control.bulk_remove(ids, where=where, **given)


def proposed(action: BulkAction, total: int | None) -> dict[str, str]:
    """What the form says before anybody has changed it: many jobs do not come back all at once."""
    if action is not BulkAction.RESURRECT or total is None:
        return {"canary_failures": "10"}
    many = total >= get_options().deck.confirm_from
    return {
        "rate": "50" if many else "",
        "canary": "20" if total >= CAREFUL_FROM else "",
        "canary_failures": "10",
        "stop_at": "20" if many else "",
    }


def _number(form: Mapping[str, str], name: str, kind: type[int] | type[float]) -> Any:
    """A field's number; None for an empty one."""
    text = form.get(name, "").strip()
    if not text:
        return None
    try:
        return kind(text[:40])
    except ValueError:
        raise EnvelopeError(name, _("must be a number, not %(text)r") % {"text": text[:40]}) from None


def _share(form: Mapping[str, str], name: str, default: float | None) -> float | None:
    """A field's per cent as a share; ``default`` for an empty one."""
    percent = _number(form, name, float)
    if percent is None:
        return default
    if not 0 <= percent <= 100:
        raise EnvelopeError(name, _("must be from 0 to 100 per cent"))
    return float(percent) / 100
