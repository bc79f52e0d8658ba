"""Values of options as people write them and read them: ``7 d``, ``1 h 30 min``, ``none``."""

from __future__ import annotations

import math
import re

from ..job.definition import positive_int
from ..job.text import safe_text
from ..sentence import Sentence, stored
from .overridable import Kind

__all__ = ["NONE", "duration_text", "read_value", "show_value"]

NONE = "none"
_UNITS = {"w": 604_800.0, "d": 86_400.0, "h": 3_600.0, "min": 60.0, "s": 1.0, "ms": 0.001}
_NAMES = {"m": "min", "sec": "s", "second": "s", "minute": "min", "hour": "h", "day": "d", "week": "w"}
_PART = re.compile(r"(\d+(?:\.\d+)?)\s*([a-z]*)\s*")
_COUNT = stored("must be a whole number of at least 1, got %(text)s")
_COUNT_OR_NONE = stored("must be a whole number of at least 1, or none, got %(text)s")
_NUMBER = stored("must be a number, got %(text)s")
_TIME = stored("must be a time such as 30 d, 12 h, 90 min or 2.5 s, got %(text)s")
_TIME_OR_NONE = stored("must be a time such as 30 d, 12 h, 90 min or 2.5 s, or none, got %(text)s")
_FINITE = stored("must be a finite time, got %(text)s")
_SHOWN = (("d", 86_400), ("h", 3_600), ("min", 60))


def read_value(kind: Kind, text: str) -> float | int | None:
    """The value that ``text`` means; ``ValueError`` with a message that reads on from the option's name."""
    text = text.strip().lower()
    if kind.endswith("or none") and text == NONE:
        return None
    if kind in ("count", "count or none"):
        try:
            return positive_int(int(text.replace(",", "").replace("_", "")))
        except ValueError:
            raise ValueError(Sentence(_COUNT_OR_NONE if _may_be_none(kind) else _COUNT, text=f"{text!r:.60}")) from None
    if kind == "number":
        try:
            return float(text)
        except ValueError:
            raise ValueError(Sentence(_NUMBER, text=f"{text!r:.60}")) from None
    if kind == "rules" and text == NONE:
        return None
    return _seconds(kind, text)


def _seconds(kind: Kind, text: str) -> float:
    total, end = 0.0, 0
    for match in _PART.finditer(text):
        unit = match[2].removesuffix("s") if len(match[2]) > 2 else match[2]
        size = _UNITS.get(_NAMES.get(unit, unit or ("s" if match[0].strip() == text else "")))
        if match.start() != end or size is None:
            break
        total, end = total + float(match[1]) * size, match.end()
    if not text or end != len(text):
        raise ValueError(Sentence(_TIME_OR_NONE if _may_be_none(kind) else _TIME, text=f"{text!r:.60}"))
    if not math.isfinite(total):
        raise ValueError(Sentence(_FINITE, text=f"{text!r:.60}"))
    return total


def _may_be_none(kind: Kind) -> bool:
    return kind.endswith("or none") or kind == "rules"


def show_value(kind: Kind, value: object) -> str:
    """``value`` so that :func:`read_value` reads the same; what no option can be, but somebody has written into the
    table by hand, as it is."""
    if value is None:
        return NONE
    if not isinstance(value, (int, float)) or isinstance(value, bool) or not _is_finite(value):
        return _as_it_is(value)
    if kind in ("count", "count or none"):
        return f"{value:,}"
    return f"{value:g}" if kind == "number" else duration_text(value)


def _is_finite(value: float) -> bool:
    try:
        return math.isfinite(value)
    except OverflowError:  # an integer beyond any float
        return False


def _as_it_is(value: object) -> str:
    try:
        return safe_text(str(value))
    except RecursionError:
        return "?"


def duration_text(seconds: float) -> str:
    """Seconds to the last digit, in as few units as that takes: ``1 d 30 min``."""
    parts, rest = [], float(seconds)
    for unit, size in _SHOWN:
        count = int(rest // size)
        if count:
            parts.append(f"{count} {unit}")
            rest -= count * size
    if rest or not parts:
        parts.append(f"{rest:.10g} s")
    return " ".join(parts)
