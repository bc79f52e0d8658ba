"""Columns and fields that several tables show alike, as methods for model admins."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.contrib import admin
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from ..control.view import known
from ..models import JobStatus
from .text import EMPTY, badge, duration, json_list, moment, pretty_json, short_moment, timedelta_text

__all__ = [
    "HIDDEN",
    "age_column",
    "duration_field",
    "hidden_field",
    "json_field",
    "key_column",
    "moment_field",
    "seconds_field",
    "status_badge",
    "tags_field",
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


def text_column(name: str, label: Any) -> Field:
    """A column as it is stored, which a list cannot be sorted by: no index would serve the order."""

    @admin.display(description=label, empty_value=EMPTY)
    def column(self: Any, obj: Any) -> Any:
        return getattr(obj, name)

    return column


def age_column(name: str, label: Any, *, ordering: str | None = None) -> Field:
    """A time as an age, for lists; ``ordering``: the column with an index that sorts alike."""

    @admin.display(description=label, ordering=ordering)
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
        return _("default") if value is None else timedelta_text(value)

    return field


def key_column(name: str, label: Any) -> Field:
    """An id or key, in letters of one width."""

    @admin.display(description=label)
    def column(self: Any, obj: Any) -> Shown:
        value = getattr(obj, name)
        return format_html('<span class="chokaq-key">{}</span>', value) if value else EMPTY

    return column


def json_field(name: str, label: Any) -> Field:
    """Stored JSON, indented."""

    @admin.display(description=label)
    def field(self: Any, obj: Any) -> Shown:
        return pretty_json(getattr(obj, name))

    return field


def hidden_field(label: Any) -> Field:
    """What stands in for a text that this user may not see."""

    @admin.display(description=label)
    def field(self: Any, obj: Any) -> Shown:
        return format_html('<span class="chokaq-quiet">{}</span>', HIDDEN)

    return field


@admin.display(description=gettext_lazy("tags"))
def tags_field(self: Any, obj: Any) -> Shown:
    """The tags of a job, each in a frame."""
    tags = json_list(obj.tags)
    return format_html_join(" ", '<span class="chokaq-tag">{}</span>', ((tag,) for tag in tags)) or EMPTY
