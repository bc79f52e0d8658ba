"""Durations as people write them: a timedelta, or seconds."""

from __future__ import annotations

import math
from datetime import timedelta

from ..sentence import shown

__all__ = ["LONGEST_DELAY", "Duration", "to_seconds"]

Duration = timedelta | int | float

LONGEST_DELAY = 100 * 365.25 * 86400.0
"""Seconds from now that every engine can still add to its clock: 100 years."""


def to_seconds(value: object, *, zero: bool = False) -> float:
    """Seconds of a duration, as a float.

    ``zero`` allows 0. Raises ``TypeError`` for anything but a timedelta or a number, ``ValueError`` for a negative,
    zero or non-finite one; the messages read on from the name of an option ("TIMEOUT must be ...").
    """
    if isinstance(value, timedelta):
        seconds = value.total_seconds()
    elif isinstance(value, (int, float)) and not isinstance(value, bool):
        try:
            seconds = float(value)
        except OverflowError:
            raise ValueError("must be a finite number of seconds, got an integer too large for one") from None
    else:
        raise TypeError(f"must be a timedelta or a number of seconds, got {shown(value)}")
    if not math.isfinite(seconds):
        raise ValueError(f"must be a finite number of seconds, got {shown(value)}")
    if seconds < 0 or (seconds == 0 and not zero):
        raise ValueError(f"must be {'0 or more' if zero else 'more than 0'}, got {shown(value)}")
    return seconds
