"""Bulk operations: the open ones first, then those that ended."""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.http import HttpRequest
from django.utils.http import urlencode
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from ... import control
from ...conf import get_options
from ...control import BulkAction, BulkState, BulkView
from ...job.envelope import EnvelopeError
from ...reading.bulk import FINAL, OPEN
from ...storage import get_storage
from ..bulk_words import WORDS, eta, filter_words, may, state_tone
from ..filters import Input
from ..page import DeckPage
from ..text import wrong

__all__ = ["BulkPage"]

PAGE = 50
MOST_OPEN = 100


class BulkPage(DeckPage):
    name = "bulk"
    route = "bulk/"
    title = gettext_lazy("Bulk operations")
    template_name = "chokaq/deck/bulk.html"
    topics = ("bulk",)

    def context(self, request: HttpRequest, **kwargs: Any) -> dict[str, Any]:
        now = get_storage(get_options().database).now()
        chosen = {name: request.GET.get(name, "").strip() for name in ("state", "action", "by")}
        given: dict[str, Any] = {"action": chosen["action"] or None, "by": chosen["by"] or None}
        before = request.GET.get("before", "")
        try:
            states = [BulkState(chosen["state"])] if chosen["state"] in BulkState.values else None
            opened = states or OPEN if not before else []
            running = [state for state in opened if state in OPEN]
            ended = [state for state in states or FINAL if state in FINAL]
            open_ones = control.bulk_list(state=running, limit=MOST_OPEN, **given) if running else []
            past = control.bulk_list(state=ended, limit=PAGE + 1, before=before or None, **given) if ended else []
        except EnvelopeError as error:
            messages.error(request, wrong(error))
            open_ones, past = [], []
        kept = {name: text for name, text in chosen.items() if text}
        return {
            "open": [self._row(view, now) for view in open_ones],
            "past": [self._row(view, now) for view in past[:PAGE]],
            "more": urlencode({**kept, "before": past[PAGE - 1].id}) if len(past) > PAGE else "",
            "is_first_page": not before,
            "may_begin": any(may(request.user, action) for action in BulkAction),
            "first_page": urlencode(kept),
            "inputs": [
                Input("state", chosen["state"], [("", _("any")), *BulkState.choices]),
                Input("action", chosen["action"], [("", _("any")), *BulkAction.choices], label=_("Action")),
                Input("by", chosen["by"]),
            ],
            "is_filtered": bool(kept),
        }

    def _row(self, view: BulkView, now: Any) -> dict[str, Any]:
        words = WORDS[view.action]
        if view.where is not None:
            of = ", ".join(value for _label, value in filter_words(view.where))
        else:
            of = _("takes another one back") if view.undo_of else _("a selection by id")
        return {
            "view": view,
            "url": self.url("bulk_one", view.id),
            "verb": words.verb,
            "of": of,
            "tone": state_tone(view),
            "state": _("Waits for you") if view.awaits_go else view.state.label,
            "percent": round(100 * view.share),
            "eta": eta(view, now),
        }
