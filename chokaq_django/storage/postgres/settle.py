"""Settle: each kind of outcome is one statement, all of them one transaction and one round trip.

The fence is ``id = ANY(...)`` with the claim number from a JSON map, never a join to Hot: a join gets a plan that reads
the table when it was planned while the table was empty. ``status + 0`` hides the status from the planner, which would
otherwise read the whole live index instead of the primary key.

What a statement needs of each outcome comes as one JSON map from id to a list. The names of its positions are below.
"""

# ruff: noqa: S608 - statements are composed of constants and column names of ours; every value is a parameter

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any

from ...models import HISTOGRAM_BINS
from ...observability.events import Event, log_event
from ..buckets import BUCKET_COLUMNS, NEVER_RAN, Tally, bin_of, reason_of
from ..columns import ARCHIVE, ARCHIVE_COLUMNS, BASE_COLUMNS, BUCKET, DLQ, DLQ_COLUMNS, HOT, names, select
from ..contract import Applied, Outcome, OutcomeKind
from ..moves import Burial
from ..text import storable
from .session import BUCKET_ROWS, BUCKET_UPSERT, PostgresSession, Statement, as_json, bucket_json

logger = logging.getLogger("chokaq.storage")

_NOW = PostgresSession.NOW
_DATA = "%(data)s::jsonb -> h.id"

Value = str | int | float | None


def _at(position: int, sql_type: str = "text", data: str = "x") -> str:
    """SQL of one position of an outcome's list."""
    return f"({data} ->> {position})" if sql_type == "text" else f"({data} ->> {position})::{sql_type}"


# Positions that all kinds have. GROUP is the place of the outcome's bucket in %(groups)s, 0 for none.
LOG, GROUP, DURATION, RUN_BIN, WAIT_BIN, MODIFIED_BY = range(6)
OWN = 6


def fence(status: int) -> str:
    """The rows whose lease and status are still what the outcomes expect."""
    return (
        f"h.id = ANY(%(ids)s::varchar[]) AND h.claim_number = (%(claims)s::jsonb ->> h.id)::int "
        f"AND h.status + 0 = {status} AND h.worker_id = %(worker)s"
    )


def _counting() -> str:
    """Adds the rows of ``d`` to their buckets."""
    bins = [(f"{name}_{i}", i, name) for name in ("run", "wait") for i in range(HISTOGRAM_BINS)]
    sums = ", ".join(f"count(*) FILTER (WHERE {name} = {i}) AS {column}" for column, i, name in bins)
    counted = (
        f"SELECT g, count(*) AS count, sum(ms) AS total_ms, max(ms) AS max_ms, {sums} FROM ("
        f"SELECT {_at(GROUP, 'int')} AS g, {_at(DURATION, 'bigint')} AS ms, {_at(RUN_BIN, 'int')} AS run, "
        f"{_at(WAIT_BIN, 'int')} AS wait FROM d OFFSET 0) y WHERE g > 0 GROUP BY g"
    )
    named = "series, queue, type, outcome, reason"
    groups = "json_to_recordset(%(groups)s) AS (series text, queue text, type text, outcome int, reason int)"
    own = [column for column in BUCKET_COLUMNS if column not in (*named.split(", "), "shard")]
    return (
        f"INSERT INTO {BUCKET} AS t (at, {named}, shard, {names(own)}) "
        f"SELECT {PostgresSession.BUCKET}, {names(named.split(', '), 's')}, %(shard)s, {names(own, 'k')} "
        f"FROM ({counted}) k JOIN ROWS FROM ({groups}) WITH ORDINALITY AS s({named}, g) ON s.g = k.g "
        f"ORDER BY s.series {BUCKET_UPSERT}"
    )


# For one outcome the bucket is ready made, and is written if the outcome applied: cheaper than the aggregate.
_COUNT_ONE = (
    f"INSERT INTO {BUCKET} AS t (at, {names(BUCKET_COLUMNS)}) {BUCKET_ROWS % '%(buckets)s'} "
    f"WHERE EXISTS (SELECT 1 FROM d) {BUCKET_UPSERT}"
)


def _both(statement: str) -> dict[bool, str]:
    """``statement`` with its %COUNT% for one outcome (True) and for several."""
    return {True: statement.replace("%COUNT%", _COUNT_ONE), False: statement.replace("%COUNT%", _counting())}


_KEPT = tuple(column for column in BASE_COLUMNS if column != "attempt_log")
_MODIFIED_BY = f"COALESCE({_at(MODIFIED_BY)}, modified_by)"


def _moved(condition: str, table: str, columns: Sequence[str], changed: dict[str, str]) -> str:
    changed = {"attempt_log": _at(LOG), "modified_by": _MODIFIED_BY, **changed}
    return (
        f"WITH d AS (DELETE FROM {HOT} h WHERE {condition} RETURNING {names(_KEPT, 'h')}, {_DATA} AS x), "
        f"a AS (INSERT INTO {table} ({names(columns)}) SELECT {select(columns, changed)} FROM d), "
        f"b AS (%COUNT%) SELECT id, false FROM d"
    )


_WAIT, _RESULT = OWN, OWN + 1
ARCHIVED = _both(
    _moved(
        fence(2), ARCHIVE, ARCHIVE_COLUMNS,
        {"finished_at": _NOW, "duration_ms": _at(DURATION, "bigint"), "wait_ms": _at(_WAIT, "bigint"),
         "result": _at(_RESULT)},
    )
)  # fmt: skip

_REASON, _ERROR_TYPE, _ERROR_DETAILS, _FINGERPRINT = range(OWN, OWN + 4)
BURIED = {
    status: _both(
        _moved(
            fence(status), DLQ, DLQ_COLUMNS,
            {"failure_reason": _at(_REASON, "int"), "error_type": _at(_ERROR_TYPE), "failed_at": _NOW,
             "error_details": _at(_ERROR_DETAILS), "fingerprint": _at(_FINGERPRINT), "note": "''", "assignee": "NULL",
             "acknowledged_at": "NULL"},
        )
    )
    for status in (1, 2)
}  # fmt: skip

_DELAY, _GIVEN_BACK, _SNOOZED = range(OWN, OWN + 3)
_X = f"({_DATA})"
REQUEUED = _both(
    f"WITH d AS (UPDATE {HOT} h SET status = 0, worker_id = NULL, heartbeat_at = NULL, updated_at = {_NOW}, "
    f"run_at = {_NOW} + make_interval(secs => {_at(_DELAY, 'float8', _X)}), attempt_log = {_at(LOG, data=_X)}, "
    f"attempt = attempt - {_at(_GIVEN_BACK, 'int', _X)}, snooze_count = snooze_count + {_at(_SNOOZED, 'int', _X)}, "
    f"modified_by = COALESCE({_at(MODIFIED_BY, data=_X)}, modified_by), progress = NULL, progress_message = NULL "
    f"WHERE {fence(2)} RETURNING h.id, h.cancel_requested_at IS NOT NULL AS cancelled, {_DATA} AS x), "
    f"b AS (%COUNT%) SELECT id, cancelled FROM d"
)

_OWN_WORK = (
    f"SELECT id FROM {ARCHIVE} h WHERE id = ANY(%(succeeded)s::varchar[]) "
    f"AND claim_number = (%(claims)s::jsonb ->> h.id)::int UNION ALL "
    f"SELECT id FROM {DLQ} h WHERE id = ANY(%(dead)s::varchar[]) "
    f"AND claim_number = (%(claims)s::jsonb ->> h.id)::int AND attempt_log = (%(logs)s::jsonb ->> h.id) UNION ALL "
    f"SELECT id FROM {HOT} h WHERE id = ANY(%(pending)s::varchar[]) AND status + 0 = 0 "
    f"AND claim_number = (%(claims)s::jsonb ->> h.id)::int AND attempt_log = (%(logs)s::jsonb ->> h.id)"
)


def _archived(outcome: Outcome) -> list[Value]:
    return [outcome.wait_ms, storable(outcome.result)]


def _requeued(outcome: Outcome) -> list[Value]:
    back = outcome.kind in (OutcomeKind.SNOOZED, OutcomeKind.INTERRUPTED)
    return [max(0.0, outcome.delay), int(back), int(outcome.kind is OutcomeKind.SNOOZED)]


def _buried(outcome: Outcome) -> list[Value]:
    return [int(reason_of(outcome)), storable(outcome.error_type, 255), storable(outcome.error_details),
            outcome.fingerprint]  # fmt: skip


_Form = tuple[dict[bool, str], Callable[[Outcome], list[Value]]]
_FORMS: dict[str, _Form] = {
    "archived": (ARCHIVED, _archived),
    "requeued": (REQUEUED, _requeued),
    "buried": (BURIED[2], _buried),
    "unstarted": (BURIED[1], _buried),
}
_FORM_OF = {
    OutcomeKind.SUCCEEDED: "archived",
    OutcomeKind.RETRY: "requeued",
    OutcomeKind.SNOOZED: "requeued",
    OutcomeKind.INTERRUPTED: "requeued",
    OutcomeKind.DEAD: "buried",
    OutcomeKind.EXPIRED: "unstarted",
    OutcomeKind.UNSTARTED_DEAD: "unstarted",
}


class PostgresSettle(PostgresSession):
    """Settling executions."""

    def settle(self, worker_id: str, outcomes: Sequence[Outcome]) -> Applied:
        applied: Applied = set()
        for batch in _each_id_once(outcomes):
            applied |= self._settle(worker_id, batch)
        return applied

    def _settle(self, worker_id: str, outcomes: Sequence[Outcome]) -> Applied:
        forms: dict[str, list[Outcome]] = defaultdict(list)
        for outcome in outcomes:
            forms[_FORM_OF[outcome.kind]].append(outcome)
        answers = self._together([_statement(*_FORMS[form], worker_id, part) for form, part in forms.items()])
        applied: Applied = {row[0] for answer in answers for row in answer}
        if len(applied) < len(outcomes):
            applied |= self._own_work([outcome for outcome in outcomes if outcome.id not in applied])
        self._bury_cancelled([row[0] for answer in answers for row in answer if row[1]])
        return applied

    def _own_work(self, missing: Sequence[Outcome]) -> Applied:
        """Which of these an earlier call did settle, although its commit was never confirmed."""
        ids: dict[str, list[str]] = {"archived": [], "requeued": [], "buried": [], "unstarted": []}
        for outcome in missing:
            ids[_FORM_OF[outcome.kind]].append(outcome.id)
        params = {
            "succeeded": ids["archived"],
            "dead": ids["buried"] + ids["unstarted"],
            "pending": ids["requeued"],
            "claims": as_json({outcome.id: outcome.claim_number for outcome in missing}),
            # The log tells this settle from a rescuer's: both leave the same claim number.
            "logs": as_json({outcome.id: storable(outcome.attempt_log) for outcome in missing}),
        }
        return {row[0] for row in self._single(lambda: self._query(_OWN_WORK, params))}

    def _bury_cancelled(self, ids: Sequence[str]) -> None:
        """A job that goes back to Pending although an operator has asked to stop it: the request came too late for its
        worker, and is honoured here."""
        if not ids:
            return
        askers = self._single(
            lambda: self._query(f"SELECT id, cancel_requested_by FROM {HOT} WHERE id = ANY(%s::varchar[])", [list(ids)])
        )
        for job_id, by in askers:
            self.cancel([job_id], by)
            log_event(logger, logging.INFO, Event.JOB_BURIED, "job %s was cancelled while it ran and is dead", job_id)

    def _bury(self, burials: Sequence[Burial]) -> None:
        tally = Tally(self._shard)
        for burial in burials:
            tally.buried(burial.queue, burial.type, burial.reason)
        data = {
            burial.id: [int(burial.reason), storable(burial.attempt_log), storable(burial.error_type, 255),
                        storable(burial.error_details), burial.fingerprint, storable(burial.modified_by, 100),
                        burial.crashes]
            for burial in burials
        }  # fmt: skip
        self._query(_BURY, {"ids": list(data), "data": as_json(data)})
        self._add_buckets(tally.rows())


def _each_id_once(outcomes: Sequence[Outcome]) -> list[list[Outcome]]:
    """Batches in none of which an id comes twice (an old lease and a new one of the same job)."""
    batches: list[dict[str, Outcome]] = [{}]
    for outcome in outcomes:
        for batch in batches:
            if outcome.id not in batch:
                batch[outcome.id] = outcome
                break
        else:
            batches.append({outcome.id: outcome})
    return [list(batch.values()) for batch in batches if batch]


def _statement(
    forms: dict[bool, str], own: Callable[[Outcome], list[Value]], worker_id: str, outcomes: Sequence[Outcome]
) -> Statement:
    """The statement and its parameters for outcomes of one form."""
    params: dict[str, Any] = {
        "ids": [outcome.id for outcome in outcomes],
        "claims": as_json({outcome.id: outcome.claim_number for outcome in outcomes}),
        "worker": worker_id,
    }
    places: dict[str, int] = {}
    tally = Tally(worker_id)
    if len(outcomes) == 1:
        params["buckets"] = bucket_json(tally.settled(outcomes).rows())
    else:
        groups = []
        for row in tally.settled(outcomes).rows():
            groups.append({"series": row.series, "queue": row.queue, "type": row.type, "outcome": row.outcome,
                           "reason": row.reason})  # fmt: skip
            places[row.series] = len(groups)
        params["groups"], params["shard"] = as_json(groups), worker_id
    params["data"] = as_json(
        {
            outcome.id: [
                storable(outcome.attempt_log), places.get(tally.series(outcome) or "", 0), outcome.duration_ms,
                *_bins(outcome), storable(outcome.modified_by, 100), *own(outcome),
            ]
            for outcome in outcomes
        }
    )  # fmt: skip
    return forms[len(outcomes) == 1], params


def _bins(outcome: Outcome) -> tuple[int | None, int | None]:
    if outcome.kind in NEVER_RAN:
        return None, None
    return bin_of(outcome.duration_ms), bin_of(outcome.wait_ms)


def _given(position: int) -> str:
    return f"(x ->> {position})"


_BURY = (
    f"WITH d AS (DELETE FROM {HOT} h WHERE h.id = ANY(%(ids)s::varchar[]) RETURNING {names(BASE_COLUMNS, 'h')}, "
    f"{_DATA} AS x) INSERT INTO {DLQ} ({names(DLQ_COLUMNS)}) SELECT "
    + select(
        DLQ_COLUMNS,
        {"failure_reason": f"{_given(0)}::int", "attempt_log": f"COALESCE({_given(1)}, attempt_log)",
         "error_type": _given(2), "error_details": _given(3), "fingerprint": _given(4), "failed_at": _NOW,
         "modified_by": f"COALESCE({_given(5)}, modified_by)", "crash_count": f"crash_count + {_given(6)}::int",
         "note": "''", "assignee": "NULL", "acknowledged_at": "NULL"},
    )
    + " FROM d"
)  # fmt: skip
