"""The attempt log of a job: a JSON list of its last executions, kept in the job's row."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from .text import safe_text

__all__ = ["ENTRY_LIMIT", "KEPT", "append_attempt", "read_attempts"]

KEPT = 20
ENTRY_LIMIT = 20_000
LOG_LIMIT = KEPT * (ENTRY_LIMIT + 10)
_TEXT_LIMIT = 16_000


def read_attempts(log_text: str) -> list[dict[str, Any]]:
    """The entries of a stored log, oldest first. What cannot be read counts as empty: a failure write must succeed."""
    try:
        entries = json.loads(log_text) if log_text else []
    except (ValueError, RecursionError):
        return []
    return [entry for entry in entries if isinstance(entry, dict)] if isinstance(entries, list) else []


def append_attempt(log_text: str, entry: Mapping[str, Any]) -> str:
    """``log_text`` with ``entry`` at its end, as JSON text; only the last 20 entries stay.

    Datetimes become ISO text, strings are made storable and cut, an entry too large loses its longest texts first.
    """
    # A longer text is no log of ours: it would be read and written again with each attempt.
    entries = read_attempts(log_text)[-(KEPT - 1) :] if len(log_text) <= LOG_LIMIT else []
    entries.append(_capped({str(key): _storable(value, _TEXT_LIMIT) for key, value in entry.items()}))
    try:
        return _as_text(entries)
    except (ValueError, RecursionError):  # earlier entries that no code of ours wrote
        return _as_text(entries[-1:])


def _as_text(entries: list[dict[str, Any]]) -> str:
    return json.dumps(entries, ensure_ascii=False, separators=(",", ":"))


def _storable(value: Any, limit: int) -> Any:
    if value is None or isinstance(value, (bool, int)):
        return value
    if isinstance(value, float):
        return value if abs(value) < float("inf") else str(value)
    if isinstance(value, str):
        return safe_text(str(value), limit)
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, (list, tuple)):
        return [_storable(item, limit) for item in value]
    return safe_text(str(value), limit)


def _capped(entry: dict[str, Any]) -> dict[str, Any]:
    """``entry`` within ``ENTRY_LIMIT`` characters of JSON: its longest value is cut in half until it fits."""
    sizes = {key: _size(key) + _size(value) for key, value in entry.items()}
    while sum(sizes.values()) > ENTRY_LIMIT:
        key = max(sizes, key=sizes.__getitem__)
        value = entry[key]
        if not value:
            del entry[key], sizes[key]
            continue
        if isinstance(value, list):
            entry[key] = value[len(value) // 2 + 1 :]  # the newest lines stay
        else:
            entry[key] = safe_text(str(value), len(str(value)) // 2)
        sizes[key] = _size(key) + _size(entry[key])
    return entry


def _size(value: Any) -> int:
    return len(json.dumps(value, ensure_ascii=False)) + 2  # with its colon or comma
