"""The editor of a waiting or dead job: its payload field by field or as JSON, its tags, priority, queue and type.

Three steps: what is typed is checked by the real codec, then shown beside what is stored, then saved. Each is a plain
form.
"""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse, HttpResponseBase, HttpResponseRedirect
from django.utils.html import format_html
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from ... import control
from ...conf import get_options
from ...control import JobView, Location
from ...control.edits import changes_since
from ...job.envelope import EnvelopeError
from ...job.registry import registry
from ...reading.groups import newest_dead
from ...reading.masks import mask_text
from ..columns import HIDDEN, state_badge
from ..diff import Diff, side_by_side
from ..editor.draft import Draft
from ..inspector.relations import version_of
from ..inspector.verbs import EDIT, RESURRECT
from ..page import DeckPage, tell
from ..text import wrong
from .job import SECTIONS

__all__ = ["JobEditPage"]


class JobEditPage(DeckPage):
    name = "job_edit"
    section = "active"
    route = "job/<str:job_id>/edit/"
    title = gettext_lazy("Edit a job")
    permission = "edit_payload"
    template_name = "chokaq/deck/job_edit.html"

    def dispatch(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        if not request.user.has_perm("chokaq.view_deck"):
            raise PermissionDenied
        return super().dispatch(request, *args, **kwargs)

    # looking ----------------------------------------------------------------------------------------------------------

    def get(self, request: HttpRequest, **kwargs: Any) -> HttpResponseBase:
        job = control.get(kwargs["job_id"])
        if job is None:
            return self.missing(kwargs["job_id"])
        draft = Draft.of_job(job, request.GET.get("view", "fields"), may_see=self.may_see)
        draft.look()
        return self.form(draft)

    @property
    def may_see(self) -> bool:
        return self.request.user.has_perm("chokaq.view_payload")

    def missing(self, job_id: str) -> HttpResponse:
        self.template_name = "chokaq/deck/job_missing.html"  # type: ignore[misc]
        return self.render(status=404, title=_("No such job"), job_id=job_id[:100])

    def form(self, draft: Draft, *, reason: str = "", revealed: bool = False) -> HttpResponse:
        """The inputs, with what is wrong at each."""
        fields = draft.fields()
        return self.draw(
            draft,
            reason,
            fields=fields,
            hidden=HIDDEN,
            may_see=self.may_see,
            masked=0 if revealed else draft.masked,
            revealed=revealed,
            types=[name for name in _type_names() if name != draft.type],
            has_errors=bool(draft.errors) or any(_has_errors(each) for each in fields),
        )

    def draw(self, draft: Draft, reason: str, **context: Any) -> HttpResponse:
        job = draft.job
        self.section = SECTIONS[job.location]  # type: ignore[misc]
        return self.render(
            title=_("Edit %(type)s") % {"type": job.type},
            job=job,
            job_url=self.url("job", job.id),
            state=state_badge(job),
            why_not=EDIT.why_not(job),
            draft=draft,
            reason=reason[:2_000],
            conflict=self.conflict(draft),
            **context,
        )

    def conflict(self, draft: Draft) -> dict[str, Any] | None:
        """What others have changed since the editor looked."""
        job = draft.job
        if draft.revision == job.revision:
            return None
        alias = get_options().database
        return {
            "changes": changes_since(alias, job.id, draft.revision),
            "diff": self._changed_payload(job, draft.revision) if self.may_see else None,
        }

    def _changed_payload(self, job: JobView, revision: int) -> Diff | None:
        """The payload that the editor saw beside the one that is there now."""
        found = version_of(job, revision)
        if found is None:
            return None
        return side_by_side(mask_text(found[0].payload, 2).text, mask_text(job.payload, 2).text)

    # acting -----------------------------------------------------------------------------------------------------------

    def post(self, request: HttpRequest, **kwargs: Any) -> HttpResponseBase:
        job = control.get(kwargs["job_id"])
        if job is None:
            return self.missing(kwargs["job_id"])
        why_not = EDIT.why_not(job)
        if why_not:
            messages.warning(request, why_not)
            return HttpResponseRedirect(self.url("job", job.id))
        self.draft = Draft.of_form(job, request.POST, may_see=self.may_see)
        if "rebase" in request.POST:
            self.draft.revision = job.revision
            return self.act_check(request, job.id) or self.back()
        if "add" in request.POST:
            self.draft.add_item(request.POST["add"])
            return self.form(self.draft, reason=request.POST.get("reason", ""))
        return super().post(request, **kwargs)

    def back(self) -> HttpResponse:
        """To the form, as it is typed."""
        return self.form(self.draft, reason=self.request.POST.get("reason", ""))

    def act_back(self, request: HttpRequest, job_id: str) -> None:
        """From the comparison."""

    def act_as_json(self, request: HttpRequest, job_id: str) -> None:
        if not self.draft.errors:
            self.draft.view = "json"

    def act_as_fields(self, request: HttpRequest, job_id: str) -> None:
        if not self.draft.errors:
            self.draft.view = "fields"

    def act_reveal(self, request: HttpRequest, job_id: str) -> HttpResponse:
        """The form with the values that are masked otherwise."""
        reason = request.POST.get("reason", "")
        control.reveal(job_id, by=request.user, reason=reason)
        self.draft.reveal()
        return self.form(self.draft, reason=reason, revealed=True)

    def act_check(self, request: HttpRequest, job_id: str) -> HttpResponse | None:
        """What is typed, beside what is stored."""
        if not self.draft.check():
            return None
        if not self.draft.changes:
            messages.info(request, _("Nothing is different from what is stored."))
            return None
        return self.compare()

    def act_check_whole(self, request: HttpRequest, job_id: str) -> HttpResponse | None:
        """The same, with all that differs in a long payload."""
        return self.compare(whole=True) if self.draft.check() else None

    def compare(self, *, whole: bool = False) -> HttpResponse:
        draft = self.draft
        self.template_name = "chokaq/deck/job_edit_check.html"  # type: ignore[misc]
        return self.draw(
            draft,
            self.request.POST.get("reason", ""),
            diff=draft.diff(whole=whole),
            others=draft.others(),
            may_resurrect=draft.job.location is Location.DLQ and self.request.user.has_perm("chokaq.resurrect"),
            takes_key=bool(draft.job.idempotency_key),
        )

    def act_save(self, request: HttpRequest, job_id: str) -> HttpResponseBase | None:
        return self.save(request, job_id)

    def act_save_and_resurrect(self, request: HttpRequest, job_id: str) -> HttpResponseBase | None:
        if not request.user.has_perm("chokaq.resurrect"):
            raise PermissionDenied  # before anything is saved
        return self.save(request, job_id, resurrect=True)

    def save(self, request: HttpRequest, job_id: str, *, resurrect: bool = False) -> HttpResponseBase | None:
        """Check once more, then edit, against the revision that the editor saw."""
        draft, reason = self.draft, request.POST.get("reason", "")
        if not draft.check():
            return None
        if draft.revision != draft.job.revision:
            return self.compare()
        if draft.changes:
            try:
                answer = control.edit(
                    draft.job.id, by=request.user, reason=reason, revision=draft.revision, **draft.changes
                )
            except EnvelopeError as error:
                messages.error(request, wrong(error))
                return None
            tell(request, answer, str(EDIT.done))
            if not answer.applied:
                return self.refused(job_id)
        if resurrect and RESURRECT.act is not None:
            answer = RESURRECT.act([draft.job.id], request.user, reason, request.POST)
            tell(request, answer, str(RESURRECT.done))
            self.tell_next(draft.job.fingerprint)
        return HttpResponseRedirect(self.url("job", draft.job.id))

    def tell_next(self, fingerprint: str | None) -> None:
        """Lead to another job that died alike: whoever has repaired one is mostly not done yet."""
        alias = get_options().database
        left = newest_dead(alias, fingerprint, 1) if fingerprint else []
        if left:
            text = _("There are more that died alike.")
            link = (self.url("job_edit", left[0]["pk"]), _("Edit the next one"))
            group = (self.url("failure", fingerprint), _("Show all of them"))
            messages.info(
                self.request, format_html('{} <a href="{}">{}</a> · <a href="{}">{}</a>', text, *link, *group)
            )

    def refused(self, job_id: str) -> HttpResponseBase:
        """Somebody came between the last look and the edit: the comparison once more, with what is there now."""
        job = control.get(job_id)
        if job is None or EDIT.why_not(job):
            return HttpResponseRedirect(self.url("job", job_id))
        self.draft = Draft.of_form(job, self.request.POST, may_see=self.may_see)
        self.draft.check()
        return self.compare()


def _type_names() -> list[str]:
    types = [job_type for job_type in registry.types() if job_type.cls is not None]
    return sorted({name for job_type in types for name in (job_type.key, *job_type.aliases)})


def _has_errors(field: Any) -> bool:
    return bool(field.errors) or any(_has_errors(child) for child in field.children)
