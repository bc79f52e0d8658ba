"""The options of a project as frozen, typed objects, with their defaults. ``conf.py`` reads them from the setting.

Names are the setting's, in lower case. Durations are seconds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import time
from types import MappingProxyType
from typing import Literal, NamedTuple

from .job.backoff import Backoff, Exponential
from .job.definition import CircuitPolicy
from .job.failures import FailureReason

__all__ = [
    "ExecutionOptions",
    "HealthOptions",
    "Options",
    "QueueOptions",
    "RecoveryOptions",
    "RetentionOptions",
    "RetryOptions",
    "Window",
    "WorkerOptions",
]

MINUTE, HOUR, DAY = 60.0, 3600.0, 86400.0


class Window(NamedTuple):
    """When a queue may run: from ``start`` to ``end`` in the IANA ``zone``, over midnight when end is before start."""

    start: time
    end: time
    zone: str


@dataclass(frozen=True, slots=True)
class WorkerOptions:
    concurrency: int = 10
    async_concurrency: int = 100
    processes: int = 1
    prefetch: int | Literal["auto"] = "auto"
    fetch_batch: int = 200
    settle_batch: int = 500
    wake_up: Literal["auto", "poll"] = "auto"
    listen_database: str | None = None
    poll_interval: float = 1.0
    idle_poll_interval: float = 5.0
    shutdown_grace: float = 30.0
    cancel_grace: float = 5.0
    max_jobs: int | None = None
    max_rss_mb: int | None = None


@dataclass(frozen=True, slots=True)
class ExecutionOptions:
    timeout: float = 15 * MINUTE
    heartbeat_min: float = 8.0
    heartbeat_max: float = 12.0
    heartbeat_failures: int = 10
    cancel_on_heartbeat_failure: bool = False
    unknown_type_grace: float = 10 * MINUTE


@dataclass(frozen=True, slots=True)
class RetryOptions:
    max_attempts: int = 3
    base_delay: float = 3.0
    multiplier: float = 2.0
    max_delay: float = HOUR
    jitter: float = 1.0
    max_age: float | None = DAY
    backoff: Backoff = field(default_factory=Exponential)
    """The policy of types that name none, made of the options above."""


@dataclass(frozen=True, slots=True)
class RecoveryOptions:
    worker_timeout: float = 30.0
    fetched_timeout: float = 10 * MINUTE
    zombie_timeout: float = 10 * MINUTE
    scan_interval: float = 10.0
    crash_policy: Literal["dlq", "retry"] = "dlq"
    crash_limit: int = 3


@dataclass(frozen=True, slots=True)
class RetentionOptions:
    """None keeps for ever."""

    archive: float | None = 30 * DAY
    dlq: float | None = None
    dlq_by_reason: Mapping[FailureReason, float | None] = field(
        default_factory=lambda: MappingProxyType({FailureReason.EXPIRED: 7 * DAY})
    )
    trash: float | None = 7 * DAY
    """Counted from the purge: what was purged before keeps the time that it was given."""
    buckets: float | None = 30 * DAY


@dataclass(frozen=True, slots=True)
class HealthOptions:
    """When health turns: seconds that due jobs wait, and jobs that died within an hour (None: never)."""

    lag_degraded: float = 5.0
    lag_unhealthy: float = 10.0
    dead_per_hour: int | None = 100


@dataclass(frozen=True, slots=True)
class QueueOptions:
    """First values of one queue; its row in the database wins once edited. None is not set."""

    max_workers: int | None = None
    execution_timeout: float | None = None
    zombie_timeout: float | None = None
    window: Window | None = None


@dataclass(frozen=True, slots=True)
class Options:
    """Everything ``CHOKAQ`` says, defaults filled in."""

    database: str = "default"
    preset: Literal["chokaq", "nexjob"] = "chokaq"
    max_payload_bytes: int = 1_000_000
    middleware: tuple[str, ...] = ()
    worker: WorkerOptions = field(default_factory=WorkerOptions)
    execution: ExecutionOptions = field(default_factory=ExecutionOptions)
    retry: RetryOptions = field(default_factory=RetryOptions)
    recovery: RecoveryOptions = field(default_factory=RecoveryOptions)
    circuit: CircuitPolicy = field(default_factory=CircuitPolicy)
    queues: Mapping[str, QueueOptions] = field(default_factory=lambda: MappingProxyType({}))
    retention: RetentionOptions = field(default_factory=RetentionOptions)
    health: HealthOptions = field(default_factory=HealthOptions)

    @property
    def strict_queue_order(self) -> bool:
        """Whether a worker's list of queues is an order by default, as in NexJob."""
        return self.preset == "nexjob"
