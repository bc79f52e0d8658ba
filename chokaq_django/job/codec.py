"""Payloads to JSON text and back, by msgspec.

What goes in comes out: ``encode`` refuses every value that would come back as something else, with its path, and
``decode`` refuses unknown fields and wrong types. Both are on the hot path, so a payload of plain fields is only looked
at closely the first time a combination of value types is seen.
"""

from __future__ import annotations

import dataclasses
import math
import typing
from collections.abc import Callable, Mapping
from operator import attrgetter
from typing import Any, NoReturn

import msgspec

from ..conf import get_options
from .annotations import ShapeBuilder, UnsupportedTypeError
from .containers import RecordShape, UnionShape
from .definition import JobType
from .failures import PayloadError, PayloadTooLarge, SchemaVersionError
from .places import each_problem, located
from .schema import lift
from .shape import (
    MAX_DEPTH,
    Flat,
    FloatShape,
    Refused,
    Shape,
    check_float,
    check_int,
    check_text,
    key_step,
    mismatch,
    type_name,
)

__all__ = [
    "PayloadCodec",
    "PayloadError",
    "PayloadTooLarge",
    "SchemaVersionError",
    "decode",
    "encode",
    "encode_result",
    "lifted",
]

_to_json = msgspec.json.Encoder().encode
_from_json = msgspec.json.Decoder().decode
_names_in = msgspec.json.Decoder(float_hook=str).decode
"""For what looks at names alone: a number may be beyond every float, where a Decimal holds it."""
_NUL = b"\\u0000"
_PLAIN = (str, int, bool, float, type(None))
_COMBINATIONS_KEPT = 256


@dataclasses.dataclass(frozen=True, slots=True)
class _Plan:
    shape: RecordShape
    decode: Callable[[bytes], Any]
    constrained: bool
    values: Callable[[Any], tuple[Any, ...]] | None
    """All field values as a tuple, for payloads of plain fields only."""
    combinations: set[tuple[type, ...]]
    """Types of field values that were found to round trip."""


class PayloadCodec:
    """Coding of one payload class, compiled when first used: annotations may name classes that come later."""

    __slots__ = ("_plan", "cls")

    def __init__(self, cls: type[Any]) -> None:
        self.cls = cls
        self._plan: _Plan | None = None

    def compile(self) -> _Plan:
        """Prepare the codec now. ``UnsupportedTypeError`` when a field's annotation cannot round trip."""
        builder = ShapeBuilder()
        shape = builder.record(self.cls)
        try:
            decoder = msgspec.json.Decoder(self.cls)
        except TypeError as error:
            raise UnsupportedTypeError(f"{self.cls.__qualname__}: {error}") from error
        names = tuple(shape.fields)
        values: Callable[[Any], tuple[Any, ...]] | None = None
        if names and not builder.constrained and all(_is_plain(field) for field in shape.fields.values()):
            getter = attrgetter(*names)
            values = getter if len(names) > 1 else lambda obj: (getter(obj),)
        self._plan = _Plan(shape, decoder.decode, builder.constrained, values, set())
        return self._plan

    @property
    def shape(self) -> RecordShape:
        """What the payloads of this class hold. ``UnsupportedTypeError`` as in :meth:`compile`."""
        return (self._plan or self.compile()).shape

    def encode(self, obj: Any, limit: int) -> str:
        """JSON text of ``obj``, at most ``limit`` bytes of UTF-8; ``PayloadError`` with the path of a bad value."""
        plan = self._plan or self.compile()
        if type(obj) is not self.cls:
            raise PayloadError("$", mismatch(self.cls.__qualname__, obj).message)
        try:
            data = _to_json(obj)
        except Exception as error:  # noqa: BLE001 - of many types, none of them with a path
            self._explain(plan, obj, error)
        if len(data) > limit:
            raise PayloadTooLarge(len(data), limit)
        if plan.values is None:
            self._check(plan, obj)
            if plan.constrained:
                self._read(plan, data)
        else:
            values = plan.values(obj)
            combination = tuple(map(type, values))
            if combination not in plan.combinations:
                self._check(plan, obj)
                if len(plan.combinations) < _COMBINATIONS_KEPT and _is_decided_by_type(plan.shape, combination):
                    plan.combinations.add(combination)
            elif _NUL in data or (float in combination and not all(map(_is_finite, values))):
                self._check(plan, obj)
        return data.decode()

    def decode(self, text: str) -> Any:
        """The record that JSON ``text`` holds; ``PayloadError`` with the path of what is wrong or unknown."""
        plan = self._plan or self.compile()
        try:
            data = text.encode()
        except UnicodeEncodeError as error:
            raise PayloadError("$", f"not valid text: {error.reason} at position {error.start}") from None
        obj = self._read(plan, data)
        # Text that our own encoder wrote comes out the same; only other text can hold fields that the type lacks.
        if _to_json(obj) != data:
            try:
                plan.shape.unknown(_names_in(data))
            except Refused as refused:
                raise PayloadError(refused.path, refused.message) from None
        return obj

    def problems(self, text: str) -> list[PayloadError]:
        """What is wrong with JSON ``text``: the first of each field, where :meth:`decode` stops at the first of all."""
        try:
            self.decode(text)
            return []
        except PayloadError as error:
            first = error
        return each_problem(self.shape, typing.get_type_hints(self.cls, include_extras=True), text) or [first]

    def _check(self, plan: _Plan, obj: Any) -> None:
        try:
            plan.shape.check(obj, 0)
        except Refused as refused:
            raise PayloadError(refused.path, refused.message) from None

    def _explain(self, plan: _Plan, obj: Any, error: Exception) -> NoReturn:
        self._check(plan, obj)
        raise PayloadError("$", f"cannot be written as JSON: {error}") from error

    def _read(self, plan: _Plan, data: bytes) -> Any:
        try:
            return plan.decode(data)
        except msgspec.ValidationError as error:
            raise located(plan.shape, data, error) from None
        except msgspec.DecodeError as error:
            raise PayloadError("$", f"not valid JSON: {str(error).removeprefix('JSON is malformed: ')}") from None
        except RecursionError:
            raise PayloadError("$", f"nested more than {MAX_DEPTH} levels deep") from None
        except Exception as error:  # the class's own __post_init__
            raise PayloadError("$", f"{self.cls.__qualname__} refuses it: {type(error).__name__}: {error}") from error


def _is_plain(shape: Shape) -> bool:
    if isinstance(shape, UnionShape):
        return all(_is_plain(option) for option in shape.options)
    return isinstance(shape, FloatShape) or (isinstance(shape, Flat) and shape.cls in _PLAIN)


def _is_decided_by_type(shape: RecordShape, combination: tuple[type, ...]) -> bool:
    """Whether another value of the same types is as good; an int in a float field may be too large for a float."""
    return not any(
        cls is int and _has_float(field) for cls, field in zip(combination, shape.fields.values(), strict=True)
    )


def _has_float(shape: Shape) -> bool:
    return isinstance(shape, FloatShape) or (isinstance(shape, UnionShape) and any(map(_has_float, shape.options)))


def _is_finite(value: Any) -> bool:
    return type(value) is not float or math.isfinite(value)


# --- the functions the rest of the package uses --------------------------------------------------------------------


def encode(job_type: JobType, obj: Any) -> str:
    """The payload text of ``obj`` for its type.

    ``PayloadError`` with the path of what cannot be stored and come back, ``PayloadTooLarge`` above MAX_PAYLOAD_BYTES.
    A raw type takes the text itself.
    """
    limit = get_options().max_payload_bytes
    if job_type.codec is not None:
        return job_type.codec.encode(obj, limit)
    if type(obj) is not str:
        raise PayloadError("$", f"a raw job takes its payload as text, got {type_name(obj)}")
    try:
        check_text(obj)
    except Refused as refused:
        raise PayloadError(refused.path, refused.message) from None
    size = len(obj.encode())
    if size > limit:
        raise PayloadTooLarge(size, limit)
    return obj


def decode(job_type: JobType, text: str, schema_version: int) -> Any:
    """The record a payload text holds, lifted to the type's schema version; a raw type gets the text itself.

    ``PayloadError`` with the path of the bad value, ``SchemaVersionError`` when a migration is missing.
    """
    if job_type.codec is None:
        return text
    return job_type.codec.decode(lifted(job_type, text, schema_version))


def lifted(job_type: JobType, text: str, schema_version: int) -> str:
    """Payload text as one of the type's own schema version, which nobody has checked yet. Errors as in :func:`decode`.

    A raw type has no migrations: its text stays.
    """
    if job_type.codec is None or schema_version == job_type.schema_version:
        return text
    try:
        raw = _from_json(text)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError) as error:
        raise PayloadError("$", f"not valid JSON: {error}") from None
    try:
        return _to_json(lift(job_type, raw, schema_version)).decode()
    except (TypeError, ValueError, RecursionError) as error:
        raise SchemaVersionError("$", f"a migration returned what is not JSON: {error}") from error


def encode_result(value: Any) -> str | None:
    """The JSON text of what a handler returned; None for None.

    Anything msgspec can write is kept, dates and records too: a result is read by people and programs, not turned back
    into its class. ``PayloadError`` for the rest, ``PayloadTooLarge`` above MAX_PAYLOAD_BYTES.
    """
    if value is None:
        return None
    try:
        _check_result(value, 0)
        data = _to_json(value)
    except Refused as refused:
        raise PayloadError(refused.path, refused.message) from None
    except Exception as error:  # of many types: what has no JSON, what is recursive, what its own methods raise
        raise PayloadError("$", f"the result cannot be written as JSON: {error}") from error
    limit = get_options().max_payload_bytes
    if len(data) > limit:
        raise PayloadTooLarge(len(data), limit)
    return data.decode()


def _check_result(value: Any, depth: int) -> None:
    """Refuse what msgspec would write but no engine could store, or would write as null."""
    if isinstance(value, str):
        check_text(value)
    elif isinstance(value, float):
        check_float(value)
    elif isinstance(value, int):
        check_int(value)
    elif depth >= MAX_DEPTH:
        raise Refused(f"nested more than {MAX_DEPTH} levels deep, or within itself")
    elif isinstance(value, Mapping):
        for key, item in value.items():
            _check_item(key, key_step(key), depth)
            _check_item(item, key_step(key), depth)
    elif isinstance(value, (list, tuple, set, frozenset)):
        for index, item in enumerate(value):
            _check_item(item, f"[{index}]", depth)
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        for field in dataclasses.fields(value):
            _check_item(getattr(value, field.name), f".{field.name}", depth)


def _check_item(value: Any, step: str, depth: int) -> None:
    try:
        _check_result(value, depth + 1)
    except Refused as refused:
        refused.at(step)
