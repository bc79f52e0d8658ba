"""Names of queues and types as somebody typed them, and which there are."""

from __future__ import annotations

from collections.abc import Collection

from ..reading.names import UnknownNameError, named_queue, named_type, unknown_names
from .console import usage
from .text import one_line

__all__ = ["known", "queue_or_refused", "type_or_refused", "unknown"]

NAMED = 10


def queue_or_refused(name: str, *, new: bool = False) -> str:
    """``name`` trimmed, if something knows it or it may be ``new``; else a usage error."""
    name = name.strip()
    try:
        return named_queue(name, new=new and bool(name))
    except UnknownNameError as error:
        return usage(one_line(error) + (known("Known queues", error.valid) or " There is no queue yet."))


def type_or_refused(key: str, *, new: bool = False) -> str:
    """``key`` trimmed, if something knows it or it may be ``new``; else a usage error."""
    key = key.strip()
    try:
        return named_type(key, new=new and bool(key))
    except UnknownNameError as error:
        return usage(f"{one_line(error)} --new accepts it all the same.")


def unknown(queue: str | None, type_key: str | None) -> str:
    """What a filter that finds nothing may owe to a slip, or nothing."""
    return one_line(unknown_names(queue, type_key))


def known(what: str, names: Collection[str]) -> str:
    """`` Workers: a, b.``: the first of those that there are, after a refusal of one that there is not."""
    if not names:
        return ""
    more = f" and {len(names) - NAMED:,} more" if len(names) > NAMED else ""
    return f" {what}: {', '.join(map(one_line, sorted(names)[:NAMED]))}{more}."
