"""Queues, workers and circuits."""

from __future__ import annotations

import datetime as dt
from typing import NotRequired, TypedDict

from ...models import Circuit
from ..fleet import WorkerView
from ..queues import QueueFigures
from .jobs import instant

__all__ = [
    "CIRCUIT_STATES",
    "CircuitDocument",
    "QueueDocument",
    "WorkerDocument",
    "circuit_document",
    "queue_document",
    "until_probe",
    "worker_document",
]

CIRCUIT_STATES = {Circuit.CLOSED: "closed", Circuit.OPEN: "open", Circuit.HALF_OPEN: "half open"}


class QueueDocument(TypedDict):
    """A queue. ``counts_capped``: there are more jobs than the counts say."""

    name: str
    state: str
    paused: bool
    hidden: bool
    in_window: bool
    window: str | None
    due: int
    scheduled: int
    counts_capped: bool
    fetched: int
    processing: int
    lag_seconds: float
    oldest_due_at: str | None
    max_workers: int | None
    execution_timeout: float | None
    zombie_timeout: float | None
    has_live_worker: NotRequired[bool]


def queue_document(figures: QueueFigures, now: dt.datetime) -> QueueDocument:
    window = figures.window
    return {
        "name": figures.name,
        "state": figures.state,
        "paused": figures.is_paused,
        "hidden": not figures.is_active,
        "in_window": figures.in_window,
        "window": f"{window[0]:%H:%M}-{window[1]:%H:%M} {window[2]}" if window else None,
        "due": figures.due,
        "scheduled": figures.scheduled,
        "counts_capped": figures.capped,
        "fetched": figures.fetched,
        "processing": figures.processing,
        "lag_seconds": round(figures.lag(now), 3),
        "oldest_due_at": instant(figures.oldest),
        "max_workers": figures.max_workers,
        "execution_timeout": figures.execution_timeout,
        "zombie_timeout": figures.zombie_timeout,
    }


class WorkerDocument(TypedDict):
    """A worker process. ``clock_offset_seconds``: by how many its machine's clock is ahead of the database's, or behind
    (negative), give or take ``clock_doubt_seconds``; null when it did not say."""

    id: str
    host: str
    pid: int
    version: str
    state: str
    alive: bool
    queues: list[str]
    concurrency: int
    async_concurrency: int
    busy: int
    buffered: int
    succeeded: int
    failed: int
    retried: int
    conflicts: int
    rss_mb: float | None
    clock_offset_seconds: float | None
    clock_doubt_seconds: float | None
    clock_is_off: bool
    stop_requested: bool
    started_at: str | None
    last_seen: str | None
    silent_seconds: float


def worker_document(worker: WorkerView) -> WorkerDocument:
    row = worker.row
    return {
        "id": row.pk, "host": row.host, "pid": row.pid, "version": row.version, "state": worker.state,
        "alive": worker.is_alive, "queues": list(worker.queues), "concurrency": row.concurrency,
        "async_concurrency": row.async_concurrency, "busy": row.busy, "buffered": row.buffered,
        "succeeded": row.succeeded, "failed": row.failed, "retried": row.retried, "conflicts": row.conflicts,
        "rss_mb": None if row.rss_mb is None else round(row.rss_mb, 1),
        "clock_offset_seconds": None if row.clock_offset is None else round(row.clock_offset, 3),
        "clock_doubt_seconds": None if row.clock_doubt is None else round(row.clock_doubt, 3),
        "clock_is_off": worker.clock_is_off, "stop_requested": row.stop_requested,
        "started_at": instant(row.started_at), "last_seen": instant(row.last_seen),
        "silent_seconds": round(worker.silent, 3),
    }  # fmt: skip


class CircuitDocument(TypedDict):
    """The circuit of a type."""

    type: str
    state: str
    forced: bool
    failures: int
    opened_at: str | None
    open_until: str | None
    probed_in_seconds: float | None
    updated_at: str | None
    updated_by: str | None


def until_probe(row: Circuit, now: dt.datetime) -> float | None:
    """Seconds until an open circuit lets a probe through; None when only an operator closes it, or it is not open."""
    if row.state != Circuit.OPEN or row.forced or row.open_until is None:
        return None
    return max(0.0, float((row.open_until - now).total_seconds()))


def circuit_document(row: Circuit, now: dt.datetime) -> CircuitDocument:
    seconds = until_probe(row, now)
    return {
        "type": row.type, "state": CIRCUIT_STATES.get(row.state, str(row.state)), "forced": row.forced,
        "failures": row.failures, "opened_at": instant(row.opened_at), "open_until": instant(row.open_until),
        "probed_in_seconds": None if seconds is None else round(seconds, 3), "updated_at": instant(row.updated_at),
        "updated_by": row.updated_by,
    }  # fmt: skip
