"""What has ended lately, kept up to date by small reads: a bucket of ten seconds that is over does not change."""

from __future__ import annotations

import datetime as dt
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from django.db.models import Sum

from ..models import HISTOGRAM_BINS, HISTOGRAM_LIMITS, TICK, MetricBucket, MetricRollup
from .series import COUNTED_AS, Totals, read_totals, together

__all__ = ["SPAN", "Outcomes", "Recent"]

SPAN = TICK
"""Seconds of a bucket."""
KEPT = 600
"""Seconds that are kept."""
WAITS = 60
"""Seconds for which it is known how long jobs had waited."""
SETTLED = 40
"""Seconds after which a bucket is read no more: whoever writes into it has committed, or been timed out, by then."""
TOTALS = 60
"""Seconds between two reads of all counters."""
_WAIT = [f"wait_{number}" for number in range(HISTOGRAM_BINS)]


@dataclass(slots=True)
class Outcomes:
    """Counts of outcomes, and how long the executions among them had waited, as a histogram."""

    done: int = 0
    retried: int = 0
    dead: int = 0
    waits: list[int] = field(default_factory=lambda: [0] * HISTOGRAM_BINS)

    def add(self, other: Outcomes) -> None:
        self.done += other.done
        self.retried += other.retried
        self.dead += other.dead
        self.waits = [a + b for a, b in zip(self.waits, other.waits, strict=True)]

    @property
    def failure_share(self) -> float:
        """Of the jobs that ended: how many died."""
        ended = self.done + self.dead
        return self.dead / ended if ended else 0.0

    @property
    def mean_wait(self) -> float | None:
        """Seconds, as near as the histogram tells; None of nothing."""
        count = sum(self.waits)
        if not count:
            return None
        return sum(n * middle for n, middle in zip(self.waits, _MIDDLES, strict=True)) / count / 1000


_LIMITS = (0, *HISTOGRAM_LIMITS, HISTOGRAM_LIMITS[-1])
_MIDDLES = [(low * high) ** 0.5 if low else high / 2 for low, high in pairwise(_LIMITS)]
"""A value for each bin, in milliseconds: the middle on the logarithmic scale, on which bins are equally wide."""


class Recent:
    """The last ten minutes by queue; how long jobs had waited, of the last one. For one thread at a time."""

    def __init__(self, alias: str) -> None:
        self._alias = alias
        self._buckets: dict[int, dict[str, Outcomes]] = {}
        """Start of a bucket in seconds since 1970 -> queue -> what ended in it."""
        self._now = 0.0
        self._base = Totals()
        self._base_at = float("-inf")
        self._base_since = 0
        self._base_recent = Totals()

    def read(self, now: dt.datetime) -> None:
        """Look at what may have changed. ``now`` is the database's."""
        self._now = now.timestamp()
        first, since = self._start(KEPT), self._start(SETTLED)
        kept = {at: queues for at, queues in self._buckets.items() if first <= at < since}
        if not kept:
            since = self._start(WAITS)
            kept = self._read(first, since)
        self._buckets = {**kept, **self._read(since)}
        if not 0 <= self._now - self._base_at < TOTALS:
            self._read_totals()

    def _start(self, seconds: int) -> int:
        """The start of the bucket that was open ``seconds`` ago."""
        instant = int(self._now) - seconds
        return instant - instant % SPAN

    def _read(self, since: int, until: int | None = None) -> dict[int, dict[str, Outcomes]]:
        """Buckets from ``since`` on; those before ``until``, if it is given, without their histograms."""
        within = {"at__gte": dt.datetime.fromtimestamp(since, dt.UTC)}
        if until is not None:
            within["at__lt"] = dt.datetime.fromtimestamp(until, dt.UTC)
        sums = {f"sum_{column}": Sum(column) for column in ("count", *(_WAIT if until is None else ()))}
        parts = [
            rows.filter(**within).order_by().values("at", "queue", "outcome").annotate(**sums)
            for rows in (
                MetricBucket.objects.using(self._alias), MetricRollup.objects.using(self._alias).filter(span=TICK),
            )
        ]  # fmt: skip
        found: dict[int, dict[str, Outcomes]] = defaultdict(dict)
        for row in together(self._alias, parts):
            self._take(found[int(row["at"].timestamp())], row)
        return found

    @staticmethod
    def _take(queues: dict[str, Outcomes], row: Mapping[str, Any]) -> None:
        outcomes = queues.setdefault(row["queue"], Outcomes())
        bins = zip(outcomes.waits, _WAIT, strict=True)
        outcomes.waits = [waits + int(row.get(f"sum_{name}", 0)) for waits, name in bins]
        name = COUNTED_AS[row["outcome"]]
        setattr(outcomes, name, getattr(outcomes, name) + int(row["sum_count"]))

    # -- what it tells -------------------------------------------------------------------------------------------------

    def by_queue(self, seconds: int) -> dict[str, Outcomes]:
        """What ended within about ``seconds``, by queue."""
        found: dict[str, Outcomes] = defaultdict(Outcomes)
        for at in self._within(seconds):
            for name, outcomes in self._buckets[at].items():
                found[name].add(outcomes)
        return dict(found)

    def whole(self, seconds: int) -> Outcomes:
        """What ended within about ``seconds``, of all queues."""
        sums = Outcomes()
        for outcomes in self.by_queue(seconds).values():
            sums.add(outcomes)
        return sums

    def line(self, name: str, queue: str | None = None) -> list[int]:
        """``done``, ``retried`` or ``dead`` of each bucket of the last ten minutes, the oldest first; the last is the
        one that is open."""
        first = self._start(KEPT - SPAN)
        return [self._sum(at, name, queue) for at in range(first, first + KEPT, SPAN)]

    @property
    def until(self) -> int:
        """When the open bucket ends."""
        return self._start(0) + SPAN

    def totals(self) -> Totals:
        """Outcomes since the tables were made: what the counters said, and what came since."""
        since = self._recent(self._base_since)
        return Totals(
            done=self._base.done + max(0, since.done - self._base_recent.done),
            retried=self._base.retried + max(0, since.retried - self._base_recent.retried),
            dead=self._base.dead + max(0, since.dead - self._base_recent.dead),
        )

    def _read_totals(self) -> None:
        self._base_at, self._base_since = self._now, self._start(SETTLED)
        since = dt.datetime.fromtimestamp(self._base_since, dt.UTC)
        self._base, self._base_recent = read_totals(self._alias, since)

    def _recent(self, since: int) -> Totals:
        return _sum([o for at, queues in self._buckets.items() if at >= since for o in queues.values()])

    def _within(self, seconds: int) -> list[int]:
        first = self._start(seconds - SPAN)
        return [at for at in self._buckets if at >= first]

    def _sum(self, at: int, name: str, queue: str | None) -> int:
        queues = self._buckets.get(at, {})
        if queue is not None:
            return int(getattr(queues[queue], name)) if queue in queues else 0
        return sum(getattr(outcomes, name) for outcomes in queues.values())


def _sum(parts: Iterable[Outcomes | Totals]) -> Totals:
    found = Totals()
    for part in parts:
        found.done += part.done
        found.retried += part.retried
        found.dead += part.dead
    return found
