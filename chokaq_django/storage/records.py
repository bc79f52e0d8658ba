"""What goes into the storage and what comes out: plain records, the same on every engine.

Durations are float seconds, instants are aware and in UTC; columns and fields of a job have the same names.
"""

from __future__ import annotations

import datetime as dt
import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ..job.failures import FailureReason

# -- enqueue -----------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class NewJob:
    """One row to insert. ``run_at`` and ``deadline_at`` are aware instants, ``delay`` and ``deadline_after`` seconds
    from the server's now. At most one of each pair is set."""

    id: str
    queue: str
    type: str
    payload: str
    schema_version: int = 1
    tags: str = "[]"
    priority: int = 10
    max_attempts: int = 3
    created_by: str | None = None
    run_at: dt.datetime | None = None
    delay: float | None = None
    deadline_at: dt.datetime | None = None
    deadline_after: float | None = None
    idempotency_key: str | None = None
    concurrency_key: str | None = None
    headers: str = "{}"


@dataclass(frozen=True, slots=True)
class Enqueued:
    """``id`` of the active job: the new one, or the one that already holds the idempotency key."""

    id: str
    created: bool


# -- claim -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Lease:
    """One execution's right to write: it ends when anybody claims the job again."""

    id: str
    claim_number: int


@dataclass(slots=True)
class ClaimedJob:
    """A leased job. ``status`` is 2 when the claim also started it (attempt counted), 1 when it waits in the buffer.

    ``expired``: its deadline has passed; it was leased (status 1) without starting and is to be settled as EXPIRED.
    """

    id: str
    queue: str
    type: str
    schema_version: int
    payload: str
    tags: str
    priority: int
    attempt: int
    max_attempts: int
    crash_count: int
    snooze_count: int
    claim_number: int
    generation: int
    created_by: str | None
    created_at: dt.datetime
    started_at: dt.datetime | None
    run_at: dt.datetime
    due_at: dt.datetime
    deadline_at: dt.datetime | None
    headers: str
    attempt_log: str
    status: int
    expired: bool

    @property
    def lease(self) -> Lease:
        return Lease(self.id, self.claim_number)


@dataclass(slots=True)
class ClaimRequest:
    """What a worker may run now.

    ``queues``: names in the worker's order. ``strict``: that order comes before priority. ``start``: claim and start in
    one transaction (free slots wait), else lease into the buffer. ``capped``: queues with a fleet-wide limit, name to
    limit; they are claimed only when ``start`` is true. ``blocked``: type keys that must not run now, to the seconds
    after which to look again; rows of these types met at the head are deferred (``run_at`` moves, ``due_at`` stays).
    ``probing``: type keys whose circuit is half open, to its probe permits, of which only free ones may start, and the
    seconds for which each is held.
    """

    worker_id: str
    queues: Sequence[str]
    limit: int
    start: bool = True
    strict: bool = False
    capped: Mapping[str, int] = field(default_factory=dict)
    blocked: Mapping[str, float] = field(default_factory=dict)
    probing: Mapping[str, tuple[int, float]] = field(default_factory=dict)  # type -> (permits, probe timeout s)


@dataclass(slots=True)
class Claim:
    """Answer of a claim, jobs in the order in which to run them.

    ``next_due``: seconds until the earliest future row of these queues, None when there is none or the claim was full.
    ``contended``: a cap row was locked by another worker: try again in 5-20 ms.
    ``deferred``: rows of blocked types that were moved out of the way; the head may hold more: claim again.
    """

    jobs: list[ClaimedJob]
    next_due: float | None = None
    contended: bool = False
    deferred: int = 0


@dataclass(slots=True)
class StartReply:
    """Answer of :meth:`Storage.start`, by job id. An id in none of them lost its lease (a conflict)."""

    started: dict[str, tuple[int, dt.datetime]]  # id -> (attempt, started_at)
    expired: set[str]  # still Fetched and leased: settle them as EXPIRED
    released: set[str]  # queue paused or hidden meanwhile: given back


# -- settle ------------------------------------------------------------------------------------------------------------


class OutcomeKind(enum.Enum):
    """What happened to an execution."""

    SUCCEEDED = "succeeded"  # -> Archive
    RETRY = "retry"  # -> Pending after ``delay``, attempt used
    DEAD = "dead"  # -> DLQ
    SNOOZED = "snoozed"  # -> Pending after ``delay``, attempt given back, snooze counted
    INTERRUPTED = "interrupted"  # -> Pending now, attempt given back (worker shutdown)
    EXPIRED = "expired"  # Fetched, never started -> DLQ Expired
    UNSTARTED_DEAD = "unstarted_dead"  # Fetched, never started -> DLQ with ``reason`` (unknown type)


@dataclass(slots=True)
class Outcome:
    """One settle. ``attempt_log`` is the whole new log text. Times in milliseconds where named so."""

    id: str
    claim_number: int
    kind: OutcomeKind
    queue: str
    type: str
    attempt_log: str
    duration_ms: int = 0
    wait_ms: int = 0
    result: str | None = None
    delay: float = 0.0
    reason: FailureReason | None = None
    error_type: str | None = None
    error_details: str | None = None
    fingerprint: str | None = None
    modified_by: str | None = None


@dataclass(slots=True)
class HeartbeatReply:
    """``lost``: ids whose lease is gone. ``cancels``: id -> who asked."""

    lost: set[str]
    cancels: dict[str, str | None]


Applied = set[str]
"""Ids whose write applied; what is missing is a conflict."""


@dataclass(frozen=True, slots=True)
class Conflict:
    """An id that an operator's verb could not apply to, and why (a full sentence)."""

    id: str
    reason: str


@dataclass(slots=True)
class BulkResult:
    """Answer of an operator's verb: what applied, was only requested (a running job's cancel), or was refused."""

    applied: list[str] = field(default_factory=list)
    requested: list[str] = field(default_factory=list)
    refused: list[Conflict] = field(default_factory=list)

    def add(self, part: BulkResult) -> None:
        """Take in the answer to another part of the same act."""
        self.applied += part.applied
        self.requested += part.requested
        self.refused += part.refused


@dataclass(slots=True)
class Copies(BulkResult):
    """Answer of :meth:`Storage.run_again`. ``new_ids``: archived job -> the new job."""

    new_ids: dict[str, str] = field(default_factory=dict)


AGAIN_HEADER = "chokaq-run-again-of"
"""Header of a job that was run again: the id of the job it is a copy of."""


@dataclass(slots=True)
class JobEdit:
    """What an edit changes; None keeps. ``tags`` is the JSON text of a list. ``schema_version`` belongs to the
    payload."""

    payload: str | None = None
    schema_version: int | None = None
    tags: str | None = None
    priority: int | None = None
    queue: str | None = None
    type: str | None = None


@dataclass(slots=True)
class EditResult(BulkResult):
    """Answer of :meth:`Storage.edit`. ``before``: id -> revision, queue, type, priority, tags and schema_version before
    the edit, of what applied. ``outdated``: id -> revision, of what was refused for its revision."""

    before: dict[str, dict[str, object]] = field(default_factory=dict)
    outdated: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class BulkStep:
    """Where a bulk operation is after a step. ``pause``: seconds until the next; None: nothing goes on by itself.
    ``wakes``: jobs may have become due."""

    state: str
    done: int
    total: int
    pause: float | None
    wakes: bool = False


@dataclass(frozen=True, slots=True)
class BulkCount:
    """How many jobs of a set are of one queue and type. ``ages``: "hour", "day", "week", "older" -> how many were
    created, finished or dead within so long, and not within less."""

    queue: str
    type: str
    count: int
    oldest: dt.datetime | None
    newest: dt.datetime | None
    ages: dict[str, int]


# -- rescue and fleet --------------------------------------------------------------------------------------------------


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
    """What a worker says about itself at each registry beat."""

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


@dataclass(slots=True)
class WorkerOrders:
    """What operators want of a worker, read at each beat. ``operations``: bulk operations are to be worked on, by any
    worker."""

    desired_concurrency: int | None
    stop_requested: bool
    operations: bool = False


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
