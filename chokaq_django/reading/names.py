"""Queues and types that there are, and the nearest to one that there is not: a slip is no new name."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from ..conf import get_options
from ..job.definition import nearest
from ..job.registry import registry
from ..job.text import safe_text
from ..models import Circuit
from ..sentence import shown
from .queues import known_queues

__all__ = ["UnknownNameError", "meant", "named_queue", "named_type", "unknown_names"]


class UnknownNameError(ValueError):
    """Nothing knows the name. ``valid``: those that there are, where they are few enough to be told."""

    def __init__(self, message: str, valid: Collection[str] = ()) -> None:
        super().__init__(message)
        self.message, self.valid = message, valid


def meant(name: object, valid: Iterable[str]) -> str:
    """`` Did you mean 'x'?``, where something like ``name`` is valid."""
    near = nearest(name, valid).removeprefix("; ")
    return f" {near[0].upper() + near[1:]}" if near else ""


def named_queue(name: str, *, new: bool = False) -> str:
    """``name``, if settings, code, an operator's act or a job knows it, or it may be ``new``."""
    if not new and name not in (queues := known_queues()):
        raise UnknownNameError(_no_queue(name, queues), queues)
    return name


def named_type(key: str, *, new: bool = False) -> str:
    """``key``, if code or a circuit knows it, or it may be ``new``."""
    if new or registry.get(key) is not None:
        return key
    if safe_text(key) == key and Circuit.objects.using(get_options().database).filter(pk=key).exists():
        return key
    raise UnknownNameError(_no_type(key))


def unknown_names(queue: str | None, type_key: str | None) -> str:
    """What a filter that finds nothing may owe to a slip: a sentence for each name that nothing knows, or nothing."""
    said = ""
    if queue is not None and queue not in (queues := known_queues()):
        said += f" {_no_queue(queue, queues)}"
    if type_key is not None and registry.get(type_key) is None:
        said += f" {_no_type(type_key)}"
    return said


def _no_queue(name: str, queues: Collection[str]) -> str:
    return f"There is no queue {shown(name, 100)}.{meant(name, queues)}"


def _no_type(key: str) -> str:
    keys = [job_type.key for job_type in registry.types() if not job_type.wants_raw]
    return f"The code here knows no type {shown(key, 100)}.{meant(key, keys)}"
