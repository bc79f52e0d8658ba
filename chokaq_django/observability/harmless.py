"""Untrusted text made harmless, for a terminal and for a log.

What comes from a job, or from whoever acts, may hold escape sequences that move the cursor, change the title or turn
text around, and line breaks after which it says what it likes. All of it is shown as the escape that Python would
print, never sent.
"""

from __future__ import annotations

import logging
import unicodedata

__all__ = ["MORE", "HarmlessFormatter", "block", "one_line"]

MORE = "…"
LONGEST_LINE = 10_000
"""Characters of one line of a text of several."""
_JOINER = "\u200d"
_HARMFUL = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
"""Unicode categories: control, format (which turns text around), surrogates, private, unassigned, line breaks."""


def one_line(value: object, limit: int = 1_000) -> str:
    """``value`` as text that stays on its line; longer ones than ``limit`` characters are cut."""
    text = str(value)
    if len(text) <= limit and text.isprintable():  # nothing of _HARMFUL is
        return text
    shown = "".join(map(_shown, text[: limit + 1]))
    return shown if len(text) <= limit else shown[:limit] + MORE


def block(value: object) -> str:
    """``value`` as text of several lines."""
    lines = str(value).replace("\r\n", "\n").split("\n")
    return "\n".join(one_line(line.expandtabs(4), LONGEST_LINE) for line in lines)


class HarmlessFormatter(logging.Formatter):
    """Only the first line of a record begins at the margin: what a message or a traceback quotes looks like no other
    record, and moves no cursor."""

    def format(self, record: logging.LogRecord) -> str:
        return block(super().format(record)).replace("\n", "\n    ")


def _shown(character: str) -> str:
    if character < "\x7f" and character >= " ":
        return character
    if character == _JOINER or unicodedata.category(character) not in _HARMFUL:
        return character
    return character.encode("unicode_escape").decode()
