"""What lists and pages show: times, states and texts as HTML.

Everything that comes from a job is untrusted and goes through ``format_html``.
"""

from __future__ import annotations

import datetime as dt
import json
from typing import Any

import msgspec
from django.http import HttpRequest
from django.utils import timezone
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from ..job.envelope import EnvelopeError
from ..job.text import safe_text
from ..models.fields import FIRST, LAST
from ..sentence import in_words, number, span

__all__ = [
    "EMPTY",
    "STATUS_WORDS",
    "absolute",
    "badge",
    "clock_words",
    "code",
    "duration",
    "exact_moment",
    "json_list",
    "moment",
    "page_text",
    "pretty_json",
    "short_moment",
    "shortened",
    "whole_at",
    "wrong",
]

EMPTY = "–"
SHOWN_CHARACTERS = 20_000
"""Of a text in a block of its own, until somebody asks for all of it."""
_SIZES = (86_400, 3_600, 60, 1)


STATUS_WORDS: dict[str, Any] = {
    "active": gettext_lazy("active"), "pending": gettext_lazy("pending"), "due": gettext_lazy("due"),
    "scheduled": gettext_lazy("scheduled"), "retrying": gettext_lazy("retrying"), "fetched": gettext_lazy("fetched"),
    "processing": gettext_lazy("processing"), "awaiting": gettext_lazy("awaiting"),
    "succeeded": gettext_lazy("succeeded"), "dead": gettext_lazy("dead"), "failed": gettext_lazy("failed"),
    "cancelled": gettext_lazy("cancelled"), "zombie": gettext_lazy("zombie"), "expired": gettext_lazy("expired"),
    "purged": gettext_lazy("purged"), "interrupted": gettext_lazy("interrupted"), "snoozed": gettext_lazy("snoozed"),
}  # fmt: skip
"""What statuses of a filter, and outcomes of an attempt, are called. The names in addresses and commands stay."""


def badge(label: object, tone: str) -> SafeString:
    """A state as text with an accent: ``tone`` is one of quiet, info, good, warn, bad."""
    return format_html('<span class="chokaq-badge chokaq-{}">{}</span>', tone, label)


def clock_words(offset: float, doubt: float) -> str:
    """How far the clock of a worker's machine is from the database's, and how sure that is; both in seconds."""
    said = {"time": span(abs(offset)), "doubt": span(doubt)}
    if offset > 0:
        return _("%(time)s ahead of the database's, ± %(doubt)s") % said
    return _("%(time)s behind the database's, ± %(doubt)s") % said


def duration(milliseconds: int | None) -> str:
    """A measured time."""
    if milliseconds is None:
        return EMPTY
    if abs(milliseconds) >= 2**63:
        return EMPTY  # no column holds it: somebody's text in an attempt log
    if 1_000 <= milliseconds < 10_000:
        return _("%(count)s s") % {"count": number(milliseconds / 1000, 2)}
    return span(milliseconds / 1000)


def _relative(value: dt.datetime) -> str:
    seconds = (dt.datetime.now(dt.UTC) - value).total_seconds()
    if abs(seconds) < 1:
        return _("now")
    size = next(size for size in _SIZES if abs(seconds) >= size)
    amount = span(size * round(abs(seconds) / size))
    return _("%(time)s ago") % {"time": amount} if seconds > 0 else _("in %(time)s") % {"time": amount}


def wrong(error: Exception) -> str:
    """What was wrong with what somebody has asked for."""
    return f"{error.field} {in_words(error.message)}" if isinstance(error, EnvelopeError) else in_words(str(error))


def _impossible(value: dt.datetime) -> SafeString | str:
    """A time that no program can count, which somebody wrote by hand, as a mark; empty for any other."""
    if value not in (FIRST, LAST):
        return ""
    words = _("after the year 9999") if value == LAST else _("before the year 1")
    return format_html('<span class="chokaq-badge chokaq-warn" title="{}">{}</span>', _(
        "This time was not written by ChokaQ: no program can count with it."), words)  # fmt: skip


def absolute(value: dt.datetime) -> str:
    try:
        local = timezone.localtime(value)
    except OverflowError:  # within a day of the year 9999's end
        local = value
    zone, name = local.tzname() or "", timezone.get_current_timezone_name()
    text = f"{local:%Y-%m-%d %H:%M:%S}.{local.microsecond // 1000:03d} {zone}"
    return text if zone == name else f"{text} ({name})"


def short_moment(value: dt.datetime | None) -> SafeString | str:
    """How long ago, which the page's script keeps right; the absolute time, with its zone, is in the title."""
    if value is None:
        return EMPTY
    pattern = '<time datetime="{}" title="{}" data-age>{}</time>'
    return _impossible(value) or format_html(pattern, value.isoformat(), absolute(value), _relative(value))


def exact_moment(value: dt.datetime | None) -> SafeString | str:
    """The absolute time with its zone, which the page turns into the viewer's."""
    if value is None:
        return EMPTY
    pattern = '<time datetime="{}">{}</time>'
    return _impossible(value) or format_html(pattern, value.isoformat(), absolute(value))


def moment(value: dt.datetime | None) -> SafeString | str:
    """The absolute time with its zone, and how long ago that is."""
    if value is None:
        return EMPTY
    return _impossible(value) or format_html(
        '{} <span class="chokaq-quiet">{}</span>', exact_moment(value), _relative(value)
    )


def whole_at(request: HttpRequest, part: str) -> str | None:
    """Where all of a long text of a page is shown, ``part`` being its name there; None where that is asked for."""
    if request.GET.get("whole") == part:
        return None
    query = request.GET.copy()
    query["whole"] = part
    return f"?{query.urlencode()}#{part}"


def code(text: str | None, all_at: str | None = "") -> SafeString | str:
    """Untrusted text in a block of its own: the beginning of a long one, and a link to ``all_at``, where there is all
    of it (:func:`whole_at`). None: all of it is shown here."""
    if not text:
        return EMPTY
    block = '<pre class="chokaq-code" tabindex="0">{}</pre>'
    if all_at is None or len(text) <= SHOWN_CHARACTERS:
        return format_html(block, text)
    note = _("The first %(shown)s of %(all)s characters are shown.") % {
        "shown": number(SHOWN_CHARACTERS),
        "all": number(len(text)),
    }
    link = format_html(' <a href="{}">{}</a>', all_at, _("Show all of it")) if all_at else ""
    return format_html(block + '<p class="help">{}{}</p>', text[:SHOWN_CHARACTERS], note, link)


def shortened(text: str, most: int) -> str:
    """The beginning of a text that is longer, and how long it is."""
    if len(text) <= most:
        return text
    return _("%(beginning)s… (%(all)s characters)") % {"beginning": text[:most], "all": number(len(text))}


def pretty_json(text: str | None, all_at: str | None = "") -> SafeString | str:
    """JSON text indented. Digits stay as they are: nothing is read into numbers."""
    if not text:
        return EMPTY
    try:
        return code(msgspec.json.format(text, indent=2), all_at)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        return code(text, all_at)


def json_list(text: str) -> list[str]:
    """The strings of a stored JSON list; an empty list for anything else."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return []
    return [page_text(item) for item in value] if isinstance(value, list) else []


def page_text(value: object) -> str:
    """A value out of stored JSON as text that a page can hold: JSON may spell lone surrogates, UTF-8 may not."""
    try:
        return safe_text(str(value))
    except RecursionError:
        return EMPTY
