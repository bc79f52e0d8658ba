"""Values of sections as JSON has them."""

from __future__ import annotations

import datetime as dt
from typing import Any

from ...models import FailureReason, JobStatus
from ...reading.job import known
from ...sentence import Sentence
from .look import Look

__all__ = ["Section", "instant", "keyed", "label", "reason", "said"]

Section = dict[str, Any]


def instant(value: dt.datetime | None) -> float | None:
    """Seconds since 1970."""
    return None if value is None else round(value.timestamp(), 3)


def label(value: object) -> str:
    """A status as its stable name; one that only newer code knows, as its number."""
    return value.name.lower() if isinstance(value, JobStatus) else str(value)


def reason(number: int | None) -> str | None:
    if number is None:
        return None
    found = known(FailureReason, number)
    return found.label if isinstance(found, FailureReason) else str(found)


def keyed(look: Look, rows: dict[str, Section], more: int = 0, **plain: Any) -> Section:
    return {"as_of": instant(look.now), "more": more, **plain, "order": list(rows), "rows": rows}


def said(text: str) -> list[Any] | None:
    """What a browser makes the text of in its own language; None for one that nobody has translated."""
    return text.document() if isinstance(text, Sentence) else None
