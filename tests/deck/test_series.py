"""Charts and totals: which rows they read, and what they make of them."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable
from itertools import count
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from chokaq_django.models import (
    BUCKETS_KEPT,
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
from chokaq_django.reading.fleet import Rates, read_rates
from chokaq_django.reading.recent import Recent
from chokaq_django.reading.series import REACHES, Totals, quantile, read_series, read_totals
from chokaq_django.storage import get_storage

pytestmark = pytest.mark.django_db

NOW = dt.datetime(2026, 11, 30, 12, 34, 56, tzinfo=dt.UTC)
SUCCEEDED, RETRIED, DEAD = BucketOutcome.SUCCEEDED, BucketOutcome.RETRIED, BucketOutcome.DEAD

_numbers = count()


def _row(outcome: int, counted: int, run_ms: int, wait_ms: int) -> dict[str, Any]:
    """Columns of a row that counts so many executions, all alike."""

    def bin_name(name: str, value: int) -> str:
        return f"{name}_{sum(value >= limit for limit in HISTOGRAM_LIMITS)}"

    return {
        "series": f"{next(_numbers):032d}",
        "outcome": outcome,
        "count": counted,
        "total_ms": counted * run_ms,
        "max_ms": run_ms,
        bin_name("run", run_ms): counted,
        bin_name("wait", wait_ms): counted,
    }


def bucket(
    age: float, counted: int = 1, outcome: int = SUCCEEDED, run_ms: int = 5, wait_ms: int = 0, queue: str = "mail",
    type_key: str = "email.send.v1",
) -> None:  # fmt: skip
    """A ten second bucket that holds the moment ``age`` seconds ago."""
    at = NOW - dt.timedelta(seconds=age)
    at = at.replace(second=at.second // 10 * 10)
    MetricBucket.objects.create(at=at, queue=queue, type=type_key, shard="w", **_row(outcome, counted, run_ms, wait_ms))


def rollup(span: int, age: float, counted: int) -> None:
    """A roll-up that holds the moment ``age`` seconds ago."""
    at = dt.datetime.fromtimestamp(int((NOW - dt.timedelta(seconds=age)).timestamp()) // span * span, dt.UTC)
    row = _row(SUCCEEDED, counted, 5, 0)
    MetricRollup.objects.create(span=span, at=at, queue="mail", type="email.send.v1", **row)


def test_a_quarter_of_an_hour_is_read_by_ten_seconds() -> None:
    bucket(0, 3)
    bucket(10, 2, DEAD)
    bucket(10, 4, RETRIED, queue="other")
    bucket(890, 7)
    bucket(900, 100)  # before it
    series = read_series("default", NOW, "15m")
    assert (series.span, len(series.at)) == (10, 90)
    assert series.at[-1] == int(NOW.timestamp()) // 10 * 10
    assert (series.done[-1], series.done[0], sum(series.done)) == (3, 7, 10)
    assert (series.dead[-2], series.retried[-2], sum(series.dead), sum(series.retried)) == (2, 4, 2, 4)


def test_buckets_are_added_up_to_the_slots_of_a_longer_chart() -> None:
    for age in (0, 10, 50, 60, 70):
        bucket(age)
    series = read_series("default", NOW, "1h")
    assert (series.span, len(series.at)) == (60, 60)
    assert series.done[-2:] == [2, 3], "12:33 and 12:34"


@pytest.mark.parametrize(("reach", "span", "other"), [
    ("15m", TICK, MINUTE), ("1h", MINUTE, HOUR), ("6h", FIVE_MINUTES, HOUR), ("1d", FIVE_MINUTES, HOUR),
    ("7d", HOUR, FIVE_MINUTES),
])  # fmt: skip
def test_longer_charts_read_roll_ups_and_what_is_not_yet_in_them(reach: str, span: int, other: int) -> None:
    """A slot may be in both: its buckets are moved one after the other."""
    bucket(0, 1)
    rollup(span, 0, 20)
    rollup(span, 2 * span, 300)
    rollup(other, 2 * span, 5000)  # the same outcomes once more
    rollup(span, REACHES[reach].seconds, 5000)  # before it
    series = read_series("default", NOW, reach)
    assert len(series.at) * span == REACHES[reach].seconds
    assert (series.done[-1], series.done[-3], sum(series.done)) == (21, 300, 321)


def test_one_queue_or_one_type() -> None:
    bucket(0, 1)
    bucket(0, 20, queue="other")
    bucket(0, 300, type_key="other.v1")
    assert sum(read_series("default", NOW, "15m", queue="mail").done) == 301
    assert sum(read_series("default", NOW, "15m", type_key="email.send.v1").done) == 21
    assert sum(read_series("default", NOW, "15m", queue="mail", type_key="email.send.v1").done) == 1
    assert sum(read_series("default", NOW, "15m", queue="%").done) == 0


def test_durations_of_a_slot() -> None:
    bucket(0, 90, run_ms=4, wait_ms=150)
    bucket(0, 9, run_ms=2_000, wait_ms=150, outcome=RETRIED)
    bucket(0, 1, run_ms=40_000, wait_ms=5_000_000, outcome=DEAD)
    series = read_series("default", NOW, "15m")
    run, wait = series.run, series.wait
    assert (run.p50[-2], wait.p99[-2]) == (None, None), "nothing ran in the slot before"
    assert 3 <= run.p50[-1] < 10 <= 1_000 <= run.p95[-1] < run.p99[-1] <= 3_000  # type: ignore[operator]
    assert 100 <= wait.p50[-1] < wait.p95[-1] <= wait.p99[-1] <= 300  # type: ignore[operator]


def test_quantiles() -> None:
    def bins(**counts: int) -> list[int]:
        return [counts.get(f"b{number}", 0) for number in range(HISTOGRAM_BINS)]

    assert quantile(bins(), 0.5) is None
    assert quantile(bins(b0=10), 0.5) == 0.5
    assert quantile(bins(b4=10), 1.0) == 100
    assert quantile(bins(b4=10), 1.0, longest=42) == 42
    assert quantile(bins(b4=1, b5=1), 0.5) == 100
    assert 30 < quantile(bins(b4=100), 0.01) < 31  # type: ignore[operator]
    beyond = HISTOGRAM_LIMITS[-1]
    last = bins(**{f"b{HISTOGRAM_BINS - 1}": 3})
    assert quantile(last, 0.99) == beyond, "nothing is known of them but that they are longer"
    assert beyond < quantile(last, 0.5, longest=10 * beyond) < 10 * beyond  # type: ignore[operator]
    assert quantile(last, 1.0, longest=10 * beyond) == 10 * beyond


def test_totals_are_what_was_counted_and_what_is_still_in_buckets() -> None:
    for queue, outcome, counted in (("mail", SUCCEEDED, 1000), ("mail", DEAD, 5), ("old", RETRIED, 7)):
        Counter.objects.create(series=f"{next(_numbers):032d}", queue=queue, type="t", outcome=outcome, count=counted)
    bucket(0, 20)
    bucket(10, 3, queue="new")
    since = NOW - dt.timedelta(seconds=6)
    assert read_totals("default", since) == (Totals(1023, 7, 5), Totals(20, 0, 0)), "of all queues, and lately"


def test_an_outcome_between_two_reads_counts_once() -> None:
    """What is committed while the totals are read is in them already when the next look finds it in its bucket."""
    now = get_storage().now()
    at = dt.datetime.fromtimestamp(int(now.timestamp()) // TICK * TICK, dt.UTC)
    looks: list[str] = []

    def meanwhile(execute: Callable[..., Any], sql: str, *rest: Any) -> Any:
        if "chokaq_counter" in sql and not looks:
            looks.append(sql)
            MetricBucket.objects.create(at=at, queue="mail", type="t", shard="w", **_row(SUCCEEDED, 1, 5, 2))
        return execute(sql, *rest)

    recent = Recent("default")
    with connection.execute_wrapper(meanwhile):
        recent.read(now)
        assert recent.totals().done == 1
        recent.read(now)
    assert looks
    assert recent.totals().done == 1
    MetricBucket.objects.update(count=3)
    recent.read(now)
    assert recent.totals().done == 3, "what came after that"


def test_rates_of_an_hour_are_of_buckets_and_of_what_was_rolled_up() -> None:
    bucket(5, 3)
    bucket(5, 2, DEAD)
    rollup(MINUTE, 1_800, 40)
    rollup(FIVE_MINUTES, 1_800, 5_000)  # the same outcomes once more
    rollup(MINUTE, 4_000, 5_000)
    assert read_rates("default", NOW, 60) == Rates(60, 3, 0, 2)
    assert read_rates("default", NOW, 3_600) == Rates(3_600, 43, 0, 2)


@pytest.mark.parametrize("reach", REACHES)
def test_a_chart_is_one_statement_over_two_ranges(reach: str, engine: str) -> None:
    with CaptureQueriesContext(
        connection,
    ) as queries:
        read_series("default", NOW, reach)
    read = [query["sql"] for query in queries if "chokaq_metric" in query["sql"]]
    assert len(read) == 1
    if engine == "sqlite":
        with connection.cursor() as cursor:
            cursor.execute(f"EXPLAIN QUERY PLAN {read[0]}")
            plan = [row[3] for row in cursor.fetchall() if "chokaq_metric" in row[3]]
        conditions = {re.sub(r".*\((.*)\)", r"\1", line) for line in plan}
        assert all("SEARCH" in line for line in plan), plan
        assert conditions <= {"at>?", "span=? AND at>?"}, plan


def test_what_is_shown_does_not_depend_on_when_it_was_rolled_up_nor_on_how_many_workers_counted() -> None:
    """Charts, totals and recent outcomes are equal before and after; then there is a row for each instant."""
    storage = get_storage()
    now, workers = storage.now(), 12
    for age in (5, 70, 130, 500, 850, 1_100):
        at = dt.datetime.fromtimestamp(int((now - dt.timedelta(seconds=age)).timestamp()) // TICK * TICK, dt.UTC)
        MetricBucket.objects.bulk_create(
            MetricBucket(at=at, queue="mail", type="t", shard=f"w{number}", **_row(outcome, 1 + number, 5, 2))
            for number in range(workers)
            for outcome in (SUCCEEDED, DEAD)
        )

    def shown() -> list[Any]:
        recent = Recent("default")
        recent.read(now)
        told = [recent.line(name) for name in ("done", "dead")], recent.by_queue(60), recent.totals()
        rates = [read_rates("default", now, seconds) for seconds in (60, 300, 900)]
        return [told, rates, *(read_series("default", now, reach) for reach in REACHES), read_totals("default", now)]

    before = shown()
    assert sum(before[2].done) == 5 * sum(range(1, workers + 1))
    while storage.roll_up(BUCKETS_KEPT, 7):
        pass
    assert shown() == before
    assert MetricBucket.objects.count() == 2 * workers, "what may still be written to"
    assert MetricRollup.objects.filter(span=TICK).count() == 2 * 5
