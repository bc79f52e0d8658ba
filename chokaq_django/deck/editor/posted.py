"""From the inputs of a form back to a payload; what cannot be read is said at its input."""

from __future__ import annotations

import decimal
import re
from collections.abc import Mapping

from django.utils.translation import gettext as _

from ...job.containers import ArrayShape, RecordShape, TupleShape
from ...job.shape import Flat, FloatShape, Shape
from ...job.verbatim import Members, Node, Number, read
from ...reading.masks import MASK
from .fields import ABSENT, Unread, choices_of, nullable

__all__ = ["Posted", "read_form"]

MOST_ITEMS = 500
_WHOLE = re.compile(r"[+-]?\d{1,4300}")
_NUMBER = re.compile(r"-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?")


class Posted:
    """What a form says. ``errors``: path to what is wrong there."""

    def __init__(self, form: Mapping[str, str]) -> None:
        self._form = form
        self.errors: dict[str, str] = {}

    def members(self, shape: RecordShape, old: str, new: str) -> Members:
        """``old``: the path in the form; ``new``: in the payload that comes of it, which lost what was removed."""
        found = Members()
        for name, inner in shape.fields.items():
            node = self.value(inner, f"{old}.{name}", f"{new}.{name}")
            if node is not ABSENT:
                found.append((name, node))
        return found

    def value(self, shape: Shape, old: str, new: str) -> Node:
        form = self._form
        plain = nullable(shape)[0]
        if isinstance(plain, Flat) and plain.cls is type(None) and f"absent:{old}" in form:
            return ABSENT  # the input that says null is no text that somebody typed
        text = form.get(f"json:{old}")
        as_json = text is not None
        text = form.get(old) if text is None else text
        was = form.get(f"was:{old}", "")
        if text is None or not text.strip() or not was:
            # A text that was typed over nothing counts, although the tick beside it still stands.
            if f"absent:{old}" in form:
                return ABSENT
            if f"null:{old}" in form:
                return None
        if as_json:
            return self._json((text or "").replace("\r\n", "\n"), new, may_be_absent=was == "absent")
        if text is not None:
            return self._scalar(plain, text, new)
        if isinstance(plain, RecordShape):
            return self.members(plain, old, new) if self._is_there(old) else ABSENT
        if isinstance(plain, (ArrayShape, TupleShape)):
            return self._items(plain, old, new)
        return ABSENT

    def _is_there(self, path: str) -> bool:
        return f"is:{path}" in self._form

    def _items(self, shape: Shape, old: str, new: str) -> Node:
        count = self._form.get(f"count:{old}", "")
        if not count.isdecimal() or len(count) > 4:
            return ABSENT
        found: list[Node] = []
        for number in range(min(int(count), MOST_ITEMS)):
            if f"remove:{old}[{number}]" in self._form:
                continue
            if isinstance(shape, TupleShape):
                inner = shape.items[number] if number < len(shape.items) else None
            else:
                inner = shape.item if isinstance(shape, ArrayShape) else None
            if inner is not None:
                found.append(self.value(inner, f"{old}[{number}]", f"{new}[{len(found)}]"))
        return [None if item is ABSENT else item for item in found]

    def _json(self, text: str, path: str, *, may_be_absent: bool) -> Node:
        if not text.strip() and may_be_absent:
            return ABSENT
        try:
            return read(text)
        except ValueError as error:
            self.errors[path] = _("not JSON: %(error)s") % {"error": error}
            return Unread(text, as_json=True)

    def _scalar(self, shape: Shape, text: str, path: str) -> Node:
        if text == MASK:
            return MASK
        if choices_of(shape) is not None:
            try:
                return read(text)
            except ValueError:
                self.errors[path] = _("choose one")
                return Unread(text)
        if isinstance(shape, Flat) and shape.cls is str:
            return text.replace("\r\n", "\n")
        clean = text.strip()
        if isinstance(shape, Flat) and shape.cls is int:
            if _WHOLE.fullmatch(clean):
                return Number(_whole(clean))
            self.errors[path] = _("expected a whole number, got %(text)s") % {"text": _quoted(clean)}
            return Unread(text)
        if isinstance(shape, FloatShape):
            if _NUMBER.fullmatch(clean):
                return Number(clean)
            self.errors[path] = _("expected a number, got %(text)s") % {"text": _quoted(clean)}
            return Unread(text)
        if isinstance(shape, Flat) and shape.cls is decimal.Decimal and not clean:
            self.errors[path] = _("expected a decimal number")
            return Unread(text)
        if isinstance(shape, Flat) and shape.cls is type(None):
            return None
        return clean


def _whole(text: str) -> str:
    """Its digits without a plus and without zeros in front, which JSON has not."""
    sign = "-" if text.startswith("-") else ""
    digits = text.lstrip("+-").lstrip("0") or "0"
    return digits if digits == "0" else sign + digits


def _quoted(text: str) -> str:
    return f"“{text[:60]}”" if text else _("nothing")


def read_form(shape: RecordShape, form: Mapping[str, str]) -> tuple[Members, dict[str, str]]:
    """The payload that a form says, and what could not be read of it by path."""
    posted = Posted(form)
    node = posted.members(shape, "$", "$")
    return node, posted.errors
