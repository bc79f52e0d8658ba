"""Settle: each kind of outcome is one statement, all of them one transaction and one round trip.

The fence is ``id = ANY(...)`` with the claim number from a JSON map, never a join to Hot: a join gets a plan that reads
the table when it was planned while the table was empty. ``status + 0`` hides the status from the planner, which would
otherwise read the whole live index instead of the primary key.

What a statement needs of each outcome comes as one JSON map from id to a list: ``counting`` names the positions that
all kinds have, and those of what has died; the others stand before the statements that read them.
"""

# ruff: noqa: S608 - statements are composed of constants and column names of ours; every value is a parameter

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any

from ...job.envelope import PERSON_LIMIT
from ...job.error_info import TYPE_LIMIT
from ...observability.events import Event, log_event
from ..columns import ARCHIVE, ARCHIVE_COLUMNS, BASE_COLUMNS, DLQ, DLQ_COLUMNS, HOT, names, select
from ..contract import Applied, Outcome, OutcomeKind
from ..engine import Row
from ..groups import fingerprint_of
from ..moves import Burial
from ..text import storable
from .counting import (
    DURATION,
    ERROR_DETAILS,
    ERROR_TYPE,
    FINGERPRINT,
    LOG,
    MODIFIED_BY,
    OWN,
    REASON,
    Value,
    at,
    buried,
    counted,
    filled,
)
from .errors import StatementTimeoutError, is_partial
from .session import MARK, PostgresSession, Statement, as_json

logger = logging.getLogger("chokaq.storage")

_NOW = PostgresSession.NOW
_DATA = "%(data)s::jsonb -> h.id"


def fence(status: int) -> str:
    """The rows whose lease and status are still what the outcomes expect."""
    return (
        f"h.id = ANY(%(ids)s::varchar[]) AND h.claim_number = (%(claims)s::jsonb ->> h.id)::int "
        f"AND h.status + 0 = {status} AND h.worker_id = %(worker)s"
    )


_KEPT = tuple(column for column in BASE_COLUMNS if column != "attempt_log")
_MODIFIED_BY = f"COALESCE({at(MODIFIED_BY)}, modified_by)"


def _moved(condition: str, table: str, columns: Sequence[str], changed: dict[str, str]) -> str:
    changed = {"attempt_log": at(LOG), "modified_by": _MODIFIED_BY, **changed}
    return (
        f"WITH d AS (DELETE FROM {HOT} h WHERE {condition} RETURNING {names(_KEPT, 'h')}, {_DATA} AS x), "
        f"a AS (INSERT INTO {table} ({names(columns)}) SELECT {select(columns, changed)} FROM d), "
        f"b AS (%COUNT%) SELECT id, false FROM d"
    )


_WAIT, _RESULT = OWN, OWN + 1
ARCHIVED, ARCHIVED_MARKED = (
    counted(
        _moved(
            condition, ARCHIVE, ARCHIVE_COLUMNS,
            {"finished_at": _NOW, "duration_ms": at(DURATION, "bigint"), "wait_ms": at(_WAIT, "bigint"),
             "result": at(_RESULT)},
        )
    )
    for condition in (fence(2), f"{fence(2)} AND {MARK} = %(mark)s")
)  # fmt: skip
"""The second: in the transaction that got the mark."""

BURIED = {
    status: counted(
        _moved(
            fence(status), DLQ, DLQ_COLUMNS,
            {"failure_reason": at(REASON, "int"), "error_type": at(ERROR_TYPE), "failed_at": _NOW,
             "error_details": at(ERROR_DETAILS), "fingerprint": at(FINGERPRINT), "note": "''", "assignee": "NULL",
             "acknowledged_at": "NULL"},
        ),
        dead=True,
    )
    for status in (1, 2)
}  # fmt: skip

_DELAY, _GIVEN_BACK, _SNOOZED = range(OWN, OWN + 3)
_X = f"({_DATA})"
REQUEUED = counted(
    f"WITH d AS (UPDATE {HOT} h SET status = 0, worker_id = NULL, heartbeat_at = NULL, updated_at = {_NOW}, "
    f"run_at = {_NOW} + make_interval(secs => {at(_DELAY, 'float8', _X)}), attempt_log = {at(LOG, data=_X)}, "
    f"attempt = attempt - {at(_GIVEN_BACK, 'int', _X)}, snooze_count = snooze_count + {at(_SNOOZED, 'int', _X)}, "
    f"modified_by = COALESCE({at(MODIFIED_BY, data=_X)}, modified_by), progress = NULL, progress_message = NULL "
    f"WHERE {fence(2)} RETURNING h.id, h.cancel_requested_at IS NOT NULL AS cancelled, {_DATA} AS x), "
    f"b AS (%COUNT%) SELECT id, cancelled FROM d"
)

_OWN_WORK = (
    f"SELECT id, false FROM {ARCHIVE} h WHERE id = ANY(%(succeeded)s::varchar[]) "
    f"AND claim_number = (%(claims)s::jsonb ->> h.id)::int UNION ALL "
    f"SELECT id, false FROM {DLQ} h WHERE id = ANY(%(dead)s::varchar[]) "
    f"AND claim_number = (%(claims)s::jsonb ->> h.id)::int AND attempt_log = (%(logs)s::jsonb ->> h.id) UNION ALL "
    f"SELECT id, cancel_requested_at IS NOT NULL FROM {HOT} h WHERE id = ANY(%(pending)s::varchar[]) "
    f"AND status + 0 = 0 AND claim_number = (%(claims)s::jsonb ->> h.id)::int "
    f"AND attempt_log = (%(logs)s::jsonb ->> h.id)"
)


def _archived(outcome: Outcome) -> list[Value]:
    return [outcome.wait_ms, storable(outcome.result)]


def _requeued(outcome: Outcome) -> list[Value]:
    back = outcome.kind in (OutcomeKind.SNOOZED, OutcomeKind.INTERRUPTED)
    return [max(0.0, outcome.delay), int(back), int(outcome.kind is OutcomeKind.SNOOZED)]


_Form = tuple[dict[bool, str], Callable[[Outcome], list[Value]]]
_FORMS: dict[str, _Form] = {
    "archived": (ARCHIVED, _archived),
    "requeued": (REQUEUED, _requeued),
    "buried": (BURIED[2], buried),
    "unstarted": (BURIED[1], buried),
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
        # Outcomes of several forms lock their rows form by form, each form by id. To lock all of them ahead, as verbs
        # do, costs a sixth of such a settle. A verb that meets it half way is done again, as this is.
        answers = self._together([_statement(*_FORMS[form], worker_id, part) for form, part in forms.items()])
        rows = [row for answer in answers for row in answer]
        applied: Applied = {row[0] for row in rows}
        if len(applied) < len(outcomes):
            rows += self._own_work([outcome for outcome in outcomes if outcome.id not in applied])
            applied = {row[0] for row in rows}
        # Also of those that an earlier call gave back: with its answer it lost that somebody had asked to stop them.
        self._bury_cancelled([row[0] for row in rows if row[1]])
        return applied

    def settle_marked(self, worker_id: str, success: Outcome, mark: object) -> Applied | None:
        sql, params = _statement(ARCHIVED_MARKED, _archived, worker_id, [success])
        applied = {row[0] for answer in self._together([(sql, {**params, "mark": mark})]) for row in answer}
        if not applied and self._query(f"SELECT {MARK}")[0][0] != mark:
            return None
        return applied

    def _own_work(self, missing: Sequence[Outcome]) -> list[Row]:
        """Which of these an earlier call did settle, although its commit was never confirmed; of each, whether it is to
        be cancelled."""
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
        return self._single(lambda: self._query(_OWN_WORK, params))

    def is_partial(self, error: BaseException) -> bool:
        # A server behind a pooler is not told its limit: what waits for a lock there ends by ours.
        pooled = self.connection.settings_dict.get("DISABLE_SERVER_SIDE_CURSORS")
        return is_partial(error) or bool(pooled and isinstance(error, StatementTimeoutError))

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

    def _write_burials(self, burials: Sequence[Burial]) -> None:
        data = {
            burial.id: [int(burial.reason), storable(burial.attempt_log), storable(burial.error_type, TYPE_LIMIT),
                        storable(burial.error_details), fingerprint_of(burial, burial.reason),
                        storable(burial.modified_by, PERSON_LIMIT), burial.crashes]
            for burial in burials
        }  # fmt: skip
        self._query(_BURY, {"ids": list(data), "data": as_json(data)})


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
        **filled(worker_id, outcomes, own),
    }
    return forms[len(outcomes) == 1], params


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
