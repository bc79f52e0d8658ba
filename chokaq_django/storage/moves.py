"""Jobs on their way to the DLQ outside of an execution: cancel, rescue, expire; and trimming."""

# ruff: noqa: S608 - statements are composed of constants and column names of ours; every value is a parameter

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from ..job.failures import FailureReason
from ..job.fingerprint import fingerprint
from ..sentence import Sentence
from .buckets import Tally
from .columns import (
    ARCHIVE,
    BASE_COLUMNS,
    DLQ,
    DLQ_COLUMNS,
    HOT,
    PAYLOAD_VERSION,
    TRASH,
    names,
)
from .contract import Applied, BulkResult, Conflict, LiveRow, RescueAction, StorageError
from .engine import CHUNK, Row, chunks
from .group_rows import GroupStatements
from .groups import GROUPED, GroupTally
from .text import storable

PENDING, FETCHED, PROCESSING = 0, 1, 2

LIVE_COLUMNS = (
    "id", "claim_number", "status", "worker_id", "queue", "type", "attempt", "max_attempts", "crash_count",
    "attempt_log", "started_at", "heartbeat_at", "updated_at", "cancel_requested_at", "cancel_requested_by",
)  # fmt: skip
PLACES = {"hot": HOT, "archive": ARCHIVE, "dlq": DLQ, "trash": TRASH}
_WHERE_IT_IS = {
    "hot": Sentence("The job is active."),
    "archive": Sentence("The job has already succeeded."),
    "dlq": Sentence("The job is already dead."),
    "trash": Sentence("The job is in the Trash."),
    None: Sentence("There is no such job."),
}
FORGOTTEN = {
    HOT: ("id", "revision"),
    ARCHIVE: ("id", "revision", "queue", "type"),
    DLQ: ("id", "revision", *GROUPED),
    TRASH: ("id", "revision"),
}
"""What is read of rows that are then deleted for good: of dead jobs what they count by."""


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


class MoveStatements(GroupStatements):
    """The operator's verbs and the sweeps. All work in chunks of one transaction each.

    Who waits for locks takes them in one order: active, dead, archived and purged jobs, each by id; then the marks of
    retention. Sweeps wait for no job that somebody holds. Buckets and groups are written in rows of one's own.
    """

    # -- burying ------------------------------------------------------------------------------------------------------

    def _bury(self, burials: Sequence[Burial]) -> None:
        """Move Hot rows, which this transaction has locked, to the DLQ; count them in the metrics and in their
        groups."""
        self._write_burials(burials)
        buckets, groups = Tally(self._shard), GroupTally(self._shard)
        for burial in burials:
            buckets.buried(burial.queue, burial.type, burial.reason)
            groups.died(burial, burial.reason)
        self._add_buckets(buckets.rows())
        self._add_groups(groups.rows())

    @abstractmethod
    def _write_burials(self, burials: Sequence[Burial]) -> None:
        """Move the rows, each with what its burial says."""

    # -- cancel -------------------------------------------------------------------------------------------------------

    def cancel(self, ids: Sequence[str], by: str | None) -> BulkResult:
        return self._by_chunks(ids, (HOT,), lambda part: self._cancel(part, by))

    def _by_chunks(
        self, ids: Sequence[str], tables: Sequence[str], work: Callable[[Sequence[str]], BulkResult]
    ) -> BulkResult:
        """``work``, which locks rows of these tables, on chunks of the ids, each id once, a transaction for each; the
        answers together."""
        answer = BulkResult()
        ids = list(dict.fromkeys(ids))
        self._lock_ahead(ids, tables)
        for part in chunks(ids):
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

    def lock_ahead(self, ids: Sequence[str], places: Sequence[str]) -> None:
        self._lock_ahead(ids, [PLACES[place] for place in places], 0)

    def _lock_ahead(self, ids: Sequence[str], tables: Sequence[str], chunk: int = CHUNK) -> None:
        """In a caller's transaction, which keeps what one chunk locks while the next is locked: lock what all of them
        will, in the one order."""
        if len(ids) > chunk and self._joined():
            self._lock_all(ids, tables)

    def _lock_all(self, ids: Sequence[str], tables: Sequence[str]) -> None:
        """Lock the rows that are in these tables in the one order. Nothing where a write transaction locks all."""
        if not (self.LOCK or self.HINT):
            return
        for table in tables:
            for part in chunks(sorted(ids)):
                self._locked(table, ("queue",), part)

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

    def _forget_rows(self, table: str, rows: Sequence[Row]) -> int:
        """Delete rows of ``table``, locked by this transaction and read as FORGOTTEN says, with their earlier payloads;
        how many."""
        for part in chunks(rows):
            self._delete(table, [row[0] for row in part])
            edited = [row[0] for row in part if row[1]]
            if edited:
                self._delete(PAYLOAD_VERSION, edited, "job_id")
        if table == DLQ:
            self._move_groups(left={row[0]: row[2:] for row in rows})
        return len(rows)


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
