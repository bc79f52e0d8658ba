"""Rolling metric buckets up: what is older than a minute leaves the buckets of single writers for those of all, of ten
seconds and of longer spans, and for the counters. So what a chart reads does not grow with the workers.

Rows are taken away and added elsewhere in one transaction: none is counted twice or lost, whoever dies meanwhile. What
a late writer adds to an old bucket is taken the next time.
"""

# ruff: noqa: S608 - statements are composed of constants and column names of ours; every value is a parameter

from __future__ import annotations

import datetime as dt
from abc import abstractmethod
from collections.abc import Sequence
from operator import add
from typing import Any

from ..models import FIVE_MINUTES, HOUR, MINUTE, TICK, Counter, MetricRollup
from .buckets import BUCKET_COLUMNS, SUMS, series_of
from .columns import ROLLUP
from .engine import Engine, Row
from .summed import Summed, Values

SPANS = (TICK, MINUTE, FIVE_MINUTES, HOUR)

TAKEN = ("at", *BUCKET_COLUMNS)
"""What is read of a bucket that is taken away."""
_NAMES = ("queue", "type", "outcome", "reason")
_NAMED = slice(TAKEN.index(_NAMES[0]), TAKEN.index(_NAMES[-1]) + 1)
_MAX = TAKEN.index("max_ms")
assert TAKEN[_NAMED] == _NAMES, "they stand side by side"  # noqa: S101
assert TAKEN[_MAX + 1 :] == SUMS, "and the sums come last"  # noqa: S101

ROLLUPS = Summed(
    MetricRollup,
    ("span", "at", "series"),
    ("series", "span", "at", *_NAMES, "max_ms", *SUMS),
    SUMS,
    greatest=("max_ms",),
)
COUNTERS = Summed(Counter, ("series",), ("series", *_NAMES, "count", "total_ms"), ("count", "total_ms"))


class RollupStatements(Engine):
    """Out of the buckets, and in the end out of the roll-ups."""

    @abstractmethod
    def _take_buckets(self, older_than: float, limit: int) -> Sequence[Row]:
        """Delete the oldest buckets of more than ``older_than`` seconds ago, up to ``limit`` rows, in the transaction
        that is open; their TAKEN columns. Rows that others are writing just now stay."""

    def roll_up(self, older_than: float, limit: int) -> int:
        return self._unit(lambda: self._roll_up(older_than, limit))

    def _roll_up(self, older_than: float, limit: int) -> int:
        rows = self._take_buckets(older_than, limit)
        rolled: dict[tuple[Any, ...], list[int]] = {}
        counted: dict[tuple[Any, ...], list[int]] = {}
        for row in rows:
            at, names = self._read_instant(row[0]), tuple(row[_NAMED])
            for span in SPANS:
                _count(rolled, (span, _slot(at, span), *names), row)  # type: ignore[arg-type]
            _count(counted, names, row)
        self._add(
            ROLLUPS,
            _in_order(
                [series_of(*names, ""), span, self._instant(at), *names, *sums]
                for (span, at, *names), sums in rolled.items()
            ),
        )
        self._add(
            COUNTERS,
            _in_order([series_of(*names, ""), *names, *sums[1:3]] for names, sums in counted.items()),
        )
        return len(rows)

    def trim_rollups(self, span: int, older_than: float, limit: int) -> int:
        old = f"SELECT at FROM {ROLLUP} WHERE span = %s AND at <= {self._after()} ORDER BY at {self.LIMIT}"

        def work() -> int:
            found = self._query(old, [span, -older_than, limit])
            if not found:
                return 0
            # Whole slots: the key is span and slot first, and nobody writes to an old one any more.
            return self._execute(f"DELETE FROM {ROLLUP} WHERE span = %s AND at <= %s", [span, found[-1][0]])

        return self._unit(work)


def _slot(at: dt.datetime, span: int) -> dt.datetime:
    """When the roll-up begins that holds this instant."""
    seconds = int(at.timestamp())
    return dt.datetime.fromtimestamp(seconds - seconds % span, dt.UTC)


def _count(sums: dict[tuple[Any, ...], list[int]], key: tuple[Any, ...], row: Row) -> None:
    """Add a bucket: the greatest of all first, then what adds up."""
    found = sums.get(key)
    if found is None:
        sums[key] = list(row[_MAX:])
    else:
        found[:] = [max(found[0], row[_MAX]), *map(add, found[1:], row[_MAX + 1 :])]


def _in_order(rows: Any) -> list[Values]:
    """By ``series``, in which tables that add up are written."""
    return sorted(rows, key=lambda row: row[0])
