"""One bulk operation: the frozen set before it begins, then how it goes, what became of its jobs, and its verbs."""

from __future__ import annotations

import datetime as dt
from itertools import pairwise
from typing import Any

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponseRedirect
from django.urls import NoReverseMatch
from django.utils.http import urlencode
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from ... import control
from ...conf import get_options
from ...control import BulkAction, BulkItemState, BulkRefusedError, BulkState, BulkView
from ...job.envelope import EnvelopeError
from ...job.ids import clean_id
from ...models import BulkOperation, Circuit
from ...reading import bulk_items as reading
from ...reading.bulk import FINAL
from ...reading.estimates import drain
from ...reading.fleet import read_workers
from ...reading.selected import frozen_reasons
from ...sentence import in_words, percent, span
from ...sentence import number as digits
from ...storage import get_storage
from ..bulk_words import (
    WORDS,
    eta,
    filter_words,
    given_words,
    may,
    needs_confirmation,
    rate_words,
    risk_note,
    risky_reasons,
    state_tone,
    undo_note,
)
from ..page import DeckPage
from ..text import wrong

__all__ = ["BulkOnePage"]

PAGE = 25
"""Jobs of the set on one page."""
GROUPS_SHOWN = 50
MOST_COUNTED = 10_000
"""Jobs that are counted of what might be resurrected next."""
FOLLOWED = 5_000
"""Jobs of the set whose outcomes are looked up for each look at the page; those of all are, where one asks for them."""
MOST_CIRCUITS = 100
"""Open circuits whose types are looked for in the set."""
CHART = (600, 90)
"""Width and height of the drawing of the failure share."""


class BulkOnePage(DeckPage):
    name = "bulk_one"
    route = "bulk/<str:operation_id>/"
    section = "bulk"
    title = gettext_lazy("Bulk operation")
    template_name = "chokaq/deck/bulk_one.html"

    # looking ----------------------------------------------------------------------------------------------------------

    def context(self, request: HttpRequest, **kwargs: Any) -> dict[str, Any]:
        view = self._view(**kwargs)
        alias = get_options().database
        now = get_storage(alias).now()
        words = WORDS[view.action]
        context: dict[str, Any] = {
            "deck_topics": [f"bulk:{view.id}"],
            "title": f"{words.verb} · {view.id}",
            "view": view,
            "words": words,
            "may": may(request.user, view.action),
            "tone": state_tone(view),
            "percent": round(100 * view.share),
            "filter_words": filter_words(view.where or {}),
            "given_words": given_words(view, may_see=request.user.has_perm("chokaq.view_payload")),
            "eta": eta(view, now),
            "as_of": now,
            "is_awake": view.state in (BulkState.PREPARING, BulkState.RUNNING),
            "rate_text": "" if view.rate is None else f"{view.rate:g}",
            "rate_words": "" if view.rate is None else rate_words(view.rate),
            "canary_is_open": view.canary is not None and view.canary_decision in ("", "waiting"),
            "watches": view.watches,
            "reasons": _reasons(view),
            **_outcomes(view, of_all=request.GET.get("outcomes") == "all"),
            "no_worker": not view.at_rest and not any(worker.is_alive for worker in read_workers(alias, now)),
            "circuits": _open_circuits(view, alias),
            "next_set": self._next_set(request, view),
            "undo": self._undo(request, view),
            "undone_by": _undoing(alias, view.id),
            **self._items(request, view),
        }
        if view.awaits_go:
            context |= self._frozen(view, alias, now)
        return context | _chart(view)

    def _view(self, operation_id: str) -> BulkView:
        view = control.bulk_get(operation_id)
        if view is None:
            raise Http404(_("There is no bulk operation with this id: it never was, or its list is deleted."))
        return view

    def _frozen(self, view: BulkView, alias: str, now: dt.datetime) -> dict[str, Any]:
        """What is in the set, counted to the last job: it is looked at before it begins, and then no more."""
        counts = control.bulk_counts(view.id)
        shown = sorted(counts, key=lambda count: -count.count)[:GROUPS_SHOWN]
        found: dict[str, Any] = {
            "counts": shown,
            "hidden_counts": len(counts) - len(shown),
            "confirm": view.total if needs_confirmation(view.action, view.total) else None,
        }
        if view.action is BulkAction.RESURRECT:
            needed = drain(counts, alias, now)
            found["drain"] = needed
            found["at_full_speed"] = "" if needed.seconds is None else span(needed.seconds)
            found["risks"] = risk_note(frozen_reasons(view.id, risky_reasons(), alias))
        if view.rate:
            found["at_drip"] = span(view.total / view.rate)
        return found

    def _undo(self, request: HttpRequest, view: BulkView) -> dict[str, Any] | None:
        """What taking it back means, where that can be done now."""
        note = undo_note(view)
        if not note or not view.at_rest:
            return None
        action = BulkAction.REVERT if view.action is BulkAction.EDIT else BulkAction.RESTORE
        confirm = view.applied if needs_confirmation(action, view.applied) else None
        return {"note": note, "may": may(request.user, action), "confirm": confirm}

    def _next_set(self, request: HttpRequest, view: BulkView) -> dict[str, Any] | None:
        """Where what it repaired, and is dead, is resurrected."""
        if "patch" not in view.arguments or not view.at_rest or not view.applied:
            return None
        if not may(request.user, BulkAction.RESURRECT):
            return None
        count, more = reading.bulk_dead(view.id, MOST_COUNTED)
        url = self.url("bulk_new", action=BulkAction.RESURRECT.value, of=view.id)
        return {"url": url, "count": count, "number": f"{digits(count)}+" if more else digits(count)} if count else None

    def _items(self, request: HttpRequest, view: BulkView) -> dict[str, Any]:
        """A page of the jobs of the set, of one state where the address says so."""
        text, after = request.GET.get("items", ""), request.GET.get("after", "")
        names = {state.name.lower(): state for state in BulkItemState}
        state = names.get(text)
        page = control.bulk_items(view.id, state=state, after=clean_id(after), limit=PAGE)
        items = [
            {
                "id": item.job_id,
                "state": _ITEM_WORDS[BulkItemState(item.state)],
                "tone": _ITEM_TONES.get(BulkItemState(item.state), "quiet"),
                "note": in_words(item.why),
                "url": self._job_url(item.job_id),
            }
            for item in page.items
        ]
        shown = {} if state is None else {"items": text}
        more = urlencode({**shown, "after": page.next}) if page.next else ""
        return {
            "items": items,
            "items_state": text if state is not None else "",
            "item_states": [(name, _ITEM_WORDS[each]) for name, each in names.items()],
            "more_items": more,
            "is_first_page": not after,
        }

    def _job_url(self, job_id: str) -> str:
        try:
            return self.url("job", job_id)
        except NoReverseMatch:  # a site of one's own may leave pages out
            return ""

    # acting -----------------------------------------------------------------------------------------------------------

    def act_go(self, request: HttpRequest, operation_id: str) -> None:
        """Let a held operation begin; where the number of its jobs is to be typed, only if it was."""
        view = self._view(operation_id)
        if not view.awaits_go:
            messages.error(request, _("It is not waiting to be begun."))
        elif needs_confirmation(view.action, view.total) and not _typed(request, view.total):
            messages.error(request, _wrong_number(view.total))
        else:
            self._verb(control.bulk_resume, view, _("It has begun."))

    def act_pause(self, request: HttpRequest, operation_id: str) -> None:
        self._verb(control.bulk_pause, self._view(operation_id), _("Paused: no further job is acted on."))

    def act_resume(self, request: HttpRequest, operation_id: str) -> None:
        """Go on, with another rate where one is given."""
        view = self._view(operation_id)
        if view.awaits_go:  # by its own button, which asks for the number
            messages.error(request, _("It has not begun yet: look at the set, then begin it."))
            return
        text = request.POST.get("rate", "").strip()
        try:
            rate = {"rate": float(text)} if text else {}
        except ValueError:
            messages.error(request, _("The rate must be a number."))
            return
        self._verb(control.bulk_resume, view, _("It goes on."), **rate)

    def act_rate(self, request: HttpRequest, operation_id: str) -> None:
        """Another drip from now on; an empty one is full speed."""
        text = request.POST.get("rate", "").strip()
        try:
            rate = float(text) if text else None
        except ValueError:
            messages.error(request, _("The rate must be a number."))
            return
        done = _("It goes on at full speed.") if rate is None else _("It goes on at the new rate.")
        self._verb(control.bulk_set_rate, self._view(operation_id), done, rate=rate)

    def act_skip_canary(self, request: HttpRequest, operation_id: str) -> None:
        self._verb(control.bulk_skip_canary, self._view(operation_id), _("It goes on without waiting for its canary."))

    def act_cancel(self, request: HttpRequest, operation_id: str) -> None:
        self._verb(control.bulk_abort, self._view(operation_id), _("Cancelled: no further job is acted on, ever."))

    def act_undo(self, request: HttpRequest, operation_id: str) -> HttpResponseRedirect | None:
        view = self._view(operation_id)
        undo = self._undo(request, view)
        if undo is not None and undo["confirm"] is not None and not _typed(request, undo["confirm"]):
            messages.error(request, _wrong_number(undo["confirm"]))
            return None
        undoing = self._verb(control.bulk_undo, view, _("It is being undone."))
        return None if undoing is None else HttpResponseRedirect(self.url("bulk_one", undoing.id))

    def _verb(self, verb: Any, view: BulkView, done: str, **given: Any) -> BulkView | None:
        request = self.request
        try:
            answer: BulkView = verb(view.id, by=request.user, reason=request.POST.get("reason", ""), **given)
        except (BulkRefusedError, EnvelopeError) as error:
            messages.error(request, wrong(error))
            return None
        messages.success(request, done)
        return answer


_ITEM_WORDS = {
    BulkItemState.WAITING: gettext_lazy("Waiting"), BulkItemState.APPLIED: gettext_lazy("Applied"),
    BulkItemState.REFUSED: gettext_lazy("Refused"), BulkItemState.REQUESTED: gettext_lazy("Asked to stop"),
    BulkItemState.SUCCEEDED: gettext_lazy("Succeeded"), BulkItemState.DIED: gettext_lazy("Died"),
    BulkItemState.GONE: gettext_lazy("Gone"), BulkItemState.LEFT_ALONE: gettext_lazy("Left alone"),
}  # fmt: skip
_ITEM_TONES = {
    BulkItemState.APPLIED: "info", BulkItemState.REFUSED: "warn", BulkItemState.REQUESTED: "info",
    BulkItemState.SUCCEEDED: "good", BulkItemState.DIED: "bad",
}  # fmt: skip


def _reasons(view: BulkView) -> list[tuple[str, int]]:
    """Why it refused jobs, once it has ended; nothing where that would be too many to look at."""
    few = view.refused > 0 and view.total <= reading.MOST_LOOKED_AT
    return control.bulk_reasons(view.id) if view.at_rest and few else []


def _outcomes(view: BulkView, *, of_all: bool) -> dict[str, Any]:
    """What became of its jobs, where one wants to know and it does not look at them itself any more. ``followed``: of
    how many of the set, where that is not all; ``may_follow_all``: whether that can be asked for."""
    if view.action is not BulkAction.RESURRECT or view.state not in FINAL or not view.applied:
        return {"outcomes": None}
    may_follow_all = view.applied <= reading.MOST_FOLLOWED
    if view.total <= FOLLOWED or (of_all and may_follow_all):
        return {"outcomes": control.bulk_outcomes(view.id), "is_kept_current": view.total <= FOLLOWED}
    found = control.bulk_outcomes(view.id, first=FOLLOWED)
    return {"outcomes": found, "followed": FOLLOWED, "may_follow_all": may_follow_all, "is_kept_current": True}


def _typed(request: HttpRequest, number: int) -> bool:
    """Whether the form's number is this one, however its thousands are set apart."""
    digits = "".join(sign for sign in request.POST.get("confirm", "")[:40] if sign not in " ,.'’_\u00a0\u202f\u2009")
    return digits == str(number)


def _wrong_number(number: int) -> str:
    return _("Nothing was done: type the number of jobs, %(number)s, to confirm.") % {"number": digits(number)}


def _open_circuits(view: BulkView, alias: str) -> list[str]:
    """Types of the set whose jobs come back and then wait."""
    if view.action is not BulkAction.RESURRECT or view.at_rest:
        return []
    rows = Circuit.objects.using(alias).exclude(state=Circuit.CLOSED).order_by("type")
    return reading.bulk_types(view.id, rows.values_list("type", flat=True)[:MOST_CIRCUITS])


def _undoing(alias: str, operation_id: str) -> list[str]:
    """Operations that take this one back."""
    rows = BulkOperation.objects.using(alias).filter(pk__gt=operation_id, undo_of=operation_id).order_by("pk")
    return list(rows.values_list("pk", flat=True)[:5])


def _chart(view: BulkView) -> dict[str, Any]:
    """The share of those that died among those that ended, from point to point, as a line in a drawing."""
    width, height = CHART
    points = [(0, 0, 0), *view.history]
    if len(points) < 3:
        return {"chart": None}
    last = max(1, points[-1][0])
    shares = [
        (at, (died - died_before) / (ended - ended_before))
        for (_, ended_before, died_before), (at, ended, died) in pairwise(points)
        if ended > ended_before
    ]
    top = max(0.05, min(1.0, 1.25 * max([*(share for _, share in shares), view.stop_share or 0])))
    line = " ".join(f"{at * width / last:.1f},{height - share * height / top:.1f}" for at, share in shares)
    limit = None if view.stop_share is None else f"{height - view.stop_share * height / top:.1f}"
    words = [_("Share of the ended jobs that died"), _("top: %(share)s") % {"share": percent(top)}]
    if limit is not None:
        lately = {"died": digits(view.recent_died), "ended": digits(view.recent_ended)}
        words += [_("dashed: where it stops"), _("%(died)s of the last %(ended)s") % lately]
    if view.ended_at is not None:
        words.append(_("as it was when it ended"))
    chart = {"line": line, "limit": limit, "words": words, "span": span(last)}
    return {"chart": {**chart, "width": width, "height": height}}
