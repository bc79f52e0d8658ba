"""The storage contract: what every engine does, with the same guards and the same answers.

Rules that hold for every operation (the reasons are in ``docs/explanation/storage.md``):

* Times that are compared are written and compared by the database server. Durations are float seconds.
* Every write of an execution carries its :class:`Lease` and the status it expects; the answer says which rows applied.
  A row that did not is a conflict: its lease is gone.
* Every operation takes many jobs. One that cannot apply never stops the others.
* Moves between tables are one transaction.
* Where the storage owns the transaction, transient errors (deadlock, busy, connection lost) are retried as a whole;
  inside the caller's transaction nothing is retried.
"""

from __future__ import annotations

import datetime as dt
from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence

from .records import (
    AGAIN_HEADER,
    Applied,
    BulkCount,
    BulkResult,
    BulkStep,
    CircuitAct,
    CircuitPolicy,
    CircuitReport,
    CircuitRow,
    Claim,
    ClaimedJob,
    ClaimRequest,
    Conflict,
    Copies,
    EditResult,
    Enqueued,
    HeartbeatReply,
    JobEdit,
    Lease,
    LiveRow,
    NewJob,
    Outcome,
    OutcomeKind,
    QueueRow,
    RescueAction,
    StartReply,
    WorkerOrders,
    WorkerRow,
)

__all__ = [
    "AGAIN_HEADER",
    "Applied",
    "BulkCount",
    "BulkResult",
    "BulkStep",
    "CircuitAct",
    "CircuitPolicy",
    "CircuitReport",
    "CircuitRow",
    "Claim",
    "ClaimRequest",
    "ClaimedJob",
    "Conflict",
    "Copies",
    "EditResult",
    "Enqueued",
    "HeartbeatReply",
    "JobEdit",
    "Lease",
    "LiveRow",
    "NewJob",
    "Outcome",
    "OutcomeKind",
    "QueueRow",
    "RescueAction",
    "StartReply",
    "Storage",
    "StorageError",
    "WorkerOrders",
    "WorkerRow",
]


class StorageError(Exception):
    """The database cannot do what is asked; the message says what to do."""


# -- the contract ------------------------------------------------------------------------------------------------------


class Storage(ABC):
    """One job database, reached over one connection. Not thread safe: one object per thread."""

    alias: str

    # producing ------------------------------------------------------------------------------------------------------

    @abstractmethod
    def enqueue(self, rows: Sequence[NewJob]) -> list[Enqueued]:
        """Insert the rows, in the caller's transaction when one is open, and say for each which id is active now.

        A key held by an active job answers that job's id with ``created=False``, without an error that would doom the
        transaction; so do later rows of the same call with a key of an earlier one.
        """

    # working --------------------------------------------------------------------------------------------------------

    @abstractmethod
    def claim(self, request: ClaimRequest) -> Claim:
        """Lease due rows in the order priority (highest first), due time, id. See :class:`ClaimRequest`."""

    @abstractmethod
    def advance(self, queues: Sequence[str], types: Collection[str], within: float, limit: int) -> int:
        """Give up to ``limit`` rows of these types, which claims have deferred, their place back, now that nothing
        blocks them; how many. ``within``: seconds for which the longest block of them was to last. Rows that were
        attempted or snoozed before wait for their own time."""

    @abstractmethod
    def pending_queues(self) -> list[str]:
        """Names of queues that hold Pending rows, by a loose index scan."""

    @abstractmethod
    def start(self, worker_id: str, leases: Sequence[Lease]) -> StartReply:
        """Fetched -> Processing: attempt + 1, started_at and heartbeat now."""

    @abstractmethod
    def settle(self, worker_id: str, outcomes: Sequence[Outcome]) -> Applied:
        """Record outcomes: all of them in one transaction, metrics included. Each carries its lease; EXPIRED and
        UNSTARTED_DEAD expect Fetched, the others Processing. After an unknown commit a repeated call finds its own work
        (same claim number in Archive, DLQ or Pending) and counts it as applied."""

    @abstractmethod
    def release(self, worker_id: str, leases: Sequence[Lease], delay: float = 0.0) -> Applied:
        """Fetched -> Pending, nothing consumed; not claimable for ``delay`` seconds."""

    @abstractmethod
    def heartbeat(self, worker_id: str, leases: Sequence[Lease]) -> HeartbeatReply:
        """Processing rows: heartbeat now."""

    @abstractmethod
    def cancel_requests(self, leases: Sequence[Lease]) -> dict[str, str | None]:
        """Which of these Processing rows an operator wants stopped: id -> who asked. A read."""

    @abstractmethod
    def progress(self, worker_id: str, notes: Mapping[Lease, tuple[int, str | None]]) -> Applied:
        """Store percent (0-100) and message of running jobs."""

    # recovering -----------------------------------------------------------------------------------------------------

    @abstractmethod
    def lead(self, name: str, holder: str, ttl: float) -> bool:
        """Take or extend the fleet-wide lease ``name`` for ``ttl`` seconds; False when another holder has it."""

    @abstractmethod
    def resign(self, name: str, holder: str) -> None:
        """Give the lease up, if still held."""

    @abstractmethod
    def live_rows(self) -> list[LiveRow]:
        """All Fetched and Processing rows."""

    @abstractmethod
    def rescue(self, actions: Sequence[RescueAction]) -> Applied:
        """Apply, each only if its row is as the rescuer saw it. "dlq" moves count in the metrics."""

    @abstractmethod
    def expire(self, limit: int) -> int:
        """Bury up to ``limit`` Pending rows whose deadline has passed as Expired; how many."""

    @abstractmethod
    def trim(
        self, table: str, older_than: float, limit: int, *, reason: int | None = None, but_reasons: Collection[int] = ()
    ) -> int:
        """Delete up to ``limit`` rows of "archive" or "dlq" finished more than ``older_than`` seconds ago, with their
        earlier payloads; how many."""

    @abstractmethod
    def trim_buckets(self, older_than: float, limit: int) -> int:
        """Delete metric buckets of more than ``older_than`` seconds ago, oldest first, about ``limit`` rows in whole
        ticks; how many."""

    @abstractmethod
    def expire_trash(self, limit: int) -> int:
        """Delete up to ``limit`` rows of the Trash whose time has come, with their earlier payloads; how many."""

    # fleet ----------------------------------------------------------------------------------------------------------

    @abstractmethod
    def register(self, row: WorkerRow) -> WorkerOrders:
        """Insert or update the worker's row with last_seen now; read what operators want of it."""

    @abstractmethod
    def unregister(self, worker_id: str) -> None:
        """Remove the worker's row."""

    @abstractmethod
    def workers_seen(self) -> dict[str, dt.datetime]:
        """Worker id -> last_seen, of all rows."""

    @abstractmethod
    def sweep_workers(self, ids: Sequence[str]) -> None:
        """Remove rows of dead workers."""

    # controlling ----------------------------------------------------------------------------------------------------

    @abstractmethod
    def queues(self) -> list[QueueRow]:
        """All control rows."""

    @abstractmethod
    def seed_queue(self, row: QueueRow) -> None:
        """Insert the row unless the queue has one (the row wins over settings once it exists)."""

    @abstractmethod
    def circuits(self) -> list[CircuitRow]:
        """Circuits that are not closed, or that have failures counted."""

    @abstractmethod
    def report_circuits(self, reports: Sequence[CircuitReport]) -> list[CircuitRow]:
        """Count failures, open, close after enough successful probes, reopen after a failed one; the rows after it."""

    @abstractmethod
    def set_circuit(self, type_key: str, act: CircuitAct, by: str | None) -> bool:
        """Open, close or reset the circuit of a type; whether that changed anything. See :class:`CircuitAct`."""

    @abstractmethod
    def cancel(self, ids: Sequence[str], by: str | None) -> BulkResult:
        """Pending, Fetched, Awaiting -> DLQ Cancelled; Processing -> a request for its worker."""

    @abstractmethod
    def resurrect(
        self,
        ids: Sequence[str],
        by: str | None,
        *,
        payload: str | None = None,
        tags: str | None = None,
        priority: int | None = None,
        schema_version: int | None = None,
        on_key_conflict: str = "skip",
    ) -> BulkResult:
        """DLQ -> Hot, Pending: attempt 0, generation + 1, due now, deadline cleared of its passed instant; the claim
        number stays. ``on_key_conflict``: "skip" refuses with the holder's id, "drop" clears the key. A payload that is
        replaced is kept as a version."""

    @abstractmethod
    def remove(self, ids: Sequence[str], by: str | None, ttl: float | None) -> BulkResult:
        """Pending, Fetched (given back first) and Awaiting -> Trash, to expire ``ttl`` seconds from now, None: never.
        Running jobs are refused."""

    @abstractmethod
    def purge(self, ids: Sequence[str], by: str | None, ttl: float | None) -> BulkResult:
        """DLQ or Archive -> Trash, to expire ``ttl`` seconds from now, None: never."""

    @abstractmethod
    def restore(self, ids: Sequence[str], *, on_key_conflict: str = "skip") -> BulkResult:
        """Trash -> where it came from, identical in every column (so nothing in the row says who did it). What goes
        back to Hot is subject to ``on_key_conflict``, as in :meth:`resurrect`."""

    @abstractmethod
    def run_again(self, ids: Sequence[str], by: str | None, *, on_key_conflict: str = "skip") -> Copies:
        """Enqueue archived jobs once more as new jobs, due now, whose header AGAIN_HEADER names the old one. A deadline
        that has passed is left out; ``on_key_conflict`` as in :meth:`resurrect`."""

    @abstractmethod
    def edit(self, revisions: Mapping[str, int | None], by: str | None, changes: JobEdit) -> EditResult:
        """Change Pending or DLQ rows; each counts a revision. ``revisions``: id -> the revision that the row must have,
        None: whichever it has. A payload that is replaced is kept as a version."""

    # bulk operations ------------------------------------------------------------------------------------------------

    @abstractmethod
    def bulk_open(self) -> list[str]:
        """Ids of the operations that are to be worked on now, oldest first."""

    @abstractmethod
    def bulk_step(self, operation_id: str, limit: int = 500) -> BulkStep:
        """Freeze or act on the next chunk, up to ``limit`` jobs, in one transaction that holds the operation's row."""

    @abstractmethod
    def bulk_fail(self, operation_id: str, message: str) -> None:
        """End an operation that cannot go on."""

    @abstractmethod
    def bulk_count(self, place: str, conditions: str, limit: int) -> list[BulkCount]:
        """Jobs that a filter finds now, by queue and type; of the ``limit`` oldest at most."""

    @abstractmethod
    def bulk_frozen(self, operation_id: str) -> list[BulkCount]:
        """The same, of an operation's set, as far as its jobs are in Hot, Archive or DLQ."""

    @abstractmethod
    def trim_bulk(self, older_than: float, limit: int) -> int:
        """Forget what operations that ended more than ``older_than`` seconds ago acted on, up to ``limit`` items, then
        the operation; fewer than ``limit`` when there is no such operation any more."""

    @abstractmethod
    def now(self) -> dt.datetime:
        """The server's clock."""

    # connection -----------------------------------------------------------------------------------------------------

    @abstractmethod
    def close(self) -> None:
        """Close the connection (only of :func:`open_storage`)."""
