"""How often a browser is told, however much happens."""

from __future__ import annotations

import time
from collections import deque

__all__ = ["Pace"]

MOST = 5
"""In any second. With fewer, a change just after one that was told could not be seen within a quarter of a second."""
SECOND = 1.0
QUICK = 0.05
GAP = 0.2


class Pace:
    """Five in any second at most. After a pause the second one may follow the first at once: a job that begins and ends
    is two changes, and neither should wait. While changes go on, they are told evenly."""

    def __init__(self) -> None:
        self._times: deque[float] = deque(maxlen=MOST)

    def wait(self) -> float:
        """Seconds until it is time for the next; 0 for now."""
        if not self._times:
            return 0.0
        now = time.monotonic()
        lately = sum(now - at < SECOND for at in self._times)
        due = self._times[-1] + (QUICK if lately <= 1 else GAP)
        if len(self._times) == MOST:
            due = max(due, self._times[0] + SECOND)
        return max(0.0, due - now)

    def took(self) -> None:
        """It was told now."""
        self._times.append(time.monotonic())
