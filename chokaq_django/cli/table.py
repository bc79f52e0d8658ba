"""Plain tables that fit the terminal."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from .text import clip, one_line, pad, width

__all__ = ["GAP", "Column", "pairs", "render", "wrap"]

GAP = "  "
MOST = 255
"""Columns that one cell takes, at most, where nothing else limits it."""


@dataclass(frozen=True, slots=True)
class Column:
    """A heading; ``right``: aligned right; ``flexible``: may be cut, to ``least`` columns, where the table is too wide
    for the terminal."""

    title: str
    right: bool = False
    flexible: bool = False
    least: int = 6


def render(columns: Sequence[Column], rows: Iterable[Sequence[object]], columns_wide: int | None) -> list[str]:
    """The lines of a table, its heading first. ``columns_wide``: the terminal's width, None when nobody looks.

    Cells are made harmless here, whatever they hold.
    """
    cells = [[clip(one_line(value), MOST) for value in row] for row in rows]
    widths = [max([width(column.title), *(width(row[place]) for row in cells)]) for place, column in enumerate(columns)]
    if columns_wide is not None:
        _shrink(widths, columns, columns_wide - len(GAP) * (len(columns) - 1))

    def line(values: Sequence[str]) -> str:
        shown = (
            pad(clip(value, wide), wide, right=column.right)
            for value, wide, column in zip(values, widths, columns, strict=True)
        )
        return GAP.join(shown).rstrip()

    return [line([column.title for column in columns]), *map(line, cells)]


def _shrink(widths: list[int], columns: Sequence[Column], room: int) -> None:
    """Take from the widest flexible column until all fit, or none can give any more."""
    while sum(widths) > room:
        giving = [place for place, column in enumerate(columns) if column.flexible and widths[place] > column.least]
        if not giving:
            return
        widths[max(giving, key=lambda place: widths[place])] -= 1


def pairs(entries: Iterable[tuple[str, object]], columns_wide: int | None) -> list[str]:
    """``name   value`` lines, the values below each other and wrapped; entries without a value are left out."""
    shown = [(name, one_line(value, 10_000)) for name, value in entries if value not in (None, "")]
    left = max((width(name) for name, _ in shown), default=0)
    lines: list[str] = []
    for name, value in shown:
        room = None if columns_wide is None else max(20, columns_wide - left - len(GAP))
        first, *others = wrap(value, room)
        lines.append(f"{pad(name, left)}{GAP}{first}")
        lines += [f"{' ' * left}{GAP}{other}" for other in others]
    return lines


def wrap(text: str, room: int | None) -> list[str]:
    """``text`` in lines of at most ``room`` columns, broken at blanks where there are any."""
    if room is None or width(text) <= room:
        return [text]
    lines, line = [], ""
    for word in text.split(" "):
        longer = f"{line} {word}" if line else word
        if width(longer) <= room:
            line = longer
            continue
        if line:
            lines.append(line)
        line = word
        while width(line) > room:
            head = clip(line, room + 1)[:-1]
            lines.append(head)
            line = line[len(head) :]
    return [*lines, line] if line else lines
