"""How far one may look for what has no index."""

from __future__ import annotations

import datetime as dt

__all__ = ["LONGEST_SEARCH", "is_within_reach"]

LONGEST_SEARCH = dt.timedelta(days=7)
_SLACK = dt.timedelta(minutes=1)
"""``7d`` is seven days from when it was asked, and what asks a moment later, maybe by another clock, means the same."""


def is_within_reach(since: dt.datetime | None, until: dt.datetime) -> bool:
    """Whether the range is at most :data:`LONGEST_SEARCH`."""
    return since is not None and until - since <= LONGEST_SEARCH + _SLACK
