"""Admin's lists of active, archived, dead and purged jobs. One job has the Deck's page: :mod:`.pages.job`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.contrib import admin
from django.contrib.admin.utils import unquote
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseBase, HttpResponseRedirect
from django.urls import NoReverseMatch
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from ..conf import get_options
from ..models import FailureReason, JobStatus
from ..reading.job import dead_status, known, status_of
from ..sentence import number
from ..storage import get_storage
from . import export
from .base import PagedAdmin, as_action
from .columns import Shown, age_column, duration_field, state_badge, status_badge
from .inspector.verbs import CANCEL, EDIT, PURGE, REMOVE, RESTORE, RESURRECT, RUN_AGAIN, JobVerb
from .listing import JobChangeList, job_filter
from .page import deck_url
from .text import EMPTY

__all__ = ["ActiveJobAdmin", "ArchivedJobAdmin", "DeadJobAdmin", "PurgedJobAdmin"]

Action = Callable[..., HttpResponse | None]


class JobAdmin(PagedAdmin):
    """What the four lists show alike."""

    acts: tuple[JobVerb, ...] = ()
    changelist_class = JobChangeList
    usual_status: str

    due_age = age_column("run_at", gettext_lazy("due"))

    @admin.display(description=gettext_lazy("job"))
    def job(self, obj: Any) -> SafeString:
        return format_html('{}<span class="chokaq-key chokaq-under">{}</span>', obj.type or EMPTY, obj.pk)

    @admin.display(description=gettext_lazy("queue"))
    def place(self, obj: Any) -> SafeString:
        priority = _("priority %(number)s") % {"number": number(obj.priority)}
        return format_html('{}<span class="chokaq-under">{}</span>', obj.queue, priority)

    @admin.display(description=gettext_lazy("attempts"))
    def attempts_used(self, obj: Any) -> str:
        return _("%(used)d of %(most)d") % {"used": obj.attempt, "most": obj.max_attempts}

    @property
    def actions(self) -> list[Action]:  # type: ignore[override]
        return [as_action(verb) for verb in self.acts]

    def change_view(
        self, request: HttpRequest, object_id: str, form_url: str = "", extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        """To the page of the job, wherever it is by now."""
        try:
            return HttpResponseRedirect(deck_url(self.admin_site.name, "job", unquote(object_id)))
        except NoReverseMatch:  # what could be no job's id
            raise Http404 from None

    def exported(self, request: HttpRequest, kind: str) -> HttpResponseBase:
        named = {name: request.GET[name] for name in JobChangeList.parameters if name in request.GET}
        where = job_filter(self.usual_status, named)
        now = get_storage(get_options().database).now()
        may_see = request.user.has_perm("chokaq.view_payload")
        records = export.jobs(where, now, may_see=may_see)
        return export.stream(request, records, kind, f"chokaq-{where.place}-{now:%Y%m%d-%H%M%S}")

    def has_remove_permission(self, request: HttpRequest) -> bool:
        return self.has_cancel_permission(request) and self.has_purge_permission(request)


class ActiveJobAdmin(JobAdmin):
    list_display = ("job", "place", "status_text", "attempts_used", "due_age")
    usual_status = "active"
    acts = (EDIT, CANCEL, REMOVE)

    @admin.display(description=gettext_lazy("status"))
    def status_text(self, obj: Any) -> SafeString:
        return state_badge(obj)


class ArchivedJobAdmin(JobAdmin):
    list_display = ("job", "place", "ran_for", "waited", "attempts_used", "finished_age")
    usual_status = "succeeded"
    acts = (RUN_AGAIN, PURGE)

    finished_age = age_column("finished_at", gettext_lazy("finished"))
    ran_for = duration_field("duration_ms", gettext_lazy("ran for"))
    waited = duration_field("wait_ms", gettext_lazy("waited"))


class DeadJobAdmin(JobAdmin):
    list_display = ("job", "place", "status_and_reason", "error", "failed_age")
    usual_status = "dead"
    acts = (RESURRECT, EDIT, PURGE)

    failed_age = age_column("failed_at", gettext_lazy("died"))

    @admin.display(description=gettext_lazy("status"))
    def status_and_reason(self, obj: Any) -> SafeString:
        reason = known(FailureReason, obj.failure_reason)
        label = reason.label if isinstance(reason, FailureReason) else _("Unknown (%(number)d)") % {"number": reason}
        badge = status_badge(dead_status(obj.failure_reason))
        return format_html('{}<span class="chokaq-under">{}</span>', badge, label)

    @admin.display(description=gettext_lazy("error"))
    def error(self, obj: Any) -> Shown:
        if not obj.error_type:
            return EMPTY
        return format_html('<span title="{}">{}</span>', obj.error_type, obj.error_type.rpartition(".")[2])


class PurgedJobAdmin(JobAdmin):
    list_display = ("job", "place", "status_text", "origin", "purged_age", "expires_age")
    usual_status = "purged"
    acts = (RESTORE,)

    purged_age = age_column("purged_at", gettext_lazy("purged"))
    expires_age = age_column("expires_at", gettext_lazy("expires"))

    @admin.display(description=gettext_lazy("status"))
    def status_text(self, obj: Any) -> SafeString:
        status: JobStatus | int = status_of(obj)
        return status_badge(status)

    @admin.display(description=gettext_lazy("came from"))
    def origin(self, obj: Any) -> str:
        names = {"hot": _("active jobs"), "archive": _("the Archive"), "dlq": _("the DLQ")}
        return names.get(obj.came_from) or str(obj.came_from)
