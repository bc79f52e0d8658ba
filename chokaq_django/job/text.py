"""Text made storable on every engine, and short enough."""

from __future__ import annotations

import re

__all__ = ["UNSTORABLE", "safe_middle", "safe_text"]

UNSTORABLE = re.compile("[\x00\ud800-\udfff]")
"""What one engine or another refuses in a text: NUL, and halves of surrogate pairs."""


def _escape(match: re.Match[str]) -> str:
    code = ord(match.group())
    return f"\\u{code:04x}" if code > 0xFF else f"\\x{code:02x}"


def safe_text(text: str, limit: int | None = None) -> str:
    """``text`` made storable on every engine: NUL and lone surrogates escaped, cut to ``limit`` characters.

    A cut text ends in a mark with its full length, and the mark is inside the limit.
    """
    length = len(text)
    if limit is not None:
        text = text[:limit]  # escaping only lengthens: what is beyond the limit cannot be kept
    text = UNSTORABLE.sub(_escape, text)
    if limit is None or (length <= limit and len(text) <= limit):
        return text
    mark = f"… [truncated, {length:,} characters]"
    return text[: max(limit - len(mark), 0)] + mark[:limit]


def safe_middle(text: str, limit: int) -> str:
    """Like ``safe_text``, but cuts the middle: a traceback's end says what happened, its beginning where."""
    length = len(text)
    if length > 2 * limit:
        text = text[:limit] + text[-limit:]  # escaping only lengthens: no more than this can be kept
    text = UNSTORABLE.sub(_escape, text)
    if length <= limit and len(text) <= limit:
        return text
    mark = f"\n… [truncated, {length:,} characters] …\n"
    head = limit // 4
    return text[:head] + mark + text[len(text) - (limit - head - len(mark)) :]
