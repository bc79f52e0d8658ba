"""How long a set of jobs will keep the workers busy: what such jobs took lately, over the slots that may run them."""

from __future__ import annotations

import datetime as dt
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from django.db.models import Sum

from ..models import MINUTE, JobArchive, MetricBucket, MetricRollup, Queue
from ..storage import BulkCount
from .fleet import WorkerView, read_workers, serves

__all__ = ["Drain", "drain"]

LATELY = dt.timedelta(hours=1)
SAMPLE = 20
"""Archived jobs of a type that are looked at where it did not run lately."""
MOST_TYPES = 50
"""Types that are looked at in history, one statement each."""
LEAST_MS = 2.0
"""What a job costs a worker at the least."""


@dataclass(frozen=True, slots=True)
class Drain:
    """``seconds`` until workers have run all of it, at full speed; None when nothing can be said. ``slots``: jobs that
    run at once. ``idle``: queues that no live worker serves, ``paused``: those from which nothing is claimed now.
    ``unknown``: types of which nothing is known."""

    seconds: float | None
    slots: int
    idle: tuple[str, ...]
    paused: tuple[str, ...]
    unknown: tuple[str, ...]


def drain(counts: Iterable[BulkCount], alias: str, now: dt.datetime) -> Drain:
    """What it takes to run these jobs. ``now`` is the database's."""
    counts = list(counts)
    workers = [worker for worker in read_workers(alias, now) if worker.is_alive]
    queues = sorted({count.queue for count in counts})
    rows = {row.name: row for row in Queue.objects.using(alias).filter(name__in=queues[:1_000])}
    took = _took({(count.queue, count.type) for count in counts}, alias, now)
    work: dict[str, float] = defaultdict(float)
    unknown = set()
    for count in counts:
        milliseconds = took.get((count.queue, count.type))
        if milliseconds is None:
            unknown.add(count.type)
        work[count.queue] += count.count * max(milliseconds or LEAST_MS, LEAST_MS) / 1000
    idle = tuple(name for name in queues if not serves(workers, name))
    closed = (name for name in queues if name in rows and (rows[name].is_paused or not rows[name].is_active))
    all_slots = sum(_slots(worker) for worker in workers)
    seconds = 0.0
    for name, busy in work.items():
        slots = sum(_slots(worker) for worker in workers if serves([worker], name))
        cap = rows[name].max_workers if name in rows else None
        seconds = max(seconds, busy / max(1, min(slots, cap or slots)))
    seconds = max(seconds, sum(work.values()) / max(1, all_slots))
    known = bool(counts) and not idle and len(unknown) < len({count.type for count in counts})
    return Drain(seconds if known else None, all_slots, idle, tuple(closed), tuple(sorted(unknown)))


def _slots(worker: WorkerView) -> int:
    """Threads: which of its jobs would run in the event loop is not known here, and more of those run at once."""
    row = worker.row
    return row.concurrency if row.desired_concurrency is None else row.desired_concurrency


def _took(kinds: set[tuple[str, str]], alias: str, now: dt.datetime) -> dict[tuple[str, str], float]:
    """Milliseconds of a job by queue and type: in the last hour, else of the last that succeeded."""
    sums: dict[tuple[str, str], tuple[int, int]] = {}
    for counted in (MetricBucket.objects.using(alias), MetricRollup.objects.using(alias).filter(span=MINUTE)):
        lately = counted.filter(at__gt=now - LATELY).order_by().values_list("queue", "type")
        for queue, type_key, count, total in lately.annotate(jobs=Sum("count"), took=Sum("total_ms")):
            jobs, took = sums.get((queue, type_key), (0, 0))
            sums[queue, type_key] = jobs + count, took + total
    found = {kind: float(took / jobs) for kind, (jobs, took) in sums.items() if kind in kinds and jobs}
    missing = sorted({type_key for queue, type_key in kinds if (queue, type_key) not in found})
    for type_key in missing[:MOST_TYPES]:
        rows = JobArchive.objects.using(alias).filter(type=type_key).order_by("-finished_at")
        durations = list(rows.values_list("duration_ms", flat=True)[:SAMPLE])
        if durations:
            for queue, key in kinds:
                if key == type_key:
                    found.setdefault((queue, key), sum(durations) / len(durations))
    return found
