"""What lists and pages show: times, states and texts as HTML.

Everything that comes from a job is untrusted and goes through ``format_html``.
"""

from __future__ import annotations

import datetime as dt
import json

import msgspec
from django.utils import timezone
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _

from ..job.failures import safe_text

__all__ = [
    "EMPTY",
    "badge",
    "code",
    "duration",
    "json_list",
    "moment",
    "pretty_json",
    "short_moment",
    "shown",
    "timedelta_text",
]

EMPTY = "-"
SHOWN_CHARACTERS = 100_000
_UNITS = ((86_400, "d"), (3_600, "h"), (60, "min"), (1, "s"))


def badge(label: object, tone: str) -> SafeString:
    """A state as text with an accent: ``tone`` is one of quiet, info, good, warn, bad."""
    return format_html('<span class="chokaq-badge chokaq-{}">{}</span>', tone, label)


def timedelta_text(seconds: float) -> str:
    """``seconds`` with at most two units, such as "3 h 20 min"."""
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    parts: list[str] = []
    rest = round(seconds)
    for size, unit in _UNITS:
        count, rest = divmod(rest, size)
        if count:
            parts.append(f"{count} {unit}")
        elif parts:
            break
        if len(parts) == 2:
            break
    return " ".join(parts)


def duration(milliseconds: int | None) -> str:
    """A measured time."""
    if milliseconds is None:
        return EMPTY
    if abs(milliseconds) >= 2**63:
        return EMPTY  # no column holds it: somebody's text in an attempt log
    return f"{milliseconds / 1000:.2f} s" if 1_000 <= milliseconds < 10_000 else timedelta_text(milliseconds / 1000)


def _relative(value: dt.datetime) -> str:
    seconds = (dt.datetime.now(dt.UTC) - value).total_seconds()
    if abs(seconds) < 1:
        return _("now")
    size, unit = next((size, unit) for size, unit in _UNITS if abs(seconds) >= size)
    amount = f"{abs(seconds) / size:.0f} {unit}"
    return _("%(time)s ago") % {"time": amount} if seconds > 0 else _("in %(time)s") % {"time": amount}


def _absolute(value: dt.datetime) -> str:
    try:
        local = timezone.localtime(value)
    except OverflowError:  # within a day of the year 9999's end
        local = value
    zone, name = local.tzname() or "", timezone.get_current_timezone_name()
    text = f"{local:%Y-%m-%d %H:%M:%S}.{local.microsecond // 1000:03d} {zone}"
    return text if zone == name else f"{text} ({name})"


def short_moment(value: dt.datetime | None) -> SafeString | str:
    """How long ago; the absolute time, with its zone, is in the title."""
    if value is None:
        return EMPTY
    return format_html(
        '<time datetime="{}" title="{}">{}</time>', value.isoformat(), _absolute(value), _relative(value)
    )


def moment(value: dt.datetime | None) -> SafeString | str:
    """The absolute time with its zone, and how long ago that is."""
    if value is None:
        return EMPTY
    return format_html(
        '<time datetime="{}">{}</time> <span class="chokaq-quiet">{}</span>',
        value.isoformat(),
        _absolute(value),
        _relative(value),
    )


def code(text: str | None) -> SafeString | str:
    """Untrusted text in a block of its own, cut where it is too long to show."""
    if not text:
        return EMPTY
    if len(text) > SHOWN_CHARACTERS:
        note = _("The first %(shown)s of %(all)s characters are shown.") % {
            "shown": f"{SHOWN_CHARACTERS:,}",
            "all": f"{len(text):,}",
        }
        return format_html(
            '<pre class="chokaq-code" tabindex="0">{}</pre><p class="help">{}</p>', text[:SHOWN_CHARACTERS], note
        )
    return format_html('<pre class="chokaq-code" tabindex="0">{}</pre>', text)


def pretty_json(text: str | None) -> SafeString | str:
    """JSON text indented. Digits stay as they are: nothing is read into numbers."""
    if not text:
        return EMPTY
    try:
        return code(msgspec.json.format(text, indent=2))
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        return code(text)


def json_list(text: str) -> list[str]:
    """The strings of a stored JSON list; an empty list for anything else."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return []
    return [shown(item) for item in value] if isinstance(value, list) else []


def shown(value: object) -> str:
    """A value out of stored JSON as text that a page can hold: JSON may spell lone surrogates, UTF-8 may not."""
    try:
        return safe_text(str(value))
    except RecursionError:
        return EMPTY
