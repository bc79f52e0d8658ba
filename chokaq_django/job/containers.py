"""Shapes of what holds other values: lists, tuples, dicts, records, unions. Each adds its step to a refusal's path."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from .definition import nearest
from .shape import Refused, Shape, check_depth, key_step, mismatch

__all__ = ["ArrayShape", "DictShape", "RecordShape", "TupleShape", "UnionShape"]


class ArrayShape(Shape):
    """list, set, frozenset or tuple of any length."""

    __slots__ = ("cls", "item")

    def __init__(self, name: str, cls: type[Any], item: Shape) -> None:
        super().__init__(name)
        self.cls = cls
        self.item = item

    def takes(self, value: Any) -> bool:
        return type(value) is self.cls

    def check(self, value: Any, depth: int) -> None:
        if type(value) is not self.cls:
            raise mismatch(self.name, value)
        check_depth(depth)
        check = self.item.check
        for index, item in enumerate(value):
            try:
                check(item, depth + 1)
            except Refused as refused:
                refused.at(f"[{index}]")

    def unknown(self, raw: Any) -> None:
        for index, item in enumerate(raw):
            try:
                self.item.unknown(item)
            except Refused as refused:
                refused.at(f"[{index}]")

    def step(self, raw: Any, step: str) -> tuple[Shape | None, Any]:
        return self.item, raw[int(step[1:-1])]


class TupleShape(Shape):
    """A tuple or NamedTuple of fixed length."""

    __slots__ = ("cls", "items")

    def __init__(self, name: str, cls: type[Any], items: tuple[Shape, ...]) -> None:
        super().__init__(name)
        self.cls = cls
        self.items = items

    def takes(self, value: Any) -> bool:
        return type(value) is self.cls

    def check(self, value: Any, depth: int) -> None:
        if type(value) is not self.cls:
            raise mismatch(self.name, value)
        if len(value) != len(self.items):
            raise Refused(f"expected {len(self.items)} items, got {len(value)}")
        check_depth(depth)
        for index, (item, shape) in enumerate(zip(value, self.items, strict=True)):
            try:
                shape.check(item, depth + 1)
            except Refused as refused:
                refused.at(f"[{index}]")

    def unknown(self, raw: Any) -> None:
        for index, (item, shape) in enumerate(zip(raw, self.items, strict=False)):
            try:
                shape.unknown(item)
            except Refused as refused:
                refused.at(f"[{index}]")

    def step(self, raw: Any, step: str) -> tuple[Shape | None, Any]:
        index = int(step[1:-1])
        return self.items[index], raw[index]


class DictShape(Shape):
    __slots__ = ("hint", "key", "value")

    def __init__(self, name: str, hint: Any, key: Shape, value: Shape) -> None:
        super().__init__(name)
        self.hint = hint
        self.key = key
        self.value = value

    def takes(self, value: Any) -> bool:
        return type(value) is dict

    def check(self, value: Any, depth: int) -> None:
        if type(value) is not dict:
            raise mismatch(self.name, value)
        check_depth(depth)
        check_key, check_value = self.key.check, self.value.check
        for key, item in value.items():
            try:
                try:
                    check_key(key, depth + 1)
                except Refused as refused:
                    raise Refused(f"key: {refused.message}") from None
                check_value(item, depth + 1)
            except Refused as refused:
                refused.at(key_step(key))

    def unknown(self, raw: Any) -> None:
        for key, item in raw.items():
            try:
                self.value.unknown(item)
            except Refused as refused:
                refused.at(key_step(key))


class RecordShape(Shape):
    """A dataclass, or with ``mapping`` a TypedDict. ``fields`` is filled later: a type may hold itself."""

    __slots__ = ("cls", "fields", "mapping", "required")

    def __init__(self, cls: type[Any], *, mapping: bool = False) -> None:
        super().__init__(cls.__qualname__)
        self.cls = cls
        self.mapping = mapping
        self.required: frozenset[str] = frozenset()
        self.fields: dict[str, Shape] = {}

    def takes(self, value: Any) -> bool:
        return type(value) is (dict if self.mapping else self.cls)

    def check(self, value: Any, depth: int) -> None:
        if self.mapping:
            self._check_mapping(value)
        elif type(value) is not self.cls:
            raise mismatch(self.name, value)
        check_depth(depth)
        for name, item in self._items(value):
            try:
                self.fields[name].check(item, depth + 1)
            except Refused as refused:
                refused.at(f".{name}")

    def _check_mapping(self, value: Any) -> None:
        if type(value) is not dict:
            raise mismatch(self.name, value)
        missing = self.required - value.keys()
        if missing:
            raise Refused(f"the required key {min(missing)!r} is missing")
        self._refuse_unknown(value)

    def _items(self, value: Any) -> Iterator[tuple[str, Any]]:
        if self.mapping:
            return iter(value.items())
        return ((name, getattr(value, name)) for name in self.fields)

    def _refuse_unknown(self, raw: dict[Any, Any]) -> None:
        for name in raw:
            if name not in self.fields:
                refused = Refused(f"{self.name} has no such field{nearest(name, self.fields)}")
                refused.at(f".{name}" if str(name).isidentifier() else key_step(name))

    def unknown(self, raw: Any) -> None:
        self._refuse_unknown(raw)
        for name, item in raw.items():
            try:
                self.fields[name].unknown(item)
            except Refused as refused:
                refused.at(f".{name}")

    def step(self, raw: Any, step: str) -> tuple[Shape | None, Any]:
        return self.fields.get(step[1:]), raw[step[1:]]


class UnionShape(Shape):
    """One of several shapes; msgspec makes sure that their JSON differs."""

    __slots__ = ("options",)

    def __init__(self, name: str, options: tuple[Shape, ...]) -> None:
        super().__init__(name)
        self.options = options

    def check(self, value: Any, depth: int) -> None:
        deepest: Refused | None = None
        for option in self.options:
            try:
                return option.check(value, depth)
            except Refused as refused:
                if option.takes(value):
                    deepest = refused
        raise deepest or mismatch(self.name, value)

    def option_for(self, raw: Any) -> Shape | None:
        """The option that parsed JSON of this kind belongs to, if it can hold anything inside."""
        for option in self.options:
            if isinstance(option, (RecordShape, DictShape)) and isinstance(raw, dict):
                return option
            if isinstance(option, (ArrayShape, TupleShape)) and isinstance(raw, list):
                return option
        return None

    def unknown(self, raw: Any) -> None:
        option = self.option_for(raw)
        if option is not None:
            option.unknown(raw)

    def step(self, raw: Any, step: str) -> tuple[Shape | None, Any]:
        option = self.option_for(raw)
        return option.step(raw, step) if option is not None else (None, None)
