"""Buckets that become roll-ups and counters: each outcome is in one of them, whatever happens meanwhile."""

from __future__ import annotations

import datetime as dt
from collections import Counter as Tallied
from typing import Any

import pytest
from django.db import DatabaseError, connection

from chokaq_django.models import (
    FIVE_MINUTES,
    HISTOGRAM_BINS,
    HOUR,
    MINUTE,
    TICK,
    BucketOutcome,
    Counter,
    FailureReason,
    MetricBucket,
    MetricRollup,
)
from chokaq_django.storage import OutcomeKind, Storage
from chokaq_django.storage.rollups import COUNTERS, SPANS
from chokaq_django.storage.summed import Summed

from .support import Jobs, committed, together

pytestmark = committed

NOON = dt.datetime(2031, 5, 17, 12, 0, tzinfo=dt.UTC)
LATER = -86_400.0 * 36_500
"""An age in seconds that makes everything old, what is yet to come too."""
BINS = [f"{name}_{number}" for name in ("run", "wait") for number in range(HISTOGRAM_BINS)]


def bucket(at: dt.datetime, count: int = 1, *, series: str = "", shard: str = "w", **columns: Any) -> None:
    named = {
        "queue": "mail", "type": "email.send.v1", "outcome": BucketOutcome.SUCCEEDED, "total_ms": 10 * count,
        "max_ms": 10, "run_2": count, "wait_0": count, **columns,
    }  # fmt: skip
    MetricBucket.objects.create(at=at, series=series or f"{at:%H%M%S} {shard}", shard=shard, count=count, **named)


def rolled(span: int) -> dict[dt.datetime, int]:
    """When each roll-up begins -> its count."""
    return dict(MetricRollup.objects.filter(span=span).order_by("at").values_list("at", "count"))


def everything(storage: Any, older_than: float = 0.0, limit: int = 1000) -> int:
    total = 0
    while count := storage.roll_up(older_than, limit):
        total += count
    return total


def test_buckets_become_roll_ups_of_all_spans_and_counters(storage: Storage) -> None:
    for seconds, count in ((0, 1), (290, 20), (300, 300), (3590, 4000), (3600, 50_000)):
        bucket(NOON + dt.timedelta(seconds=seconds), count)
    assert everything(storage, LATER) == 5
    assert not MetricBucket.objects.exists()
    minutes = lambda number: NOON + dt.timedelta(minutes=number)  # noqa: E731
    assert list(rolled(TICK).values()) == [1, 20, 300, 4000, 50_000]
    assert rolled(MINUTE) == {minutes(0): 1, minutes(4): 20, minutes(5): 300, minutes(59): 4000, minutes(60): 50_000}
    assert rolled(FIVE_MINUTES) == {minutes(0): 21, minutes(5): 300, minutes(55): 4000, minutes(60): 50_000}
    assert rolled(HOUR) == {minutes(0): 4321, minutes(60): 50_000}
    counter = Counter.objects.get()
    assert (counter.queue, counter.type, counter.outcome, counter.reason) == ("mail", "email.send.v1", 0, -1)
    assert (counter.count, counter.total_ms) == (54_321, 543_210)


def test_everything_that_a_bucket_counts_is_added_up(storage: Storage) -> None:
    numbers = {name: place for place, name in enumerate(("count", "total_ms", *BINS), 1)}
    for shard, factor, greatest in (("a", 1, 700), ("b", 1000, 30), ("c", 1_000_000_000, 5)):
        columns = {name: factor * number for name, number in numbers.items() if name != "count"}
        bucket(NOON, factor * numbers["count"], shard=shard, **{**columns, "max_ms": greatest})
    assert everything(storage, LATER, limit=2) == 3, "in two steps"
    for span in SPANS:
        row = MetricRollup.objects.filter(span=span).values().get()
        assert {name: row[name] for name in numbers} == {name: 1_000_001_001 * n for name, n in numbers.items()}
        assert row["max_ms"] == 700


def test_series_stay_apart_and_writers_do_not(storage: Storage) -> None:
    for number, columns in enumerate([
        {}, {"queue": "other"}, {"type": "other.v1"}, {"outcome": BucketOutcome.DEAD, "reason": FailureReason.TIMEOUT},
        {"outcome": BucketOutcome.DEAD, "reason": FailureReason.CANCELLED}, {"queue": "MAIL"}, {"queue": "🐙"},
    ]):  # fmt: skip
        for shard in ("a", "b"):
            bucket(NOON, series=f"{number}{shard}", shard=shard, **columns)  # type: ignore[arg-type]
    everything(storage, LATER)
    for rows in (MetricRollup.objects.filter(span=HOUR), Counter.objects.all()):
        assert list(rows.values_list("count", flat=True)) == [2] * 7
        names = set(rows.values_list("queue", "type", "outcome", "reason"))
        assert len(names) == 7
        assert ("🐙", "email.send.v1", 0, -1) in names


def test_the_youngest_stay_and_the_oldest_go_first(jobs: Jobs, storage: Storage) -> None:
    now = jobs.now().replace(microsecond=0)
    for age in (100, 300, 200, 10):
        bucket(now - dt.timedelta(seconds=age))
    assert storage.roll_up(150, 1) == 1
    assert sorted(now - at for at in MetricBucket.objects.values_list("at", flat=True))[-1].total_seconds() == 200
    assert everything(storage, 150) == 1
    assert everything(storage, 150) == 0
    assert MetricBucket.objects.count() == 2


def test_what_comes_late_is_taken_the_next_time(jobs: Jobs, storage: Storage) -> None:
    """The same ten seconds, the same writer: its row is a new one, and is added to what is there."""
    for count in (5, 7):
        bucket(NOON, count)
        assert everything(storage, LATER) == 1
    assert (rolled(FIVE_MINUTES), rolled(HOUR)) == ({NOON: 12}, {NOON: 12})
    assert Counter.objects.get().count == 12


def test_nothing_is_lost_when_a_step_fails_half_way(
    storage: Storage, other: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The worker dies, or the server refuses the last statement: the buckets are where they were."""
    bucket(NOON, 5)
    add = other._add

    def second_fails(summed: Summed, rows: Any) -> None:
        if summed is COUNTERS:
            raise DatabaseError("the disk is full")
        add(summed, rows)

    monkeypatch.setattr(other, "_add", second_fails)
    with pytest.raises(DatabaseError, match="the disk is full"):
        other.roll_up(LATER, 100)
    assert (MetricBucket.objects.get().count, MetricRollup.objects.count(), Counter.objects.count()) == (5, 0, 0)
    assert everything(storage, LATER) == 1
    assert rolled(HOUR) == {NOON: 5}


def test_outcomes_are_counted_once_while_they_come_in(jobs: Jobs) -> None:
    """Three settle while two roll up whatever there is, the ten seconds that are running too."""
    running = [jobs.running(20, queue=f"q{number}", worker=f"w{number}") for number in range(3)]

    def work(number: int, storage: Storage) -> None:
        if number >= len(running):
            for _ in range(15):
                storage.roll_up(-60.0, 3)
            return
        for job in running[number]:
            Jobs(storage).settle(job, OutcomeKind.SUCCEEDED, worker=f"w{number}", duration_ms=7)

    together(5, work)
    left = by_queue(MetricBucket.objects.all())
    for rows in (Counter.objects.all(), *(MetricRollup.objects.filter(span=span) for span in SPANS)):
        assert left + by_queue(rows) == {"q0": 20, "q1": 20, "q2": 20}


def by_queue(rows: Any) -> Tallied[str]:
    sums: Tallied[str] = Tallied()
    for queue, count in rows.values_list("queue", "count"):
        sums[queue] += count
    return sums


@pytest.mark.skipif(connection.vendor == "sqlite", reason="one writer at a time: no row is locked by itself")
def test_a_bucket_that_is_being_written_is_waited_for_by_nobody(storage: Storage, other: Any) -> None:
    bucket(NOON, shard="a")
    bucket(NOON, shard="b")
    with other._transaction():
        other._execute("UPDATE chokaq_metric_bucket SET count = count + 1 WHERE shard = %s", ["b"])
        assert storage.roll_up(LATER, 100) == 1
    assert everything(storage, LATER) == 1
    assert rolled(HOUR) == {NOON: 3}


def test_old_roll_ups_are_deleted_in_whole_slots(jobs: Jobs, storage: Storage) -> None:
    now = jobs.now()
    for number, (span, age) in enumerate([(HOUR, 100), (HOUR, 100), (HOUR, 90), (HOUR, 0), (FIVE_MINUTES, 100)]):
        at = now - dt.timedelta(seconds=age)
        MetricRollup.objects.create(span=span, at=at, series=str(number), queue="q", type="t", outcome=0)
    assert storage.trim_rollups(HOUR, 110, 10) == 0
    assert storage.trim_rollups(HOUR, 50, 1) == 2, "a slot is not cut in two"
    assert storage.trim_rollups(HOUR, 50, 10) == 1
    assert set(MetricRollup.objects.values_list("series", flat=True)) == {"3", "4"}
