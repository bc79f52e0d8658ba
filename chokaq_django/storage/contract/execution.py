"""The way of a job: produced, claimed, run, settled."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence

from ..records import (
    Applied,
    Claim,
    ClaimedJob,
    ClaimRequest,
    Enqueued,
    HeartbeatReply,
    Lease,
    NewJob,
    Outcome,
    StartReply,
)

__all__ = ["Execution"]


class Execution(ABC):
    """What producers and workers do with jobs."""

    @abstractmethod
    def enqueue(self, rows: Sequence[NewJob]) -> list[Enqueued]:
        """Insert the rows, in the caller's transaction when one is open, and say for each which id is active now.

        A key held by an active job answers that job's id with ``created=False``, without an error that would doom the
        transaction; so do later rows of the same call with a key of an earlier one.
        """

    @abstractmethod
    def claim(self, request: ClaimRequest) -> Claim:
        """Lease due rows in the order priority (highest first), due time, id. See :class:`ClaimRequest`."""

    @abstractmethod
    def claimed_by(self, worker_id: str) -> list[ClaimedJob]:
        """The rows that this worker has leased (Fetched) or started (Processing), in the order of a claim. A read."""

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
        """Processing rows: heartbeat now. Waits for nobody: a row that somebody is writing keeps its old heartbeat, and
        what is committed says whether its lease holds. A rescuer passes it over as well."""

    @abstractmethod
    def cancel_requests(self, leases: Sequence[Lease]) -> dict[str, str | None]:
        """Which of these Processing rows an operator wants stopped: id -> who asked. A read."""

    @abstractmethod
    def progress(self, worker_id: str, notes: Mapping[Lease, tuple[int, str | None]]) -> Applied:
        """Store percent (0-100) and message of running jobs. Waits for nobody either: the note of a row that somebody
        is writing is left out."""

    # atomic jobs ----------------------------------------------------------------------------------------------------

    def mark_transaction(self) -> object:
        """Mark the transaction that the caller is in, for :meth:`is_marked`, before any other statement: the one that
        begins it in the database may be this."""
        return None

    def is_marked(self, mark: object) -> bool:
        """Whether the caller's transaction is still the one that got this mark; asked once, at its end. Deadlocks, some
        errors and some statements end a transaction, and the next statement begins another without a word."""
        return True

    def settle_marked(self, worker_id: str, success: Outcome, mark: object) -> Applied | None:
        """:meth:`settle` of one success, after :meth:`is_marked`; None, and nothing is written, where that could not
        tell without a round trip that the transaction is another."""
        return self.settle(worker_id, [success])
