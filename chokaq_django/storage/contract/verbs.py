"""The verbs of operators, at once and as bulk operations."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence

from ..act_records import BulkCount, BulkResult, BulkStep, Copies, EditResult, JobEdit, Note

__all__ = ["Verbs"]


class Verbs(ABC):
    """What operators do with jobs."""

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
        None: whichever it has. A payload that is replaced is kept as a version. ``changes.renew`` is called within the
        transaction, with rows locked, and again when it is retried: it must not use the connection."""

    @abstractmethod
    def annotate(self, ids: Sequence[str], note: Note) -> BulkResult:
        """Write a note on DLQ rows; what would not change is refused."""

    @abstractmethod
    def lock_ahead(self, ids: Sequence[str], places: Sequence[str]) -> None:
        """In a transaction of the caller's: lock these jobs, as far as they are in these places ("hot", "dlq", ...), in
        the one order, for verbs that come to them part by part. Elsewhere each part is a transaction of its own."""

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
