"""Drip rate, canary and auto-stop of bulk operations, by a clock of the test's own."""

from __future__ import annotations

import datetime as dt
import json
from itertools import pairwise
from typing import Any

import pytest

from chokaq_django.models import BulkState
from chokaq_django.storage import bulk_rules as rules
from chokaq_django.storage.bulk_rules import Operation

START = dt.datetime(2026, 1, 31, 12, tzinfo=dt.UTC)


def later(seconds: float) -> dt.datetime:
    return START + dt.timedelta(seconds=seconds)


def operation(**columns: Any) -> Operation:
    """A running operation of 1,000 jobs, none of them done."""
    named: dict[str, Any] = dict.fromkeys(Operation.__slots__)
    counts = ("done", "applied", "requested", "refused", "succeeded", "died", "gone")
    named |= dict.fromkeys(counts, 0) | {"state": BulkState.RUNNING.value, "total": 1_000}
    named |= {"recent": "[]", "history": "[]", "started_at": START}
    named |= {"canary_share": 0.1, "canary_timeout": 60.0, "canary_decision": "", "stop_sample": 20, "stop_window": 200}
    return Operation(**{**named, "paid_at": START, "message": "", "held": False, **columns})


def drip(op: Operation, seconds: float, step: float) -> list[int]:
    """What a worker that looks every ``step`` seconds is allowed at each look."""
    allowed = []
    for look in range(1, round(seconds / step) + 1):
        count, _ = rules.budget(op, later(look * step), 500)
        op.done += count
        allowed.append(count)
    return allowed


@pytest.mark.parametrize("rate", [0.5, 3, 50, 999])
def test_a_drip_is_even_and_exact(rate: float) -> None:
    op = operation(rate=rate, total=100_000)
    allowed = drip(op, 20, 0.1)
    assert sum(allowed) == pytest.approx(rate * 20, abs=1)
    assert max(allowed) - min(allowed) <= 1, "no bursts"


def test_at_full_speed_it_is_a_chunk_at_a_time() -> None:
    op = operation()
    assert rules.budget(op, START, 500) == (500, rules.BREATH)
    op.done = 900
    assert rules.budget(op, START, 500)[0] == 100


def test_a_gap_is_made_up_for_by_a_second_only() -> None:
    op = operation(rate=50)
    assert rules.budget(op, later(600), 500)[0] == 50
    assert rules.budget(op, later(600.1), 500)[0] == 5
    slow = operation(rate=0.01)
    assert rules.budget(slow, later(1_000), 500)[0] == 1, "one job is due after its time, however slow the drip"


def test_a_clock_that_was_set_back_does_not_stop_a_drip() -> None:
    op = operation(rate=10)
    assert rules.budget(op, later(-3_600), 500)[0] == 0
    op.paid_at = START
    count, wait = rules.budget(op, later(-3_600), 500)
    assert (count, wait) == (0, 0.1)


@pytest.mark.parametrize(
    ("succeeded", "died", "gone", "seconds", "decision", "state"),
    [
        (5, 0, 0, 1, "waiting", BulkState.RUNNING),
        (10, 0, 0, 1, "passed", BulkState.RUNNING),
        (9, 1, 0, 1, "passed", BulkState.RUNNING),
        (8, 2, 0, 1, "failed", BulkState.STOPPED),
        (8, 1, 1, 1, "failed", BulkState.STOPPED),
        (0, 0, 10, 1, "failed", BulkState.STOPPED),
        (5, 0, 0, 61, "passed", BulkState.RUNNING),
        (1, 1, 0, 61, "failed", BulkState.STOPPED),
        (0, 0, 0, 61, "failed", BulkState.STOPPED),
    ],
)
def test_canary(succeeded: int, died: int, gone: int, seconds: float, decision: str, state: BulkState) -> None:
    op = operation(canary=10)
    assert rules.budget(op, START, 500)[0] == 10
    op.done = op.applied = 10
    rules.judge(op, START)
    assert (op.canary_decision, rules.budget(op, START, 500)[0]) == ("waiting", 0)
    rules.ended(op, START, succeeded, died, gone)
    rules.judge(op, later(seconds))
    assert (op.canary_decision, op.state) == (decision, state)
    assert bool(op.message) == (state is BulkState.STOPPED) == (op.ended_at is not None)
    assert op.watches == (decision == "waiting")


def test_jobs_that_were_refused_are_no_canaries() -> None:
    op = operation(canary=10, done=10, applied=4, refused=6)
    rules.judge(op, START)
    assert op.canary_decision == ""
    assert rules.budget(op, START, 500)[0] == 6


@pytest.mark.parametrize(
    ("died", "of", "stops"), [(4, 20, False), (5, 20, True), (19, 19, False), (0, 100, False), (21, 100, True)]
)
def test_auto_stop(died: int, of: int, stops: bool) -> None:
    op = operation(stop_share=0.2)
    rules.ended(op, START, of - died, died, 0)
    rules.judge(op, START)
    assert (op.state == BulkState.STOPPED) is stops
    assert (f"{died} of the last {of}" in op.message) is stops


def test_auto_stop_looks_at_the_last_jobs_and_not_at_a_long_good_past() -> None:
    op = operation(stop_share=0.2, stop_window=100)
    for _ in range(100):
        rules.ended(op, START, 10, 0, 0)
    rules.judge(op, START)
    assert op.state == BulkState.RUNNING
    for _ in range(4):
        rules.ended(op, START, 0, 10, 0)
        rules.judge(op, START)
    assert op.state == BulkState.STOPPED
    assert sum(each[0] for each in json.loads(op.recent)) <= 100


def test_what_became_of_the_jobs_is_remembered_at_a_bounded_number_of_instants() -> None:
    op = operation(stop_share=0.2)
    for second in range(20_000):
        rules.ended(op, later(second), 1, int(second % 10 == 0), 0)
        points = json.loads(op.history)
        assert len(points) <= rules.MOST_POINTS
        assert points[-1] == [second, op.succeeded + op.died, op.died], "the last one is what is known now"
    times = [at for at, _, _ in points]
    assert times == sorted(set(times))
    assert len(times) > rules.MOST_POINTS // 3
    gaps = [b - a for a, b in pairwise(times[:-1])]
    assert max(gaps) < 20_000 / 10, "no long stretch is forgotten"
