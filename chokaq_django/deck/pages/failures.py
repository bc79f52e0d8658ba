"""Failures: the dead jobs in groups of one cause each, the largest first, and what is known of each."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from typing import Any

from django.http import HttpRequest
from django.utils.http import urlencode
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from ... import control
from ...conf import get_options
from ...job.failures import RESERVED, FailureReason
from ...reading.groups import MOST_GROUPS, GroupView, count_dead, count_groups, read_groups
from ...storage import get_storage
from ..failure_words import brief_type, named, reason_label, risk_words, trend_words, without_type
from ..filters import Input, job_inputs
from ..page import DeckPage, tell

__all__ = ["FailuresPage", "group_row"]

PAGE = 50
NAME_LIMIT = 255
ORDERS = ("count", "last_seen")
KNOWN = {"yes": True, "no": False}


class FailuresPage(DeckPage):
    name = "failures"
    route = "failures/"
    title = gettext_lazy("Failures")
    template_name = "chokaq/deck/failures.html"
    topics = ("failures",)

    def context(self, request: HttpRequest, **kwargs: Any) -> dict[str, Any]:
        alias = get_options().database
        now = get_storage(alias).now()
        chosen = self._chosen()
        wanted: dict[str, Any] = {
            "queue": chosen["queue"] or None,
            "type": chosen["type"] or None,
            "reason": FailureReason.parse(chosen["reason"]) if chosen["reason"] else None,
            "acknowledged": KNOWN.get(chosen["known"]),
        }
        most = MOST_GROUPS if request.GET.get("all") else PAGE
        views = read_groups(
            alias, now, most, order="last_seen" if chosen["order"] == "last_seen" else "count", **wanted
        )
        count = count_groups(alias, **wanted) if len(views) == most else len(views)
        given = {name: text for name, text in chosen.items() if text and (name, text) != ("order", "count")}
        narrowed = any(name != "order" for name in given)
        every = count_groups(alias) if narrowed else count
        return {
            "rows": [group_row(self, view, now) for view in views],
            "groups": every,
            "dead": max(0, count_dead(alias)),
            "unknown": count_groups(alias, acknowledged=False) if every else 0,
            "most_counted": MOST_GROUPS,
            "more": max(0, count - len(views)),
            "capped": count > MOST_GROUPS,
            "all_of_them": urlencode({**given, "all": "1"}) if most == PAGE else "",
            "chosen": chosen,
            "inputs": self._inputs(chosen),
            "is_filtered": narrowed,
            "may_see": request.user.has_perm("chokaq.view_payload"),
            "may_operate": request.user.has_perm("chokaq.operate"),
        }

    def _chosen(self) -> dict[str, str]:
        """What the address asks for; what cannot be is left out."""
        given = {name: self.request.GET.get(name, "").strip() for name in ("queue", "type", "reason", "known", "order")}
        for name in ("queue", "type"):
            if "\x00" in given[name] or len(given[name]) > NAME_LIMIT:  # no engine stores it
                given[name] = ""
        try:
            given["reason"] = FailureReason.parse(given["reason"]).label if given["reason"] else ""
        except ValueError:
            given["reason"] = ""
        given["known"] = given["known"] if given["known"] in KNOWN else ""
        given["order"] = given["order"] if given["order"] in ORDERS else "count"
        return given

    def _inputs(self, chosen: Mapping[str, str]) -> list[Input]:
        by_name = {each.name: each for each in job_inputs("dlq", chosen)[0]}
        labels = [reason.label for reason in FailureReason if reason not in RESERVED]
        if chosen["reason"] not in ("", *labels):
            labels.append(chosen["reason"])
        reasons = [("", _("any")), *((label, label) for label in labels)]
        known = [("", _("all")), ("no", _("not acknowledged")), ("yes", _("acknowledged"))]
        order = [("count", _("largest first")), ("last_seen", _("latest first"))]
        return [
            by_name["queue"],
            by_name["type"],
            Input("reason", chosen["reason"], reasons),
            Input("known", chosen["known"], known),
            Input("order", chosen["order"], order),
        ]

    def act_acknowledge(self, request: HttpRequest) -> None:
        answer = control.triage(request.POST.get("fingerprint", ""), by=request.user, acknowledged=True)
        tell(request, answer, _("Acknowledged. What dies of it from now on shows as having come again."))


def group_row(page: DeckPage, view: GroupView, now: dt.datetime) -> dict[str, Any]:
    """One group as templates show it."""
    return {
        "view": view,
        "url": page.url("failure", view.fingerprint),
        "error": brief_type(view.error_type) or reason_label(view.reason),
        "reason": reason_label(view.reason),
        "message": without_type(view.error_type, view.message),
        "risk": risk_words(view.reason, view.error_type),
        "trend": trend_words(view, now),
        "queues": named(view.queues),
        "types": named(view.types),
    }
