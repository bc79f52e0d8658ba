"""The inspector: one job wherever it is, what happened to it, why it does not run, and what can be done."""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, HttpResponseBase, HttpResponseRedirect
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from ... import control
from ...conf import get_options
from ...control import Copies, JobView, Location
from ...control.acts import clean_id
from ...job.envelope import EnvelopeError
from ...models import JobBase, JobStatus
from ...reading.job import find_row, view_of_row
from ...reading.masks import mask_text
from ...reading.waiting import why_waiting
from ...storage import get_storage
from ..columns import HIDDEN, state_badge
from ..diff import Diff, side_by_side
from ..history import attempts_of, audit_of
from ..inspector.facts import error_line, facts_of, headers_of, raw_row, reason_text
from ..inspector.links import Links
from ..inspector.payload import shown_json, shown_payload
from ..inspector.relations import children_of, operations_of, parent_of, version_of, versions_of
from ..inspector.verbs import JOB_VERBS, Act, JobVerb, offers
from ..page import DeckPage, tell
from ..text import code, whole_at, wrong

__all__ = ["JobPage"]

SECTIONS = {Location.HOT: "active", Location.ARCHIVE: "archive", Location.DLQ: "dlq", Location.TRASH: "trash"}


class JobPage(DeckPage):
    name = "job"
    section = "active"
    route = "job/<str:job_id>/"
    title = gettext_lazy("Job")
    template_name = "chokaq/deck/job.html"

    def get(self, request: HttpRequest, **kwargs: Any) -> HttpResponseBase:
        return self.page(kwargs["job_id"])

    def page(self, job_id: str, *, revealed: bool = False) -> HttpResponse:
        alias = get_options().database
        clean = clean_id(job_id)
        row = find_row(clean, alias) if clean else None
        if row is None:
            return self.missing(job_id)
        job = view_of_row(row)
        self.topics = (f"job:{job.id}",)  # type: ignore[misc]
        self.section = SECTIONS[job.location]  # type: ignore[misc]
        return self.render(**self.parts(row, job, alias, revealed=revealed))

    def missing(self, job_id: str) -> HttpResponse:
        """There is no such job: also what an old link leads to once its retention is over."""
        self.template_name = "chokaq/deck/job_missing.html"  # type: ignore[misc]
        return self.render(status=404, title=_("No such job"), job_id=job_id[:100])

    def parts(self, row: JobBase, job: JobView, alias: str, *, revealed: bool) -> dict[str, Any]:
        """What the template shows."""
        links = Links(self.admin_site.name)
        may_see = self.request.user.has_perm("chokaq.view_payload")
        holds = why_waiting(job, alias, get_storage(alias).now())
        payload = shown_payload(job, revealed=revealed, all_at=self._all_of("payload", revealed)) if may_see else None
        headers = headers_of(job, may_see=may_see, revealed=revealed)
        result = None
        if may_see and job.result is not None:
            result = shown_json(job.result, revealed=revealed, all_at=self._all_of("result", revealed))
        parent = parent_of(job)
        offered = offers(job, self.request.user)
        return {
            "title": job.type,
            "job": job,
            "place_url": links.place(job),
            "state": state_badge(job),
            "reason": reason_text(job),
            "error": code(job.error_details, whole_at(self.request, "error")) if may_see else "",
            "error_line": error_line(job) if may_see else "",
            "group_url": links.group(job.fingerprint),
            "live_state": _live_state(job),
            "holds": [(hold, links.hold(hold, job.id)) for hold in holds],
            "may_see": may_see,
            "hidden": HIDDEN,
            "payload": payload,
            "result": result,
            "headers": headers,
            "masked": (payload.hidden if payload else 0) + (result.hidden if result else 0) + headers.hidden,
            "revealed": revealed,
            "facts": facts_of(job, links),
            "attempts": attempts_of(row.attempt_log),
            "offers": [offer for offer in offered if not offer.why_not],
            "refused": [offer for offer in offered if offer.why_not],
            "takes_key": bool(job.idempotency_key) and any(o.verb.takes_key for o in offered if not o.why_not),
            "edit_url": links.page("job_edit", job.id),
            "parent": parent and (parent, links.job(parent)),
            "children": [(child, links.job(child)) for child in children_of(job)],
            "operations": [(each, links.page("bulk_one", each.operation.id)) for each in operations_of(job)],
            "audit": audit_of(job.id),
            "audit_url": links.list("auditentry", target=job.id),
            "versions": versions_of(job) if may_see else [],
            "version": self._version(job, revealed) if may_see else None,
            "version_all_at": whole_at(self.request, "versions"),
            "whole": self.request.GET.get("whole", ""),
            "raw": raw_row(row, may_see=may_see, revealed=revealed),
            "table": row._meta.db_table,
        }

    def _version(self, job: JobView, revealed: bool) -> tuple[int, Diff] | None:
        """The earlier payload that the address asks for, beside the one that replaced it."""
        asked = self.request.GET.get("version", "")
        found = version_of(job, int(asked)) if asked.isdecimal() and len(asked) < 10 else None
        if found is None:
            return None
        version, after = found
        texts = (mask_text(text, 2).text for text in (version.payload, after))
        return version.revision, side_by_side(*texts, whole=self.request.GET.get("whole") == "versions")

    def _all_of(self, part: str, revealed: bool) -> str | None:
        """A link would mask it again: what is revealed is shown whole."""
        return None if revealed else whole_at(self.request, part)

    # acting -----------------------------------------------------------------------------------------------------------

    def post(self, request: HttpRequest, **kwargs: Any) -> HttpResponseBase:
        verb = next((verb for verb in JOB_VERBS if verb.name == request.POST.get("act")), None)
        if verb is None or verb.act is None:
            return super().post(request, **kwargs)
        return self.perform(request, verb, verb.act, kwargs["job_id"])

    def perform(self, request: HttpRequest, verb: JobVerb, act: Act, job_id: str) -> HttpResponseBase:
        """Do it, or ask first."""
        reason = request.POST.get("reason", "")
        if verb.asks and not request.POST.get("sure"):
            return self.confirm(request, verb, job_id, reason)
        try:
            answer = act([job_id], request.user, reason, request.POST)
        except EnvelopeError as error:
            messages.error(request, wrong(error))
            return self.back()
        tell(request, answer, str(verb.done))
        if isinstance(answer, Copies) and answer.new_ids:
            messages.info(request, _("This is the new job."))
            return HttpResponseRedirect(self.url("job", next(iter(answer.new_ids.values()))))
        return self.back()

    def confirm(self, request: HttpRequest, verb: JobVerb, job_id: str, reason: str) -> HttpResponse:
        """A page that asks; it works without scripts."""
        job = control.get(job_id)
        if job is None:
            return self.missing(job_id)
        why_not = verb.why_not(job)
        if why_not:
            messages.warning(request, why_not)
            return self.back()
        self.section = SECTIONS[job.location]  # type: ignore[misc]
        self.template_name = "chokaq/deck/job_confirm.html"  # type: ignore[misc]
        return self.render(title=job.type, job=job, verb=verb, reason=reason[:2_000], state=state_badge(job))

    def act_reveal(self, request: HttpRequest, job_id: str) -> HttpResponseBase:
        """The page once more, with the values that are masked otherwise. An address cannot ask for that."""
        job = control.reveal(job_id, by=request.user, reason=request.POST.get("reason", ""))
        return self.missing(job_id) if job is None else self.page(job_id, revealed=True)


def _live_state(job: JobView) -> str:
    """What the page's script compares with the feed: it loads the page again once one of these has changed."""
    status = job.status.name.lower() if isinstance(job.status, JobStatus) else str(job.status)
    cancelling = str(job.cancel_requested_at is not None).lower()
    return f"{job.location}|{status}|{job.attempt}|{job.generation}|{job.revision}|{cancelling}"
