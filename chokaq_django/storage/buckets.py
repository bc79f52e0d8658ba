"""Counts outcomes into the rows that the metric buckets get, in Python: one upsert per group and not per job."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass, field

from ..models import HISTOGRAM_BINS, HISTOGRAM_LIMITS, BucketOutcome, FailureReason, MetricBucket
from .contract import Outcome, OutcomeKind
from .summed import Summed, digest

NO_REASON = -1

RUN_BINS = tuple(f"run_{i}" for i in range(HISTOGRAM_BINS))
WAIT_BINS = tuple(f"wait_{i}" for i in range(HISTOGRAM_BINS))
NAMING_COLUMNS = ("series", "queue", "type", "outcome", "reason", "shard")
SUMS = ("count", "total_ms", *RUN_BINS, *WAIT_BINS)
"""Columns that add up; ``max_ms`` is the greater of both."""
BUCKET_COLUMNS = (*NAMING_COLUMNS, "max_ms", *SUMS)
"""All columns but ``at``, in the order of :meth:`BucketRow.values`."""
BUCKETS = Summed(MetricBucket, ("at", "series"), BUCKET_COLUMNS, SUMS, greatest=("max_ms",), tick="at")

_OUTCOMES = {
    OutcomeKind.SUCCEEDED: BucketOutcome.SUCCEEDED,
    OutcomeKind.RETRY: BucketOutcome.RETRIED,
    OutcomeKind.DEAD: BucketOutcome.DEAD,
    OutcomeKind.EXPIRED: BucketOutcome.DEAD,
    OutcomeKind.UNSTARTED_DEAD: BucketOutcome.DEAD,
}
NEVER_RAN = frozenset({OutcomeKind.EXPIRED, OutcomeKind.UNSTARTED_DEAD})


def bin_of(milliseconds: int) -> int:
    """The histogram's bin of a value: see HISTOGRAM_LIMITS."""
    return bisect_right(HISTOGRAM_LIMITS, milliseconds)


def series_of(*names: object) -> str:
    """The series of a queue, type, outcome, reason and shard."""
    return digest(*map(str, names))


@dataclass(slots=True)
class BucketRow:
    """What is added to one bucket. Milliseconds; the histograms count executions only, not jobs that never ran."""

    series: str
    queue: str
    type: str
    outcome: int
    reason: int
    shard: str
    count: int = 0
    total_ms: int = 0
    max_ms: int = 0
    run: list[int] = field(default_factory=lambda: [0] * HISTOGRAM_BINS)
    wait: list[int] = field(default_factory=lambda: [0] * HISTOGRAM_BINS)

    def values(self) -> list[object]:
        """The values of BUCKET_COLUMNS."""
        named = [self.series, self.queue, self.type, self.outcome, self.reason, self.shard]
        return [*named, self.max_ms, self.count, self.total_ms, *self.run, *self.wait]


class Tally:
    """Collects what happened, then gives the rows in the order in which they must be written."""

    def __init__(self, shard: str) -> None:
        self._shard = shard
        self._rows: dict[tuple[str, str, int, int], BucketRow] = {}

    def settled(self, outcomes: Iterable[Outcome]) -> Tally:
        """Count outcomes that applied. Snoozed and interrupted executions are no outcome and are not counted."""
        for outcome in outcomes:
            counted = _OUTCOMES.get(outcome.kind)
            if counted is None:
                continue
            reason = reason_of(outcome)
            row = self._row(outcome.queue, outcome.type, counted, reason)
            row.count += 1
            if outcome.kind in NEVER_RAN:
                continue
            milliseconds = outcome.duration_ms
            row.total_ms += milliseconds
            row.max_ms = max(row.max_ms, milliseconds)
            row.run[bin_of(milliseconds)] += 1
            row.wait[bin_of(outcome.wait_ms)] += 1
        return self

    def series(self, outcome: Outcome) -> str | None:
        """The series that an outcome counts in; None for one that is not counted."""
        counted = _OUTCOMES.get(outcome.kind)
        if counted is None:
            return None
        return series_of(outcome.queue, outcome.type, int(counted), int(reason_of(outcome)), self._shard)

    def buried(self, queue: str, type_key: str, reason: FailureReason) -> Tally:
        """Count a job that went to the DLQ without an execution's report: cancelled, expired, rescued."""
        self._row(queue, type_key, BucketOutcome.DEAD, reason).count += 1
        return self

    def _row(self, queue: str, type_key: str, outcome: int, reason: int) -> BucketRow:
        key = (queue, type_key, int(outcome), int(reason))
        row = self._rows.get(key)
        if row is None:
            row = self._rows[key] = BucketRow(series_of(*key, self._shard), *key, self._shard)
        return row

    def rows(self) -> list[BucketRow]:
        """In the order of ``series``: two writers that lock several rows lock them in the same order."""
        return sorted(self._rows.values(), key=lambda row: row.series)


def reason_of(outcome: Outcome) -> int:
    """The FailureReason that an outcome is stored with, or NO_REASON."""
    if outcome.kind is OutcomeKind.EXPIRED:
        return FailureReason.EXPIRED
    if outcome.kind in (OutcomeKind.DEAD, OutcomeKind.UNSTARTED_DEAD):
        return FailureReason.MAX_RETRIES_EXCEEDED if outcome.reason is None else outcome.reason
    return NO_REASON
