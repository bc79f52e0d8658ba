"""What is said to people in their own language: numbers, spans, and sentences that are read elsewhere than they are
made.

A health finding is made once for all browsers, the reason of a refusal may be stored by a worker: who will read it, and
in which language, is not known there. A :class:`Sentence` is its English text and keeps what it was made of.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from django.utils import formats
from django.utils.translation import gettext as _

__all__ = ["Sentence", "in_words", "number", "percent", "recovered", "shown", "span", "stored"]

Value = str | int | float
_SIZES = (86_400, 3_600, 60, 1)


def shown(value: object, most: int = 80) -> str:
    """A value that somebody gave, as a message about it has it: the beginning of how Python writes it. Some cannot be
    written: an object may refuse to, an integer may have too many digits."""
    try:
        return f"{value!r:.{most}}"
    except Exception:  # noqa: BLE001 - whatever it is, the message about it is to be heard
        return f"{type(value).__name__}"


def number(value: float, decimals: int | None = None) -> str:
    """A number as the active language writes it, with its mark between thousands."""
    return str(formats.number_format(value, decimals, use_l10n=True, force_grouping=True))


def percent(share: float) -> str:
    """A share, such as 0.125, in per cent as the active language writes it, with a tenth where there is one."""
    value = round(100 * share, 1)
    return _("%(number)s%%") % {"number": number(value, 0 if value.is_integer() else 1)}


def span(seconds: float) -> str:
    """``seconds`` with at most two units, such as "3 h 20 min", in the active language."""
    return _span(seconds, number, {
        86_400: _("%(count)s d"), 3_600: _("%(count)s h"), 60: _("%(count)s min"), 1: _("%(count)s s"),
        0: _("%(count)s ms"),
    })  # fmt: skip


def _span(seconds: float, number: Callable[[int], str], units: Mapping[int, str]) -> str:
    if seconds < 1:
        return units[0] % {"count": number(round(seconds * 1000))}
    parts: list[str] = []
    rest = round(seconds)
    for size in _SIZES:
        count, rest = divmod(rest, size)
        if count:
            parts.append(units[size] % {"count": number(count)})
        elif parts:
            break
        if len(parts) == 2:
            break
    return " ".join(parts)


def _english_number(value: int) -> str:
    return f"{value:,}"


_ENGLISH = {
    86_400: "%(count)s d", 3_600: "%(count)s h", 60: "%(count)s min", 1: "%(count)s s", 0: "%(count)s ms",
}  # fmt: skip


class Sentence(str):
    """An English text that can be said in another language later.

    ``template`` is looked up in the catalogues, with places such as %(name)s for the ``values``: numbers, texts, other
    sentences, and spans, which are the floats, in seconds.
    """

    __slots__ = ("template", "values")
    template: str
    values: Mapping[str, Value]

    def __new__(cls, template: str, **values: Value) -> Sentence:
        english = {name: _in_english(value) for name, value in values.items()}
        made = super().__new__(cls, template % english if values else template)
        made.template, made.values = template, values
        return made

    def __reduce__(self) -> tuple[Any, ...]:
        return _again, (self.template, dict(self.values))

    def document(self) -> list[Any]:
        """For a browser, which has catalogues too: the template and its values, a span as ``{"seconds": n}``."""
        return [self.template, {name: _document(value) for name, value in self.values.items()}]


def _document(value: Value) -> Any:
    if isinstance(value, Sentence):
        return value.document()
    if not isinstance(value, float):
        return value
    if value < 1:
        return {"seconds": round(value, 3)}
    # As exact as it is said, so that a browser hears of it only when that changes.
    seconds = round(value)
    exact = next((small for large, small in ((86_400, 3_600), (3_600, 60)) if seconds >= large), 1)
    return {"seconds": seconds - seconds % exact}


def _again(template: str, values: dict[str, Value]) -> Sentence:
    return Sentence(template, **values)


def _in_english(value: Value) -> str:
    if isinstance(value, str):
        return str(value)
    return _span(value, _english_number, _ENGLISH) if isinstance(value, float) else f"{value:,}"


# -- what was stored as English text -----------------------------------------------------------------------------------

_PLACE = re.compile(r"%\((\w+)\)s")
_PERCENT = re.compile(r"(\d+(?:\.\d+)?)%")
_THOUSANDS = re.compile(r"\d{1,3}(,\d{3})+")
_stored: dict[str, re.Pattern[str]] = {}


def stored(template: str) -> str:
    """``template``, of sentences that are written into the database as text: :func:`recovered` knows them again."""
    parts = _PLACE.split(template)
    seen: set[str] = set()
    for place in range(1, len(parts), 2):
        name, parts[place - 1] = parts[place], re.escape(parts[place - 1])
        parts[place] = f"(?P={name})" if name in seen else f"(?P<{name}>.*)"
        seen.add(name)
    parts[-1] = re.escape(parts[-1])
    _stored[template] = re.compile("".join(parts), re.DOTALL)
    return template


def recovered(text: str) -> str:
    """The :class:`Sentence` that was stored as this text, its values as they were written; any other text itself."""
    if isinstance(text, Sentence):
        return text
    for template, pattern in _stored.items():
        match = pattern.fullmatch(text)
        if match is not None:
            return Sentence(template, **{name: _value(part) for name, part in match.groupdict().items()})
    return text


def _value(text: str) -> Value:
    """A number, where it was written as one that has thousands."""
    return int(text.replace(",", "")) if _THOUSANDS.fullmatch(text) else text


def in_words(text: str) -> str:
    """A text of a lower layer in the active language, as far as it is known there: a :class:`Sentence`, or what was
    stored as English text."""
    if not text:
        return ""
    text = recovered(text)
    if not isinstance(text, Sentence):
        return _(text)
    if not text.values:
        return _(text.template)
    return _(text.template) % {name: _local(value) for name, value in text.values.items()}


def _local(value: Value) -> str:
    if isinstance(value, Sentence):
        return in_words(value)
    if isinstance(value, str):
        share = _PERCENT.fullmatch(value)
        return value if share is None else percent(float(share[1]) / 100)
    return span(value) if isinstance(value, float) else number(value)
