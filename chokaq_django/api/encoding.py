"""Documents as JSON text, whatever rows they were made of."""

from __future__ import annotations

import json
import math
from typing import Any

__all__ = ["encoded"]

DEEPEST = 50
"""Levels that are shown of what nobody should have stored."""


def encoded(document: Any) -> bytes:
    """ASCII, so that lone surrogates, which JSON may spell and UTF-8 may not, are no error."""
    try:
        return json.dumps(document, allow_nan=False, separators=(",", ":")).encode("ascii")
    except (ValueError, RecursionError):  # not finite, or too deep: no code of ours wrote that
        return json.dumps(_bounded(document, DEEPEST), allow_nan=False, separators=(",", ":")).encode("ascii")


def _bounded(value: Any, levels: int) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {str(key): _bounded(item, levels - 1) for key, item in value.items()} if levels else None
    if isinstance(value, list | tuple):
        return [_bounded(item, levels - 1) for item in value] if levels else None
    return value
