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
    """A leased job. ``status`` is 2 when the claim also started it (attempt counted), 1 when it waits in the buffer, as
    one that has crashed before always does.

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

    ``queues``: names in the worker's order. ``strict``: that order comes before priority. ``start``: claim and
    start in one transaction (free slots wait) what has never crashed, else lease into the buffer. ``capped``:
    queues with a fleet-wide limit, name to limit; they are claimed only when ``start`` is true. ``blocked``: type
    keys that must not run now, to the seconds after which to look again; rows of these types met at the head are
    deferred (``run_at`` moves, ``due_at`` stays). ``probing``: type keys whose circuit is half open, to its probe
    permits, of which only free ones may start, and the seconds for which each is held. ``max_crashes``: rows that
    have crashed more often are passed over as if they were not due; None: any number.
    """

    worker_id: str
    queues: Sequence[str]
    limit: int
    start: bool = True
    strict: bool = False
    capped: Mapping[str, int] = field(default_factory=dict)
    blocked: Mapping[str, float] = field(default_factory=dict)
    probing: Mapping[str, tuple[int, float]] = field(default_factory=dict)  # type -> (permits, probe timeout s)
    max_crashes: int | None = None


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
    """Answer of :meth:`Storage.start`, by job id. An id in none of them lost its lease (a conflict), or an earlier try
    started it whose answer was lost (:meth:`Storage.claimed_by` tells)."""

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
    INTERRUPTED = "interrupted"  # -> Pending, attempt given back (shutdown, trouble of the database)
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
    """``lost``: ids whose lease is gone. ``cancels``: id -> who asked. ``busy``: ids whose lease holds, but whose row
    somebody else was writing: it was passed over."""

    lost: set[str]
    cancels: dict[str, str | None]
    busy: set[str] = field(default_factory=set)


Applied = set[str]
"""Ids whose write applied; what is missing is a conflict."""
