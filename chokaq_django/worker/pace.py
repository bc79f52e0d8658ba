"""How fast jobs end here: mean run time and rate, for the size of run-ahead and buffer."""

from __future__ import annotations

import time

WINDOW = 0.02


class Pace:
    """Exponential means, fed by the slots without a lock: a lost sample does not matter."""

    def __init__(self) -> None:
        self.mean = 0.0
        """Seconds a job runs, on average over the last dozens."""
        self.known = False
        self.last = 0.0
        """When a job last ended, by the monotonic clock."""
        self._count = 0
        self._rate = 0.0
        self._since = time.monotonic()

    def ended(self, seconds: float) -> None:
        """A job ran for ``seconds``."""
        self.mean = self.mean * 0.95 + seconds * 0.05 if self.known else seconds
        self.known = True
        self.last = time.monotonic()
        self._count += 1

    def rate(self) -> float:
        """Jobs per second that end while there is work."""
        now = time.monotonic()
        passed = now - self._since
        if passed >= WINDOW:
            latest = self._count / passed
            # Growth counts at once, so that a cold worker reaches its speed in a few claims; decline counts slowly.
            self._rate = max(latest, self._rate * 0.8 + latest * 0.2)
            self._count, self._since = 0, now
        return self._rate
