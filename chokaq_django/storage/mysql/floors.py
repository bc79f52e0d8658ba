"""Remembers before which instant nothing of a pair waits, for the time in which looking from the beginning is slow.

While some transaction holds an old snapshot (a dump, a long report), the server cannot remove the index entries of jobs
that are done, and whoever looks for the first due job walks over all of them: 50 ms for 60,000. From a known instant a
look starts behind them.
"""

from __future__ import annotations

import datetime as dt
import time
from collections.abc import Callable, Iterable, Mapping

from ..contract import ClaimedJob

Pair = tuple[str, int]

BEGINNING = dt.datetime.min  # noqa: DTZ901 - as the driver takes instants
SLOW = 0.005
"""Seconds that a look may take on the server."""
PATIENCE = 3
"""Slow looks in a row after which floors are used: one may be slow for any reason."""
AGAIN, SHARE = 1.0, 0.2
"""Seconds after which to look from the beginning again, for what came in below a floor (a late commit, a released job);
and the share of the time that such looks may take."""


def floor(now: dt.datetime, until: float) -> dt.datetime:
    """The floor of a pair whose first row is due in ``until`` seconds.

    It is never later than now: what comes in next is due before a row that lies in the future. A millisecond more makes
    up for the rounding of far instants.
    """
    try:
        return now + dt.timedelta(seconds=min(until, 0.0) - 0.001)
    except OverflowError:  # the first instant there is
        return BEGINNING


class Floors:
    """What one storage knows."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._slow = 0
        self._until = float("-inf")
        self._floors: dict[Pair, dt.datetime] = {}

    @property
    def used(self) -> bool:
        """Whether looks start at the floors now."""
        return self._clock() < self._until

    def of(self, pair: Pair) -> dt.datetime:
        """Where to start."""
        return self._floors.get(pair, BEGINNING) if self.used else BEGINNING

    def looked(self, seconds: float, first: Mapping[Pair, dt.datetime]) -> None:
        """A look from the beginning took so long on the server and found these first rows; now where there was none."""
        self._slow = self._slow + 1 if seconds > SLOW else 0
        if self._slow >= PATIENCE:
            self._until = self._clock() + max(AGAIN, seconds / SHARE)
            self._floors = dict(first)

    def claimed(self, jobs: Iterable[ClaimedJob]) -> None:
        """Rows come in the order of ``run_at``: what lies before those that were claimed is gone."""
        if self.used:
            for job in jobs:
                pair, run_at = (job.queue, job.priority), job.run_at.replace(tzinfo=None)
                if run_at > self._floors.get(pair, run_at):
                    self._floors[pair] = run_at
