"""Jobs on their way to the DLQ outside of an execution: cancel, rescue, expire; and trimming."""

# ruff: noqa: S608 - statements are composed of constants and column names of ours; every value is a parameter

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace

from ..job.failures import FailureReason, fingerprint
from .buckets import Tally
from .columns import (
    ARCHIVE,
    BASE_COLUMNS,
    BUCKET,
    DLQ,
    DLQ_COLUMNS,
    HOT,
    PAYLOAD_VERSION,
    TRASH,
    names,
    select,
)
from .contract import Applied, BulkResult, Conflict, LiveRow, RescueAction, StorageError
from .engine import Engine, Row, chunks
from .text import storable

PENDING, FETCHED, PROCESSING = 0, 1, 2

LIVE_COLUMNS = (
    "id", "claim_number", "status", "worker_id", "queue", "type", "attempt", "max_attempts", "crash_count",
    "attempt_log", "started_at", "heartbeat_at", "updated_at", "cancel_requested_at", "cancel_requested_by",
)  # fmt: skip
PLACES = {"hot": HOT, "archive": ARCHIVE, "dlq": DLQ, "trash": TRASH}
_WHERE_IT_IS = {
    "hot": "The job is active.",
    "archive": "The job has already succeeded.",
    "dlq": "The job is already dead.",
    "trash": "The job is in the Trash.",
    None: "There is no such job.",
}
_FINISHED = {"archive": (ARCHIVE, "finished_at"), "dlq": (DLQ, "failed_at")}


@dataclass(slots=True)
class Burial:
    """One Hot row to move to the DLQ, locked by the caller. None in ``attempt_log`` and ``modified_by`` keeps them."""

    id: str
    queue: str
    type: str
    reason: FailureReason
    attempt_log: str | None = None
    error_type: str | None = None
    error_details: str | None = None
    fingerprint: str | None = None
    modified_by: str | None = None
    crashes: int = 0


class MoveStatements(Engine):
    """The operator's verbs and the sweeps. All work in chunks of one transaction each, rows locked in id order."""

    # -- burying ------------------------------------------------------------------------------------------------------

    def _bury(self, burials: Sequence[Burial]) -> None:
        """Move Hot rows, which this transaction has locked, to the DLQ, and count them in the metrics."""
        groups: dict[Burial | tuple[object, ...], list[str]] = {}
        tally = Tally(self._shard)
        for burial in burials:
            tally.buried(burial.queue, burial.type, burial.reason)
            key = (burial.reason, burial.attempt_log, burial.error_type, burial.error_details, burial.fingerprint,
                   burial.modified_by, burial.crashes)  # fmt: skip
            groups.setdefault(key, []).append(burial.id)
        by_id = {burial.id: burial for burial in burials}
        for ids in groups.values():
            self._bury_alike(ids, by_id[ids[0]])
        self._add_buckets(tally.rows())

    def _bury_alike(self, ids: Sequence[str], burial: Burial) -> None:
        among, id_params = self._among("id", ids)
        changed = {
            "attempt_log": "COALESCE(%s, attempt_log)",
            "crash_count": f"crash_count + {int(burial.crashes)}",
            "modified_by": "COALESCE(%s, modified_by)",
            "failure_reason": str(int(burial.reason)),
            "error_type": "%s",
            "error_details": "%s",
            "fingerprint": "%s",
            "failed_at": self.NOW,
            "note": "''",
            "assignee": "NULL",
            "acknowledged_at": "NULL",
        }
        given: dict[str, str | None] = {
            "attempt_log": burial.attempt_log,
            "modified_by": burial.modified_by,
            "error_type": burial.error_type,
            "error_details": burial.error_details,
            "fingerprint": burial.fingerprint,
        }
        params = [given[column] for column in DLQ_COLUMNS if column in given]
        self._execute(
            f"INSERT INTO {DLQ} ({names(DLQ_COLUMNS)}) SELECT {select(DLQ_COLUMNS, changed)} FROM {HOT} WHERE {among}",
            [*params, *id_params],
        )
        self._delete(HOT, ids)

    # -- cancel -------------------------------------------------------------------------------------------------------

    def cancel(self, ids: Sequence[str], by: str | None) -> BulkResult:
        return self._by_chunks(ids, lambda part: self._cancel(part, by))

    def _by_chunks(self, ids: Sequence[str], work: Callable[[Sequence[str]], BulkResult]) -> BulkResult:
        """``work`` on chunks of the ids, each id once, a transaction for each; the answers together."""
        answer = BulkResult()
        for part in chunks(list(dict.fromkeys(ids))):
            answer.add(self._unit(lambda part=part: work(part)))  # type: ignore[misc]
        return answer

    def _cancel(self, ids: Sequence[str], by: str | None) -> BulkResult:
        rows = self._locked(HOT, ("status", "queue", "type"), ids)
        answer = BulkResult()
        burials = []
        group = fingerprint(FailureReason.CANCELLED, None)
        for job_id in ids:
            row = rows.get(job_id)
            if row is None:
                continue
            status, queue, type_key = row
            if status == PROCESSING:
                answer.requested.append(job_id)
            else:
                answer.applied.append(job_id)
                burials.append(
                    Burial(job_id, queue, type_key, FailureReason.CANCELLED, fingerprint=group, modified_by=by)
                )
        if burials:
            self._bury(burials)
        if answer.requested:
            among, params = self._among("id", answer.requested)
            self._execute(
                f"UPDATE {self._by_key(HOT)} SET cancel_requested_at = {self.NOW}, cancel_requested_by = %s "
                f"WHERE {among}",
                [by, *params],
            )
        answer.refused = self._why_absent([job_id for job_id in ids if job_id not in rows])
        return answer

    def _locked(self, table: str, columns: Sequence[str], ids: Sequence[str]) -> dict[str, Row]:
        """These columns of the rows that are in the table, by id; locked in the order of their ids."""
        if not ids:
            return {}
        among, params = self._among("id", ids)
        sql = (
            f"SELECT id, {names(columns)} FROM {self._by_key(table)} {self.HINT} WHERE {among} ORDER BY id {self.LOCK}"
        )
        return {row[0]: row[1:] for row in self._query(sql, params)}

    def _why_absent(self, ids: Sequence[str]) -> list[Conflict]:
        """For ids that are not where a verb looks for them: where they are, for people."""
        if not ids:
            return []
        among, params = self._among("id", ids)
        looks = [f"SELECT id, '{place}' FROM {table} WHERE {among}" for place, table in PLACES.items()]
        found: dict[str | None, str] = dict(self._query(" UNION ALL ".join(looks), params * len(looks)))
        return [Conflict(job_id, _WHERE_IT_IS[found.get(job_id)]) for job_id in ids]

    # -- rescue -------------------------------------------------------------------------------------------------------

    def live_rows(self) -> list[LiveRow]:
        sql = f"SELECT {names(LIVE_COLUMNS)} FROM {HOT} WHERE status IN ({FETCHED}, {PROCESSING})"
        return [self._live_row(row) for row in self._single(lambda: self._query(sql))]

    def _live_row(self, row: Row) -> LiveRow:
        seen = row[11] if row[2] == PROCESSING else row[12]
        live = LiveRow(*row[:12])
        live.started_at, live.seen = self._read_instant(row[10]), self._read_instant(seen)
        return live

    def rescue(self, actions: Sequence[RescueAction]) -> Applied:
        applied: Applied = set()
        for part in chunks(actions):
            applied |= self._unit(lambda part=part: self._rescue(part))  # type: ignore[misc]
        return applied

    def _rescue(self, actions: Sequence[RescueAction]) -> Applied:
        among, params = self._among("id", [action.row.id for action in actions])
        # Whoever is writing such a row is not dead: it is passed over.
        now = {
            row[0]: row
            for row in self._query(
                f"SELECT {names(LIVE_COLUMNS)} FROM {self._by_key(HOT)} {self.HINT_SKIP} WHERE {among} "
                f"ORDER BY id {self.LOCK_SKIP}",
                params,
            )
        }
        burials: list[Burial] = []
        applied: Applied = set()
        woken = set()
        for action in actions:
            row = now.get(action.row.id)
            if row is None or not self._as_seen(action.row, row):
                continue
            applied.add(action.row.id)
            if action.to == "dlq" or row[13] is not None:
                burials.append(_rescue_burial(action, cancelled=row[13] is not None, by=row[14]))
            elif action.to == "pending":
                self._back_to_pending(action)
                woken.add(action.row.queue)
            else:
                raise StorageError(f"a rescued job goes to 'pending' or 'dlq', not {action.to!r}")
        if burials:
            self._bury(burials)
        if woken:
            self._announce(sorted(woken))
        return applied

    def _as_seen(self, seen: LiveRow, row: Row) -> bool:
        current = self._live_row(row)
        return (current.claim_number, current.status, current.worker_id, current.seen) == (
            seen.claim_number, seen.status, seen.worker_id, seen.seen,
        )  # fmt: skip

    def _back_to_pending(self, action: RescueAction) -> None:
        self._execute(
            f"UPDATE {HOT} SET status = {PENDING}, worker_id = NULL, heartbeat_at = NULL, run_at = {self._after()}, "
            f"updated_at = {self.NOW}, attempt_log = %s, crash_count = crash_count + %s, progress = NULL, "
            f"progress_message = NULL WHERE id = %s",
            [action.delay, storable(action.attempt_log), int(action.crashed), action.row.id],
        )

    # -- sweeps -------------------------------------------------------------------------------------------------------

    def expire(self, limit: int) -> int:
        return self._unit(lambda: self._expire(limit))

    def _expire(self, limit: int) -> int:
        rows = self._query(self._overdue(), [limit])
        group = fingerprint(FailureReason.EXPIRED, None)
        for part in chunks(rows):
            self._bury([Burial(row[0], row[1], row[2], FailureReason.EXPIRED, fingerprint=group) for row in part])
        return len(rows)

    def _overdue(self) -> str:
        """The query of Pending rows past their deadline. ``status + 0`` hides the status from the planner, which would
        otherwise read every Pending row by the claim's index when it planned on an empty table."""
        return (
            f"SELECT id, queue, type FROM {HOT} {self.HINT_SKIP} WHERE status + 0 = {PENDING} "
            f"AND deadline_at < {self.NOW} ORDER BY deadline_at {self.LIMIT} {self.LOCK_SKIP}"
        )

    def trim(self, table: str, older_than: float, limit: int, *, reason: int | None = None,
             but_reasons: Collection[int] = ()) -> int:  # fmt: skip
        name, finished = _FINISHED[table]
        if but_reasons:
            # Reason by reason: rows that are kept for longer are never read.
            trimmed = 0
            for other in self._single(self._reasons):
                if trimmed < limit and other not in but_reasons:
                    trimmed += self.trim(table, older_than, limit - trimmed, reason=other)
            return trimmed
        one = "" if reason is None else f"failure_reason = {int(reason)} AND "
        oldest = (
            f"SELECT id, revision FROM {name} {self.HINT_SKIP} WHERE {one}{finished} <= {self._after()} "
            f"ORDER BY {finished} {self.LIMIT} {self.LOCK_SKIP}"
        )
        return self._unit(lambda: self._trim(name, oldest, [-older_than, limit]))

    def _reasons(self) -> list[int]:
        """The reasons that rows of the DLQ have, by one seek for each."""
        reasons: list[int] = []
        sql = f"SELECT MIN(failure_reason) FROM {DLQ} WHERE failure_reason > %s"
        while (reason := self._query(sql, [reasons[-1] if reasons else -1])[0][0]) is not None:
            reasons.append(reason)
        return reasons

    def _trim(self, table: str, oldest: str, params: Sequence[object]) -> int:
        """Delete the rows that ``oldest`` finds (id, revision), and their earlier payloads."""
        rows = self._query(oldest, params)
        for part in chunks(rows):
            self._delete(table, [job_id for job_id, _ in part])
            edited = [job_id for job_id, revision in part if revision]
            if edited:
                self._delete(PAYLOAD_VERSION, edited, "job_id")
        return len(rows)

    def trim_buckets(self, older_than: float, limit: int) -> int:
        old = f"SELECT at FROM {BUCKET} WHERE at <= {self._after()} ORDER BY at {self.LIMIT}"

        def work() -> int:
            found = self._query(old, [-older_than, limit])
            # Whole ticks: the key is the tick first, and nobody writes to an old one any more.
            return self._execute(f"DELETE FROM {BUCKET} WHERE at <= %s", [found[-1][0]]) if found else 0

        return self._unit(work)


def _rescue_burial(action: RescueAction, *, cancelled: bool, by: str | None) -> Burial:
    row = action.row
    reason = FailureReason.ZOMBIE if action.reason is None else action.reason  # one of them is 0
    burial = Burial(
        row.id, row.queue, row.type, reason, action.attempt_log,
        error_details=action.error_details, fingerprint=action.fingerprint, crashes=int(action.crashed),
    )  # fmt: skip
    if not cancelled:
        return burial
    # An operator had asked to stop it; its worker can no longer answer.
    group = fingerprint(FailureReason.CANCELLED, None)
    return replace(burial, reason=FailureReason.CANCELLED, fingerprint=group, modified_by=by)


assert set(BASE_COLUMNS) <= set(DLQ_COLUMNS), "the DLQ keeps whatever a job has"  # noqa: S101
