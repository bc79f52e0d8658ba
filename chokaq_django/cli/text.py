"""Text for a terminal: untrusted strings made harmless, widths, times and numbers."""

from __future__ import annotations

import datetime as dt
import unicodedata

from django.utils import timezone

from ..observability.harmless import MORE, block, one_line
from ..reading.documents import instant

__all__ = [
    "age", "at_least", "block", "brief", "brief_age", "clip", "duration", "instant", "moment", "number", "one_line",
    "pad", "percent", "since", "width",
]  # fmt: skip

NOTHING = "-"
_UNITS = ((86_400, "d"), (3_600, "h"), (60, "min"), (1, "s"))


def width(text: str) -> int:
    """Columns that ``text`` takes in a terminal."""
    return len(text) if text.isascii() else sum(map(_columns, text))


def _columns(character: str) -> int:
    if unicodedata.combining(character) or unicodedata.category(character) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def clip(text: str, columns: int) -> str:
    """``text`` in at most ``columns`` columns, with a mark where it is cut."""
    if width(text) <= columns:
        return text
    kept, used = [], 0
    for character in text:
        used += _columns(character)
        if used > columns - 1:
            break
        kept.append(character)
    return "".join(kept) + MORE


def pad(text: str, columns: int, *, right: bool = False) -> str:
    """``text`` filled up with blanks to ``columns``."""
    blanks = " " * max(0, columns - width(text))
    return blanks + text if right else text + blanks


# -- numbers -----------------------------------------------------------------------------------------------------------


def number(value: float | None) -> str:
    """A count, with commas."""
    return NOTHING if value is None else f"{value:,.0f}"


def at_least(value: int, capped: bool) -> str:
    """A count that may have stopped at its limit."""
    return f"{value:,}+" if capped else f"{value:,}"


def percent(part: float, whole: float) -> str:
    return NOTHING if not whole else f"{100 * part / whole:.1f} %"


# -- times -------------------------------------------------------------------------------------------------------------


def duration(seconds: float | None) -> str:
    """A span with at most two units, such as ``3 h 20 min``."""
    if seconds is None:
        return NOTHING
    if seconds < 1:
        return f"{max(seconds, 0) * 1000:.0f} ms"
    if seconds < 10:
        return f"{seconds:.1f} s"
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


def brief(seconds: float) -> str:
    """A span in one unit, as short as can be: ``45s``, ``3h``, ``12d``."""
    size, unit = next(((size, unit) for size, unit in _UNITS if seconds >= size), (1, "s"))
    return f"{seconds / size:.0f}{unit[0]}"


def brief_age(value: dt.datetime | None, now: dt.datetime) -> str:
    """How long ago, for tables: ``5m ago``, ``in 2h``."""
    if value is None:
        return NOTHING
    seconds = (now - value).total_seconds()
    if abs(seconds) < 1:
        return "now"
    return f"{brief(seconds)} ago" if seconds > 0 else f"in {brief(-seconds)}"


def age(value: dt.datetime | None, now: dt.datetime) -> str:
    """How long ago, in one unit: ``5 min ago``, ``in 2 h``."""
    if value is None:
        return NOTHING
    seconds = (now - value).total_seconds()
    if abs(seconds) < 1:
        return "now"
    size, unit = next((size, unit) for size, unit in _UNITS if abs(seconds) >= size)
    amount = f"{abs(seconds) / size:.0f} {unit}"
    return f"{amount} ago" if seconds > 0 else f"in {amount}"


def since(value: dt.datetime | None, now: dt.datetime) -> float | None:
    """Seconds from ``value`` to ``now``, not below zero."""
    return None if value is None else max(0.0, (now - value).total_seconds())


def moment(value: dt.datetime | None, now: dt.datetime) -> str:
    """A time in the project's zone, with the zone, and how long ago."""
    if value is None:
        return NOTHING
    try:
        local = value.astimezone(timezone.get_default_timezone())
    except OverflowError:  # within a day of the year 9999's end
        local = value
    return f"{local:%Y-%m-%d %H:%M:%S} {local.tzname()} ({age(value, now)})"
