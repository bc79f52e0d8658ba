"""Settle: all outcomes of a call in one transaction of a few statements, whatever their kinds and their number."""

# ruff: noqa: S608 - statements are composed of constants and column names of ours; every value is a parameter

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any

from ..buckets import NO_REASON, Tally, reason_of
from ..columns import ARCHIVE, ARCHIVE_COLUMNS, DLQ, DLQ_COLUMNS, HOT, names, select
from ..contract import Applied, Outcome, OutcomeKind
from ..moves import Burial
from ..outcomes import DEAD, GIVES_ATTEMPT_BACK, PERSON_LIMIT, TYPE_LIMIT, UNSTARTED
from ..text import storable
from .leases import CANCEL_REQUEST, FETCHED, PENDING, PROCESSING, LeaseStatements
from .session import MySQLSession, as_json
from .tables import TEXT, outcomes

_HOT_ROW = f"STRAIGHT_JOIN {HOT} h FORCE INDEX (PRIMARY) ON h.id = j.id"
_MODIFIED_BY = "COALESCE(j.modified_by, h.modified_by)"
_ARCHIVED = {
    "attempt_log": "j.log", "modified_by": _MODIFIED_BY, "finished_at": MySQLSession.NOW, "duration_ms": "j.duration",
    "wait_ms": "j.wait", "result": "j.result",
}  # fmt: skip
_BURIED = {
    "attempt_log": "COALESCE(j.log, h.attempt_log)", "modified_by": _MODIFIED_BY, "failure_reason": "j.reason",
    "error_type": "j.error_type", "error_details": "j.details", "fingerprint": "j.fingerprint",
    "crash_count": "h.crash_count + j.crashes", "failed_at": MySQLSession.NOW, "note": "''", "assignee": "NULL",
    "acknowledged_at": "NULL",
}  # fmt: skip
TO_ARCHIVE = (
    f"INSERT INTO {ARCHIVE} ({names(ARCHIVE_COLUMNS)}) SELECT {select(ARCHIVE_COLUMNS, _ARCHIVED, 'h')} FROM "
    f"{outcomes(duration='BIGINT', wait='BIGINT', modified_by=TEXT, log=TEXT, result=TEXT)} {_HOT_ROW}"
)
TO_DLQ = (
    f"INSERT INTO {DLQ} ({names(DLQ_COLUMNS)}) SELECT {select(DLQ_COLUMNS, _BURIED, 'h')} FROM "
    + outcomes(reason="INT", crashes="INT", fingerprint=TEXT, error_type=TEXT, modified_by=TEXT, log=TEXT, details=TEXT)
    + f" {_HOT_ROW}"
)
TO_PENDING = (
    f"UPDATE {outcomes(delay='DOUBLE', back='INT', snoozed='INT', modified_by=TEXT, log=TEXT)} {_HOT_ROW} "
    f"SET h.status = {PENDING}, h.worker_id = NULL, h.heartbeat_at = NULL, h.updated_at = {MySQLSession.NOW}, "
    f"h.progress = NULL, h.progress_message = NULL, h.attempt_log = j.log, h.modified_by = {_MODIFIED_BY}, "
    f"h.run_at = {{after}}, h.attempt = h.attempt - j.back, h.snooze_count = h.snooze_count + j.snoozed"
)


class SettleStatements(LeaseStatements):
    """Ends of executions."""

    def settle(self, worker_id: str, outcomes: Sequence[Outcome]) -> Applied:
        return self._unit(lambda: self._settle(worker_id, outcomes)) if outcomes else set()

    def _settle(self, worker_id: str, outcomes: Sequence[Outcome]) -> Applied:
        rows = self._leases(worker_id, [outcome.id for outcome in outcomes], CANCEL_REQUEST)
        applied: list[Outcome] = []
        rest: list[Outcome] = []
        archived: list[list[Any]] = []
        buried: list[list[Any]] = []
        pending: list[list[Any]] = []
        cancelled: dict[str | None, list[str]] = defaultdict(list)
        for outcome in outcomes:
            row = rows.get(outcome.id)
            expected = FETCHED if outcome.kind in UNSTARTED else PROCESSING
            if row is None or row[1] != outcome.claim_number or row[2] != expected:
                rest.append(outcome)
                continue
            del rows[outcome.id]
            applied.append(outcome)
            by, log = storable(outcome.modified_by, PERSON_LIMIT), storable(outcome.attempt_log)
            if outcome.kind is OutcomeKind.SUCCEEDED:
                result = storable(outcome.result)
                archived.append([outcome.id, outcome.duration_ms, outcome.wait_ms, by, log, result])
            elif outcome.kind in DEAD:
                buried.append(_burial(outcome, reason_of(outcome), 0))
            else:
                back, snoozed = outcome.kind in GIVES_ATTEMPT_BACK, outcome.kind is OutcomeKind.SNOOZED
                pending.append([outcome.id, max(0.0, outcome.delay), int(back), int(snoozed), by, log])
                if row[3]:
                    cancelled[row[4]].append(outcome.id)
        self._write(archived, buried, pending)
        self._add_buckets(Tally(self._shard).settled(applied).rows())
        for asker, ids in cancelled.items():
            # An operator had asked to stop it; the request came too late for its worker and is honoured here.
            self._cancel(ids, asker)
        return {outcome.id for outcome in applied} | self._already(worker_id, rest)

    def _write(self, archived: list[list[Any]], buried: list[list[Any]], pending: list[list[Any]]) -> None:
        for table in self._by_size(archived):
            self._execute(TO_ARCHIVE, [table])
        for table in self._by_size(buried):
            self._execute(TO_DLQ, [table])
        gone = sorted(row[0] for row in (*archived, *buried))
        if gone:
            self._delete(HOT, gone)
        for table in self._by_size(pending):
            self._execute(TO_PENDING.format(after=self._after("j.delay")), [table])

    def _by_size(self, rows: list[list[Any]]) -> Iterator[str]:
        """Rows in the order of their ids as JSON tables, as few as fit into a statement each."""
        rows.sort(key=lambda row: row[0])
        if not rows:
            return
        table = as_json(rows)
        # In the statement each quote and backslash of the JSON has another backslash before it.
        if 2 * len(table) < self._room() or len(rows) == 1:
            yield table
            return
        half = len(rows) // 2
        yield from self._by_size(rows[:half])
        yield from self._by_size(rows[half:])

    def _bury(self, burials: Sequence[Burial]) -> None:
        tally = Tally(self._shard)
        for burial in burials:
            tally.buried(burial.queue, burial.type, burial.reason)
        self._write([], [_burial(burial, burial.reason, burial.crashes) for burial in burials], [])
        self._add_buckets(tally.rows())

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
            f"SELECT id, claim_number, {NO_REASON}, attempt_log FROM {HOT} WHERE {among} AND status = {PENDING}", params
        )
        done = {*archived, *buried, *pending}
        return {outcome.id for outcome in outcomes if _trace(outcome) in done}


def _burial(dead: Outcome | Burial, reason: int, crashes: int) -> list[Any]:
    """A row of the table of TO_DLQ."""
    return [
        dead.id, int(reason), crashes, dead.fingerprint, storable(dead.error_type, TYPE_LIMIT),
        storable(dead.modified_by, PERSON_LIMIT), storable(dead.attempt_log), storable(dead.error_details),
    ]  # fmt: skip


def _trace(outcome: Outcome) -> tuple[Any, ...]:
    """What the outcome leaves behind, as :meth:`SettleStatements._already` reads it."""
    if outcome.kind is OutcomeKind.SUCCEEDED:
        return outcome.id, outcome.claim_number
    return outcome.id, outcome.claim_number, int(reason_of(outcome)), storable(outcome.attempt_log)
