"""Two texts side by side, line by line."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import dataclass, replace

__all__ = ["Diff", "DiffLine", "side_by_side"]

AROUND = 3
"""Unchanged lines that are shown beside a change."""
MOST_COMPARED = 1_000
"""Lines of the part that differs, of each text; beyond these it is shown as one change."""
MOST_SHOWN = 1_000
MOST_CHARACTERS = 50_000
LONGEST = 1_000
"""Characters of a line, from shortly before what differs in it."""
BEFORE = 100
MOST_WHOLE = 20_000
"""Lines, where somebody asks for all of them."""


@dataclass(frozen=True, slots=True)
class DiffLine:
    """A line of each text beside each other; None where one has no such line. ``gap``: so many unchanged lines are left
    out here."""

    old: str | None = None
    new: str | None = None
    old_number: int | None = None
    new_number: int | None = None
    changed: bool = False
    gap: int = 0


@dataclass(frozen=True, slots=True)
class Diff:
    """``added`` and ``removed`` count lines. ``cut``: lines, or parts of them, are left out."""

    lines: list[DiffLine]
    added: int
    removed: int
    cut: bool = False

    @property
    def is_same(self) -> bool:
        return not (self.added or self.removed)


def side_by_side(old: str, new: str, *, whole: bool = False) -> Diff:
    """``whole``: with all that differs, where otherwise as much is shown as one reads."""
    before, after = old.split("\n"), new.split("\n")
    head = _common(before, after)
    tail = _common(before[head:][::-1], after[head:][::-1])
    middle = before[head : len(before) - tail], after[head : len(after) - tail]
    lines: list[DiffLine] = [_same(before, after, n, n) for n in range(head)]
    for kind, low, high, start, end in _changes(*middle):
        if kind == "equal":
            lines += [_same(before, after, head + low + n, head + start + n) for n in range(high - low)]
            continue
        for n in range(max(high - low, end - start)):
            left = head + low + n if n < high - low else None
            right = head + start + n if n < end - start else None
            lines.append(_changed(before, after, left, right))
    lines += [_same(before, after, len(before) - n, len(after) - n) for n in range(tail, 0, -1)]
    added = sum(line.changed and line.new is not None for line in lines)
    removed = sum(line.changed and line.old is not None for line in lines)
    shown = _folded(lines)
    if whole:
        return Diff(shown[:MOST_WHOLE], added, removed, len(shown) > MOST_WHOLE)
    first = _first(shown)
    return Diff(first, added, removed, first != shown)


def _common(before: Sequence[str], after: Sequence[str]) -> int:
    count = 0
    for one, other in zip(before, after, strict=False):
        if one != other:
            break
        count += 1
    return count


def _changes(before: list[str], after: list[str]) -> list[tuple[str, int, int, int, int]]:
    if len(before) > MOST_COMPARED or len(after) > MOST_COMPARED:
        return [("replace", 0, len(before), 0, len(after))]
    return list(difflib.SequenceMatcher(None, before, after, autojunk=False).get_opcodes())


def _first(lines: list[DiffLine]) -> list[DiffLine]:
    """As many as one reads, in each of them the part that differs."""
    found: list[DiffLine] = []
    characters = 0
    for line in lines[:MOST_SHOWN]:
        short = _shortened(line)
        characters += len(short.old or "") + len(short.new or "")
        if found and characters > MOST_CHARACTERS:
            break
        found.append(short)
    return found


def _shortened(line: DiffLine) -> DiffLine:
    old, new = line.old or "", line.new or ""
    if max(len(old), len(new)) <= LONGEST:
        return line
    same = _common(old, new) if line.changed else 0
    start = max(0, same - BEFORE)
    return replace(line, old=_part(line.old, start), new=_part(line.new, start))


def _part(text: str | None, start: int) -> str | None:
    if text is None:
        return None
    end = start + LONGEST
    return f"{'…' if start else ''}{text[start:end]}{'…' if end < len(text) else ''}"


def _same(before: list[str], after: list[str], left: int, right: int) -> DiffLine:
    return DiffLine(before[left], after[right], left + 1, right + 1)


def _changed(before: list[str], after: list[str], left: int | None, right: int | None) -> DiffLine:
    return DiffLine(
        None if left is None else before[left],
        None if right is None else after[right],
        None if left is None else left + 1,
        None if right is None else right + 1,
        changed=True,
    )


def _folded(lines: list[DiffLine]) -> list[DiffLine]:
    """Long stretches without a change become one line that says how long they are."""
    near = [False] * len(lines)
    for place, line in enumerate(lines):
        if line.changed:
            for other in range(max(0, place - AROUND), min(len(lines), place + AROUND + 1)):
                near[other] = True
    shown: list[DiffLine] = []
    hidden = 0
    for line, is_near in zip(lines, near, strict=True):
        if is_near:
            if hidden:
                shown.append(DiffLine(gap=hidden))
                hidden = 0
            shown.append(line)
        else:
            hidden += 1
    if hidden:
        shown.append(DiffLine(gap=hidden))
    return shown
