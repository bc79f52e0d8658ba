"""What pages say of bulk operations: the words of each action, what is to be feared of it, and how it stands."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from ..conf import get_options
from ..control import BulkAction, BulkState, BulkView
from ..control.bulk import PERMISSIONS
from ..job.failures import FailureReason
from ..job.patch import PayloadPatch
from ..reading.groups import ReplayRisk, replay_risk
from ..reading.patches import shown_patch
from ..reading.selection import STATUSES
from ..sentence import number, percent, span
from .patch_form import patch_words
from .text import STATUS_WORDS

__all__ = [
    "WORDS",
    "Words",
    "eta",
    "filter_words",
    "given_words",
    "may",
    "needs_confirmation",
    "risk_note",
    "risky_reasons",
    "state_tone",
    "undo_note",
]


@dataclass(frozen=True, slots=True)
class Words:
    """``verb``: as on a button; ``doing`` of a running operation. ``meaning``: what becomes of each job. ``places``:
    where such jobs are, and ``statuses`` that lead there, the usual one first. ``undo``: what taking it back does;
    empty: it cannot be taken back. ``on_all``: on a button for all that a list has, where that is not the verb."""

    verb: Any
    doing: Any
    meaning: Any
    places: tuple[str, ...]
    tone: str = ""
    undo: Any = ""
    on_all: Any = ""

    @property
    def all_of(self) -> Any:
        return self.on_all or self.verb

    @property
    def statuses(self) -> list[str]:
        order = ("dead", "active", "succeeded")
        fitting = [status for status, place in STATUSES.items() if place in self.places]
        return sorted(fitting, key=lambda status: order.index(status) if status in order else len(order))


WORDS: Mapping[BulkAction, Words] = {
    BulkAction.RESURRECT: Words(
        gettext_lazy("Resurrect"), gettext_lazy("Resurrecting"),
        gettext_lazy("Each dead job becomes pending again, due at once, with its attempts counted afresh."),
        ("dlq",),
    ),
    BulkAction.PURGE: Words(
        gettext_lazy("Purge"), gettext_lazy("Purging"),
        gettext_lazy("Each job goes to the Trash. It can be restored until it expires there."),
        ("dlq", "archive"), "bad", gettext_lazy("Every job that it purged goes back to where it was, as it was."),
    ),
    BulkAction.CANCEL: Words(
        gettext_lazy("Cancel"), gettext_lazy("Cancelling"),
        gettext_lazy("Each waiting job dies as Cancelled; each running one is asked to stop."),
        ("hot",), "bad",
    ),
    BulkAction.REMOVE: Words(
        gettext_lazy("Remove"), gettext_lazy("Removing"),
        gettext_lazy("Each job that is not running goes to the Trash, without a trace among the dead."),
        ("hot",), "bad", gettext_lazy("Every job that it removed goes back to where it was, as it was."),
    ),
    BulkAction.EDIT: Words(
        gettext_lazy("Edit"), gettext_lazy("Editing"),
        gettext_lazy("Each waiting or dead job gets what you say: another field in its payload, priority or queue."),
        ("hot", "dlq"), "",
        gettext_lazy("Every job gets its own payload, priority and queue back, unless somebody has edited it since."),
        gettext_lazy("Edit or repair payloads"),
    ),
    BulkAction.RESTORE: Words(
        gettext_lazy("Restore"), gettext_lazy("Restoring"),
        gettext_lazy("Each job leaves the Trash and goes back to where it was, as it was."),
        ("trash",),
    ),
    BulkAction.REVERT: Words(
        gettext_lazy("Revert"), gettext_lazy("Reverting"),
        gettext_lazy("Each edited job gets back what it had before, unless somebody has edited it since."),
        ("hot", "dlq"),
    ),
}  # fmt: skip

_TONES = {
    BulkState.PREPARING: "info", BulkState.RUNNING: "info", BulkState.PAUSED: "warn", BulkState.DONE: "good",
    BulkState.CANCELLED: "quiet", BulkState.STOPPED: "bad", BulkState.FAILED: "bad",
}  # fmt: skip
_WHY_RISKY = {
    FailureReason.ZOMBIE: gettext_lazy("their worker died while they ran"),
    FailureReason.TIMEOUT: gettext_lazy("they were stopped in the middle"),
    FailureReason.HEARTBEAT_FAILURE: gettext_lazy("their worker lost the database while they ran"),
    FailureReason.POISON: gettext_lazy("they ended their worker's process, several times"),
}
"""Why a job that died of this may have done its work already."""


def state_tone(view: BulkView) -> str:
    return "info" if view.awaits_go else _TONES[view.state]


def may(user: Any, action: BulkAction) -> bool:
    """Whether the user may give such an operation; control asks again at the act."""
    return all(user.has_perm(f"chokaq.{permission}") for permission in PERMISSIONS[action])


def needs_confirmation(action: BulkAction, count: int) -> bool:
    """Whether the number of jobs is to be typed before an operation on so many begins."""
    return action is BulkAction.PURGE or count >= get_options().deck.confirm_from


def filter_words(where: Mapping[str, Any]) -> list[tuple[Any, str]]:
    """A filter as it was given, as pairs of label and text."""
    labels = {
        "status": _("status"), "queue": _("queue"), "type": _("type"), "reason": _("failure reason"),
        "fingerprint": _("fingerprint"), "tag": _("tag"), "created_by": _("created by"), "worker": _("worker"),
        "idempotency_key": _("idempotency key"), "concurrency_key": _("concurrency key"), "since": _("since"),
        "until": _("until"), "id_prefix": _("id begins with"), "operation": _("dead ones of the operation"),
    }  # fmt: skip

    def words(name: str, value: Any) -> str:
        if name == "reason":
            return FailureReason.label_of(value)
        return str(STATUS_WORDS.get(value, value) if name == "status" else value)

    return [(labels.get(name, name), words(name, value)) for name, value in where.items()]


def given_words(view: BulkView, *, may_see: bool = False) -> list[tuple[Any, str]]:
    """What an operation was told beside its set. ``may_see``: with what becomes of payloads."""
    told: list[tuple[Any, str]] = []
    if view.rate is not None:
        told.append((_("Drip"), _("%(rate)s a second") % {"rate": rate_words(view.rate)}))
    elif view.action is BulkAction.RESURRECT:
        told.append((_("Drip"), _("none: full speed")))
    if view.canary is not None:
        share = _("the first %(count)s, of which %(share)s may die") % {
            "count": number(view.canary), "share": percent(view.canary_share)}  # fmt: skip
        told.append((_("Canary"), share))
    if view.stop_share is not None:
        limit = _("when more than %(share)s of the last %(window)s died") % {
            "share": percent(view.stop_share), "window": number(view.stop_window)}  # fmt: skip
        told.append((_("Stops by itself"), limit))
    named = {"priority": _("New priority"), "queue": _("New queue")}
    told += [(named[name], str(view.arguments[name])) for name in named if name in view.arguments]
    if "patch" in view.arguments:
        patch = shown_patch(PayloadPatch.stored(view.arguments["patch"]), values=may_see)
        told += [(_("In the payload"), text) for text in patch_words(patch)]
    if view.arguments.get("on_key_conflict") == "drop":
        told.append((_("Idempotency key"), _("given up where another active job holds it")))
    return told


def rate_words(rate: float) -> str:
    """Jobs a second as the language writes them."""
    return number(rate, 0 if rate.is_integer() else None)


def risk_note(reasons: Mapping[int, int]) -> list[str]:
    """Sentences on dead jobs that may have had their side effects already, by how many died of which reason."""
    return [
        f"{number(reasons[reason])} {reason.label}: {_WHY_RISKY.get(reason, _('they may have run to their end'))}."
        for reason in risky_reasons()
        if reasons.get(reason)
    ]


def risky_reasons() -> list[FailureReason]:
    """What is to be asked about, before such jobs run once more."""
    return [reason for reason in FailureReason if replay_risk(reason) is ReplayRisk.LIKELY]


def undo_note(view: BulkView) -> str:
    """What taking the operation back would do now; empty where it cannot be, or did nothing."""
    if not WORDS[view.action].undo or not view.applied:
        return ""
    count = ngettext("%(count)s job", "%(count)s jobs", view.applied) % {"count": number(view.applied)}
    return f"{count}: {WORDS[view.action].undo}"


def eta(view: BulkView, now: dt.datetime) -> str:
    """How long it will go on at its speed; empty when nothing can be said."""
    if view.state is not BulkState.RUNNING or view.started_at is None or view.canary_decision == "waiting":
        return ""
    left = view.total - view.done
    seconds = (now - view.started_at).total_seconds()
    if view.rate:
        return span(left / view.rate)
    return span(left * seconds / view.done) if view.done and seconds > 0 else ""
