"""Settle: all outcomes of a call in one transaction of a few statements, whatever their kinds and their number."""

# ruff: noqa: S608 - statements are composed of constants and column names of ours; every value is a parameter

from __future__ import annotations

import datetime as dt
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from ...models.fields import to_text
from ..buckets import BUCKET_COLUMNS, NO_REASON, SUMS, BucketRow, Tally, reason_of
from ..columns import ARCHIVE, ARCHIVE_COLUMNS, BUCKET, DLQ, DLQ_COLUMNS, HOT, names, select
from ..contract import Applied, Outcome, OutcomeKind
from ..moves import Burial
from ..outcomes import DEAD, GIVES_ATTEMPT_BACK, PERSON_LIMIT, TYPE_LIMIT, UNSTARTED
from ..text import storable
from .leases import CANCEL_REQUEST, FETCHED, PENDING, PROCESSING, LeaseStatements
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

_ADDED = ", ".join(f"{column} = {column} + excluded.{column}" for column in SUMS)
_BUCKET_ROW = f"({SQLiteSession.BUCKET}, {', '.join(['%s'] * len(BUCKET_COLUMNS))})"
_BUCKETS_AT_ONCE = 16


class SettleStatements(LeaseStatements):
    """Ends of executions."""

    def settle(self, worker_id: str, outcomes: Sequence[Outcome]) -> Applied:
        return self._unit(lambda: self._settle(worker_id, outcomes)) if outcomes else set()

    def _settle(self, worker_id: str, outcomes: Sequence[Outcome]) -> Applied:
        rows = self._leases(worker_id, [outcome.id for outcome in outcomes], CANCEL_REQUEST)
        now = dt.datetime.now(dt.UTC)
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
            common = [row[0], storable(outcome.attempt_log), storable(outcome.modified_by, PERSON_LIMIT)]
            if outcome.kind is OutcomeKind.SUCCEEDED:
                archived.append([*common, outcome.duration_ms, outcome.wait_ms, storable(outcome.result)])
            elif outcome.kind in DEAD:
                buried.append([*common, *_failure(outcome), 0])
            else:
                pending.append([*common, *_return(outcome, now)])
                if row[3]:
                    cancelled[row[4]].append(outcome.id)
        self._write(archived, buried, pending)
        self._add_buckets(Tally(self._shard).settled(applied).rows())
        for by, ids in cancelled.items():
            # An operator had asked to stop it; the request came too late for its worker and is honoured here.
            self._cancel(ids, by)
        return {outcome.id for outcome in applied} | self._already(worker_id, rest)

    def _write(self, archived: list[list[Any]], buried: list[list[Any]], pending: list[list[Any]]) -> None:
        if archived:
            self._execute(TO_ARCHIVE, [as_json(archived)])
        if buried:
            self._execute(TO_DLQ, [as_json(buried)])
        if archived or buried:
            self._execute(f"DELETE FROM {HOT} WHERE {ROWS}", [as_json([row[0] for row in (*archived, *buried)])])
        if pending:
            self._execute(TO_PENDING, [as_json(pending)])

    def _bury(self, burials: Sequence[Burial]) -> None:
        places = dict(self._one_json(_PLACES, [as_json([burial.id for burial in burials])]))
        table: list[list[Any]] = []
        tally = Tally(self._shard)
        for burial in burials:
            tally.buried(burial.queue, burial.type, burial.reason)
            table.append([
                places[burial.id], storable(burial.attempt_log), storable(burial.modified_by, PERSON_LIMIT),
                *_failure(burial), burial.crashes,
            ])  # fmt: skip
        self._write([], table, [])
        self._add_buckets(tally.rows())

    def _already(self, worker_id: str, outcomes: Sequence[Outcome]) -> Applied:
        """Outcomes that an earlier call has written, whose commit the worker did not learn of. What a rescuer or an
        operator did to the job meanwhile has another place, reason or log."""
        if not outcomes:
            return set()
        ids = [outcome.id for outcome in outcomes]
        among, params = self._among("id", ids)
        mine = [*params, worker_id]
        archived = self._query(f"SELECT id, claim_number FROM {ARCHIVE} WHERE {among} AND worker_id = %s", mine)
        buried = self._query(
            f"SELECT id, claim_number, failure_reason, attempt_log FROM {DLQ} WHERE {among} AND worker_id = %s", mine
        )
        pending = self._query(
            f"SELECT id, claim_number, {NO_REASON}, attempt_log FROM {HOT} WHERE {among} AND status + 0 = {PENDING}",
            params,
        )
        done = {*archived, *buried, *pending}
        return {outcome.id for outcome in outcomes if _trace(outcome) in done}

    def _add_buckets(self, rows: Sequence[BucketRow]) -> None:
        for first in range(0, len(rows), _BUCKETS_AT_ONCE):
            part = rows[first : first + _BUCKETS_AT_ONCE]
            self._execute(
                f"INSERT INTO {BUCKET} (at, {names(BUCKET_COLUMNS)}) VALUES {', '.join([_BUCKET_ROW] * len(part))} "
                f"ON CONFLICT (at, series) DO UPDATE SET max_ms = max(max_ms, excluded.max_ms), {_ADDED}",
                [value for row in part for value in row.values()],
            )


def _failure(dead: Outcome | Burial) -> list[Any]:
    reason = dead.reason if isinstance(dead, Burial) else reason_of(dead)
    return [int(reason), storable(dead.error_type, TYPE_LIMIT), storable(dead.error_details), dead.fingerprint]


def _return(outcome: Outcome, now: dt.datetime) -> list[Any]:
    """When to run again, attempts to take off, snoozes to count."""
    run_at = to_text(later(now, max(0.0, outcome.delay)))
    return [run_at, int(outcome.kind in GIVES_ATTEMPT_BACK), int(outcome.kind is OutcomeKind.SNOOZED)]


def _trace(outcome: Outcome) -> tuple[Any, ...]:
    """What the outcome leaves behind, as :meth:`SettleStatements._already` reads it."""
    if outcome.kind is OutcomeKind.SUCCEEDED:
        return outcome.id, outcome.claim_number
    return outcome.id, outcome.claim_number, int(reason_of(outcome)), storable(outcome.attempt_log)
