"""Values that nobody should read over a shoulder: fields by their names, as ``DECK.MASK_FIELDS`` says.

Whoever may see payloads sees these too, but only when they ask, which the audit notes (``control.reveal``).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from fnmatch import translate
from functools import lru_cache

from ..conf import get_options
from ..job.verbatim import Members, Node, read, step_of, write

__all__ = ["CHANGED", "MASK", "Masked", "is_secret", "mask_change", "mask_members", "mask_node", "mask_text", "unmask"]

MASK = "••••••••"
CHANGED = f"{MASK} (another one)"
_IGNORED = str.maketrans("", "", "_-. ")


@dataclass(frozen=True, slots=True)
class Masked:
    """A text as it may be shown; ``hidden``: how many of its values were replaced."""

    text: str
    hidden: int


def _plain(name: str) -> str:
    return name.casefold().translate(_IGNORED)


@lru_cache(maxsize=8)
def _one_of(patterns: tuple[str, ...], *, within: bool) -> re.Pattern[str]:
    """Whatever one of the patterns matches; ``within``: as a part of a longer text."""
    around = "*" if within else ""
    plain = (_plain(pattern) for pattern in patterns)
    return re.compile("|".join(translate(f"{around}{pattern}{around}") for pattern in plain) or r"(?!)")


def is_secret(name: str) -> bool:
    """Whether the value of a field of this name is masked."""
    return _one_of(get_options().deck.mask_fields, within=False).match(_plain(name)) is not None


def mask_node(node: Node) -> tuple[Node, int]:
    """The tree with :data:`MASK` for every secret value, and how many there were. Null and an empty text stay: they
    tell what is wrong and no secret."""
    if isinstance(node, Members):
        shown, hidden = Members(), 0
        for name, value in node:
            if value not in (None, "", MASK) and is_secret(name):
                shown.append((name, MASK))
                hidden += 1
            else:
                inner, count = mask_node(value)
                shown.append((name, inner))
                hidden += count
        return shown, hidden
    if isinstance(node, list):
        parts = [mask_node(item) for item in node]
        return [part for part, _ in parts], sum(count for _, count in parts)
    return node, 0


def mask_change(node: Node, before: Node) -> Node:
    """The tree as :func:`mask_node` shows it, beside ``before``: a secret that is another now says so."""
    return _mask_change(node, [before])


def _mask_change(node: Node, before: list[Node]) -> Node:
    if isinstance(node, Members):
        shown, named = Members(), _named(before)
        for name, value in node:
            there = [named[name]] if name in named else []
            if value in (None, "", MASK) or not is_secret(name):
                shown.append((name, _mask_change(value, there)))
            else:
                shown.append((name, MASK if there == [value] else CHANGED))
        return shown
    if isinstance(node, list):
        items = before[0] if before and type(before[0]) is list else []
        return [_mask_change(item, items[n : n + 1]) for n, item in enumerate(node)]
    return node


def mask_text(text: str, indent: int = 0) -> Masked:
    """Stored JSON without its secrets. It stays as it is written, unless it has secrets or is to be indented.

    Text that is no JSON is shown as it is, or not at all where a secret name occurs in it.
    """
    try:
        node, hidden = mask_node(read(text))
        return Masked(write(node, indent) if hidden or indent else text, hidden)
    except ValueError:
        if _one_of(get_options().deck.mask_fields, within=True).match(_plain(text)):
            return Masked(MASK, 1)
        return Masked(text, 0)


def mask_members(values: dict[str, str]) -> tuple[dict[str, str], int]:
    """Headers without their secrets, and how many there were."""
    shown = {name: MASK if value and is_secret(name) else value for name, value in values.items()}
    return shown, sum(shown[name] != value for name, value in values.items())


def unmask(node: Node, stored: Node) -> Node:
    """The tree with what is stored in the place of every mask; ``LookupError`` with the path of a mask for which
    nothing is stored."""
    return _unmask(node, [stored], "$")


def _unmask(node: Node, stored: list[Node], path: str) -> Node:
    """``stored``: what is there, in a list; an empty one when there is nothing."""
    if isinstance(node, Members):
        whole, named = Members(), _named(stored)
        for name, value in node:
            there = [named[name]] if name in named else []
            step = path + step_of(name)
            if value == MASK and is_secret(name):
                if not there:
                    raise LookupError(step)
                whole.append((name, there[0]))
            else:
                whole.append((name, _unmask(value, there, step)))
        return whole
    if isinstance(node, list):
        items = stored[0] if stored and type(stored[0]) is list else []
        return [_unmask(item, there, f"{path}[{n}]") for n, (item, there) in enumerate(_partners(node, items))]
    return node


def _partners(items: list[Node], stored: list[Node]) -> list[tuple[Node, list[Node]]]:
    """Each item with the stored one that it was made of, in a list; with an empty one where that cannot be told: the
    secret of one item must never come into another.

    What is shown of an item tells which it is. One that was changed is the one that stood in its place, as long as
    none was moved or removed.
    """
    in_place = [(item, stored[n : n + 1]) for n, item in enumerate(items)]
    masked, hidden = mask_node(stored)
    shown, typed = (list(map(write, each)) for each in (masked, items)) if hidden else ([], [])
    if typed[: len(shown)] == shown:  # all of them are there, and maybe more behind them
        return in_place
    alike: dict[str, list[Node]] = {}
    for text, one in zip(shown, stored, strict=True):
        alike.setdefault(text, []).append(one)
    if len(typed) == len(shown) and all(
        text == old or text not in alike for text, old in zip(typed, shown, strict=True)
    ):
        return in_place
    found = [alike.get(text, []) for text in typed]
    return [
        (item, some[:1] if all(one == some[0] for one in some) else []) for item, some in zip(items, found, strict=True)
    ]


def _named(holder: list[Node]) -> dict[str, Node]:
    return dict(holder[0]) if holder and isinstance(holder[0], Members) else {}
