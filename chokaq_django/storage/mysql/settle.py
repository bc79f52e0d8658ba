"""Settle: all outcomes of a call in one transaction of a few statements, whatever their kinds and their number."""

# ruff: noqa: S608 - statements are composed of constants and column names of ours; every value is a parameter

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from ...job.envelope import PERSON_LIMIT
from ...job.error_info import TYPE_LIMIT
from ..buckets import reason_of
from ..columns import ARCHIVE, ARCHIVE_COLUMNS, DLQ, DLQ_COLUMNS, HOT, names, select
from ..contract import Applied, Outcome, OutcomeKind
from ..groups import fingerprint_of
from ..moves import PENDING, Burial
from ..outcomes import GIVES_ATTEMPT_BACK
from ..settling import Ended, SettlingStatements
from ..text import storable
from .errors import is_partial
from .leases import LeaseStatements
from .session import MySQLSession, as_json, size
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


class SettleStatements(LeaseStatements, SettlingStatements):
    """Ends of executions."""

    def settle(self, worker_id: str, outcomes: Sequence[Outcome]) -> Applied:
        return self._unit(lambda: self._settle(worker_id, outcomes)) if outcomes else set()

    def is_partial(self, error: BaseException) -> bool:
        return is_partial(error)

    def _write_ends(self, archived: Sequence[Ended], buried: Sequence[Ended], pending: Sequence[Ended]) -> None:
        self._write(
            [_success(outcome) for _, outcome in archived],
            [_burial(outcome, reason_of(outcome), 0) for _, outcome in buried],
            [_return(outcome) for _, outcome in pending],
        )

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
        if len(rows) == 1 or 2 * size(table) < self._room():
            yield table
            return
        half = len(rows) // 2
        yield from self._by_size(rows[:half])
        yield from self._by_size(rows[half:])

    def _write_burials(self, burials: Sequence[Burial]) -> None:
        self._write([], [_burial(burial, burial.reason, burial.crashes) for burial in burials], [])


def _success(outcome: Outcome) -> list[Any]:
    """A row of the table of TO_ARCHIVE."""
    by, log = storable(outcome.modified_by, PERSON_LIMIT), storable(outcome.attempt_log)
    return [outcome.id, outcome.duration_ms, outcome.wait_ms, by, log, storable(outcome.result)]


def _return(outcome: Outcome) -> list[Any]:
    """A row of the table of TO_PENDING."""
    by, log = storable(outcome.modified_by, PERSON_LIMIT), storable(outcome.attempt_log)
    back, snoozed = outcome.kind in GIVES_ATTEMPT_BACK, outcome.kind is OutcomeKind.SNOOZED
    return [outcome.id, max(0.0, outcome.delay), int(back), int(snoozed), by, log]


def _burial(dead: Outcome | Burial, reason: int, crashes: int) -> list[Any]:
    """A row of the table of TO_DLQ."""
    return [
        dead.id, int(reason), crashes, fingerprint_of(dead, reason), storable(dead.error_type, TYPE_LIMIT),
        storable(dead.modified_by, PERSON_LIMIT), storable(dead.attempt_log), storable(dead.error_details),
    ]  # fmt: skip
