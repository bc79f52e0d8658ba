"""Admin pages of queues, workers and circuits."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from typing import Any, Protocol

from django import forms
from django.contrib import admin
from django.forms import ModelForm
from django.http import HttpRequest
from django.urls import reverse
from django.utils.html import format_html
from django.utils.http import urlencode
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from .. import control
from ..conf import get_options
from ..control import BulkResult, Operator
from ..control.queues import clean_limits
from ..job.envelope import EnvelopeError
from ..models import Circuit, JobHot, JobStatus, Queue
from ..reading.fleet import clock_is_off
from ..sentence import in_words, number
from .base import TableAdmin, Verb
from .columns import age_column, json_field, moment_field, seconds_field, text_column
from .history import audit_of
from .text import EMPTY, badge, clock_words, json_list

__all__ = ["CircuitAdmin", "QueueAdmin", "WorkerAdmin"]

MOST_COUNTED = 1_000


class _OneByOne(Protocol):
    def __call__(self, name: str, /, *, by: Operator, reason: str) -> BulkResult: ...


def _each(verb: _OneByOne) -> Callable[[list[str], Operator, str, Any], BulkResult]:
    """A verb on one queue or worker as a verb on many."""

    def act(keys: list[str], user: Operator, reason: str, form: Any) -> BulkResult:
        answer = BulkResult()
        for key in keys:
            part = verb(key, by=user, reason=reason)
            answer.applied += part.applied
            answer.requested += part.requested
            answer.refused += part.refused
        return answer

    return act


class LimitsForm(ModelForm):  # type: ignore[type-arg]
    """The limits of a queue, checked as ``control.set_queue`` checks them."""

    class Meta:
        model = Queue
        fields = ("max_workers", "execution_timeout", "zombie_timeout")
        labels = {
            "max_workers": gettext_lazy("Max workers"),
            "execution_timeout": gettext_lazy("Execution timeout"),
            "zombie_timeout": gettext_lazy("Zombie timeout"),
        }
        help_texts = {
            "max_workers": gettext_lazy("At most this many of its jobs at once, in the whole fleet. Empty: no limit."),
            "execution_timeout": gettext_lazy("Seconds a job may run. Empty: as its type or the settings say."),
            "zombie_timeout": gettext_lazy(
                "Seconds without a heartbeat after which a running job counts as dead. Empty: as the settings say."
            ),
        }

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or {}
        for name in self.Meta.fields:
            try:
                if name in cleaned:
                    cleaned |= clean_limits(**{name: cleaned[name]})
            except EnvelopeError as error:
                self.add_error(name, forms.ValidationError(in_words(error.message)))
        return cleaned


class QueueAdmin(TableAdmin):
    form = LimitsForm
    list_display = ("name_column", "state", "waiting", "running", "cap", "run_limit", "silence_limit", "changed_age")
    search_fields = ("name",)
    search_help_text = gettext_lazy("The beginning of a name.")
    ordering = ("name",)
    fieldsets = (
        (None, {"fields": (("state", "jobs"), ("waiting", "running"))}),
        (
            gettext_lazy("Limits"),
            {"fields": ("max_workers", "execution_timeout", "zombie_timeout", "window", ("changed", "changed_by"))},
        ),
    )
    verbs = (
        Verb(
            "pause",
            gettext_lazy("Pause this queue"),
            gettext_lazy("Pause selected %(verbose_name_plural)s"),
            gettext_lazy("Paused: %(count)s."),
            "operate",
            lambda queue: not queue.is_paused,
            _each(control.pause_queue),
        ),
        Verb(
            "resume",
            gettext_lazy("Resume this queue"),
            gettext_lazy("Resume selected %(verbose_name_plural)s"),
            gettext_lazy("Resumed: %(count)s."),
            "operate",
            lambda queue: queue.is_paused,
            _each(control.resume_queue),
        ),
        Verb(
            "hide",
            gettext_lazy("Hide this queue"),
            gettext_lazy("Hide selected %(verbose_name_plural)s"),
            gettext_lazy("Hidden: %(count)s."),
            "operate",
            lambda queue: queue.is_active,
            _each(control.hide_queue),
            dangerous=True,
        ),
        Verb(
            "show",
            gettext_lazy("Show this queue again"),
            gettext_lazy("Show selected %(verbose_name_plural)s again"),
            gettext_lazy("Shown again: %(count)s."),
            "operate",
            lambda queue: not queue.is_active,
            _each(control.show_queue),
        ),
    )

    cap = text_column("max_workers", gettext_lazy("at once"))
    run_limit = seconds_field("execution_timeout", gettext_lazy("may run"))
    silence_limit = seconds_field("zombie_timeout", gettext_lazy("may be silent"))
    changed_age = age_column("updated_at", gettext_lazy("limits changed"))
    changed = moment_field("updated_at", gettext_lazy("limits changed"))
    changed_by = text_column("updated_by", gettext_lazy("set by"))

    @admin.display(description=gettext_lazy("queue"), ordering="name")
    def name_column(self, obj: Any) -> str:
        return str(obj.name)

    @admin.display(description=gettext_lazy("state"))
    def state(self, obj: Any) -> SafeString:
        if not obj.is_active:
            return badge(_("Hidden"), "quiet")
        return badge(_("Paused"), "warn") if obj.is_paused else badge(_("Open"), "good")

    @admin.display(description=gettext_lazy("waiting"))
    def waiting(self, obj: Any) -> str:
        return _counted(obj.name, JobStatus.PENDING)

    @admin.display(description=gettext_lazy("running"))
    def running(self, obj: Any) -> str:
        return _counted(obj.name, JobStatus.PROCESSING)

    @admin.display(description=gettext_lazy("jobs"))
    def jobs(self, obj: Any) -> SafeString:
        address = reverse(f"{self.admin_site.name}:chokaq_jobhot_changelist")
        return format_html('<a href="{}?{}">{}</a>', address, urlencode({"queue": obj.name}), _("Its active jobs"))

    @admin.display(description=gettext_lazy("window"))
    def window(self, obj: Any) -> str:
        if obj.window_start is None or obj.window_end is None:
            return _("always")
        return f"{obj.window_start:%H:%M}-{obj.window_end:%H:%M} {obj.window_zone}"

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return self.has_operate_permission(request)

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> tuple[str, ...]:
        return ("state", "jobs", "waiting", "running", "window", "changed", "changed_by")

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:
        limits = {name: form.cleaned_data[name] for name in form.changed_data}
        if limits:
            control.set_queue(obj.name, by=request.user, **limits)

    def page_context(self, request: HttpRequest, obj: Any) -> dict[str, Any]:
        return {**super().page_context(request, obj), "chokaq_audit": audit_of(obj.pk)}


def _counted(queue: str, status: JobStatus) -> str:
    """Rows of one queue in one status, counted no further than 1,000: an index serves it, whatever else is there."""
    rows = JobHot.objects.using(get_options().database).filter(status=status, queue=queue)
    count = rows.values("pk")[: MOST_COUNTED + 1].count()
    return f"{number(MOST_COUNTED)}+" if count > MOST_COUNTED else number(count)


_WORKER_STATES = {"running": gettext_lazy("Running"), "draining": gettext_lazy("Draining")}


class WorkerAdmin(TableAdmin):
    search_fields = ("host",)
    search_help_text = gettext_lazy("The beginning of a host's name.")
    list_display = ("place", "state_text", "queue_names", "load", "buffered_column", "memory", "counts", "seen")
    ordering = ("host", "pid")
    fieldsets = (
        (None, {"fields": (("state_text", "seen_at"), ("host", "pid", "version"), "clock", "queue_names")}),
        (gettext_lazy("Load"), {"fields": (("load", "buffered", "memory"), ("concurrency", "async_concurrency"))}),
        (gettext_lazy("Since its start"), {"fields": (("started", "succeeded", "failed"), ("retried", "conflicts"))}),
    )
    verbs = (
        Verb(
            "stop",
            gettext_lazy("Ask this worker to stop"),
            gettext_lazy("Ask selected %(verbose_name_plural)s to stop"),
            gettext_lazy("Stopped: %(count)s."),
            "operate",
            lambda worker: not worker.stop_requested,
            _each(control.stop_worker),
            dangerous=True,
        ),
        Verb(
            "drain",
            gettext_lazy("Let this worker claim nothing more"),
            gettext_lazy("Drain selected %(verbose_name_plural)s"),
            gettext_lazy("Drained: %(count)s."),
            "operate",
            lambda worker: worker.desired_concurrency != 0 and not worker.stop_requested,
            _each(control.drain_worker),
        ),
    )

    buffered_column = text_column("buffered", gettext_lazy("buffered"))
    seen = age_column("last_seen", gettext_lazy("last seen"))
    seen_at = moment_field("last_seen", gettext_lazy("last seen"))
    started = moment_field("started_at", gettext_lazy("started"))

    @admin.display(description=gettext_lazy("worker"), ordering="host")
    def place(self, obj: Any) -> SafeString:
        return format_html('{}:{}<span class="chokaq-key chokaq-under">{}</span>', obj.host, obj.pid, obj.pk)

    @admin.display(description=gettext_lazy("state"))
    def state_text(self, obj: Any) -> SafeString:
        silence = dt.datetime.now(dt.UTC) - obj.last_seen
        if silence > dt.timedelta(seconds=get_options().recovery.worker_timeout):
            return badge(_("Silent"), "bad")
        if obj.stop_requested:
            return badge(_("Asked to stop"), "warn")
        return badge(_WORKER_STATES.get(obj.state, obj.state), "good" if obj.state == "running" else "warn")

    @admin.display(description=gettext_lazy("queues"))
    def queue_names(self, obj: Any) -> str:
        return ", ".join(json_list(obj.queues)) or _("all")

    @admin.display(description=gettext_lazy("busy"))
    def load(self, obj: Any) -> str:
        return _("%(busy)s of %(slots)s") % {
            "busy": number(obj.busy),
            "slots": number(obj.concurrency + obj.async_concurrency),
        }

    @admin.display(description=gettext_lazy("memory"))
    def memory(self, obj: Any) -> str:
        return EMPTY if obj.rss_mb is None else f"{number(obj.rss_mb, 0)} MB"

    @admin.display(description=gettext_lazy("clock"))
    def clock(self, obj: Any) -> SafeString | str:
        if obj.clock_offset is None:
            return EMPTY
        said = clock_words(obj.clock_offset, obj.clock_doubt or 0.0)
        return badge(said, "warn") if clock_is_off(obj) else said

    @admin.display(description=gettext_lazy("done / dead / retried"))
    def counts(self, obj: Any) -> str:
        return " / ".join(number(count) for count in (obj.succeeded, obj.failed, obj.retried))


class CircuitAdmin(TableAdmin):
    list_display = ("type_column", "state_text", "failures_column", "probe_age", "forced_text", "changed_age")
    search_fields = ("type",)
    search_help_text = gettext_lazy("The beginning of a type.")
    ordering = ("type",)
    fieldsets = (
        (None, {"fields": (("state_text", "forced_text"), "type", ("failures", "probe_successes"))}),
        (gettext_lazy("Times"), {"fields": (("counting", "opened"), "probe_at", ("changed", "changed_by"))}),
        (gettext_lazy("Probes"), {"fields": ("probes_text",)}),
    )
    verbs = (
        Verb(
            "open",
            gettext_lazy("Open this circuit"),
            gettext_lazy("Open selected %(verbose_name_plural)s"),
            gettext_lazy("Opened, until an operator closes them: %(count)s."),
            "operate",
            lambda circuit: not circuit.forced,
            _each(control.open_circuit),
            dangerous=True,
        ),
        Verb(
            "close",
            gettext_lazy("Close this circuit"),
            gettext_lazy("Close selected %(verbose_name_plural)s"),
            gettext_lazy("Closed: %(count)s."),
            "operate",
            lambda circuit: circuit.state != Circuit.CLOSED,
            _each(control.close_circuit),
        ),
        Verb(
            "reset",
            gettext_lazy("Forget its failures"),
            gettext_lazy("Reset selected %(verbose_name_plural)s"),
            gettext_lazy("Reset: %(count)s."),
            "operate",
            lambda circuit: circuit.state == Circuit.CLOSED and circuit.failures > 0,
            _each(control.reset_circuit),
        ),
    )

    failures_column = text_column("failures", gettext_lazy("failures"))
    probe_age = age_column("open_until", gettext_lazy("probed from"))
    probe_at = moment_field("open_until", gettext_lazy("probed from"))
    counting = moment_field("window_started_at", gettext_lazy("counting since"))
    opened = moment_field("opened_at", gettext_lazy("opened"))
    changed_age = age_column("updated_at", gettext_lazy("changed"))
    changed = moment_field("updated_at", gettext_lazy("changed"))
    changed_by = text_column("updated_by", gettext_lazy("changed by"))
    probes_text = json_field("probes", gettext_lazy("running probes"))

    @admin.display(description=gettext_lazy("type"), ordering="type")
    def type_column(self, obj: Any) -> str:
        return str(obj.type)

    @admin.display(description=gettext_lazy("state"))
    def state_text(self, obj: Any) -> SafeString:
        tones = {Circuit.CLOSED: "good", Circuit.OPEN: "bad", Circuit.HALF_OPEN: "warn"}
        return badge(obj.get_state_display(), tones.get(obj.state, "quiet"))

    @admin.display(description=gettext_lazy("forced"))
    def forced_text(self, obj: Any) -> str:
        return _("by an operator") if obj.forced else EMPTY
