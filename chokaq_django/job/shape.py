"""Shapes: what a payload type can hold, compiled from its annotations.

A shape answers two questions about data that goes through JSON and back. ``check`` refuses a Python value that would
come back as another one, ``unknown`` refuses parsed JSON with fields that the type does not have. Both raise
``Refused`` with the path of the bad value. msgspec does the coding itself; it does not ask these questions.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from enum import Enum
from typing import Any, NoReturn

__all__ = [
    "MAX_DEPTH",
    "AnyShape",
    "Flat",
    "FloatShape",
    "LiteralShape",
    "Refused",
    "Shape",
    "check_depth",
    "check_float",
    "check_int",
    "check_text",
    "key_step",
    "mismatch",
    "type_name",
]

MAX_DEPTH = 100
_MAX_INT_BITS = 14_000  # CPython reads and writes at most 4,300 digits


class Refused(Exception):  # noqa: N818 - an answer, not an error of the program
    """A value that cannot round trip. The path is gathered while the exception climbs."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message
        self.steps: list[str] = []

    def at(self, step: str) -> NoReturn:
        """Add an outer step of the path and climb on."""
        self.steps.append(step)
        raise self

    @property
    def path(self) -> str:
        """The path from the payload's root, such as ``$.items[3].price``."""
        return "$" + "".join(reversed(self.steps))


def key_step(key: object) -> str:
    """The step of a path that goes through a dictionary key."""
    text = str(key)
    return f"[{json.dumps(text if len(text) <= 60 else text[:60] + '…')}]"


def type_name(value: object) -> str:
    """The name of a value's type as messages show it."""
    cls = type(value)
    return (
        cls.__qualname__
        if cls.__module__ in ("builtins", "datetime", "decimal")
        else f"{cls.__module__}.{cls.__qualname__}"
    )


def check_text(value: str) -> None:
    """Refuse NUL and lone surrogates, which no engine stores."""
    if "\x00" in value:
        raise Refused(f"NUL character at position {value.index(chr(0))} cannot be stored")
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError as error:
            raise Refused(
                f"lone surrogate U+{ord(value[error.start]):04X} at position {error.start} cannot be stored; "
                "decode the bytes it came from with the right encoding"
            ) from None


def mismatch(expected: str, value: object) -> Refused:
    """The refusal of a value of the wrong type, with advice for what Django projects meet most."""
    advice = ""
    if hasattr(value, "_meta") and hasattr(value, "pk"):
        advice = "; pass the primary key and load the object in the job"
    elif isinstance(value, (str, int)) or type(value).__name__ == "__proxy__":
        base = "str" if isinstance(value, str) or type(value).__name__ == "__proxy__" else "int"
        if type(value) not in (str, int, bool):
            advice = f"; convert it with {base}(...)" if not isinstance(value, Enum) else "; pass its .value"
    return Refused(f"expected {expected}, got {type_name(value)}{advice}")


def check_depth(depth: int) -> None:
    """Refuse a container too deep inside others."""
    if depth >= MAX_DEPTH:
        raise Refused(f"nested more than {MAX_DEPTH} levels deep, or within itself")


def check_float(value: float) -> None:
    """Refuse what JSON has no number for; msgspec would write null."""
    if not math.isfinite(value):
        raise Refused(f"{value!r} is not a JSON number; use None or a string")


def check_int(value: int) -> None:
    """Refuse integers too long to be written as digits."""
    if value.bit_length() > _MAX_INT_BITS:
        raise Refused(f"an integer of {value.bit_length():,} bits is too large; use bytes or a string")


class Shape:
    """Values of one annotation. ``check`` is given how deep the value lies."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    def check(self, value: Any, depth: int) -> None:
        """Raise ``Refused`` when ``value`` would not come back as itself."""
        raise NotImplementedError

    def takes(self, value: Any) -> bool:
        """Whether ``value`` is of this shape's own Python type, so that its refusal is the one to report."""
        return False

    def unknown(self, raw: Any) -> None:
        """Raise ``Refused`` when the parsed JSON ``raw`` has a field that the type does not know."""

    def step(self, raw: Any, step: str) -> tuple[Shape | None, Any]:
        """Follow one step (``.name`` or ``[3]``) of a path: the shape and the JSON value there."""
        return None, None


class Flat(Shape):
    """A value of one exact type, with a further test where the type alone does not decide."""

    __slots__ = ("cls", "test")

    def __init__(self, cls: type[Any], test: Callable[[Any], None] | None = None, name: str | None = None) -> None:
        super().__init__(name or f"{cls.__name__}")
        self.cls = cls
        self.test = test

    def takes(self, value: Any) -> bool:
        return type(value) is self.cls

    def check(self, value: Any, depth: int) -> None:
        if type(value) is not self.cls:
            raise mismatch(self.name, value)
        if self.test is not None:
            self.test(value)


class FloatShape(Shape):
    """A finite float, or an int that a float holds exactly."""

    __slots__ = ()

    def takes(self, value: Any) -> bool:
        return type(value) is float

    def check(self, value: Any, depth: int) -> None:
        if type(value) is float:
            check_float(value)
        elif type(value) is int:
            check_int(value)
            if abs(value) > 2**53:
                raise Refused(f"the int {value} is not exact as a float; annotate the field with int")
        else:
            raise mismatch(self.name, value)


class LiteralShape(Shape):
    __slots__ = ("values",)

    def __init__(self, values: tuple[Any, ...]) -> None:
        super().__init__(f"Literal[{', '.join(map(repr, values))}]")
        self.values = values

    def check(self, value: Any, depth: int) -> None:
        if not any(type(value) is type(v) and value == v for v in self.values):
            raise Refused(f"expected {self.name}, got {value!r:.80}")


class AnyShape(Shape):
    """Data without a type of its own: only what JSON itself can tell apart comes back as it was."""

    __slots__ = ()

    def takes(self, value: Any) -> bool:
        return True

    def check(self, value: Any, depth: int) -> None:
        cls = type(value)
        if cls is str:
            check_text(value)
        elif cls is float:
            check_float(value)
        elif cls is int:
            check_int(value)
        elif cls is dict:
            check_depth(depth)
            for key, item in value.items():
                if type(key) is not str:
                    raise Refused(f"the key {key!r:.60} would come back as a string; use string keys")
                try:
                    check_text(key)
                    self.check(item, depth + 1)
                except Refused as refused:
                    refused.at(key_step(key))
        elif cls is list:
            check_depth(depth)
            for index, item in enumerate(value):
                try:
                    self.check(item, depth + 1)
                except Refused as refused:
                    refused.at(f"[{index}]")
        elif value is not None and cls is not bool:
            if cls in (tuple, set, frozenset):
                raise Refused(f"{type_name(value)} would come back as a list; annotate the field or pass a list")
            raise mismatch("a JSON value (str, int, float, bool, None, list, dict)", value)
