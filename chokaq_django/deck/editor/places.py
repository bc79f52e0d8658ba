"""Places in a payload: which input shows one, and what is there."""

from __future__ import annotations

from typing import Any

from ...job.containers import RecordShape
from ...job.verbatim import Members, Node
from .fields import Field, nullable

__all__ = ["field_at", "list_at"]


def field_at(fields: list[Field], path: str) -> Field | None:
    """The field at the path, or the innermost one that holds it."""
    for each in fields:
        if path == each.path or path.startswith((f"{each.path}.", f"{each.path}[")):
            return field_at(each.children, path) or each
    return None


def list_at(node: Node, shape: Any, path: str, here: str = "$") -> tuple[list[Node], Any] | None:
    """The list at a path and the shape of its items, where a form has a list there."""
    shape = nullable(shape)[0] if shape is not None else None
    if here == path:
        is_list = isinstance(node, list) and not isinstance(node, Members) and hasattr(shape, "item")
        return (node, nullable(shape.item)[0]) if is_list else None
    if isinstance(node, Members) and isinstance(shape, RecordShape):
        below = [(value, shape.fields.get(name), f"{here}.{name}") for name, value in node]
    elif isinstance(node, list) and not isinstance(node, Members):
        inner = getattr(shape, "item", None)
        shapes = getattr(shape, "items", None) or [inner] * len(node)
        below = [(value, each, f"{here}[{n}]") for n, (value, each) in enumerate(zip(node, shapes, strict=False))]
    else:
        return None
    for value, inner, step in below:
        if path == step or path.startswith((f"{step}.", f"{step}[")):
            return list_at(value, inner, path, step)
    return None
