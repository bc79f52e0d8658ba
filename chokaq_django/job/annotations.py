"""From the annotations of a payload class to its shape."""

from __future__ import annotations

import dataclasses
import datetime as dt
import decimal
import types
import typing
import uuid
from collections import abc
from enum import Enum
from typing import Any

import msgspec

from .containers import ArrayShape, DictShape, RecordShape, TupleShape, UnionShape
from .failures import PayloadError
from .shape import AnyShape, Flat, FloatShape, LiteralShape, Refused, Shape, check_int, check_text

__all__ = ["ShapeBuilder", "UnsupportedTypeError"]


class UnsupportedTypeError(PayloadError):
    """A payload class with a field whose values cannot go through JSON and come back."""

    def __init__(self, message: str) -> None:
        super().__init__("$", message)

    def __str__(self) -> str:
        return self.message

    def __reduce__(self) -> tuple[type[UnsupportedTypeError], tuple[str]]:
        return type(self), (self.message,)


def _test_decimal(value: decimal.Decimal) -> None:
    if not value.is_finite():
        raise Refused(f"{value!r} is not a number")


def _test_offset(offset: dt.timedelta | None) -> None:
    if offset is not None and offset % dt.timedelta(minutes=1):
        raise Refused(f"a UTC offset of {offset} does not survive: JSON times have whole minutes; convert to UTC")


def _test_datetime(value: dt.datetime) -> None:
    offset = value.utcoffset()
    if offset is None and value.fold:
        raise Refused("fold=1 of a naive datetime does not survive; use an aware datetime")
    if offset is None and value.tzinfo is not None:
        raise Refused("its time zone gives no UTC offset and would be lost")
    _test_offset(offset)


def _test_time(value: dt.time) -> None:
    if value.fold:
        raise Refused("fold=1 of a time does not survive")
    offset = value.utcoffset()
    if offset is None and value.tzinfo is not None:
        raise Refused("a time without a date has no offset in this zone, which would be lost; use a datetime")
    _test_offset(offset)


_ANY = AnyShape("Any")
_LEAVES: dict[Any, Shape] = {
    str: Flat(str, check_text),
    int: Flat(int, check_int),
    bool: Flat(bool),
    float: FloatShape("float"),
    bytes: Flat(bytes),
    type(None): Flat(type(None), name="None"),
    None: Flat(type(None), name="None"),
    decimal.Decimal: Flat(decimal.Decimal, _test_decimal),
    uuid.UUID: Flat(uuid.UUID),
    dt.datetime: Flat(dt.datetime, _test_datetime),
    dt.date: Flat(dt.date),
    dt.time: Flat(dt.time, _test_time),
    dt.timedelta: Flat(dt.timedelta),
    Any: _ANY,
    object: _ANY,
}
_ARRAYS: dict[Any, type] = {
    list: list,
    set: set,
    frozenset: frozenset,
    abc.Sequence: list,
    abc.MutableSequence: list,
    abc.Collection: list,
    abc.Set: set,
    abc.MutableSet: set,
}
_DICTS = (dict, abc.Mapping, abc.MutableMapping)
_KEYS = (str, int, float, bytes, decimal.Decimal, uuid.UUID, dt.datetime, dt.date, dt.time, dt.timedelta)


class ShapeBuilder:
    """Builds the shape of one payload class. ``constrained`` tells afterwards whether msgspec constraints were met."""

    def __init__(self) -> None:
        self.constrained = False
        self._records: dict[Any, RecordShape] = {}

    def record(self, cls: type[Any]) -> RecordShape:
        """The shape of a dataclass. ``UnsupportedTypeError`` names the field that cannot round trip."""
        found = self._records.get(cls)
        if found is not None:
            return found
        shape = self._records[cls] = RecordShape(cls)
        hints = _hints(cls)
        for field in dataclasses.fields(cls):
            where = f"{cls.__qualname__}.{field.name}"
            if not field.init:
                raise UnsupportedTypeError(f"{where}: a field with init=False is not stored; make it a property")
            shape.fields[field.name] = self.build(hints[field.name], where)
        return shape

    def build(self, hint: Any, where: str) -> Shape:
        """The shape of an annotation; ``where`` names the field for the error."""
        try:
            leaf = _LEAVES.get(hint)
        except TypeError:  # unhashable, such as Literal[[]]
            leaf = None
        if leaf is not None:
            return leaf
        if isinstance(hint, typing.NewType):
            return self.build(hint.__supertype__, where)
        if hasattr(hint, "__value__"):  # type X = ...
            return self.build(hint.__value__, where)
        origin, args = typing.get_origin(hint), typing.get_args(hint)
        if origin is typing.Annotated:
            self.constrained = self.constrained or any(isinstance(extra, msgspec.Meta) for extra in args[1:])
            return self.build(args[0], where)
        if origin in (typing.Union, types.UnionType):
            return UnionShape(_name(hint), tuple(self.build(arg, where) for arg in args))
        if origin is typing.Literal:
            return LiteralShape(args)
        return self._container(hint, origin or hint, args, where) or self._class(hint, where)

    def _container(self, hint: Any, origin: Any, args: tuple[Any, ...], where: str) -> Shape | None:
        if origin in _ARRAYS:
            item = self.build(args[0], where) if args else AnyShape("Any")
            return ArrayShape(_name(hint), _ARRAYS[origin], item)
        if origin in _DICTS:
            key, value = args if args else (str, Any)
            return DictShape(
                _name(hint), types.GenericAlias(dict, (key, value)), self._key(key, where), self.build(value, where)
            )
        if origin is tuple:
            if len(args) == 2 and args[1] is Ellipsis:
                return ArrayShape(_name(hint), tuple, self.build(args[0], where))
            if not args and hint is tuple:
                return ArrayShape("tuple", tuple, AnyShape("Any"))
            return TupleShape(_name(hint), tuple, tuple(self.build(arg, where) for arg in args))
        return None

    def _key(self, hint: Any, where: str) -> Shape:
        shape = self.build(hint, where)
        if isinstance(shape, AnyShape):
            return _LEAVES[str]  # without a type, JSON keys come back as strings
        if isinstance(shape, FloatShape) or (
            isinstance(shape, Flat) and (shape.cls in _KEYS or issubclass(shape.cls, Enum))
        ):
            return shape
        raise UnsupportedTypeError(f"{where}: {_name(hint)} cannot be the key of a stored dict; use str or int keys")

    def _class(self, hint: Any, where: str) -> Shape:
        if isinstance(hint, type):
            if issubclass(hint, Enum):
                return _enum(hint, where)
            if typing.is_typeddict(hint):
                return self._typed_dict(hint, where)
            if issubclass(hint, tuple) and hasattr(hint, "_fields"):
                hints = _hints(hint)
                items = tuple(self.build(hints.get(name, Any), where) for name in hint._fields)
                return TupleShape(hint.__qualname__, hint, items)
            if dataclasses.is_dataclass(hint) and not getattr(hint, "__parameters__", ()):
                return self.record(hint)
        raise UnsupportedTypeError(f"{where}: values of {_name(hint)} cannot be stored and come back; {_advice(hint)}")

    def _typed_dict(self, hint: Any, where: str) -> Shape:
        found = self._records.get(hint)
        if found is not None:
            return found
        shape = self._records[hint] = RecordShape(hint, mapping=True)
        required = set(hint.__required_keys__)
        for name, inner in _hints(hint).items():
            # Python reads the marks itself only where annotations are not strings.
            mark = typing.get_origin(inner)
            if mark is typing.NotRequired:
                required.discard(name)
            elif mark is typing.Required:
                required.add(name)
            is_marked = mark in (typing.Required, typing.NotRequired)
            shape.fields[name] = self.build(typing.get_args(inner)[0] if is_marked else inner, f"{where}.{name}")
        shape.required = frozenset(required)
        return shape


def _enum(cls: type[Enum], where: str) -> Shape:
    values = [member.value for member in cls]
    if not (all(type(value) is str for value in values) or all(type(value) is int for value in values)):
        raise UnsupportedTypeError(f"{where}: the values of {cls.__qualname__} must be all strings or all integers")

    def test(member: Enum) -> None:
        try:
            same = cls(member.value) == member
            if isinstance(member.value, str):
                check_text(member.value)
        except ValueError:
            same = False
        if not same:
            raise Refused(f"{member!r} does not come back from its value {member.value!r}")

    return Flat(cls, test, cls.__qualname__)


def _hints(cls: Any) -> dict[str, Any]:
    try:
        return typing.get_type_hints(cls, include_extras=True)
    except (NameError, AttributeError, TypeError) as error:
        raise UnsupportedTypeError(
            f"{cls.__qualname__}: an annotation cannot be resolved ({error}); import its name at the top of "
            "the module, not under TYPE_CHECKING or inside a function"
        ) from error


def _name(hint: Any) -> str:
    if isinstance(hint, type) and not typing.get_args(hint):
        return hint.__qualname__
    return str(hint).replace("typing.", "")


def _advice(hint: Any) -> str:
    if hasattr(hint, "_meta") and hasattr(hint, "objects"):
        return "store the primary key and load the object in the job"
    if isinstance(hint, type) and issubclass(hint, msgspec.Struct):
        return "use a dataclass"
    return "use str, numbers, dates, UUID, Enum, list, dict, or a dataclass of these"
