"""Settle: all outcomes of a call in one transaction of a few statements, whatever their kinds and their number.

Successes, which most calls are full of, are made ready before the file is locked, and their leases are checked by the
statement that moves them: a lock held for less is a lock that others wait for less.
"""

# ruff: noqa: S608 - statements are composed of constants and column names of ours; every value is a parameter

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from typing import Any

from ...job.envelope import PERSON_LIMIT
from ...job.error_info import TYPE_LIMIT
from ...models.fields import to_text
from ..buckets import Tally, reason_of
from ..columns import ARCHIVE, ARCHIVE_COLUMNS, DLQ, DLQ_COLUMNS, HOT, names, select
from ..contract import Applied, Outcome, OutcomeKind
from ..groups import fingerprint_of
from ..moves import PENDING, PROCESSING, Burial
from ..outcomes import GIVES_ATTEMPT_BACK
from ..settling import Ended, SettlingStatements
from ..text import storable
from .leases import LeaseStatements
from .session import ROWS, SQLiteSession, as_json, later


def _at(index: int) -> str:
    return f"json_extract(j.value, '$[{index}]')"


# Tables of outcomes: the first three columns are rowid, attempt log and who changed the job.
_MODIFIED_BY = f"COALESCE({_at(2)}, h.modified_by)"
_ROW = f"FROM json_each(%s) j CROSS JOIN {HOT} h WHERE h.rowid = {_at(0)}"
_ARCHIVED = {
    "attempt_log": _at(1), "modified_by": _MODIFIED_BY, "finished_at": SQLiteSession.NOW, "duration_ms": _at(3),
    "wait_ms": _at(4), "result": _at(5),
}  # fmt: skip
_BURIED = {
    "attempt_log": f"COALESCE({_at(1)}, h.attempt_log)", "modified_by": _MODIFIED_BY, "failure_reason": _at(3),
    "error_type": _at(4), "error_details": _at(5), "fingerprint": _at(6), "crash_count": f"h.crash_count + {_at(7)}",
    "failed_at": SQLiteSession.NOW, "note": "''", "assignee": "NULL", "acknowledged_at": "NULL",
}  # fmt: skip
TO_ARCHIVE = f"INSERT INTO {ARCHIVE} ({names(ARCHIVE_COLUMNS)}) SELECT {select(ARCHIVE_COLUMNS, _ARCHIVED, 'h')} {_ROW}"
HELD_TO_ARCHIVE = (
    f"INSERT INTO {ARCHIVE} ({names(ARCHIVE_COLUMNS)}) SELECT {select(ARCHIVE_COLUMNS, _ARCHIVED, 'h')} "
    f"FROM json_each(%s) j CROSS JOIN {HOT} h WHERE h.id = {_at(0)} AND h.worker_id = %s "
    f"AND h.claim_number = {_at(6)} AND h.status = {PROCESSING}"
)
"""The same by ids, with their claim numbers as a last column."""
DELETE_HELD = f"DELETE FROM {HOT} WHERE id IN (SELECT {_at(0)} FROM json_each(%s) j)"
TO_DLQ = f"INSERT INTO {DLQ} ({names(DLQ_COLUMNS)}) SELECT {select(DLQ_COLUMNS, _BURIED, 'h')} {_ROW}"
TO_PENDING = (
    f"UPDATE {HOT} AS h SET status = {PENDING}, worker_id = NULL, heartbeat_at = NULL, "
    f"updated_at = {SQLiteSession.NOW}, progress = NULL, progress_message = NULL, attempt_log = {_at(1)}, "
    f"modified_by = COALESCE({_at(2)}, h.modified_by), run_at = {_at(3)}, "
    f"attempt = attempt - {_at(4)}, snooze_count = snooze_count + {_at(5)} "
    f"FROM json_each(%s) j WHERE h.rowid = {_at(0)}"
)
_PLACES = (
    f"SELECT json_group_array(json_array(h.id, h.rowid)) FROM json_each(%s) j CROSS JOIN {HOT} h WHERE h.id = j.value"
)


class _NotAllHeldError(Exception):
    """Some of the leases are gone: nothing has been settled yet."""


class SettleStatements(LeaseStatements, SettlingStatements):
    """Ends of executions."""

    STATUS = "status + 0"

    def settle(self, worker_id: str, outcomes: Sequence[Outcome]) -> Applied:
        if not outcomes:
            return set()
        if not self._joined() and all(outcome.kind is OutcomeKind.SUCCEEDED for outcome in outcomes):
            ids = {outcome.id for outcome in outcomes}
            try:
                if len(ids) == len(outcomes):
                    self._settle_held(worker_id, outcomes)
                    return ids
            except _NotAllHeldError:
                pass
        return self._unit(lambda: self._settle(worker_id, outcomes))

    def _settle_held(self, worker_id: str, outcomes: Sequence[Outcome]) -> None:
        """Settle successes of different jobs, all of whose leases hold, or none of them."""
        table = as_json([[*_success(outcome.id, outcome), outcome.claim_number] for outcome in outcomes])
        buckets = Tally(self._shard).settled(outcomes).rows()

        def move() -> None:
            if self._execute(HELD_TO_ARCHIVE, [table, worker_id]) != len(outcomes):
                raise _NotAllHeldError
            self._execute(DELETE_HELD, [table])
            self._add_buckets(buckets)

        self._unit(move)

    def _write_ends(self, archived: Sequence[Ended], buried: Sequence[Ended], pending: Sequence[Ended]) -> None:
        now = dt.datetime.now(dt.UTC)
        self._write(
            [_success(rowid, outcome) for rowid, outcome in archived],
            [[*_common(rowid, outcome), *_failure(outcome), 0] for rowid, outcome in buried],
            [[*_common(rowid, outcome), *_return(outcome, now)] for rowid, outcome in pending],
        )

    def _write(self, archived: list[list[Any]], buried: list[list[Any]], pending: list[list[Any]]) -> None:
        if archived:
            self._execute(TO_ARCHIVE, [as_json(archived)])
        if buried:
            self._execute(TO_DLQ, [as_json(buried)])
        if archived or buried:
            self._execute(f"DELETE FROM {HOT} WHERE {ROWS}", [as_json([row[0] for row in (*archived, *buried)])])
        if pending:
            self._execute(TO_PENDING, [as_json(pending)])

    def _write_burials(self, burials: Sequence[Burial]) -> None:
        places = dict(self._one_json(_PLACES, [as_json([burial.id for burial in burials])]))
        table = [[*_common(places[burial.id], burial), *_failure(burial), burial.crashes] for burial in burials]
        self._write([], table, [])


def _common(key: int | str, ended: Outcome | Burial) -> list[Any]:
    """The first columns of every table; ``key``: rowid or id."""
    return [key, storable(ended.attempt_log), storable(ended.modified_by, PERSON_LIMIT)]


def _success(key: int | str, outcome: Outcome) -> list[Any]:
    return [*_common(key, outcome), outcome.duration_ms, outcome.wait_ms, storable(outcome.result)]


def _failure(dead: Outcome | Burial) -> list[Any]:
    reason = int(dead.reason if isinstance(dead, Burial) else reason_of(dead))
    return [
        reason, storable(dead.error_type, TYPE_LIMIT), storable(dead.error_details), fingerprint_of(dead, reason),
    ]  # fmt: skip


def _return(outcome: Outcome, now: dt.datetime) -> list[Any]:
    """When to run again, attempts to take off, snoozes to count."""
    run_at = to_text(later(now, max(0.0, outcome.delay)))
    return [run_at, int(outcome.kind in GIVES_ATTEMPT_BACK), int(outcome.kind is OutcomeKind.SNOOZED)]
