"""One queue: its figures and charts, its limits, its switches, and who changed them."""

from __future__ import annotations

import datetime as dt
from typing import Any

from django import forms
from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseBase, HttpResponseRedirect
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from ... import control
from ...conf import get_options, project_options
from ...job.envelope import EnvelopeError
from ...models import AuditEntry, Queue
from ...reading.acts import last_act
from ...reading.queue_limits import OtherLimits, beside_settings
from ...sentence import in_words
from ..history import audit_of
from ..page import tell
from .queues import Switches

__all__ = ["QueuePage"]

NAME_LIMIT = 255
PAUSED, HIDDEN = "pause_queue", "hide_queue"
"""How the audit calls these acts."""
LIMITS = ("max_workers", "execution_timeout", "zombie_timeout", "window")


class LimitsForm(forms.Form):
    """The limits of a queue; ``control.set_queue`` decides what they may be."""

    max_workers = forms.IntegerField(
        label=gettext_lazy("Jobs at once"),
        required=False,
        help_text=gettext_lazy("In the whole fleet. Empty: no limit."),
    )
    execution_timeout = forms.FloatField(
        label=gettext_lazy("A job may run, in seconds"),
        required=False,
        help_text=gettext_lazy("Empty: as its type or the settings say."),
    )
    zombie_timeout = forms.FloatField(
        label=gettext_lazy("A job may be silent, in seconds"),
        required=False,
        help_text=gettext_lazy("Without a heartbeat for longer it counts as dead. Empty: as the settings say."),
    )
    window = forms.CharField(
        label=gettext_lazy("Window in which jobs may start"),
        required=False,
        max_length=100,
        help_text=gettext_lazy("Such as 22:00-06:00 Europe/Berlin. Empty: always."),
    )
    reason = forms.CharField(
        label=gettext_lazy("Reason"),
        required=False,
        max_length=500,
        help_text=gettext_lazy("Optional; kept in the audit."),
    )

    def changes(self) -> dict[str, Any]:
        """The limits that are to be others than they were; None takes a limit off. An empty text is no window."""
        cleaned = self.cleaned_data
        return {name: None if cleaned[name] == "" else cleaned[name] for name in LIMITS if name in self.changed_data}


class QueuePage(Switches):
    name = "queue"
    section = "queues"
    route = "queue/"
    title = gettext_lazy("Queue")
    template_name = "chokaq/deck/queue.html"
    script = "chokaq/deck/queue.js"

    def get(self, request: HttpRequest, **kwargs: Any) -> HttpResponseBase:
        if not self.meant():
            return HttpResponseRedirect(self.url("queues"))
        return self.page(LimitsForm(initial=self.limits()))

    def meant(self) -> str:
        name = self.request.GET.get("name", "")
        if "\x00" in name or len(name) > NAME_LIMIT:  # no engine stores it
            raise Http404
        return name

    def page(self, form: LimitsForm, status: int = 200) -> HttpResponse:
        name, row, audit = self.meant(), self.row(), audit_of(self.meant())
        return self.render(
            status,
            title=name,
            row=row,
            held=_held_by(row),
            own=None if row is None else _own_limits(beside_settings(row, project_options()), form),
            form=form,
            fields=[form[field] for field in form.fields],
            audit=audit,
            deck_topics=[f"queue:{name}"],
            may_operate=self.request.user.has_perm("chokaq.operate"),
        )

    def config(self) -> dict[str, Any]:
        return {**super().config(), "queue": self.meant()}

    def row(self) -> Queue | None:
        return Queue.objects.using(get_options().database).filter(pk=self.meant()).first()

    def limits(self) -> dict[str, Any]:
        """What holds now: the queue's row, or what its first change would make of the settings."""
        row, seed = self.row(), get_options().queues.get(self.meant())
        if row is not None:
            window = _window_text(row.window_start, row.window_end, row.window_zone)
        else:
            window = _window_text(*seed.window) if seed and seed.window else ""
        return {name: getattr(row or seed, name, None) for name in LIMITS[:-1]} | {"window": window}

    def act_reset(self, request: HttpRequest) -> None:
        self._turn(control.reset_queue, _("It follows the settings again: %(name)s."))

    def act_limits(self, request: HttpRequest) -> HttpResponse | None:
        form = LimitsForm(request.POST, initial=self.limits())
        if not form.is_valid():
            return self.page(form, status=422)
        changes = form.changes()
        if not changes:
            messages.info(request, _("Nothing was changed: these are its limits already."))
            return None
        try:
            answer = control.set_queue(self.meant(), by=request.user, reason=form.cleaned_data["reason"], **changes)
        except EnvelopeError as error:
            form.add_error(error.field if error.field in form.fields else None, in_words(error.message))
            return self.page(form, status=422)
        tell(request, answer, _("The new limits hold; workers take them up within seconds."))
        return None


def _own_limits(found: OtherLimits, form: LimitsForm) -> dict[str, Any] | None:
    """Whose the limits are, and what the settings say otherwise; None where these are followed."""
    options = found.options()
    if found.by is None and not options:
        return None
    said = {name: getattr(found.said, name) for name in options}
    if said.get("window"):
        said["window"] = _window_text(*said["window"])
    return {"by": found.by, "at": found.at, "said": [(form[name].label, value) for name, value in said.items()]}


def _held_by(row: Queue | None) -> AuditEntry | None:
    """The act by which the queue is paused or hidden now, if the audit still has it."""
    if row is None or (row.is_active and not row.is_paused):
        return None
    return last_act(row.name, PAUSED if row.is_active else HIDDEN)


def _window_text(start: dt.time | None, end: dt.time | None, zone: str | None) -> str:
    return "" if start is None or end is None else f"{start:%H:%M}-{end:%H:%M} {zone}"
