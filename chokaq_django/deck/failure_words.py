"""What pages say of failure groups: the risk of running such jobs once more, where a group is heading, its names."""

from __future__ import annotations

import datetime as dt
import re
from dataclasses import dataclass
from typing import Any

from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from ..job.failures import UNREADABLE
from ..models import FailureReason
from ..reading.groups import LATELY_COUNTED, GroupView, ReplayRisk, replay_risk
from ..reading.job import known
from ..sentence import number

__all__ = [
    "Said",
    "brief_type",
    "known_fingerprint",
    "named",
    "reason_label",
    "risk_words",
    "trend_words",
    "without_type",
]

_FINGERPRINT = re.compile(r"[0-9a-f]{32}")


@dataclass(frozen=True, slots=True)
class Said:
    """A word for a badge with its tone, and the sentence that explains it."""

    word: Any
    tone: str
    why: Any = ""


_RISKS = {
    ReplayRisk.NONE: Said(
        gettext_lazy("safe to replay"), "good",
        gettext_lazy("It never began: running it again repeats nothing."),
    ),
    ReplayRisk.IF_STARTED: Said(
        gettext_lazy("partly, if it ran"), "quiet",
        gettext_lazy("It was cancelled while it waited, or while it ran: then what it did before that is done."),
    ),
    ReplayRisk.PARTLY: Said(
        gettext_lazy("partly done"), "quiet",
        gettext_lazy(
            "Its handler raised an error: what it did before that is done. Running it again is safe where the handler "
            "bears being run twice."
        ),
    ),
    ReplayRisk.LIKELY: Said(
        gettext_lazy("may be done"), "warn",
        gettext_lazy(
            "It was stopped, or its worker died: all of it may have been done already. Look before you run it again."
        ),
    ),
}  # fmt: skip
_WHY = {
    FailureReason.EXPIRED: gettext_lazy(
        "Its deadline passed before it could start: this time nothing was done. Attempts before that, if there were "
        "any, may have done something."
    ),
    FailureReason.UNKNOWN_TYPE: gettext_lazy("No code knew its type, so that nothing of it has run."),
    FailureReason.ZOMBIE: gettext_lazy(
        "Its worker died or lost the database while it ran: all of it may have been done already. Look before you run "
        "it again."
    ),
    FailureReason.POISON: gettext_lazy(
        "Its worker died again and again while it ran, perhaps because of it. Run one of them and watch before you run "
        "the others."
    ),
    FailureReason.TIMEOUT: gettext_lazy(
        "It ran longer than it may. A handler that could not be stopped may have come to its end all the same."
    ),
    FailureReason.THROTTLED: gettext_lazy(
        "The other side asked to come back later, more often than it has attempts. What it did before is done."
    ),
}

_UNREADABLE = gettext_lazy(
    "Its payload could not be read, so that its handler did not run. Attempts before that, if there were any, may have "
    "done something. It dies again until its payload, or the code that reads it, is repaired."
)


def risk_words(reason: int, error_type: str | None = None) -> Said:
    """What to fear of running such a job once more."""
    said = _RISKS[replay_risk(reason, error_type)]
    if reason == FailureReason.FATAL_ERROR and error_type == UNREADABLE:
        return Said(said.word, said.tone, _UNREADABLE)
    why = next((why for each, why in _WHY.items() if each == reason), said.why)
    return Said(said.word, said.tone, why)


def trend_words(view: GroupView, now: dt.datetime) -> Said:
    """Where a group is heading: a badge for what moves, and the numbers."""
    more = "+" if LATELY_COUNTED in (view.last_hour, view.hour_before) else ""
    numbers = _("%(now)s within the last hour, %(before)s in the hour before") % {
        "now": f"{number(view.last_hour)}{more}", "before": f"{number(view.hour_before)}{more}",
    }  # fmt: skip
    words = {
        "new": (_("new"), "bad"), "rising": (_("rising"), "bad"), "steady": (_("steady"), "info"),
        "falling": (_("falling"), "quiet"), "quiet": (_("quiet"), "quiet"),
    }  # fmt: skip
    word, tone = words[view.trend(now)]
    return Said(word, tone, numbers)


def reason_label(reason: int) -> str:
    """The reason's name; the number of one that only newer code knows."""
    found = known(FailureReason, reason)
    return found.label if isinstance(found, FailureReason) else str(reason)


def known_fingerprint(text: str) -> str | None:
    """A fingerprint as it is stored; None for what cannot be one."""
    clean = text.strip().lower()
    return clean if _FINGERPRINT.fullmatch(clean) else None


def brief_type(error_type: str | None) -> str:
    """``shop.partner.PartnerError`` without the path of its module."""
    return (error_type or "").rpartition(".")[2]


def without_type(error_type: str | None, message: str) -> str:
    """A message without the type in front of it, which stands above it."""
    prefix = f"{error_type}: "
    return message.removeprefix(prefix) if error_type else message


def named(names: dict[str, int], most: int = 2) -> str:
    """The first names, and how many more there are."""
    shown = ", ".join(list(names)[:most])
    more = len(names) - most
    if more <= 0:
        return shown
    return ngettext("%(names)s and %(count)s more", "%(names)s and %(count)s more", more) % {
        "names": shown, "count": number(more),
    }  # fmt: skip
