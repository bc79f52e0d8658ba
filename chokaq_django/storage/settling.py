"""The settle of engines that look at the leases first and then write: which outcomes apply, and which an earlier call
has written. How rows are written is the engine's."""

# ruff: noqa: S608 - statements are composed of constants and column names of ours; every value is a parameter

from __future__ import annotations

from abc import abstractmethod
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar

from .base import SQLStorage
from .buckets import NO_REASON, Tally, reason_of
from .columns import ARCHIVE, DLQ, HOT
from .contract import Applied, Outcome, OutcomeKind
from .groups import GroupTally
from .moves import FETCHED, PENDING, PROCESSING
from .outcomes import DEAD, UNSTARTED
from .text import storable

__all__ = ["CANCEL_REQUEST", "Ended", "SettlingStatements"]

CANCEL_REQUEST = "h.cancel_requested_at IS NOT NULL, h.cancel_requested_by"
"""What is read of a lease that ends: whether an operator had asked to stop it, and who."""
Ended = tuple[Any, Outcome]
"""The key that :meth:`SettlingStatements._leases` gave a row, and its outcome."""


class SettlingStatements(SQLStorage):
    """Ends of executions."""

    STATUS: ClassVar[str] = "status"
    """The column, beside ids: in a form that keeps the planner to these."""

    @abstractmethod
    def _leases(self, worker_id: str, ids: Iterable[str], extra: str = "NULL") -> Mapping[str, Sequence[Any]]:
        """Lock the Hot rows of this worker among ``ids``: id -> (key, claim number, status, ``extra``...)."""

    @abstractmethod
    def _write_ends(self, archived: Sequence[Ended], buried: Sequence[Ended], pending: Sequence[Ended]) -> None:
        """Move these rows to the Archive and to the DLQ, and give the others back."""

    def _settle(self, worker_id: str, outcomes: Sequence[Outcome]) -> Applied:
        rows = dict(self._leases(worker_id, [outcome.id for outcome in outcomes], CANCEL_REQUEST))
        applied: list[Outcome] = []
        rest: list[Outcome] = []
        archived: list[Ended] = []
        buried: list[Ended] = []
        pending: list[Ended] = []
        cancelled: dict[str | None, list[str]] = defaultdict(list)
        for outcome in outcomes:
            row = rows.get(outcome.id)
            expected = FETCHED if outcome.kind in UNSTARTED else PROCESSING
            if row is None or row[1] != outcome.claim_number or row[2] != expected:
                rest.append(outcome)
                continue
            del rows[outcome.id]
            applied.append(outcome)
            if outcome.kind is OutcomeKind.SUCCEEDED:
                archived.append((row[0], outcome))
            elif outcome.kind in DEAD:
                buried.append((row[0], outcome))
            else:
                pending.append((row[0], outcome))
                if row[3]:
                    cancelled[row[4]].append(outcome.id)
        self._write_ends(archived, buried, pending)
        self._add_buckets(Tally(self._shard).settled(applied).rows())
        self._add_groups(GroupTally(self._shard).settled(applied).rows())
        for asker, ids in cancelled.items():
            # An operator had asked to stop it; the request came too late for its worker and is honoured here.
            self._cancel(ids, asker)
        return {outcome.id for outcome in applied} | self._already(worker_id, rest)

    def _already(self, worker_id: str, outcomes: Sequence[Outcome]) -> Applied:
        """Outcomes that an earlier call has written, whose commit the worker did not learn of. What a rescuer or an
        operator did to the job meanwhile has another place, reason or log."""
        if not outcomes:
            return set()
        among, params = self._among("id", [outcome.id for outcome in outcomes])
        mine = [*params, worker_id]
        archived = self._query(f"SELECT id, claim_number FROM {ARCHIVE} WHERE {among} AND worker_id = %s", mine)
        buried = self._query(
            f"SELECT id, claim_number, failure_reason, attempt_log FROM {DLQ} WHERE {among} AND worker_id = %s", mine
        )
        pending = self._query(
            f"SELECT id, claim_number, {NO_REASON}, attempt_log FROM {HOT} WHERE {among} AND {self.STATUS} = {PENDING}",
            params,
        )
        done = {*archived, *buried, *pending}
        return {outcome.id for outcome in outcomes if _trace(outcome) in done}


def _trace(outcome: Outcome) -> tuple[Any, ...]:
    """What the outcome leaves behind, as :meth:`SettlingStatements._already` reads it."""
    if outcome.kind is OutcomeKind.SUCCEEDED:
        return outcome.id, outcome.claim_number
    return outcome.id, outcome.claim_number, int(reason_of(outcome)), storable(outcome.attempt_log)
