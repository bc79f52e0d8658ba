"""Counts what comes into the DLQ and what leaves it by groups of like failures, in Python: one upsert per group and
transaction and not per job."""

from __future__ import annotations

import datetime as dt
import functools
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from ..job.error_info import TYPE_LIMIT, ErrorInfo
from ..job.failures import FailureReason
from ..job.fingerprint import fingerprint
from ..models import FailureGroup, FailureTotal
from .buckets import reason_of
from .columns import columns_of
from .contract import Outcome
from .outcomes import DEAD
from .summed import Summed, Values, digest
from .text import storable

MESSAGE_LIMIT = 500
BASE = ""
"""The shard into which all others are folded."""
FRESH_END = "g"
"""``series`` of rows that are not folded are below: a digest has hexadecimal digits."""

GROUP_COLUMNS = columns_of(FailureGroup)
GROUPS = Summed(
    FailureGroup,
    ("series",),
    GROUP_COLUMNS,
    sums=("count", "total"),
    greatest=("last_seen",),
    least=("first_seen",),
    latest=("reason", "error_type", "message", "sample_id"),
    moments=("first_seen", "last_seen"),
)

TOTALS = Summed(
    FailureTotal,
    ("fingerprint",),
    columns_of(FailureTotal),
    sums=("count", "total"),
    greatest=("last_seen",),
    least=("first_seen",),
    moments=("first_seen", "last_seen"),
)


class Dead(Protocol):
    """What is told of a job that dies: outcomes and burials."""

    id: str
    queue: str
    type: str
    error_type: str | None
    error_details: str | None
    fingerprint: str | None


class Grouped(NamedTuple):
    """What a row of the DLQ counts by."""

    queue: str
    type: str
    fingerprint: str | None
    failure_reason: int
    error_type: str | None
    failed_at: dt.datetime


GROUPED = Grouped._fields


def fingerprint_of(dead: Dead, reason: int) -> str:
    """The job's own fingerprint, or one of its reason and error type: every dead job is in a group."""
    return dead.fingerprint or _plain_fingerprint(int(reason), dead.error_type)


@functools.lru_cache(maxsize=1024)
def _plain_fingerprint(reason: int, error_type: str | None) -> str:
    error = None if error_type is None else ErrorInfo(error_type, "", "", "")
    return fingerprint(FailureReason(reason), error)


def base_series(fingerprint: str, queue: str, type_key: str) -> str:
    """Of the row into which the others of this fingerprint, queue and type are folded."""
    return f"z{digest(fingerprint, queue, type_key, BASE)[1:]}"


def last_line(details: str | None) -> str:
    """The line of a traceback that says what happened, or of a message the last."""
    for line in reversed((details or "").splitlines()):
        text = line.strip(" \t|+-")  # an ExceptionGroup draws a frame around its parts
        if text:
            return storable(text, MESSAGE_LIMIT) or ""
    return ""


@dataclass(slots=True)
class GroupRow:
    """What is added to one row of ``FailureGroup``. ``first_seen`` and ``last_seen``: None is now."""

    series: str
    fingerprint: str
    queue: str
    type: str
    shard: str
    reason: int
    error_type: str | None
    sample_id: str
    first_seen: dt.datetime | None
    last_seen: dt.datetime | None
    details: str | None = None
    count: int = 0
    total: int = 0

    def values(self, instant: Callable[[dt.datetime | None], object]) -> Values:
        """The values of GROUP_COLUMNS; ``instant`` makes a parameter of an instant."""
        known = {
            **{name: getattr(self, name) for name in GROUP_COLUMNS if name != "message"},
            "error_type": storable(self.error_type, TYPE_LIMIT),
            "message": last_line(self.details),
            "first_seen": instant(self.first_seen),
            "last_seen": instant(self.last_seen),
        }
        return [known[name] for name in GROUP_COLUMNS]


class GroupTally:
    """Collects what happens in one transaction, then gives the rows in the order in which they must be written."""

    def __init__(self, shard: str) -> None:
        self._shard = shard
        self._rows: dict[tuple[str, str, str], GroupRow] = {}

    def died(self, dead: Dead, reason: int) -> str:
        """Count a job that comes into the DLQ now; the series in which it counts."""
        key = (fingerprint_of(dead, reason), dead.queue, dead.type)
        row = self._rows.get(key)
        if row is None:
            row = self._rows[key] = self._row(key, reason, dead.error_type, dead.id, None, None)
        row.sample_id, row.details, row.last_seen = dead.id, dead.error_details, None
        row.count += 1
        row.total += 1
        return row.series

    def settled(self, outcomes: Iterable[Outcome]) -> GroupTally:
        """Count what died of outcomes that applied."""
        for outcome in outcomes:
            if outcome.kind in DEAD:
                self.died(outcome, reason_of(outcome))
        return self

    def moved(self, job_id: str, job: Grouped, count: int) -> None:
        """Count a dead job that leaves its group (-1), or comes back into it (1)."""
        if job.fingerprint is None:
            return  # it died before there were groups, and was never counted
        key = (job.fingerprint, job.queue, job.type)
        row = self._rows.get(key)
        if row is None:
            row = self._rows[key] = self._row(
                key, job.failure_reason, job.error_type, job_id, job.failed_at, job.failed_at
            )
        if row.first_seen is not None:
            row.first_seen = min(row.first_seen, job.failed_at)
        if row.last_seen is not None and row.last_seen < job.failed_at:
            row.last_seen, row.sample_id = job.failed_at, job_id
        row.count += count

    def _row(
        self, key: tuple[str, str, str], reason: int, error_type: str | None, job_id: str,
        first_seen: dt.datetime | None, last_seen: dt.datetime | None,
    ) -> GroupRow:  # fmt: skip
        series = digest(*key, self._shard)
        return GroupRow(series, *key, self._shard, int(reason), error_type, job_id, first_seen, last_seen)

    def rows(self) -> list[GroupRow]:
        """In the order of ``series``; without those in which nothing is left to count."""
        return sorted((row for row in self._rows.values() if row.count or row.total), key=lambda row: row.series)
