"""Remembers which (queue, priority) pairs have work, for the time in which finding them out is slow.

While some transaction holds an old snapshot, vacuum cannot remove the index entries of finished jobs, and looking for
the pairs walks over all of them: a tenth of a second for 200,000, at every claim. From known pairs, each with an
instant before which nothing waits, a claim starts behind the dead entries.
"""

from __future__ import annotations

import datetime as dt
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from ..contract import ClaimedJob

SLOW = 0.005
SLOW_PER_ROW = 0.000_05
"""Seconds that a look may take on the server, and what each row of the limit adds to it."""
PATIENCE = 3
"""Slow looks in a row after which the pairs are remembered: one may be slow for any reason."""
REDISCOVER = 1.0
"""Seconds after which known pairs are found out anew: for new priorities, late commits, rows with an old ``run_at``."""


@dataclass(slots=True)
class KnownPair:
    """``floor``: no row of the pair that may be claimed is due before it, as far as is known."""

    queue: str
    priority: int
    floor: dt.datetime


class KnownPairs:
    """What one storage knows. It is in use (:attr:`active`) only while finding out is slow."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._slow = 0
        self._pairs: dict[tuple[str, int], KnownPair] = {}
        self._queues: frozenset[str] = frozenset()
        self._fresh_until = float("-inf")
        self.active = False

    def looked(self, seconds: float, limit: int) -> None:
        """A claim that found the pairs out itself took so long until its rows were chosen."""
        self._slow = self._slow + 1 if seconds > SLOW + SLOW_PER_ROW * limit else 0
        self.active = self._slow >= PATIENCE

    def fresh(self, queues: Sequence[str]) -> bool:
        """Whether the pairs of these queues were found out lately."""
        return self._clock() < self._fresh_until and self._queues.issuperset(queues)

    def learn(self, queues: Sequence[str], pairs: Iterable[KnownPair], seconds: float) -> None:
        """All pairs of these queues, and how long it took to find them out: not slow any more ends the use."""
        self._pairs = {(pair.queue, pair.priority): pair for pair in pairs}
        self._queues = frozenset(queues)
        self._fresh_until = self._clock() + REDISCOVER
        self.looked(seconds, 0)
        if self._slow:
            self._slow = PATIENCE
            self.active = True

    def claimed(self, jobs: Iterable[ClaimedJob]) -> None:
        """Rows come in the order of ``run_at``: what lies before those that were claimed is gone."""
        for job in jobs:
            pair = self._pairs.get((job.queue, job.priority))
            if pair is not None and job.run_at > pair.floor:
                pair.floor = job.run_at

    def of(self, queues: Sequence[str]) -> list[tuple[int, KnownPair]]:
        """The pairs of these queues, each with its queue's place."""
        place = {queue: index for index, queue in enumerate(queues)}
        return [(place[pair.queue], pair) for pair in self._pairs.values() if pair.queue in place]
