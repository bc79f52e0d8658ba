"""Text that every engine can store."""

from __future__ import annotations

from ..job.text import safe_text


def storable(text: str | None, limit: int | None = None) -> str | None:
    """``text`` without what databases refuse (NUL) or UTF-8 cannot hold (lone surrogates), cut to ``limit`` characters.

    Texts of failures come here already safe; a write that records a failure must not fail because of one that is not.
    """
    if text is None or (text.isascii() and "\x00" not in text and (limit is None or len(text) <= limit)):
        return text
    return safe_text(text, limit)
