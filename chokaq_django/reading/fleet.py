"""The fleet as its rows tell: which workers live, on what they work, and what has ended lately."""

from __future__ import annotations

import datetime as dt
import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase

from django.db.models import Sum

from ..conf import get_options
from ..models import MINUTE, TICK, TICKS_KEPT, BucketOutcome, MetricBucket, MetricRollup, Worker
from .plans import by_index

__all__ = ["CLOCK_OFF", "Rates", "WorkerView", "clock_is_off", "read_rates", "read_workers", "serves"]

CLOCK_OFF = 1.0
"""Seconds between the clocks of a worker and of the database from which it is said: jobs run by the database's clock,
but what a handler computes from its machine's (a ``run_at``, a date, a log's time) is off by that much."""


@dataclass(frozen=True, slots=True)
class WorkerView:
    """A worker's row. ``silent``: seconds since it was last seen. ``is_alive``: it was seen within WORKER_TIMEOUT.
    ``types``: keys and patterns of the job types that its code runs; None when it did not say."""

    row: Worker
    queues: tuple[str, ...]
    silent: float
    is_alive: bool
    types: tuple[str, ...] | None = None

    @property
    def clock_is_off(self) -> bool:
        return clock_is_off(self.row)

    @property
    def state(self) -> str:
        if not self.is_alive:
            return "silent"
        return "stopping" if self.row.stop_requested and self.row.state == "running" else self.row.state

    def takes(self, queue: str) -> bool:
        """Whether it lives and claims from the queue."""
        return self.is_alive and self.row.state == "running" and (not self.queues or queue in self.queues)

    def knows(self, type_key: str) -> bool:
        """Whether its code runs jobs of the type, as far as it said."""
        return self.types is None or any(fnmatchcase(type_key, name) for name in self.types)


def read_workers(alias: str, now: dt.datetime) -> list[WorkerView]:
    """Every registered worker, by host and process; ``now`` is the database's."""
    timeout = get_options().recovery.worker_timeout
    views = []
    for row in Worker.objects.using(alias).order_by("host", "pid", "id"):
        silent = max(0.0, (now - row.last_seen).total_seconds())
        types = None if row.types is None else _names(row.types)
        views.append(WorkerView(row, _names(row.queues), silent, silent <= timeout, types))
    return views


def clock_is_off(row: Worker) -> bool:
    """Whether the clock of the worker's machine is off, however slow the statement was that measured it."""
    return row.clock_offset is not None and abs(row.clock_offset) - (row.clock_doubt or 0.0) > CLOCK_OFF


def _names(text: str) -> tuple[str, ...]:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return ()
    return tuple(str(name) for name in value) if isinstance(value, list) else ()


def serves(workers: Iterable[WorkerView], queue: str) -> bool:
    """Whether a live worker takes jobs from the queue."""
    return any(worker.takes(queue) for worker in workers)


@dataclass(frozen=True, slots=True)
class Rates:
    """Outcomes within ``seconds``."""

    seconds: int
    succeeded: int
    retried: int
    dead: int

    @property
    def per_second(self) -> float:
        return self.succeeded / self.seconds


def read_rates(alias: str, now: dt.datetime, seconds: int) -> Rates:
    """Outcomes of the last ``seconds``, an hour at most: to ten seconds, beyond a quarter of an hour to a minute."""
    since = now - dt.timedelta(seconds=seconds)
    span = TICK if seconds <= TICKS_KEPT - MINUTE else MINUTE
    parts = [
        rows.order_by().values("outcome").annotate(total=Sum("count"))
        for rows in (
            MetricBucket.objects.using(alias).filter(at__gt=since, at__lte=now + dt.timedelta(seconds=TICK)),
            MetricRollup.objects.using(alias).filter(span=span, at__gt=since),
        )
    ]
    sums: Counter[int] = Counter()
    with by_index(alias):
        for row in parts[0].union(parts[1], all=True):
            sums[row["outcome"]] += int(row["total"])
    return Rates(seconds, sums[BucketOutcome.SUCCEEDED], sums[BucketOutcome.RETRIED], sums[BucketOutcome.DEAD])
