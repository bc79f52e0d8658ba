"""Settle: the outcomes of a call are one batch, one transaction and one round trip, whatever their kinds.

The batch first locks what the worker still holds. Holds it all, which is nearly always so, then all is moved, counted
and committed. Holds it less, then nothing is written; the answer says what is held, and the outcomes of that are sent
again with counts of their own.

Payloads never leave the server: DELETE ... OUTPUT ... INTO.
"""

# ruff: noqa: S608 - statements are composed of constants and column names of ours; every value is a parameter

from __future__ import annotations

import functools
import logging
from collections.abc import Sequence
from typing import Any

from ...observability.events import Event, log_event
from ..buckets import NO_REASON, Tally, reason_of
from ..columns import ARCHIVE, ARCHIVE_COLUMNS, DLQ, DLQ_COLUMNS, HOT
from ..contract import Applied, Outcome, OutcomeKind
from ..engine import Row, chunks
from ..moves import Burial
from ..text import storable
from .buckets import BUCKETS_ADDED, BUCKETS_GIVEN, MSSQLBuckets, buckets_json
from .tsql import ID, LIST, WORKER, Batch, as_json, batch, fit, later, lines, rows_json, span

logger = logging.getLogger("chokaq.storage")

PENDING, FETCHED, PROCESSING = 0, 1, 2
_UNSTARTED = frozenset({OutcomeKind.EXPIRED, OutcomeKind.UNSTARTED_DEAD})
_DEAD = _UNSTARTED | {OutcomeKind.DEAD}
_GIVES_ATTEMPT_BACK = frozenset({OutcomeKind.SNOOZED, OutcomeKind.INTERRUPTED})
TYPE_LIMIT, PERSON_LIMIT = 255, 100
AT_ONCE = 1_000

TO_ARCHIVE, TO_DLQ, TO_PENDING = "archive", "dlq", "pending"
_FIELDS = {
    "id": "nvarchar(26)", "claim_number": "int", "expected": "int", "target": "varchar(10)",
    "attempt_log": "nvarchar(max)", "modified_by": "nvarchar(100)", "duration_ms": "bigint", "wait_ms": "bigint",
    "result": "nvarchar(max)", "reason": "int", "error_type": "nvarchar(255)", "error_details": "nvarchar(max)",
    "fingerprint": "nvarchar(64)", "crashes": "int", "days": "int", "seconds": "int", "microseconds": "int",
    "given_back": "int", "snoozed": "int",
}  # fmt: skip
"""What an outcome brings, and its types."""

OUTCOMES = f"""
DECLARE @outcome TABLE (
    {lines([f"id {ID} NOT NULL PRIMARY KEY", *(f"{name} {kind} NULL" for name, kind in list(_FIELDS.items())[1:])])});
INSERT INTO @outcome ({lines(_FIELDS)})
SELECT {lines(f"j.{name}" for name in _FIELDS)}
FROM OPENJSON(@outcomes) WITH (
    {lines(f"{name} {kind}" for name, kind in _FIELDS.items())}) AS j;
"""
_ROWS = f"FROM @outcome AS o INNER LOOP JOIN {HOT} AS h WITH (ROWLOCK) ON h.id = o.id"


def _moved(target: str, table: str, columns: Sequence[str], changed: dict[str, str]) -> str:
    values = (changed.get(column) or f"deleted.{column}" for column in columns)
    return f"""
DELETE h
OUTPUT {lines(values)}
INTO {table} ({lines(columns)})
{_ROWS}
WHERE o.target = '{target}';
"""


_MODIFIED_BY = "COALESCE(o.modified_by, deleted.modified_by)"
_ARCHIVED = {
    "attempt_log": "o.attempt_log", "modified_by": _MODIFIED_BY, "finished_at": "@now", "duration_ms": "o.duration_ms",
    "wait_ms": "o.wait_ms", "result": "o.result",
}  # fmt: skip
_BURIED = {
    "attempt_log": "COALESCE(o.attempt_log, deleted.attempt_log)", "modified_by": _MODIFIED_BY,
    "crash_count": "deleted.crash_count + COALESCE(o.crashes, 0)", "failure_reason": "o.reason",
    "error_type": "o.error_type", "error_details": "o.error_details", "fingerprint": "o.fingerprint",
    "failed_at": "@now", "note": "N''", "assignee": "NULL", "acknowledged_at": "NULL",
}  # fmt: skip
_WRITES = {
    TO_ARCHIVE: _moved(TO_ARCHIVE, ARCHIVE, ARCHIVE_COLUMNS, _ARCHIVED),
    TO_DLQ: _moved(TO_DLQ, DLQ, DLQ_COLUMNS, _BURIED),
    TO_PENDING: f"""
UPDATE h SET
    status = 0, worker_id = NULL, heartbeat_at = NULL, updated_at = @now, progress = NULL, progress_message = NULL,
    run_at = {later("o.days", "o.seconds", "o.microseconds")},
    attempt = h.attempt - o.given_back, snooze_count = h.snooze_count + o.snoozed,
    attempt_log = o.attempt_log, modified_by = COALESCE(o.modified_by, h.modified_by)
{_ROWS}
WHERE o.target = '{TO_PENDING}';
""",
}

_HOLD = f"""
INSERT INTO @held (id, asked, asked_by)
SELECT h.id, CASE WHEN h.cancel_requested_at IS NULL THEN 0 ELSE 1 END, h.cancel_requested_by
FROM @outcome AS o INNER LOOP JOIN {HOT} AS h WITH (UPDLOCK, ROWLOCK) ON h.id = o.id
WHERE h.claim_number = o.claim_number AND h.worker_id = @worker AND h.status = o.expected;
"""


@functools.cache
def settle_batch(targets: tuple[str, ...], counted: bool) -> Batch:
    """The batch for outcomes of these targets; ``counted``: any of them counts in the metrics."""
    writes = "".join(_WRITES[target] for target in targets) + (BUCKETS_ADDED if counted else "")
    given = {"worker": WORKER, "outcomes": LIST} | ({"buckets": LIST} if counted else {})
    return Batch(
        tuple(given.items()),
        f"""{_HOLD.strip()}
IF (SELECT COUNT(*) FROM @held) = (SELECT COUNT(*) FROM @outcome)
BEGIN
{writes.strip()}
END;
""",
        prepare=f"{OUTCOMES}{BUCKETS_GIVEN if counted else ''}"
        f"DECLARE @held TABLE (id {ID} NOT NULL PRIMARY KEY, asked bit NOT NULL, asked_by nvarchar(100) NULL);",
        after="SELECT s.id, s.asked, s.asked_by FROM @held AS s;",
    )


BURY = batch(_WRITES[TO_DLQ], prepare=OUTCOMES, single=True, outcomes=LIST)

# Whatever an earlier try wrote has this worker, this claim number and this log. It is compared with them in Python:
# here 'a' and 'A' may be one text, and a blank at the end is none.
OWN_WORK = batch(
    f"""
SELECT a.id, a.claim_number, {NO_REASON}, CAST(NULL AS nvarchar(max))
FROM @id AS i INNER LOOP JOIN {ARCHIVE} AS a ON a.id = i.id WHERE a.worker_id = @worker
UNION ALL
SELECT d.id, d.claim_number, d.failure_reason, d.attempt_log
FROM @id AS i INNER LOOP JOIN {DLQ} AS d ON d.id = i.id WHERE d.worker_id = @worker
UNION ALL
SELECT h.id, h.claim_number, {NO_REASON}, h.attempt_log
FROM @id AS i INNER LOOP JOIN {HOT} AS h ON h.id = i.id WHERE h.status = 0;
""",
    prepare=f"""
DECLARE @id TABLE (id {ID} NOT NULL PRIMARY KEY);
INSERT INTO @id (id) SELECT j.id FROM OPENJSON(@ids) WITH (id nvarchar(26) '$') AS j;
""",
    single=True,
    worker=WORKER,
    ids=LIST,
)


class MSSQLSettle(MSSQLBuckets):
    """Ends of executions, and burials."""

    def settle(self, worker_id: str, outcomes: Sequence[Outcome]) -> Applied:
        # A call of more than AT_ONCE would come near the number of locks at which SQL Server takes the whole table.
        applied: Applied = set()
        for part in _each_id_once(outcomes):
            for some in chunks(part, AT_ONCE):
                applied |= self._settle(worker_id, some)
        return applied

    def _settle(self, worker_id: str, outcomes: Sequence[Outcome]) -> Applied:
        held = list(outcomes)
        rows: list[Row] = []
        while held:
            rows = self._send(worker_id, held)
            if len(rows) == len(held):
                break
            ids = {row[0] for row in rows}
            held = [outcome for outcome in held if outcome.id in ids]
        applied = {outcome.id for outcome in held}
        waiting = {outcome.id for outcome in held if _target(outcome) == TO_PENDING}
        for job_id, asked, by in rows:
            if asked and job_id in applied & waiting:
                # An operator had asked to stop it; the request came too late for its worker and is honoured here.
                self.cancel([job_id], by)
                log_event(
                    logger, logging.INFO, Event.JOB_BURIED, "job %s was cancelled while it ran and is dead", job_id
                )
        return applied | self._already(worker_id, [outcome for outcome in outcomes if outcome.id not in applied])

    def _send(self, worker_id: str, outcomes: Sequence[Outcome]) -> list[Row]:
        """Write these if all of them are held. The ids that are, and who has asked to cancel them."""
        targets = tuple(sorted({_target(outcome) for outcome in outcomes}))
        buckets = Tally(worker_id).settled(outcomes).rows()
        values: dict[str, Any] = {"worker": worker_id, "outcomes": rows_json(tuple(_FIELDS), map(_row, outcomes))}
        if buckets:
            values["buckets"] = buckets_json(buckets)
        return self._alone(settle_batch(targets, bool(buckets)), **values)[-1]

    def _already(self, worker_id: str, outcomes: Sequence[Outcome]) -> Applied:
        """Outcomes that an earlier call has written, whose commit the worker did not learn of. What a rescuer or an
        operator did to the job meanwhile has another place, reason or log."""
        if not outcomes:
            return set()
        ids = as_json([outcome.id for outcome in outcomes])
        done = set(self._alone(OWN_WORK, worker=worker_id, ids=ids)[0])
        return {outcome.id for outcome in outcomes if _trace(outcome) in done}

    def _bury(self, burials: Sequence[Burial]) -> None:
        tally = Tally(self._shard)
        for burial in burials:
            tally.buried(burial.queue, burial.type, burial.reason)
        self._inside(BURY, outcomes=rows_json(tuple(_FIELDS), map(_burial, burials)))
        self._add_buckets(tally.rows())


def _target(outcome: Outcome) -> str:
    if outcome.kind is OutcomeKind.SUCCEEDED:
        return TO_ARCHIVE
    return TO_DLQ if outcome.kind in _DEAD else TO_PENDING


def _row(outcome: Outcome) -> tuple[Any, ...]:
    """The values of _FIELDS."""
    target = _target(outcome)
    common = (
        outcome.id, outcome.claim_number, FETCHED if outcome.kind in _UNSTARTED else PROCESSING, target,
        storable(outcome.attempt_log), fit(outcome.modified_by, PERSON_LIMIT),
    )  # fmt: skip
    archived = failed = returned = (None,) * 5
    if target == TO_ARCHIVE:
        return *common, outcome.duration_ms, outcome.wait_ms, storable(outcome.result), *failed, *returned
    if target == TO_DLQ:
        return *common, *archived[:3], *_failure(outcome), 0, *returned
    back, snoozed = int(outcome.kind in _GIVES_ATTEMPT_BACK), int(outcome.kind is OutcomeKind.SNOOZED)
    return *common, *archived[:3], *failed, *span(max(0.0, outcome.delay)), back, snoozed


def _burial(burial: Burial) -> tuple[Any, ...]:
    log, by = storable(burial.attempt_log), fit(burial.modified_by, PERSON_LIMIT)
    nothing = (None,) * 5
    return burial.id, None, None, TO_DLQ, log, by, *nothing[:3], *_failure(burial), burial.crashes, *nothing


def _failure(dead: Outcome | Burial) -> tuple[Any, ...]:
    reason = dead.reason if isinstance(dead, Burial) else reason_of(dead)
    return int(reason), fit(dead.error_type, TYPE_LIMIT), storable(dead.error_details), dead.fingerprint


def _trace(outcome: Outcome) -> tuple[Any, ...]:
    """What the outcome leaves behind, as OWN_WORK reads it."""
    if outcome.kind is OutcomeKind.SUCCEEDED:
        return outcome.id, outcome.claim_number, NO_REASON, None
    return outcome.id, outcome.claim_number, int(reason_of(outcome)), storable(outcome.attempt_log)


def _each_id_once(outcomes: Sequence[Outcome]) -> list[list[Outcome]]:
    """Parts in none of which an id comes twice (an old lease and a new one of the same job)."""
    parts: list[dict[str, Outcome]] = []
    for outcome in outcomes:
        part = next((part for part in parts if outcome.id not in part), None)
        if part is None:
            parts.append(part := {})
        part[outcome.id] = outcome
    return [list(part.values()) for part in parts]
