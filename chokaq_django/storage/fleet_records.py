"""Rows that tell of workers, queues and circuits, and of what a rescuer sees; conventions as in :mod:`.records`."""

from __future__ import annotations

import datetime as dt
import enum
from dataclasses import dataclass, field

from ..conf import QueueOptions
from ..job.failures import FailureReason


@dataclass(slots=True)
class LiveRow:
    """A leased row as a rescuer sees it. ``seen``: the value whose standing still means death (heartbeat, or the last
    update of a Fetched row)."""

    id: str
    claim_number: int
    status: int
    worker_id: str | None
    queue: str
    type: str
    attempt: int
    max_attempts: int
    crash_count: int
    attempt_log: str
    started_at: dt.datetime | None
    seen: dt.datetime | None


@dataclass(slots=True)
class RescueAction:
    """What to do with one row found dead; applies only if the lease and ``seen`` are still what the rescuer saw.

    ``to``: "pending" (Fetched rows; crash policy retry) or "dlq" with ``reason``. ``crashed``: count a crash.
    """

    row: LiveRow
    to: str
    attempt_log: str
    crashed: bool = False
    delay: float = 0.0
    reason: FailureReason | None = None
    error_details: str | None = None
    fingerprint: str | None = None


@dataclass(slots=True)
class WorkerRow:
    """What a worker says about itself at each registry beat; ``types`` (JSON list of keys and patterns) only where it
    has no row, at the first and after somebody has swept it. So is ``desired_concurrency``, what operators wanted of it
    last: where there is a row they say it there. ``clock_offset``, ``clock_doubt``: as a :class:`ClockReading`; what is
    not given without a row is read then."""

    id: str
    host: str
    pid: int
    version: str
    queues: str
    concurrency: int
    async_concurrency: int
    state: str
    busy: int = 0
    buffered: int = 0
    succeeded: int = 0
    failed: int = 0
    retried: int = 0
    conflicts: int = 0
    rss_mb: float | None = None
    clock_offset: float | None = None
    clock_doubt: float | None = None
    types: str | None = None
    desired_concurrency: int | None = None


@dataclass(frozen=True, slots=True)
class ClockReading:
    """How many seconds this machine's clock was ahead of the database's (negative: behind) when a statement was half
    way, and by how many that may be wrong: half of its round trip."""

    offset: float
    doubt: float


@dataclass(slots=True)
class WorkerOrders:
    """What operators want of a worker, read at each beat. ``operations``: bulk operations are to be worked on, by any
    worker. ``settings``: another value whenever somebody has set an option or reset one. ``clock``: read by the same
    statements."""

    desired_concurrency: int | None
    stop_requested: bool
    operations: bool = False
    settings: str = ""
    clock: ClockReading | None = None


@dataclass(slots=True)
class QueueRow:
    """Control row of a queue. Timeouts in seconds; ``window``: (start, end, zone name) or None."""

    name: str
    is_paused: bool
    is_active: bool
    max_workers: int | None
    zombie_timeout: float | None
    execution_timeout: float | None
    window: tuple[dt.time, dt.time, str] | None

    @classmethod
    def new(cls, name: str, options: QueueOptions | None) -> QueueRow:
        """An open queue as the settings have it; None: with no limits."""
        said = options or QueueOptions()
        return cls(name, False, True, said.max_workers, said.zombie_timeout, said.execution_timeout, said.window)

    @property
    def limits(self) -> tuple[object, ...]:
        """What the settings can say of it, in the order of :class:`~chokaq_django.conf.QueueOptions`."""
        return self.max_workers, self.execution_timeout, self.zombie_timeout, self.window


@dataclass(slots=True)
class CircuitRow:
    """A circuit that is not at rest. ``reopens_in``: seconds until an open one may be probed."""

    type: str
    state: int
    failures: int
    reopens_in: float
    forced: bool


class CircuitAct(enum.Enum):
    """What an operator does to a circuit."""

    OPEN = "open"  # and keep it open until an operator closes it
    CLOSE = "close"  # an open or half-open one
    RESET = "reset"  # forget its failures too, whatever its state


@dataclass(frozen=True, slots=True)
class CircuitPolicy:
    """When a circuit opens and closes; durations in seconds."""

    failures: int
    window: float
    break_: float
    probes: int
    probe_timeout: float


@dataclass(slots=True)
class CircuitReport:
    """What executions of one type did since the last report, in one worker process.

    ``probes``: job ids that ran as probes, to whether they succeeded (None: neutral, the permit is just given back).
    """

    type: str
    policy: CircuitPolicy
    successes: int = 0
    failures: int = 0
    probes: dict[str, bool | None] = field(default_factory=dict)
