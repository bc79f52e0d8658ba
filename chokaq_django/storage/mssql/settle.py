"""Settle: the outcomes of a call are one batch, one transaction and one round trip, whatever their kinds.

The batch first locks what the worker still holds. Holds it all, which is nearly always so, then all is moved, counted
and committed. Holds it less, then nothing is written; the answer says what is held, and the outcomes of that are sent
again with counts of their own.

Payloads never leave the server.
"""

# ruff: noqa: S608 - statements are composed of constants and column names of ours; every value is a parameter

from __future__ import annotations

import functools
import logging
from collections.abc import Sequence
from typing import Any

from ...job.envelope import PERSON_LIMIT
from ...job.error_info import TYPE_LIMIT
from ...observability.events import Event, log_event
from ..buckets import BUCKETS, NO_REASON, Tally, reason_of
from ..columns import ARCHIVE, ARCHIVE_COLUMNS, DLQ, DLQ_COLUMNS, HOT
from ..contract import Applied, Outcome, OutcomeKind
from ..engine import Row, chunks
from ..groups import GROUPS, GroupTally, fingerprint_of
from ..moves import Burial
from ..outcomes import DEAD, GIVES_ATTEMPT_BACK, UNSTARTED
from ..text import storable
from .errors import is_partial
from .sums import TICK, MSSQLSums, added, summed_json
from .tsql import (
    CHANGED,
    FOUND,
    ID,
    LIST,
    LOCKED,
    WORKER,
    Batch,
    as_json,
    batch,
    by_ids,
    fit,
    later,
    lines,
    rows_json,
    span,
    text_fields,
    text_of,
)

logger = logging.getLogger("chokaq.storage")

PENDING, FETCHED, PROCESSING = 0, 1, 2
AT_ONCE = 1_000

TO_ARCHIVE, TO_DLQ, TO_PENDING = "archive", "dlq", "pending"
_TEXTS = ("attempt_log", "modified_by", "result", "error_type", "error_details")
_FIELDS = {
    "id": "nvarchar(26)", "claim_number": "int", "expected": "int", "target": "varchar(10)", "duration_ms": "bigint",
    "wait_ms": "bigint", "reason": "int", "fingerprint": "nvarchar(64)", "crashes": "int", "days": "int",
    "seconds": "int", "microseconds": "int", "given_back": "int", "snoozed": "int", **text_fields(_TEXTS),
}  # fmt: skip
"""What an outcome brings, and its types."""

OUTCOMES = f"""
DECLARE @outcome TABLE (
    {lines([f"id {ID} NOT NULL PRIMARY KEY", *(f"{name} {kind} NULL" for name, kind in list(_FIELDS.items())[1:])])});
INSERT INTO @outcome (
    {lines(_FIELDS)})
SELECT
    {lines(f"j.{name}" for name in _FIELDS)}
FROM OPENJSON(@outcomes) WITH (
    {lines(f"{name} {kind}" for name, kind in _FIELDS.items())}) AS j;
"""
_ROWS = f"FROM @outcome AS o INNER LOOP JOIN {HOT} AS h {{}} ON h.id = o.id"


def _moved(target: str, table: str, columns: Sequence[str], changed: dict[str, str]) -> str:
    """Copy and delete. The rows are locked: nothing comes between the two."""
    return f"""
INSERT INTO {table} (
    {lines(columns)})
SELECT
    {lines(changed.get(column) or f"h.{column}" for column in columns)}
{_ROWS.format(FOUND)}
WHERE o.target = '{target}';
DELETE h
{_ROWS.format(CHANGED)}
WHERE o.target = '{target}';
"""


_LOG, _BY, _RESULT, _ERROR_TYPE, _ERROR_DETAILS = (text_of(name, "o") for name in _TEXTS)
_MODIFIED_BY = f"COALESCE({_BY}, h.modified_by)"
_ARCHIVED = {
    "attempt_log": _LOG, "modified_by": _MODIFIED_BY, "finished_at": "@now", "duration_ms": "o.duration_ms",
    "wait_ms": "o.wait_ms", "result": _RESULT,
}  # fmt: skip
_BURIED = {
    "attempt_log": f"COALESCE({_LOG}, h.attempt_log)", "modified_by": _MODIFIED_BY,
    "crash_count": "h.crash_count + COALESCE(o.crashes, 0)", "failure_reason": "o.reason",
    "error_type": _ERROR_TYPE, "error_details": _ERROR_DETAILS, "fingerprint": "o.fingerprint",
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
    attempt_log = {_LOG},
    modified_by = COALESCE({_BY}, h.modified_by)
{_ROWS.format(CHANGED)}
WHERE o.target = '{TO_PENDING}';
""",
}

_HELD = f"""DECLARE @held TABLE (
    id {ID} NOT NULL PRIMARY KEY,
    asked bit NOT NULL,
    asked_by nvarchar(100) NULL);
"""
_HOLD = f"""
INSERT INTO @held (id, asked, asked_by)
SELECT h.id, CASE WHEN h.cancel_requested_at IS NULL THEN 0 ELSE 1 END, h.cancel_requested_by
FROM @outcome AS o INNER LOOP JOIN {HOT} AS h {LOCKED} ON h.id = o.id
WHERE h.claim_number = o.claim_number AND h.worker_id = @worker AND h.status = o.expected;
"""


@functools.cache
def settle_batch(targets: tuple[str, ...], counted: bool) -> Batch:
    """The batch for outcomes of these targets; ``counted``: any of them counts in the metrics."""
    summed = ({"buckets": BUCKETS} if counted else {}) | ({"groups": GROUPS} if TO_DLQ in targets else {})
    writes = "".join([*(_WRITES[target] for target in targets), *(added(rows, name) for name, rows in summed.items())])
    given = {"worker": WORKER, "outcomes": LIST, "texts": LIST, **dict.fromkeys(summed, LIST)}
    return Batch(
        tuple(given.items()),
        f"""{_HOLD.strip()}
-- All or nothing: what is to be counted depends on it.
IF (SELECT COUNT(*) FROM @held) = (SELECT COUNT(*) FROM @outcome)
BEGIN
{writes.strip()}
END;
""",
        prepare=f"{OUTCOMES}{_HELD}{TICK if counted else ''}",
        after="SELECT s.id, s.asked, s.asked_by FROM @held AS s;",
    )


BURY = batch(_WRITES[TO_DLQ], prepare=OUTCOMES, outcomes=LIST, texts=LIST)

# Whatever an earlier try wrote has this worker, this claim number and this log. It is compared with them in Python:
# here 'a' and 'A' may be one text, and a blank at the end is none.
OWN_WORK = batch(
    f"""
SELECT a.id, a.claim_number, {NO_REASON}, CAST(NULL AS nvarchar(max)), 0, CAST(NULL AS nvarchar(100))
{by_ids(ARCHIVE, "a")}
WHERE a.worker_id = @worker
UNION ALL
SELECT d.id, d.claim_number, d.failure_reason, d.attempt_log, 0, NULL
{by_ids(DLQ, "d")}
WHERE d.worker_id = @worker
UNION ALL
SELECT h.id, h.claim_number, {NO_REASON}, h.attempt_log,
    CASE WHEN h.cancel_requested_at IS NULL THEN 0 ELSE 1 END, h.cancel_requested_by
{by_ids(HOT, "h")}
WHERE h.status = 0;
""",
    single=True,
    worker=WORKER,
    ids=LIST,
)


class MSSQLSettle(MSSQLSums):
    """Ends of executions, and burials."""

    def settle(self, worker_id: str, outcomes: Sequence[Outcome]) -> Applied:
        # A call of more than AT_ONCE would come near the number of locks at which SQL Server takes the whole table.
        applied: Applied = set()
        for part in _each_id_once(outcomes):
            for some in chunks(part, AT_ONCE):
                applied |= self._settle(worker_id, some)
        return applied

    def is_partial(self, error: BaseException) -> bool:
        return is_partial(error)

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
        asked = {row[0]: row[2] for row in rows if row[1]}
        already, asked_already = self._already(
            worker_id, [outcome for outcome in outcomes if outcome.id not in applied]
        )
        applied |= already
        asked |= asked_already
        # An operator had asked to stop these; the request came too late for their worker and is honoured here.
        for outcome in outcomes:
            if outcome.id in applied and outcome.id in asked and _target(outcome) == TO_PENDING:
                self._cancel_late(outcome.id, asked[outcome.id])
        return applied

    def _cancel_late(self, job_id: str, by: str | None) -> None:
        # Another worker may have claimed it by now: then it is that one's to cancel.
        if self.cancel([job_id], by).applied:
            log_event(logger, logging.INFO, Event.JOB_BURIED, "job %s was cancelled while it ran and is dead", job_id)

    def _send(self, worker_id: str, outcomes: Sequence[Outcome]) -> list[Row]:
        """Write these if all of them are held. The ids that are, and who has asked to cancel them."""
        targets = tuple(sorted({_target(outcome) for outcome in outcomes}))
        buckets = Tally(worker_id).settled(outcomes).rows()
        groups = GroupTally(worker_id).settled(outcomes).rows()
        values: dict[str, Any] = {"worker": worker_id, **self._outcomes([_row(outcome) for outcome in outcomes])}
        if buckets:
            values["buckets"] = summed_json(BUCKETS, [row.values() for row in buckets])
        if groups:
            values["groups"] = summed_json(GROUPS, [row.values(self._instant) for row in groups])
        return self._alone(settle_batch(targets, bool(buckets)), **values)[-1]

    def _outcomes(self, rows: Sequence[_Row]) -> dict[str, str]:
        """The parameters of outcomes or burials."""
        texts = self._texts()
        listed = [(*values, *(place for text in own for place in texts.place(text))) for values, own in rows]
        return {"outcomes": rows_json(tuple(_FIELDS), listed), "texts": texts.value()}

    def _already(self, worker_id: str, outcomes: Sequence[Outcome]) -> tuple[Applied, dict[str, str | None]]:
        """Outcomes that an earlier call has written, whose commit the worker did not learn of; and which of all the
        waiting ones somebody has asked to cancel: id -> by whom. What a rescuer or an operator did to the job meanwhile
        has another place, reason or log."""
        if not outcomes:
            return set(), {}
        ids = as_json([outcome.id for outcome in outcomes])
        rows = self._alone(OWN_WORK, worker=worker_id, ids=ids)[0]
        done = {row[:4] for row in map(tuple, rows)}
        asked = {row[0]: row[5] for row in rows if row[4]}
        return {outcome.id for outcome in outcomes if _trace(outcome) in done}, asked

    def _write_burials(self, burials: Sequence[Burial]) -> None:
        self._inside(BURY, **self._outcomes([_burial(burial) for burial in burials]))


def _target(outcome: Outcome) -> str:
    if outcome.kind is OutcomeKind.SUCCEEDED:
        return TO_ARCHIVE
    return TO_DLQ if outcome.kind in DEAD else TO_PENDING


_Texts = tuple[str | None, ...]
_Row = tuple[tuple[Any, ...], _Texts]
"""The values of _FIELDS but those of the texts, and the texts."""


def _row(outcome: Outcome) -> _Row:
    target = _target(outcome)
    expected = FETCHED if outcome.kind in UNSTARTED else PROCESSING
    lease = (outcome.id, outcome.claim_number, expected, target)
    log, by = storable(outcome.attempt_log), fit(outcome.modified_by, PERSON_LIMIT)
    if target == TO_ARCHIVE:
        times = (outcome.duration_ms, outcome.wait_ms)
        return (*lease, *times, *(None,) * 8), (log, by, storable(outcome.result), None, None)
    if target == TO_DLQ:
        return (*lease, None, None, *_failure(outcome), 0, *(None,) * 5), (log, by, None, *_failure_texts(outcome))
    back, snoozed = int(outcome.kind in GIVES_ATTEMPT_BACK), int(outcome.kind is OutcomeKind.SNOOZED)
    return (*lease, *(None,) * 5, *span(max(0.0, outcome.delay)), back, snoozed), (log, by, None, None, None)


def _burial(burial: Burial) -> _Row:
    log, by = storable(burial.attempt_log), fit(burial.modified_by, PERSON_LIMIT)
    values = (burial.id, None, None, TO_DLQ, None, None, *_failure(burial), burial.crashes, *(None,) * 5)
    return values, (log, by, None, *_failure_texts(burial))


def _failure(dead: Outcome | Burial) -> tuple[Any, ...]:
    reason = int(dead.reason if isinstance(dead, Burial) else reason_of(dead))
    return reason, fingerprint_of(dead, reason)


def _failure_texts(dead: Outcome | Burial) -> _Texts:
    return fit(dead.error_type, TYPE_LIMIT), storable(dead.error_details)


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
