"""The fleet as its rows tell: which workers live, on what they work, and what has ended lately."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Iterable
from dataclasses import dataclass

from django.db.models import Sum

from ..conf import get_options
from ..models import BucketOutcome, MetricBucket, Worker

__all__ = ["Rates", "WorkerView", "read_rates", "read_workers", "serves"]

TICK = dt.timedelta(seconds=10)
"""Length of a metric bucket."""


@dataclass(frozen=True, slots=True)
class WorkerView:
    """A worker's row. ``silent``: seconds since it was last seen. ``is_alive``: it was seen within WORKER_TIMEOUT."""

    row: Worker
    queues: tuple[str, ...]
    silent: float
    is_alive: bool

    @property
    def state(self) -> str:
        if not self.is_alive:
            return "silent"
        return "stopping" if self.row.stop_requested and self.row.state == "running" else self.row.state


def read_workers(alias: str, now: dt.datetime) -> list[WorkerView]:
    """Every registered worker, by host and process; ``now`` is the database's."""
    timeout = get_options().recovery.worker_timeout
    views = []
    for row in Worker.objects.using(alias).order_by("host", "pid", "id"):
        silent = max(0.0, (now - row.last_seen).total_seconds())
        views.append(WorkerView(row, _names(row.queues), silent, silent <= timeout))
    return views


def _names(text: str) -> tuple[str, ...]:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return ()
    return tuple(str(name) for name in value) if isinstance(value, list) else ()


def serves(workers: Iterable[WorkerView], queue: str) -> bool:
    """Whether a live worker takes jobs from the queue."""
    return any(
        worker.is_alive and worker.row.state == "running" and (not worker.queues or queue in worker.queues)
        for worker in workers
    )


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
    """Outcomes of the last ``seconds``, to the ten seconds of a bucket."""
    rows = MetricBucket.objects.using(alias).filter(at__gt=now - dt.timedelta(seconds=seconds), at__lte=now + TICK)
    sums = dict(rows.order_by().values_list("outcome").annotate(total=Sum("count")))
    return Rates(
        seconds,
        int(sums.get(BucketOutcome.SUCCEEDED, 0)),
        int(sums.get(BucketOutcome.RETRIED, 0)),
        int(sums.get(BucketOutcome.DEAD, 0)),
    )
