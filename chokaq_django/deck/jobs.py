"""Admin pages of active, archived and dead jobs."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from typing import Any, Literal

from django.contrib import admin, messages
from django.contrib.admin.utils import flatten_fieldsets, quote, unquote
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.utils.html import format_html
from django.utils.http import urlencode
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from .. import control
from ..control import Location
from ..control.view import dead_status, known, status_of
from ..models import FailureReason, JobStatus
from .base import TableAdmin, Verb
from .columns import (
    HIDDEN,
    Shown,
    age_column,
    duration_field,
    hidden_field,
    json_field,
    key_column,
    moment_field,
    status_badge,
    tags_field,
)
from .history import attempts_of, audit_of
from .listing import PeriodFilter, QueueFilter, ReasonFilter, StatusFilter, TypeFilter, search_jobs
from .text import EMPTY, badge, code

__all__ = ["ActiveJobAdmin", "ArchivedJobAdmin", "DeadJobAdmin", "PurgedJobAdmin"]

_PAGES = {
    Location.HOT: "jobhot",
    Location.ARCHIVE: "jobarchive",
    Location.DLQ: "jobdlq",
    Location.TRASH: "jobtrash",
}

_WHEN = (("created", "due"), ("run", "started"), "deadline")
_WORK = (
    ("attempts_used", "worker"),
    ("crash_count", "snooze_count", "generation"),
    ("claim_number", "revision", "schema_version"),
)
_WHO = (("created_by", "modified_by"), ("idempotency", "concurrency"))


_PURGE = Verb(
    "purge",
    gettext_lazy("Purge this job"),
    gettext_lazy("Purge selected %(verbose_name_plural)s"),
    gettext_lazy("Purged: %(count)d. They can be restored from the Trash."),
    "purge",
    lambda job: True,
    lambda keys, user, reason, form: control.purge(keys, by=user, reason=reason),
    dangerous=True,
)


def _on_conflict(form: Mapping[str, str]) -> Literal["skip", "drop"]:
    return "drop" if form.get("drop_key") else "skip"


class JobAdmin(TableAdmin):
    """What the three job tables show alike."""

    search_fields = ("id",)
    search_help_text = gettext_lazy("The beginning of an id (10 characters or more), or exactly a queue or a type.")
    secrets = {"payload_text": "payload_hidden"}
    """Fields that need ``chokaq.view_payload``, and what stands in for them."""

    payload_text = json_field("payload", gettext_lazy("payload"))
    payload_hidden = hidden_field(gettext_lazy("payload"))
    headers_text = json_field("headers", gettext_lazy("headers"))
    tags_text = tags_field
    worker = key_column("worker_id", gettext_lazy("worker"))
    idempotency = key_column("idempotency_key", gettext_lazy("idempotency key"))
    concurrency = key_column("concurrency_key", gettext_lazy("concurrency key"))
    due_age = age_column("run_at", gettext_lazy("due"))
    created = moment_field("created_at", gettext_lazy("created"))
    due = moment_field("due_at", gettext_lazy("asked to run"))
    run = moment_field("run_at", gettext_lazy("claimable from"))
    started = moment_field("started_at", gettext_lazy("started"))
    deadline = moment_field("deadline_at", gettext_lazy("deadline"))

    @admin.display(description=gettext_lazy("job"))
    def job(self, obj: Any) -> SafeString:
        return format_html('{}<span class="chokaq-key chokaq-under">{}</span>', obj.type, obj.pk)

    @admin.display(description=gettext_lazy("queue"))
    def place(self, obj: Any) -> SafeString:
        priority = _("priority %(number)d") % {"number": obj.priority}
        return format_html('{}<span class="chokaq-under">{}</span>', obj.queue, priority)

    @admin.display(description=gettext_lazy("attempts"))
    def attempts_used(self, obj: Any) -> str:
        return _("%(used)d of %(most)d") % {"used": obj.attempt, "most": obj.max_attempts}

    # lists ------------------------------------------------------------------------------------------------------------

    def search(self, rows: QuerySet[Any], term: str) -> QuerySet[Any]:
        return search_jobs(rows, term)

    # one job ----------------------------------------------------------------------------------------------------------

    def get_fieldsets(self, request: HttpRequest, obj: Any = None) -> Any:
        fieldsets: Any = super().get_fieldsets(request, obj)
        if request.user.has_perm("chokaq.view_payload"):
            return fieldsets
        return [
            (name, {**options, "fields": tuple(self.secrets.get(field, field) for field in options["fields"])})
            for name, options in fieldsets
        ]

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> list[Any]:
        return flatten_fieldsets(self.get_fieldsets(request, obj))

    def change_view(
        self, request: HttpRequest, object_id: str, form_url: str = "", extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        key = unquote(object_id)
        if self.has_view_permission(request) and self.get_object(request, key) is None:
            place = self.place_of(key)
            if place != request.path:
                if control.get(key) is None:
                    said = _("There is no job with the id %(id)s, here or elsewhere.") % {"id": key}
                    self.message_user(request, said, messages.WARNING)
                else:
                    self.message_user(request, _("The job is no longer where the link said: this is where it is now."))
                return HttpResponseRedirect(place)
        return super().change_view(request, object_id, form_url, extra_context)

    def page_context(self, request: HttpRequest, obj: Any) -> dict[str, Any]:
        return {
            **super().page_context(request, obj),
            "chokaq_attempts": attempts_of(obj.attempt_log),
            "chokaq_errors_shown": request.user.has_perm("chokaq.view_payload"),
            "chokaq_hidden": HIDDEN,
            "chokaq_audit": audit_of(obj.pk),
        }

    def place_of(self, key: str) -> str:
        """The page of the job where it is now; this table's list when it is gone."""
        job = control.get(key)
        if job is None:
            return reverse(f"{self.admin_site.name}:{self.opts.app_label}_{self.opts.model_name}_changelist")
        return reverse(f"{self.admin_site.name}:chokaq_{_PAGES[job.location]}_change", args=[quote(job.id)])


class ActiveJobAdmin(JobAdmin):
    list_display = ("job", "place", "status_text", "attempts_used", "due_age")
    list_filter = (StatusFilter, QueueFilter)
    ordering = ("-id",)
    fieldsets = (
        (None, {"fields": (("queue", "priority"), ("status_text", "progress_text"), "tags_text")}),
        (gettext_lazy("Payload"), {"fields": ("payload_text", "headers_text")}),
        (gettext_lazy("Times"), {"fields": (*_WHEN, ("heartbeat", "updated"))}),
        (gettext_lazy("Work"), {"fields": (*_WORK, "cancel_asked")}),
        (gettext_lazy("Keys and people"), {"fields": _WHO}),
    )
    verbs = (
        Verb(
            "cancel",
            gettext_lazy("Cancel this job"),
            gettext_lazy("Cancel selected %(verbose_name_plural)s"),
            gettext_lazy("Cancelled: %(count)d."),
            "cancel",
            lambda job: job.cancel_requested_at is None,
            lambda keys, user, reason, form: control.cancel(keys, by=user, reason=reason),
            dangerous=True,
        ),
    )

    heartbeat = moment_field("heartbeat_at", gettext_lazy("heartbeat"))
    updated = moment_field("updated_at", gettext_lazy("last change"))

    @admin.display(description=gettext_lazy("status"))
    def status_text(self, obj: Any) -> SafeString:
        label = None
        if obj.status == JobStatus.PENDING and obj.attempt:
            label = _("Retrying")
        elif obj.status == JobStatus.PENDING and obj.run_at > dt.datetime.now(dt.UTC):
            label = _("Scheduled")
        elif obj.status == JobStatus.PROCESSING and obj.progress is not None:
            label = _("Processing %(percent)d %%") % {"percent": obj.progress}
        shown = status_badge(obj.status, label)
        if obj.cancel_requested_at is None:
            return shown
        return format_html("{} {}", shown, badge(_("asked to stop"), "warn"))

    @admin.display(description=gettext_lazy("progress"))
    def progress_text(self, obj: Any) -> Shown:
        if obj.progress is None:
            return EMPTY
        message = obj.progress_message or ""
        return format_html('<progress max="100" value="{}"></progress> {} % {}', obj.progress, obj.progress, message)

    @admin.display(description=gettext_lazy("asked to stop"))
    def cancel_asked(self, obj: Any) -> Shown:
        if obj.cancel_requested_at is None:
            return EMPTY
        return _("by %(who)s") % {"who": obj.cancel_requested_by or _("somebody")}


class ArchivedJobAdmin(JobAdmin):
    list_display = ("job", "place", "ran_for", "waited", "attempts_used", "finished_age")
    list_filter = (PeriodFilter, QueueFilter, TypeFilter)
    ordering = ("-finished_at", "-id")
    period_field = "finished_at"
    secrets = {**JobAdmin.secrets, "result_text": "result_hidden"}
    fieldsets = (
        (None, {"fields": (("queue", "priority"), ("status_text", "ran_for", "waited"), "tags_text")}),
        (gettext_lazy("Payload and result"), {"fields": ("payload_text", "result_text", "headers_text")}),
        (gettext_lazy("Times"), {"fields": (*_WHEN, "finished")}),
        (gettext_lazy("Work"), {"fields": _WORK}),
        (gettext_lazy("Keys and people"), {"fields": _WHO}),
    )

    verbs = (
        Verb(
            "run_again",
            gettext_lazy("Run this job again"),
            gettext_lazy("Run selected %(verbose_name_plural)s again"),
            gettext_lazy("Run again, as new jobs: %(count)d."),
            "resurrect",
            lambda job: True,
            lambda keys, user, reason, form: control.run_again(
                keys, by=user, reason=reason, on_key_conflict=_on_conflict(form)
            ),
            takes_key=True,
        ),
        _PURGE,
    )

    finished_age = age_column("finished_at", gettext_lazy("finished"), ordering="finished_at")
    finished = moment_field("finished_at", gettext_lazy("finished"))
    ran_for = duration_field("duration_ms", gettext_lazy("ran for"))
    waited = duration_field("wait_ms", gettext_lazy("waited"))
    result_text = json_field("result", gettext_lazy("result"))
    result_hidden = hidden_field(gettext_lazy("result"))

    @admin.display(description=gettext_lazy("status"))
    def status_text(self, obj: Any) -> SafeString:
        return status_badge(JobStatus.SUCCEEDED)


class DeadJobAdmin(JobAdmin):
    list_display = ("job", "place", "status_and_reason", "error", "failed_age")
    list_filter = (PeriodFilter, ReasonFilter, QueueFilter, TypeFilter)
    literal_lookups = ("fingerprint",)
    ordering = ("-failed_at", "-id")
    period_field = "failed_at"
    secrets = {**JobAdmin.secrets, "error_text": "error_hidden"}
    fieldsets = (
        (None, {"fields": (("queue", "priority"), ("status_text", "reason"), "tags_text")}),
        (gettext_lazy("Error"), {"fields": (("error_type", "alike"), "error_text")}),
        (gettext_lazy("Payload"), {"fields": ("payload_text", "headers_text")}),
        (gettext_lazy("Times"), {"fields": (*_WHEN, "failed")}),
        (gettext_lazy("Work"), {"fields": _WORK}),
        (gettext_lazy("Keys and people"), {"fields": _WHO}),
    )
    verbs = (
        Verb(
            "resurrect",
            gettext_lazy("Resurrect this job"),
            gettext_lazy("Resurrect selected %(verbose_name_plural)s"),
            gettext_lazy("Resurrected: %(count)d. Pending again, attempts counted afresh."),
            "resurrect",
            lambda job: True,
            lambda keys, user, reason, form: control.resurrect(
                keys, by=user, reason=reason, on_key_conflict=_on_conflict(form)
            ),
            takes_key=True,
        ),
        _PURGE,
    )

    failed_age = age_column("failed_at", gettext_lazy("died"), ordering="failed_at")
    failed = moment_field("failed_at", gettext_lazy("died"))
    error_hidden = hidden_field(gettext_lazy("error"))

    @admin.display(description=gettext_lazy("status"))
    def status_text(self, obj: Any) -> SafeString:
        return status_badge(dead_status(obj.failure_reason))

    @admin.display(description=gettext_lazy("reason"))
    def reason(self, obj: Any) -> str:
        reason = known(FailureReason, obj.failure_reason)
        return reason.label if isinstance(reason, FailureReason) else _("Unknown (%(number)d)") % {"number": reason}

    @admin.display(description=gettext_lazy("status"))
    def status_and_reason(self, obj: Any) -> SafeString:
        return format_html('{}<span class="chokaq-under">{}</span>', self.status_text(obj), self.reason(obj))

    @admin.display(description=gettext_lazy("error"))
    def error(self, obj: Any) -> Shown:
        if not obj.error_type:
            return EMPTY
        return format_html('<span title="{}">{}</span>', obj.error_type, obj.error_type.rpartition(".")[2])

    @admin.display(description=gettext_lazy("error text"))
    def error_text(self, obj: Any) -> Shown:
        return code(obj.error_details)

    @admin.display(description=gettext_lazy("alike"))
    def alike(self, obj: Any) -> Shown:
        if not obj.fingerprint:
            return EMPTY
        address = reverse(f"{self.admin_site.name}:chokaq_jobdlq_changelist")
        return format_html(
            '<a href="{}?{}">{}</a>', address, urlencode({"fingerprint": obj.fingerprint}), _("Jobs that died alike")
        )


class PurgedJobAdmin(JobAdmin):
    list_display = ("job", "place", "status_text", "origin", "purged_age", "expires_age")
    list_filter = (PeriodFilter,)
    ordering = ("-purged_at", "-id")
    period_field = "purged_at"
    search_help_text = gettext_lazy("The beginning of an id (10 characters or more).")
    secrets = {**JobAdmin.secrets, "error_text": "error_hidden", "result_text": "result_hidden"}
    fieldsets = (
        (None, {"fields": (("queue", "priority"), ("status_text", "origin"), "tags_text")}),
        (gettext_lazy("Trash"), {"fields": (("purged", "purged_by"), "expires")}),
        (
            gettext_lazy("Payload, result and error"),
            {"fields": ("payload_text", "result_text", "error_text", "headers_text")},
        ),
        (gettext_lazy("Times"), {"fields": _WHEN}),
        (gettext_lazy("Work"), {"fields": _WORK}),
        (gettext_lazy("Keys and people"), {"fields": _WHO}),
    )
    verbs = (
        Verb(
            "restore",
            gettext_lazy("Restore this job"),
            gettext_lazy("Restore selected %(verbose_name_plural)s"),
            gettext_lazy("Restored: %(count)d. They are where they were, as they were."),
            "purge",
            lambda job: True,
            lambda keys, user, reason, form: control.restore(
                keys, by=user, reason=reason, on_key_conflict=_on_conflict(form)
            ),
            takes_key=True,
        ),
    )

    purged_age = age_column("purged_at", gettext_lazy("purged"), ordering="purged_at")
    expires_age = age_column("expires_at", gettext_lazy("expires"))
    purged = moment_field("purged_at", gettext_lazy("purged"))
    expires = moment_field("expires_at", gettext_lazy("expires"))
    result_text = json_field("result", gettext_lazy("result"))
    result_hidden = hidden_field(gettext_lazy("result"))
    error_hidden = hidden_field(gettext_lazy("error"))

    @admin.display(description=gettext_lazy("status"))
    def status_text(self, obj: Any) -> SafeString:
        return status_badge(status_of(obj))

    @admin.display(description=gettext_lazy("came from"))
    def origin(self, obj: Any) -> str:
        names = {"hot": _("active jobs"), "archive": _("the Archive"), "dlq": _("the DLQ")}
        return names.get(obj.came_from) or str(obj.came_from)

    @admin.display(description=gettext_lazy("error text"))
    def error_text(self, obj: Any) -> Shown:
        return code(obj.error_details)

    def search(self, rows: QuerySet[Any], term: str) -> QuerySet[Any]:
        prefix = term.upper()[:26]
        return rows.filter(pk__gte=prefix, pk__lte=prefix.ljust(26, "Z")) if len(prefix) >= 10 else rows.none()
