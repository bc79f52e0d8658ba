"""Upkeep: what dead workers have left, and what is too old."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Sequence

from ..act_records import GroupDrift
from ..fleet_records import LiveRow, RescueAction
from ..records import Applied
from ..retention_rules import TrimRule, TrimStep, Walk

__all__ = ["Upkeep"]


class Upkeep(ABC):
    """What one worker of the fleet does for all, in steps that nobody waits long for."""

    sweep_chunk = 200
    """Rows that a sweep handles in one transaction, so that nobody waits long for it."""
    sweep_pause = 0.02
    """Seconds between two steps of a sweep that wrote, at least: others go first."""

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
    def trim(self, rule: TrimRule, limit: int, walk: Walk | None = None) -> TrimStep:
        """One step of a pass: look at the next ``limit`` old jobs of a rule, and delete those that no more specific
        rule goes for, with their earlier payloads. A pass begins without a ``walk``, from the rule's mark on."""

    @abstractmethod
    def trim_due(self, rule: TrimRule, limit: int) -> tuple[int, bool]:
        """How many of the next ``limit`` old jobs of a rule a pass would delete now, and whether there are more."""

    @abstractmethod
    def trimmed(self, name: str, place: str, removed: int) -> None:
        """Note that a pass of a rule has ended, and what it deleted."""

    @abstractmethod
    def forget_rules(self, but: Collection[str]) -> None:
        """Delete the marks of rules that are not among these names any more."""

    @abstractmethod
    def roll_up(self, older_than: float, limit: int) -> int:
        """Move up to ``limit`` metric buckets of more than ``older_than`` seconds ago, oldest first, into the roll-ups
        of all spans, and into the counters; how many."""

    @abstractmethod
    def trim_rollups(self, span: int, older_than: float, limit: int) -> int:
        """Delete roll-ups of this span and of more than ``older_than`` seconds ago, oldest first, about ``limit`` rows
        in whole slots; how many."""

    @abstractmethod
    def fold_groups(self, limit: int) -> int:
        """Add up to ``limit`` rows of failure groups, of single writers, to those of all; how many."""

    @abstractmethod
    def trim_groups(self, older_than: float, limit: int) -> int:
        """Forget up to ``limit`` failure groups without a job for which nothing came for ``older_than`` seconds; how
        many."""

    @abstractmethod
    def group_drift(self) -> list[GroupDrift]:
        """What failure groups do not count as the DLQ holds it, by fingerprint, queue and type; reads three indexes of
        it. On SQL Server, moves that are under way may show too."""

    @abstractmethod
    def recount_groups(self) -> int:
        """Give dead jobs without a fingerprint one, and set the failure groups to what the DLQ holds while moves go on;
        how many were not right. ``StorageError`` while somebody else does it."""

    @abstractmethod
    def expire_trash(self, limit: int) -> int:
        """Delete up to ``limit`` rows of the Trash whose time has come, with their earlier payloads; how many."""

    @abstractmethod
    def trim_bulk(self, older_than: float, limit: int) -> int:
        """Forget what operations that ended more than ``older_than`` seconds ago acted on, up to ``limit`` items, then
        the operation; fewer than ``limit`` when there is no such operation any more."""

    @abstractmethod
    def erase_queue(self, queue: str, limit: int) -> bool:
        """One step of deleting a queue for good: up to ``limit`` of its jobs, wherever they are; when there is none any
        more, up to ``limit`` rows of what counts them; in the end its own row. False when nothing was left, True when
        it is to be asked again, also where others hold what is left. For a queue to which nobody enqueues, and which no
        worker serves. Circuits, records of the audit, and when a failure that other queues know was seen first and
        last, stay."""
