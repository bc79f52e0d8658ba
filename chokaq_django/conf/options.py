"""The options of a project as frozen, typed objects, with their defaults. :mod:`.parsing` reads them from the setting.

Names are the setting's, in lower case. Durations are seconds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, time
from types import MappingProxyType
from typing import Any, Literal, NamedTuple
from zoneinfo import ZoneInfo

from ..job.backoff import Backoff, Exponential
from ..job.definition import CircuitPolicy
from ..job.failures import FailureReason

__all__ = [
    "DeckOptions",
    "ExecutionOptions",
    "HealthOptions",
    "Options",
    "QueueOptions",
    "RecoveryOptions",
    "RetentionOptions",
    "RetryOptions",
    "Window",
    "WorkerOptions",
    "window_open",
]

MINUTE, HOUR, DAY = 60.0, 3600.0, 86400.0


class Window(NamedTuple):
    """When a queue may run: from ``start`` to ``end`` in the IANA ``zone``, over midnight when end is before start."""

    start: time
    end: time
    zone: str


def window_open(window: tuple[time, time, str] | None, now: datetime) -> bool:
    """Whether ``now`` (aware) lies in a daily window; a window that ends before it starts spans midnight."""
    if window is None:
        return True
    start, end, zone = window
    local = now.astimezone(ZoneInfo(zone)).time()
    return start <= local < end if start <= end else local >= start or local < end


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


def _nothing() -> Mapping[str, Any]:
    return MappingProxyType({})


@dataclass(frozen=True, slots=True)
class RetentionOptions:
    """None keeps for ever. Of several rules for a job the most specific one counts: that of its reason, then that of
    its type, then that of its queue, then the plain one."""

    archive: float | None = 30 * DAY
    archive_by_queue: Mapping[str, float | None] = field(default_factory=_nothing)
    archive_by_type: Mapping[str, float | None] = field(default_factory=_nothing)
    dlq: float | None = None
    dlq_by_queue: Mapping[str, float | None] = field(default_factory=_nothing)
    dlq_by_type: Mapping[str, float | None] = field(default_factory=_nothing)
    dlq_by_reason: Mapping[FailureReason, float | None] = field(
        default_factory=lambda: MappingProxyType({FailureReason.EXPIRED: 7 * DAY})
    )
    trash: float | None = 7 * DAY
    """Counted from the purge: what was purged before keeps the time that it was given."""
    buckets: float | None = 30 * DAY
    """Of what charts and totals are made of; totals since the beginning stay."""


@dataclass(frozen=True, slots=True)
class HealthOptions:
    """When health turns: seconds that due jobs wait, and jobs that died within an hour and are still dead
    (None: never)."""

    lag_degraded: float = 5.0
    lag_unhealthy: float = 10.0
    dead_per_hour: int | None = 100


@dataclass(frozen=True, slots=True)
class DeckOptions:
    """What the operator's pages show and ask."""

    lag_warning: float = 5.0
    lag_critical: float = 10.0
    """Seconds that due jobs wait until a queue is shown as late, and as very late."""
    tick: float = 0.5
    """Seconds between two looks at the database, for all browsers of a process together."""
    bulk_chunk: int = 1_000
    """Jobs of a bulk operation in one transaction."""
    confirm_from: int = 25
    """From so many jobs on, a bulk operation is confirmed by typing."""
    read_database: str | None = None
    """Alias of a replica that history is read from; None is the job database itself."""
    mask_fields: tuple[str, ...] = (
        "*password*", "*passwd*", "*secret*", "*token*", "*apikey*", "*authorization*", "*privatekey*", "*credential*",
    )  # fmt: skip
    """Shell patterns of names whose values are shown only to who asks for them."""


@dataclass(frozen=True, slots=True)
class QueueOptions:
    """Limits of one queue, until an operator edits its row in the database. None is not set."""

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
    queues: Mapping[str, QueueOptions] = field(default_factory=_nothing)
    retention: RetentionOptions = field(default_factory=RetentionOptions)
    health: HealthOptions = field(default_factory=HealthOptions)
    deck: DeckOptions = field(default_factory=DeckOptions)

    @property
    def strict_queue_order(self) -> bool:
        """Whether a worker's list of queues is an order by default, as in NexJob."""
        return self.preset == "nexjob"
