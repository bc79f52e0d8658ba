"""From a type's schema and a payload to the inputs of a form.

An input is called by its path in the payload (``$.items[3].price``); names with a prefix say more about it: ``json:``
(the input holds JSON), ``null:``, ``absent:``, ``remove:`` (ticks), ``was:`` (what it was before) and ``count:``
(items of a list). :mod:`.posted` reads them.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import decimal
import uuid
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from ...job.containers import ArrayShape, RecordShape, TupleShape, UnionShape
from ...job.shape import Flat, FloatShape, LiteralShape, Shape
from ...job.text import safe_text
from ...job.verbatim import Members, Node, Number, scalar, write

__all__ = ["ABSENT", "Field", "Unread", "build", "choices_of", "is_scalar", "nullable"]

MOST_INPUTS = 250
"""Inputs of one form; what is beyond is one input of JSON for all that it holds. Django refuses a form of 1,000."""
DEEPEST = 6
MOST_ITEMS = 50
LONG = 80
"""Characters from which a text gets a larger input."""


class _Absent:
    """Of a field that is not there."""


ABSENT = _Absent()


class Unread(str):
    """What somebody typed and nobody could read: it goes back into its input as it is."""

    __slots__ = ("as_json",)
    as_json: bool

    def __new__(cls, text: str, *, as_json: bool = False) -> Unread:
        self = super().__new__(cls, text)
        self.as_json = as_json
        return self


@dataclass(slots=True)
class Field:
    """One input, or a group of them. ``kind``: line, area, choice, json, null, record or list. ``mode``: what keyboard
    a phone shows."""

    path: str
    label: str
    type: str
    kind: str
    text: str = ""
    mode: str = "text"
    hint: Any = ""
    choices: list[tuple[str, str]] = field(default_factory=list)
    children: list[Field] = field(default_factory=list)
    can_be_null: bool = False
    is_null: bool = False
    can_be_absent: bool = False
    is_absent: bool = False
    can_add: bool = False
    is_item: bool = False
    errors: list[str] = field(default_factory=list)

    @property
    def is_group(self) -> bool:
        return self.kind in ("record", "list")

    @property
    def input_name(self) -> str:
        return f"json:{self.path}" if self.kind == "json" else self.path

    @property
    def was(self) -> str:
        return "null" if self.is_null else "absent" if self.is_absent else ""

    @property
    def rows(self) -> int:
        return min(12, max(2, self.text.count("\n") + 1 + len(self.text) // 100))

    @property
    def html_id(self) -> str:
        return f"field-{self.path}"


_HINTS: dict[type, Any] = {
    bytes: gettext_lazy("base64"),
    decimal.Decimal: gettext_lazy("exact, such as 19.90"),
    uuid.UUID: gettext_lazy("a UUID"),
    dt.datetime: "2026-01-31T08:00:00Z",
    dt.date: "2026-01-31",
    dt.time: "08:00:00",
    dt.timedelta: gettext_lazy("ISO 8601, such as PT1H30M"),
    int: gettext_lazy("a whole number"),
}


def is_scalar(shape: Shape) -> bool:
    """Whether one input holds it."""
    return isinstance(shape, (Flat, FloatShape, LiteralShape))


def nullable(shape: Shape) -> tuple[Shape, bool]:
    """``X | None`` as X and True; anything else as it is."""
    if isinstance(shape, UnionShape):
        others = [each for each in shape.options if not (isinstance(each, Flat) and each.cls is type(None))]
        if len(others) == 1 and len(others) < len(shape.options):
            return others[0], True
    return shape, False


def choices_of(shape: Shape) -> list[tuple[str, str]] | None:
    """JSON text of each value and what it is called, of a shape that has few."""
    if isinstance(shape, LiteralShape):
        return [(_text(value), str(value)) for value in shape.values]
    if isinstance(shape, Flat) and shape.cls is bool:
        return [("true", "true"), ("false", "false")]
    if isinstance(shape, Flat) and issubclass(shape.cls, Enum):
        return [(_text(each.value), f"{each.name} ({each.value})") for each in shape.cls]
    return None


def _text(value: object) -> str:
    return scalar(Number(value) if isinstance(value, int) and not isinstance(value, bool) else value)


def build(shape: RecordShape, node: Node) -> list[Field]:
    """The inputs of a payload's fields. ``node``: what they hold; anything but an object leaves all of them empty."""
    builder = _Builder()
    record = node if isinstance(node, Members) else Members()
    return builder.members(shape, record, "$", 0)


class _Builder:
    def __init__(self) -> None:
        self._left = MOST_INPUTS

    def members(self, shape: RecordShape, node: Members, path: str, depth: int) -> list[Field]:
        optional = _optional(shape)
        there = set(node.names)
        fields = []
        for name, inner in shape.fields.items():
            value = node.get(name) if name in there else ABSENT
            made = self.field(inner, value, f"{path}.{name}", name, depth)
            made.is_absent = value is ABSENT and name in optional
            # A field that is there and has a default is not left out by a tick: it gets what the default is.
            made.can_be_absent = made.is_absent or (shape.mapping and name in optional)
            fields.append(made)
        return fields

    def field(self, shape: Shape, node: Node, path: str, label: str, depth: int) -> Field:
        self._left -= 1
        plain, can_be_null = nullable(shape)
        made = self._field(plain, node, path, label, depth)
        made.type = shape.name
        made.can_be_null = can_be_null and not made.is_group and made.kind != "json"
        made.is_null = made.can_be_null and node is None
        return made

    def _field(self, shape: Shape, node: Node, path: str, label: str, depth: int) -> Field:
        if isinstance(node, Unread):
            kind = "json" if node.as_json else "line"
            return Field(path, label, shape.name, kind, str(node), hint=_hint(shape))
        fits = self._left > 0 and depth < DEEPEST
        if isinstance(shape, RecordShape) and fits and isinstance(node, Members):
            group = Field(path, label, shape.name, "record")
            group.children = self.members(shape, node, path, depth + 1)
            return group
        if isinstance(shape, (ArrayShape, TupleShape)) and fits and _is_list(node):
            items = self._items(shape, node, path, label, depth)
            if items is not None:
                return items
        if is_scalar(shape) and (node is ABSENT or not isinstance(node, list)):
            return _input(shape, node, path, label)
        return Field(path, label, shape.name, "json", _json(node))

    def _items(self, shape: Shape, node: list[Node], path: str, label: str, depth: int) -> Field | None:
        group = Field(path, label, shape.name, "list")
        if isinstance(shape, TupleShape):
            if len(node) != len(shape.items):
                return None
            shapes = list(shape.items)
        elif isinstance(shape, ArrayShape):
            inner = nullable(shape.item)[0]
            if len(node) > MOST_ITEMS or not (is_scalar(inner) or isinstance(inner, RecordShape)):
                return None
            shapes, group.can_add = [shape.item] * len(node), True
        group.children = [
            self.field(each, item, f"{path}[{n}]", f"[{n}]", depth + 1)
            for n, (each, item) in enumerate(zip(shapes, node, strict=True))
        ]
        for child in group.children:
            child.is_item = group.can_add
        return group


def _optional(shape: RecordShape) -> set[str]:
    """Names of the fields that a payload need not have."""
    if shape.mapping:
        return set(shape.fields) - shape.required
    missing = dataclasses.MISSING
    fields = dataclasses.fields(shape.cls)
    return {each.name for each in fields if each.default is not missing or each.default_factory is not missing}


def _is_list(node: Node) -> bool:
    return isinstance(node, list) and not isinstance(node, Members)


def _input(shape: Shape, node: Node, path: str, label: str) -> Field:
    choices = choices_of(shape)
    if choices is not None:
        return _choice(shape, node, path, label, choices)
    if isinstance(shape, Flat) and shape.cls is type(None):
        return Field(path, label, shape.name, "null" if node is None or node is ABSENT else "json", _json(node))
    if node is ABSENT or node is None:
        text = ""
    elif isinstance(node, str):
        text = str(node)
    else:
        text = scalar(node)
    if not _survives(text):
        return Field(path, label, shape.name, "json", scalar(text))
    is_text = isinstance(shape, Flat) and shape.cls is str
    kind = "area" if is_text and ("\n" in text or len(text) > LONG) else "line"
    mode = "numeric" if _holds(shape, int) else "decimal" if _is_decimal(shape) else "text"
    return Field(path, label, shape.name, kind, text, mode, _hint(shape))


def _choice(shape: Shape, node: Node, path: str, label: str, choices: list[tuple[str, str]]) -> Field:
    chosen = "" if node is ABSENT or node is None else scalar(node)
    if chosen not in dict(choices):
        # What is there and should not be, or nothing: it is not turned into a value that happens to stand first.
        choices = [(chosen, safe_text(str(node)) if chosen else _("choose")), *choices]
    return Field(path, label, shape.name, "choice", chosen, choices=choices)


def _survives(text: str) -> bool:
    """Whether a browser sends the text as it got it: it makes all line ends alike, and has no place for some signs."""
    return safe_text(text) == text and not any(ord(sign) < 32 and sign not in "\n\t" for sign in text)


def _holds(shape: Shape, cls: type) -> bool:
    return isinstance(shape, Flat) and shape.cls is cls


def _is_decimal(shape: Shape) -> bool:
    return isinstance(shape, FloatShape) or _holds(shape, decimal.Decimal)


def _hint(shape: Shape) -> Any:
    return _HINTS.get(shape.cls, "") if isinstance(shape, Flat) else ""


def _json(node: Node) -> str:
    return "" if node is ABSENT else write(node, 2)
