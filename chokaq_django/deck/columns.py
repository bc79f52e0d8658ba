"""Columns and fields that several tables show alike, as methods for model admins."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from typing import Any

from django.contrib import admin
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from ..models import JobStatus
from ..reading.job import known
from ..sentence import number, percent, span
from .text import EMPTY, badge, duration, moment, pretty_json, short_moment

__all__ = [
    "HIDDEN",
    "age_column",
    "duration_field",
    "json_field",
    "key_column",
    "moment_field",
    "seconds_field",
    "state_badge",
    "status_badge",
    "text_column",
]

Shown = SafeString | str
Field = Callable[[Any, Any], Shown]

HIDDEN = gettext_lazy("Hidden: seeing it needs the permission “Can see payloads, results and error texts”.")

_TONES = {
    JobStatus.PENDING: "info",
    JobStatus.FETCHED: "info",
    JobStatus.PROCESSING: "warn",
    JobStatus.SUCCEEDED: "good",
    JobStatus.FAILED: "bad",
    JobStatus.CANCELLED: "quiet",
    JobStatus.ZOMBIE: "bad",
    JobStatus.AWAITING: "quiet",
    JobStatus.EXPIRED: "quiet",
}


def status_badge(status: int, label: object = None) -> SafeString:
    """A job's status as a badge; ``label`` says it more precisely."""
    name = known(JobStatus, status)
    if not isinstance(name, JobStatus):
        return badge(_("Unknown (%(number)d)") % {"number": status}, "bad")
    return badge(name.label if label is None else label, _TONES[name])


def state_badge(job: Any) -> SafeString:
    """The status of a row or view of a job: scheduled and retrying told from pending, how far a running one is, and
    whether it was asked to stop."""
    label = None
    if job.status == JobStatus.PENDING and job.attempt:
        label = _("Retrying")
    elif job.status == JobStatus.PENDING and job.run_at > dt.datetime.now(dt.UTC):
        label = _("Scheduled")
    elif job.status == JobStatus.PROCESSING and job.progress is not None:
        label = _("Processing %(share)s") % {"share": percent(job.progress / 100)}
    shown = status_badge(job.status, label)
    if getattr(job, "cancel_requested_at", None) is None:
        return shown
    return format_html("{} {}", shown, badge(_("asked to stop"), "warn"))


def text_column(name: str, label: Any) -> Field:
    """A column as it is stored, which a list cannot be sorted by: no index would serve the order."""

    @admin.display(description=label, empty_value=EMPTY)
    def column(self: Any, obj: Any) -> Any:
        value = getattr(obj, name)
        if isinstance(value, int) and not isinstance(value, bool):
            return number(value)
        return EMPTY if value is None else value

    return column


def age_column(name: str, label: Any) -> Field:
    """A time as an age, for lists."""

    @admin.display(description=label)
    def column(self: Any, obj: Any) -> Shown:
        return short_moment(getattr(obj, name))

    return column


def moment_field(name: str, label: Any) -> Field:
    """A time in full, for pages."""

    @admin.display(description=label)
    def field(self: Any, obj: Any) -> Shown:
        return moment(getattr(obj, name))

    return field


def duration_field(name: str, label: Any) -> Field:
    """Milliseconds as a duration."""

    @admin.display(description=label)
    def field(self: Any, obj: Any) -> Shown:
        return duration(getattr(obj, name))

    return field


def seconds_field(name: str, label: Any) -> Field:
    """Seconds as a duration; none means that the settings decide."""

    @admin.display(description=label)
    def field(self: Any, obj: Any) -> Shown:
        value = getattr(obj, name)
        return _("default") if value is None else span(value)

    return field


def key_column(name: str, label: Any) -> Field:
    """An id or key, in letters of one width."""

    @admin.display(description=label)
    def column(self: Any, obj: Any) -> Shown:
        value = getattr(obj, name)
        return format_html('<span class="chokaq-key">{}</span>', value) if value else EMPTY

    return column


def json_field(name: str, label: Any) -> Field:
    """Stored JSON, indented; a page that shows all of a long one sets ``all_at`` on the row (:func:`whole_at`)."""

    @admin.display(description=label)
    def field(self: Any, obj: Any) -> Shown:
        return pretty_json(getattr(obj, name), getattr(obj, "all_at", ""))

    return field
