"""One failure group: what happened, whether it is safe to run such jobs again, its jobs, and what people note on it."""

from __future__ import annotations

import datetime as dt
import re
from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from ... import control
from ...conf import get_options
from ...control import BulkAction, BulkCount, JobFilter
from ...control.triage import NOTE_LIMIT
from ...reading.groups import GroupView, newest_dead, read_group, sample_error
from ...sentence import in_words
from ...storage import get_storage
from ..bulk_words import may
from ..columns import HIDDEN
from ..failure_words import known_fingerprint
from ..history import audit_of
from ..inspector.links import Links
from ..page import DeckPage, tell
from ..text import code, whole_at
from .bulk_new import bulk_new_url
from .failures import group_row

__all__ = ["FailurePage"]

NEWEST = 10
MOST_COUNTED = 10_000
"""Jobs of which the ages are counted."""
NOT_COUNTED: dict[str, int | None] = dict.fromkeys(("hour", "day", "week", "older"))
"""The ages of a kind none of whose jobs was among those that were counted."""
MOST_KINDS = 50
OFFERED = (BulkAction.RESURRECT, BulkAction.EDIT, BulkAction.PURGE)


_FAULT = re.compile(r"\bPayloadError: (\$[.\[][^\s:]*): ")


class FailurePage(DeckPage):
    name = "failure"
    section = "failures"
    route = "failure/<str:fingerprint>/"
    title = gettext_lazy("Failure")
    template_name = "chokaq/deck/failure.html"
    topics = ("failures",)

    def get(self, request: HttpRequest, **kwargs: Any) -> HttpResponseBase:
        return self.page(kwargs["fingerprint"])

    def page(self, fingerprint: str, status: int = 200, **given: Any) -> HttpResponse:
        alias = get_options().database
        now = get_storage(alias).now()
        clean = known_fingerprint(fingerprint)
        view = read_group(alias, now, clean) if clean else None
        if view is None:
            return self.render(404, title=_("No such failure"), group=None, fingerprint=fingerprint[:100])
        return self.render(status, **self.parts(view, alias, now), **given)

    def parts(self, view: GroupView, alias: str, now: dt.datetime) -> dict[str, Any]:
        """What the template shows."""
        links = Links(self.admin_site.name)
        may_see = self.request.user.has_perm("chokaq.view_payload")
        row = group_row(self, view, now)
        where = JobFilter(status="dead", fingerprint=view.fingerprint)
        sample_id, details = sample_error(alias, view.fingerprint) if may_see and view.count > 0 else ("", None)
        return {
            "title": row["error"],
            "group": row,
            "does_not_fit": view.is_unread,
            "may_see": may_see,
            "may_operate": self.request.user.has_perm("chokaq.operate"),
            "hidden": HIDDEN,
            "sample": code(details, whole_at(self.request, "sample")) if details else "",
            "sample_url": links.job(sample_id) if sample_id else "",
            "last_url": links.job(view.sample_id),
            "jobs": [(job, links.job(job["pk"])) for job in newest_dead(alias, view.fingerprint, NEWEST)],
            "list_url": links.list("jobdlq", fingerprint=view.fingerprint),
            **self._kinds(view, where, links),
            "acts": [
                {"action": action, "url": bulk_new_url(self, action, where, field=_field_at_fault(details or ""))}
                for action in OFFERED
                if view.count > 0 and may(self.request.user, action)
            ],
            "note_limit": NOTE_LIMIT,
            "audit": audit_of(view.fingerprint),
        }

    def _kinds(self, view: GroupView, where: JobFilter, links: Links) -> dict[str, Any]:
        """Its jobs by queue and type: how many, from the counts; how old, as far as that was counted."""
        preview = control.bulk_preview(where, limit=MOST_COUNTED) if view.count > 0 else None
        ages: dict[tuple[str, str], BulkCount] = {}
        if preview is not None:
            ages = {(count.queue, count.type): count for count in preview.counts}
        shown = view.kinds.most_common(MOST_KINDS)
        return {
            "kinds": [
                {
                    "queue": queue, "queue_url": links.queue(queue), "type": type_key, "count": count,
                    "ages": ages[queue, type_key].ages if (queue, type_key) in ages else NOT_COUNTED,
                    "url": links.list("jobdlq", fingerprint=view.fingerprint, queue=queue, type=type_key),
                }
                for (queue, type_key), count in shown
            ],
            "kinds_left_out": len(view.kinds) - len(shown),
            "ages_of": 0 if preview is None or preview.complete else preview.total,
        }  # fmt: skip

    def act_triage(self, request: HttpRequest, fingerprint: str) -> HttpResponse | None:
        """What the form says; a field that stays as it was is no change."""
        posted = request.POST
        answer = control.triage(
            fingerprint, by=request.user, note=posted.get("note", ""), assignee=posted.get("assignee", ""),
            acknowledged=posted.get("acknowledged") == "on", reason=posted.get("reason", ""),
        )  # fmt: skip
        if not answer.applied and answer.refused:
            messages.info(request, in_words(answer.refused[0].reason))
        else:
            tell(request, answer, _("Noted."))
        return None


def _field_at_fault(details: str) -> str:
    """The path that the error of a payload names, for a form that repairs it; empty where it names none."""
    found = _FAULT.findall(details)
    return str(found[-1]) if found else ""
