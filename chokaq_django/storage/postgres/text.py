"""Text that PostgreSQL can store, and JSON that carries it into a statement."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable

from ...job.failures import safe_text

dump_json: Callable[[object], str] = functools.partial(json.dumps, ensure_ascii=False, separators=(",", ":"))


def storable(text: str | None, limit: int | None = None) -> str | None:
    """``text`` without what PostgreSQL refuses (NUL) or UTF-8 cannot hold (lone surrogates), cut to ``limit``.

    Texts of failures come here already safe; a write that records a failure must not fail because of one that is not.
    """
    if text is None or (text.isascii() and "\x00" not in text and (limit is None or len(text) <= limit)):
        return text
    return safe_text(text, limit)
