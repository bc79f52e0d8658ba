"""Where in a stored text something is wrong: msgspec's errors with exact paths, and the first error of each field."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from .containers import DictShape, RecordShape, UnionShape
from .definition import nearest
from .failures import PayloadError
from .shape import Refused, Shape, key_step

__all__ = ["each_problem", "located"]

ABSENT = "the required field is missing"

_parsed = msgspec.json.Decoder(float_hook=str).decode
"""For names and kinds alone: a number may be beyond every float, where a Decimal holds it."""
_PLACE = re.compile(r"(?P<message>.*) - at (?P<key>`key` in )?`(?P<path>\$[^`]*)`", re.DOTALL)
_MISSING = re.compile(r"Object missing required field `([^`]+)`")
_STEP = re.compile(r"\.[^.\[]+|\[\.\.\.\]|\[\d+\]")


def split(text: str) -> tuple[str, str]:
    """Path and message of a msgspec error such as "Expected `int`, got `str` - at `$.user_id`"."""
    match = _PLACE.fullmatch(text)
    if match is None:
        return "$", text
    return (f"{match['path']}[...]", f"key: {match['message']}") if match["key"] else (match["path"], match["message"])


def located(shape: Shape | None, data: bytes, error: msgspec.ValidationError) -> PayloadError:
    """A msgspec error on ``data`` as one of ours; of a field that is missing, the path is that of the field."""
    path, message = split(str(error))
    path = exact_path(shape, data, path)
    missing = _MISSING.fullmatch(message)
    return PayloadError(path, message) if missing is None else PayloadError(f"{path}.{missing[1]}", ABSENT)


def exact_path(shape: Shape | None, data: bytes, path: str) -> str:
    """``path`` with every ``[...]``, which msgspec writes for "some key", replaced by the key."""
    if "[...]" not in path:
        return path
    try:
        return _with_keys(shape, msgspec.json.decode(data), path)
    except (msgspec.DecodeError, RecursionError, LookupError, TypeError, AttributeError):
        return path  # text that is broken further on, or says a key twice: the path cannot be followed


def _with_keys(shape: Shape | None, raw: Any, path: str) -> str:
    exact = "$"
    for step in _STEP.findall(path[1:]):
        if isinstance(shape, UnionShape):
            shape = shape.option_for(raw)
        if step != "[...]":
            exact += step
            shape, raw = shape.step(raw, step) if shape is not None else (None, None)
            continue
        if not isinstance(shape, DictShape):
            return path
        key = _bad_key(shape, raw)
        if key is None:
            return path
        exact += key_step(key)
        shape, raw = shape.value, raw[key]
    return exact


def _bad_key(shape: DictShape, raw: Mapping[str, Any]) -> str | None:
    for key, value in raw.items():
        try:
            msgspec.json.decode(msgspec.json.encode({key: value}), type=shape.hint)
        except Exception:  # noqa: BLE001 - the error itself is known, only its place is wanted
            return key
    return None


def each_problem(shape: RecordShape, hints: Mapping[str, Any], text: str) -> list[PayloadError]:
    """What is wrong with the fields of a payload, each looked at alone; empty for text that is no object."""
    try:
        members = msgspec.json.decode(text.encode(), type=dict[str, msgspec.Raw])
    except (msgspec.MsgspecError, UnicodeEncodeError, RecursionError):
        return []
    found: list[PayloadError] = []
    required = _required(shape)
    for name, field in shape.fields.items():
        if name in members:
            found += _problem(field, hints[name], f"$.{name}", bytes(members[name]))
        elif name in required:
            found.append(PayloadError(f"$.{name}", ABSENT))
    for name in members:
        if name not in shape.fields:
            step = f".{name}" if name.isidentifier() else key_step(name)
            found.append(PayloadError(f"${step}", f"{shape.name} has no such field{nearest(name, shape.fields)}"))
    return found


def _required(shape: RecordShape) -> set[str]:
    missing = dataclasses.MISSING
    fields = dataclasses.fields(shape.cls)
    return {each.name for each in fields if each.default is missing and each.default_factory is missing}


def _problem(shape: Shape, hint: Any, path: str, data: bytes) -> Iterator[PayloadError]:
    try:
        msgspec.json.decode(data, type=hint)
        shape.unknown(_parsed(data))
    except msgspec.ValidationError as error:
        below = located(shape, data, error)
        yield PayloadError(path + below.path[1:], below.message)
    except Refused as refused:
        yield PayloadError(path + refused.path[1:], refused.message)
    except Exception as error:  # noqa: BLE001 - what a record inside raises in its __post_init__, or text nested too deep
        yield PayloadError(path, f"{type(error).__name__}: {error}")
