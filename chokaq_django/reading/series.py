"""Outcomes over time, and since the tables were made: what charts and totals show.

One statement each, an indexed range of at most a week's roll-ups and the last minutes' buckets, added up by the
database.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from django.db.models import BigIntegerField, Case, F, Max, QuerySet, Sum, Value, When

from ..models import (
    FIVE_MINUTES,
    HISTOGRAM_BINS,
    HISTOGRAM_LIMITS,
    HOUR,
    MINUTE,
    TICK,
    BucketOutcome,
    Counter,
    MetricBucket,
    MetricRollup,
)
from .plans import by_index

__all__ = [
    "COUNTED_AS",
    "REACHES",
    "Quantiles",
    "Reach",
    "Series",
    "Totals",
    "quantile",
    "read_series",
    "read_totals",
    "together",
]


class Reach(NamedTuple):
    """How far back a chart goes, and the length of one of its slots, which is the span of the roll-ups that it reads
    beside the buckets; all in seconds."""

    seconds: int
    slot: int


REACHES = {
    "15m": Reach(900, TICK),
    "1h": Reach(HOUR, MINUTE),
    "6h": Reach(6 * HOUR, FIVE_MINUTES),
    "1d": Reach(24 * HOUR, FIVE_MINUTES),
    "7d": Reach(7 * 24 * HOUR, HOUR),
}

_SHARES = {"p50": 0.5, "p95": 0.95, "p99": 0.99}
_RUN = [f"run_{number}" for number in range(HISTOGRAM_BINS)]
_WAIT = [f"wait_{number}" for number in range(HISTOGRAM_BINS)]
_COUNTED = {"done": BucketOutcome.SUCCEEDED, "retried": BucketOutcome.RETRIED, "dead": BucketOutcome.DEAD}
COUNTED_AS = {int(outcome): name for name, outcome in _COUNTED.items()}
"""What an outcome is called in :class:`Totals` and in a series."""


@dataclass(slots=True)
class Quantiles:
    """Milliseconds below which half, 95 % and 99 % of the executions in each slot stayed; None where nothing ran."""

    p50: list[float | None] = field(default_factory=list)
    p95: list[float | None] = field(default_factory=list)
    p99: list[float | None] = field(default_factory=list)

    def add(self, bins: Sequence[int], longest: float | None) -> None:
        """One slot more; ``longest``: the greatest value in it, None when it is not known."""
        for name, share in _SHARES.items():
            getattr(self, name).append(quantile(bins, share, longest))


@dataclass(slots=True)
class Series:
    """Columns of equal length, a slot each, oldest first; the last slot is the one that is running.

    ``at``: when each slot begins, in seconds since 1970. ``span``: the length of a slot in seconds. ``wait`` is from
    the due time to the start, ``run`` from there to the end, of all executions, whatever came of them.
    """

    reach: str
    span: int
    at: list[int]
    done: list[int] = field(default_factory=list)
    dead: list[int] = field(default_factory=list)
    retried: list[int] = field(default_factory=list)
    run: Quantiles = field(default_factory=Quantiles)
    wait: Quantiles = field(default_factory=Quantiles)


@dataclass(slots=True)
class Totals:
    """Outcomes since the tables were made; they only grow."""

    done: int = 0
    retried: int = 0
    dead: int = 0

    def add(self, outcome: int, count: int) -> None:
        name = COUNTED_AS[outcome]
        setattr(self, name, getattr(self, name) + int(count))


def read_series(
    alias: str, now: dt.datetime, reach: str, *, queue: str | None = None, type_key: str | None = None
) -> Series:
    """Outcomes and durations of the last ``reach`` (a key of :data:`REACHES`), of one queue or type or of all.

    ``now`` is the database's.
    """
    seconds, slot = REACHES[reach]
    end = _floor(int(now.timestamp()), slot) + slot
    series = Series(reach, slot, list(range(end - seconds, end, slot)))
    since = dt.datetime.fromtimestamp(series.at[0], dt.UTC)
    named = {name: value for name, value in (("queue", queue), ("type", type_key)) if value is not None}
    counted = (MetricBucket.objects.using(alias), MetricRollup.objects.using(alias).filter(span=slot))
    slots = _by_slot(together(alias, [_ticks(rows.filter(at__gte=since, **named)) for rows in counted]), slot)
    for start in series.at:
        row = slots.get(start, _NOTHING)
        for name in _COUNTED:
            getattr(series, name).append(row[name])
        series.run.add([row[column] for column in _RUN], row["longest"])
        series.wait.add([row[column] for column in _WAIT], None)
    return series


def read_totals(alias: str, since: dt.datetime) -> tuple[Totals, Totals]:
    """What has ever come of all jobs, in the counters and in buckets that are not yet in them; and how much of that is
    in buckets from ``since`` on.

    By one statement: an outcome that is committed between two would be in the one and not in the other.
    """
    lately = Sum(Case(When(at__gte=since, then=F("count")), default=Value(0)))
    parts = [
        rows.order_by().values("outcome").annotate(total=Sum("count"), recent=recent)
        for rows, recent in (
            (Counter.objects.using(alias), Value(0, BigIntegerField())),
            (MetricBucket.objects.using(alias), lately),
        )
    ]
    totals, recent = Totals(), Totals()
    for row in together(alias, parts):
        totals.add(row["outcome"], row["total"])
        recent.add(row["outcome"], row["recent"])
    return totals, recent


_NOTHING: dict[str, Any] = dict.fromkeys((*_COUNTED, *_RUN, *_WAIT, "longest"), 0)


def _ticks(rows: QuerySet[Any]) -> QuerySet[Any, Any]:
    """The sums of each instant, over queues, types, reasons and writers."""
    counts = {
        name: Sum(Case(When(outcome=outcome, then=F("count")), default=Value(0))) for name, outcome in _COUNTED.items()
    }
    bins = {f"sum_{column}": Sum(column) for column in (*_RUN, *_WAIT)}
    sums: QuerySet[Any, Any] = rows.order_by().values("at").annotate(**counts, longest=Max("max_ms"), **bins)
    return sums


def together(alias: str, parts: Sequence[QuerySet[Any, Any]]) -> list[dict[str, Any]]:
    """The rows of all parts by one statement: what moves from one table to the other meanwhile is seen once."""
    first, *others = parts
    with by_index(alias):
        return list(first.union(*others, all=True))


def _by_slot(ticks: list[dict[str, Any]], slot: int) -> dict[int, dict[str, Any]]:
    slots: dict[int, dict[str, Any]] = {}
    for tick in ticks:
        sums = slots.setdefault(_floor(int(tick["at"].timestamp()), slot), dict(_NOTHING))
        for name in _COUNTED:
            sums[name] += int(tick[name])
        for column in (*_RUN, *_WAIT):
            sums[column] += int(tick[f"sum_{column}"])
        sums["longest"] = max(sums["longest"], int(tick["longest"]))
    return slots


def _floor(instant: int, slot: int) -> int:
    return instant - instant % slot


def quantile(bins: Sequence[int], share: float, longest: float | None = None) -> float | None:
    """Milliseconds below which ``share`` of the counted values are, as near as the histogram knows; None of nothing.

    Within a bin values are taken to be spread evenly on the logarithmic scale. No value is above ``longest``; where it
    is not known, what is beyond the last limit counts as that limit.
    """
    wanted = share * sum(bins)
    if not wanted:
        return None
    below = number = 0
    while below + bins[number] < wanted and number < len(bins) - 1:
        below += bins[number]
        number += 1
    low = float(HISTOGRAM_LIMITS[number - 1]) if number else 0.0
    high = float(HISTOGRAM_LIMITS[number]) if number < len(HISTOGRAM_LIMITS) else longest or low
    if longest is not None:
        high = max(low, min(high, longest))
    part = (wanted - below) / bins[number]
    return round(low * (high / low) ** part if low else high * part, 1)
