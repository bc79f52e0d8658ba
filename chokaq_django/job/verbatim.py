"""JSON as it is written: a tree in which every number keeps its digits.

What people look at and edit must not pass through Python's or a browser's numbers, which turn ``1.10`` into ``1.1`` and
cut what is beyond 2**53. A node is None, a bool, a str, a :class:`Number`, a list of nodes, or :class:`Members`.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, NoReturn

from .shape import MAX_DEPTH, key_step
from .text import safe_text

__all__ = ["Members", "Node", "Number", "check_depth", "kind_of", "parsed", "read", "scalar", "step_of", "write"]

Node = Any
_TOO_DEEP = f"nested more than {MAX_DEPTH} levels deep"


class Number(str):
    """A number's own text."""

    __slots__ = ()


class Members(list[tuple[str, Node]]):
    """An object: its members in their order. A name may come twice, and then the last one counts."""

    def get(self, name: str, default: Node = None) -> Node:
        for key, value in reversed(self):
            if key == name:
                return value
        return default

    @property
    def names(self) -> list[str]:
        return list(dict.fromkeys(key for key, _ in self))


def _refuse(text: str) -> NoReturn:
    raise ValueError(f"{text} is not JSON")


def read(text: str) -> Node:
    """The tree of JSON ``text``; ``ValueError`` for what is no JSON, or is nested deeper than any payload may be."""
    node = parsed(text)
    if text.count("[") + text.count("{") > MAX_DEPTH:
        check_depth(node)
    return node


def parsed(text: str) -> Node:
    """:func:`read` of text whose depth somebody else checks."""
    try:
        return json.loads(text, parse_int=Number, parse_float=Number, parse_constant=_refuse, object_pairs_hook=Members)
    except RecursionError:
        raise ValueError(_TOO_DEEP) from None


def check_depth(node: Node) -> None:
    """``ValueError`` for a tree that is nested deeper than any payload may be."""
    if _is_deep(node):
        raise ValueError(_TOO_DEEP)


def _is_deep(node: Node) -> bool:
    holders = [node] if isinstance(node, list) else []
    for _ in range(MAX_DEPTH):
        items = [item[1] if isinstance(holder, Members) else item for holder in holders for item in holder]
        holders = [item for item in items if isinstance(item, list)]
        if not holders:
            return False
    return True


def scalar(node: Node) -> str:
    """The JSON text of what holds nothing else."""
    if node is None:
        return "null"
    if node is True or node is False:
        return "true" if node else "false"
    if isinstance(node, Number):
        return str(node)
    text = str(node)
    # Lone surrogates, which no codec takes, are spelled out: nothing else can be written to a page or a file.
    return json.dumps(text, ensure_ascii=safe_text(text) != text)


def write(node: Node, indent: int = 0) -> str:
    """JSON text of a tree, numbers as they were read; ``indent``: blanks per level, 0 for a single line."""
    parts: list[str] = []
    _write(node, "\n" if indent else "", " " * indent, parts.append)
    return "".join(parts)


def _write(node: Node, line: str, step: str, out: Callable[[str], object]) -> None:
    if not isinstance(node, list):
        out(scalar(node))
        return
    opening, closing = "{}" if isinstance(node, Members) else "[]"
    out(opening)
    inner = line + step if line else ""
    colon, comma = (": ", ",") if line else (":", ",")
    for index, item in enumerate(node):
        out((comma if index else "") + inner)
        if isinstance(node, Members):
            out(scalar(item[0]) + colon)
            item = item[1]  # noqa: PLW2901 - its value
        _write(item, inner, step, out)
    out((line if node else "") + closing)


def step_of(name: str) -> str:
    """The step of a path into an object, as the codec spells it."""
    return f".{name}" if name.isidentifier() else key_step(name)


def kind_of(node: Node) -> str:
    """What JSON calls it."""
    if node is None:
        return "null"
    if isinstance(node, bool):
        return "boolean"
    if isinstance(node, Number):
        return "number"
    if isinstance(node, Members):
        return "object"
    return "array" if isinstance(node, list) else "string"
