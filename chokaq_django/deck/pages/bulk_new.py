"""A new bulk operation: what it would act on, how carefully, and its beginning.

The set is described by the address (``action`` and a filter's fields) or is a selection by id, which lists post here.
Nothing is done to a job here: the operation is begun held, so that its set is frozen first and looked at.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

from django.contrib import messages
from django.contrib.admin import AdminSite
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect, QueryDict
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from ... import control
from ...conf import get_options
from ...control import BulkAction, BulkCount, JobFilter
from ...control.acts import clean_ids
from ...control.arguments import LEAST_PER_SECOND, MOST_PER_SECOND
from ...job.envelope import EnvelopeError
from ...reading.estimates import Drain, drain
from ...reading.filter_text import FIELDS, filter_from, filter_query
from ...reading.selected import acted_on, look_up
from ...sentence import in_words, number, span
from ...storage import BulkResult, get_storage
from ..bulk_form import begin, proposed
from ..bulk_words import WORDS, Words, filter_words, may, needs_confirmation, risk_note, risky_reasons
from ..filters import bulk_inputs
from ..page import DeckPage
from ..patch_form import MOST_ROWS, PatchRow, TrialShown, known_fields, patch_of, rows_of, trial_shown

__all__ = ["BulkNewPage", "bulk_new_url", "look_at"]

MOST_SELECTED = 1_000
"""Ids of one selection; more of them are a filter's affair."""
MOST_COUNTED = 10_000
"""Jobs that are counted for the preview; the frozen set is counted to the last."""
GROUPS_SHOWN = 25
OFFERED = tuple(action for action in BulkAction if action is not BulkAction.REVERT)
BY_FILTER = tuple(action for action in OFFERED if action is not BulkAction.RESTORE)


def bulk_new_url(page: DeckPage, action: BulkAction | str, where: JobFilter, field: str = "") -> str:
    """The address of this page for an action on all that a filter finds. ``field``: of payloads, which an edit begins
    with."""
    more = {"path:0": field} if field and action == BulkAction.EDIT else {}
    return page.url("bulk_new", action=str(action), **filter_query(where), **more)


def look_at(request: HttpRequest, site: AdminSite, action: BulkAction | str, ids: list[str]) -> HttpResponse:
    """This page for jobs selected in a list: what the list's own view answers to its action."""
    page = BulkNewPage(admin_site=site)
    page.setup(request)
    return page.look(str(action), QueryDict(), ids)


@dataclass(slots=True)
class Preview:
    """What an operation would act on, as far as it was counted. ``complete``: whether that is all."""

    counts: list[BulkCount] = field(default_factory=list)
    total: int = 0
    complete: bool = True
    risks: list[str] = field(default_factory=list)
    refusals: list[str] = field(default_factory=list)
    drain: Drain | None = None

    @property
    def shown(self) -> list[BulkCount]:
        return sorted(self.counts, key=lambda count: -count.count)[:GROUPS_SHOWN]

    @property
    def hidden(self) -> int:
        return max(0, len(self.counts) - GROUPS_SHOWN)

    @property
    def at_full_speed(self) -> str:
        seconds = self.drain.seconds if self.drain else None
        return "" if seconds is None else span(seconds)


class BulkNewPage(DeckPage):
    name = "bulk_new"
    route = "bulk/new/"
    section = "bulk"
    title = gettext_lazy("New bulk operation")
    template_name = "chokaq/deck/bulk_new.html"

    # looking ----------------------------------------------------------------------------------------------------------

    def get(self, request: HttpRequest, **kwargs: Any) -> HttpResponse:
        return self.look(request.GET.get("action", ""), request.GET, None)

    def act_look(self, request: HttpRequest) -> HttpResponse:
        """A selection that a list has posted: ``ids``, one or more of them in each value."""
        return self.look(request.POST.get("action", ""), QueryDict(), _ids(request.POST))

    def look(
        self, wanted: str, named: QueryDict, ids: list[str] | None, error: EnvelopeError | None = None,
        values: Mapping[str, str] | None = None, rows: list[PatchRow] | None = None, trial: TrialShown | None = None,
    ) -> HttpResponse:  # fmt: skip
        """The page. ``named``: the filter in an address; ``values``: what a form says; ``rows``: the changes of
        payloads in it, and ``trial`` what they would do."""
        action = BulkAction(wanted) if wanted in OFFERED else BulkAction.RESURRECT
        words, preview, where = WORDS[action], None, None
        text = _filter_of(named)
        of = named.get("of", "") if action is BulkAction.RESURRECT else ""
        try:
            if ids is not None:
                preview = self._of_ids(action, ids)
            elif of:
                preview = self._of_operation(of)
            elif named.get("status") or any(text.values()):
                where = self._filter(action, text)
                preview = self._of_filter(action, where)
        except EnvelopeError as bad:
            error = error or bad
        values = values if values is not None else proposed(action, None if preview is None else preview.total)
        return self.render(
            400 if error is not None else 200,
            action=action,
            actions=[(each, WORDS[each].verb) for each in (BY_FILTER if ids is None else OFFERED)],
            words=words,
            ids=ids,
            of=of,
            filter=text,
            filter_words=[] if where is None else filter_words({"status": where.status, **where.given()}),
            inputs=bulk_inputs(words.statuses, text),
            preview=preview,
            error=error,
            may=may(self.request.user, action),
            values=values,
            drip=_drip(values, preview),
            careful=action is BulkAction.RESURRECT,
            edits=action is BulkAction.EDIT,
            rows=rows if rows is not None else rows_of(named),
            rows_most=MOST_ROWS,
            known_fields=known_fields(sorted({count.type for count in preview.counts})) if preview else [],
            may_see=self.request.user.has_perm("chokaq.view_payload"),
            trial=trial,
            keys=action in (BulkAction.RESURRECT, BulkAction.RESTORE),
            confirm_from=get_options().deck.confirm_from,
            begins_at_once=preview is not None and not needs_confirmation(action, preview.total) and preview.complete,
            target=self._target(action, where, of),
        )

    def _target(self, action: BulkAction, where: JobFilter | None, of: str) -> str:
        """Where the form is sent: the filter stays in the address, with its times resolved."""
        named = filter_query(where) if where is not None else {"of": of} if of else {}
        return self.url("bulk_new", action=action.value, **named)

    def _filter(self, action: BulkAction, text: Mapping[str, str]) -> JobFilter:
        words: Words = WORDS[action]
        where = filter_from({"status": words.statuses[0] if words.statuses else "", **_given(text)}, self._now())
        if where.place not in words.places or action not in BY_FILTER:
            fitting = ", ".join(words.statuses) or _("none")
            raise EnvelopeError("status", _("must be one of %(fitting)s, which this is for") % {"fitting": fitting})
        return where

    def _now(self) -> dt.datetime:
        return get_storage(get_options().database).now()

    def _of_filter(self, action: BulkAction, where: JobFilter) -> Preview:
        found = control.bulk_preview(where, limit=MOST_COUNTED)
        preview = Preview(list(found.counts), found.total, found.complete)
        if action is BulkAction.RESURRECT:
            preview.risks = risk_note(_risky_of(where))
            preview.drain = self._drain(preview)
        return preview

    def _of_ids(self, action: BulkAction, ids: list[str]) -> Preview:
        bad = BulkResult()
        clean = clean_ids(ids, bad)
        if len(clean) > MOST_SELECTED:
            most = number(MOST_SELECTED)
            raise EnvelopeError("ids", _("must be at most %(most)s; for more, use a filter") % {"most": most})
        found = look_up(clean, WORDS[action].places, get_options().database, self._now())
        preview = Preview(found.counts, found.total)
        places = {
            "hot": _("%(count)s are active."),
            "archive": _("%(count)s have succeeded."),
            "dlq": _("%(count)s are dead."),
            "trash": _("%(count)s are in the Trash."),
            "": _("%(count)s are gone."),
        }
        preview.refusals = [places[place] % {"count": number(count)} for place, count in found.elsewhere.items()]
        preview.refusals += [f"{each.id}: {in_words(each.reason)}" for each in bad.refused[:5]]
        if action is BulkAction.RESURRECT:
            preview.risks = risk_note(found.reasons)
            preview.drain = self._drain(preview)
        return preview

    def _of_operation(self, operation_id: str) -> Preview:
        """What another operation acted on and is dead now."""
        view = control.bulk_get(operation_id)
        if view is None or not view.at_rest:
            raise EnvelopeError("of", _("must be the id of a bulk operation that has ended"))
        found = acted_on(view.id, MOST_COUNTED + 1, get_options().database, self._now())
        preview = Preview(found.counts, min(found.total, MOST_COUNTED), found.total <= MOST_COUNTED)
        preview.risks = risk_note(found.reasons)
        preview.drain = self._drain(preview)
        return preview

    def _drain(self, preview: Preview) -> Drain:
        return drain(preview.counts, get_options().database, self._now())

    # changes of payloads ----------------------------------------------------------------------------------------------

    def act_row(self, request: HttpRequest) -> HttpResponse:
        """The same form with one more line."""
        return self._form(rows_of(request.POST, more=1))

    def act_try_whole(self, request: HttpRequest) -> HttpResponse:
        """The same trial, with all that changes in long payloads."""
        return self.act_try(request, whole=True)

    def act_try(self, request: HttpRequest, *, whole: bool = False) -> HttpResponse:
        """What the changes of payloads would do: nothing is written."""
        rows, ids = rows_of(request.POST), _ids(request.POST) if "ids" in request.POST else None
        try:
            patch = patch_of(rows, may_see=request.user.has_perm("chokaq.view_payload"))
            if patch is None:
                raise EnvelopeError("patch", _("name a field first, and what becomes of it"))
            where = self._filter(BulkAction.EDIT, _filter_of(request.GET)) if ids is None else None
            seen = control.preview_patch(patch, ids, where=where, by=request.user)
        except EnvelopeError as error:
            return self._form(rows, error)
        return self._form(rows, trial=trial_shown(seen, whole=whole))

    def _form(
        self, rows: list[PatchRow], error: EnvelopeError | None = None, trial: TrialShown | None = None
    ) -> HttpResponse:
        form = self.request.POST
        ids = _ids(form) if "ids" in form else None
        return self.look(BulkAction.EDIT.value, self.request.GET, ids, error, form, rows, trial)

    # beginning --------------------------------------------------------------------------------------------------------

    def act_begin(self, request: HttpRequest) -> HttpResponse:
        """Begin it, held; let it go at once where it is small enough that nobody has to confirm it."""
        wanted, form = request.GET.get("action", ""), request.POST
        ids = _ids(form) if "ids" in form else None
        text = _filter_of(request.GET)
        try:
            if wanted not in OFFERED:
                raise EnvelopeError("action", _("must be one of %(these)s") % {"these": ", ".join(OFFERED)})
            action = BulkAction(wanted)
            if ids is not None and len(ids) > MOST_SELECTED:
                raise EnvelopeError("ids", _("must be at most %(most)s; use a filter") % {"most": MOST_SELECTED})
            of = request.GET.get("of", "") if action is BulkAction.RESURRECT and ids is None else ""
            where = self._filter(action, text) if ids is None and not of else None
            view = begin(action, ids, where, form, request.user, of=of or None)
        except EnvelopeError as error:
            rows = rows_of(form)
            if error.field == "patch":  # marks the input that is wrong
                with suppress(EnvelopeError):
                    patch_of(rows, may_see=True)
            return self.look(wanted, request.GET, ids, error, form, rows)
        view = control.bulk_freeze(view.id)
        if view.awaits_go and not needs_confirmation(action, view.total):
            control.bulk_resume(view.id, by=request.user)
        elif not view.total and view.started_at is not None:
            messages.warning(request, _("Nothing matches any more: there was nothing to do."))
        return HttpResponseRedirect(self.url("bulk_one", view.id))


def _filter_of(named: QueryDict) -> dict[str, str]:
    return {name: str(named[name]) for name in FIELDS if name in named}


def _given(text: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in text.items() if value.strip()}


def _ids(form: QueryDict) -> list[str]:
    """The ids of a form, one or more of them in each value."""
    return [job_id for value in form.getlist("ids")[: MOST_SELECTED + 1] for job_id in value.split()]


def _risky_of(where: JobFilter) -> dict[int, int]:
    """How many of what a filter finds may have had their side effects already, by their reason."""
    found = {}
    for reason in risky_reasons():
        if where.reason in (None, reason) and where.status in ("dead", "failed", "zombie"):
            count = control.bulk_preview(replace(where, reason=reason), limit=MOST_COUNTED).total
            found[int(reason)] = count
    return found


def _drip(values: Mapping[str, str], preview: Preview | None) -> str:
    """How long the set lasts at the rate that the form says."""
    try:
        rate = float(values.get("rate") or 0)
    except ValueError:
        return ""
    is_rate = LEAST_PER_SECOND <= rate <= MOST_PER_SECOND
    return span(preview.total / rate) if preview is not None and is_rate else ""
