"""Jobs on their way to and from the DLQ outside of an execution: cancel, resurrect, rescue, expire; and trimming."""

# ruff: noqa: S608 - statements are composed of constants and column names of ours; every value is a parameter

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from ..job.failures import FailureReason, fingerprint
from .buckets import Tally
from .columns import ARCHIVE, BASE_COLUMNS, BUCKET, DLQ, DLQ_COLUMNS, HOT, HOT_COLUMNS, names, select
from .contract import Applied, BulkResult, Conflict, LiveRow, RescueAction, StorageError
from .engine import Engine, Row, chunks
from .text import storable

PENDING, FETCHED, PROCESSING = 0, 1, 2

_LIVE = (
    "id", "claim_number", "status", "worker_id", "queue", "type", "attempt", "max_attempts", "crash_count",
    "attempt_log", "started_at", "heartbeat_at", "updated_at", "cancel_requested_at", "cancel_requested_by",
)  # fmt: skip
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
        answer = BulkResult()
        for part in chunks(list(dict.fromkeys(ids))):
            done = self._unit(lambda part=part: self._cancel(part, by))  # type: ignore[misc]
            answer.applied += done.applied
            answer.requested += done.requested
            answer.refused += done.refused
        return answer

    def _cancel(self, ids: Sequence[str], by: str | None) -> BulkResult:
        among, params = self._among("id", ids)
        rows = {
            row[0]: row
            for row in self._query(
                f"SELECT id, status, queue, type FROM {self._by_key(HOT)} {self.HINT} WHERE {among} "
                f"ORDER BY id {self.LOCK}",
                params,
            )
        }
        answer = BulkResult()
        burials = []
        group = fingerprint(FailureReason.CANCELLED, None)
        for job_id in ids:
            row = rows.get(job_id)
            if row is None:
                continue
            if row[1] == PROCESSING:
                answer.requested.append(job_id)
            else:
                answer.applied.append(job_id)
                burials.append(
                    Burial(job_id, row[2], row[3], FailureReason.CANCELLED, fingerprint=group, modified_by=by)
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

    def _why_absent(self, ids: Sequence[str]) -> list[Conflict]:
        """For ids that are not in Hot: the reason for people."""
        if not ids:
            return []
        among, params = self._among("id", ids)
        archived = {row[0] for row in self._query(f"SELECT id FROM {ARCHIVE} WHERE {among}", params)}
        dead = {row[0] for row in self._query(f"SELECT id FROM {DLQ} WHERE {among}", params)}

        def why(job_id: str) -> str:
            if job_id in archived:
                return "The job has already succeeded."
            return "The job is already dead." if job_id in dead else "There is no such job."

        return [Conflict(job_id, why(job_id)) for job_id in ids]

    # -- resurrect ----------------------------------------------------------------------------------------------------

    def resurrect(self, ids: Sequence[str], by: str | None, *, payload: str | None = None, tags: str | None = None,
                  priority: int | None = None, schema_version: int | None = None,
                  on_key_conflict: str = "skip") -> BulkResult:  # fmt: skip
        if on_key_conflict not in ("skip", "drop"):
            raise ValueError(f"on_key_conflict must be 'skip' or 'drop', not {on_key_conflict!r}")
        given = {"payload": payload, "tags": tags, "priority": priority, "schema_version": schema_version}
        edits: dict[str, object] = {column: value for column, value in given.items() if value is not None}
        answer = BulkResult()
        for part in chunks(list(dict.fromkeys(ids))):
            done = self._unit(lambda part=part: self._resurrect(part, by, edits, on_key_conflict == "drop"))  # type: ignore[misc]
            answer.applied += done.applied
            answer.refused += done.refused
        return answer

    def _resurrect(self, ids: Sequence[str], by: str | None, edits: dict[str, object], drop_key: bool) -> BulkResult:
        among, params = self._among("id", ids)
        dead = {
            row[0]: (row[1], row[2])
            for row in self._query(
                f"SELECT id, queue, idempotency_key FROM {self._by_key(DLQ)} {self.HINT} WHERE {among} "
                f"ORDER BY id {self.LOCK}",
                params,
            )
        }
        found = [job_id for job_id in ids if job_id in dead]
        alive = self._insert_resurrected(found, by, edits, keep_key=True)
        if drop_key and len(alive) < len(found):
            rest = [job_id for job_id in found if job_id not in alive]
            alive |= self._insert_resurrected(rest, by, edits, keep_key=False)
        if alive:
            self._delete(DLQ, sorted(alive))
            self._announce(sorted({dead[job_id][0] for job_id in alive}))
        answer = BulkResult(applied=[job_id for job_id in found if job_id in alive])
        answer.refused = self._key_held({job_id: dead[job_id][1] for job_id in found if job_id not in alive})
        answer.refused += self._why_not_dead([job_id for job_id in ids if job_id not in dead])
        return answer

    def _insert_resurrected(
        self, ids: Sequence[str], by: str | None, edits: dict[str, object], *, keep_key: bool
    ) -> set[str]:
        """Copy DLQ rows to Hot, but those whose key an active job holds; the ids that are in Hot now."""
        if not ids:
            return set()
        changed = {
            "attempt": "0", "crash_count": "0", "snooze_count": "0", "generation": "generation + 1",
            "worker_id": "NULL", "started_at": "NULL", "run_at": self.NOW, "due_at": self.NOW,
            "deadline_at": f"CASE WHEN deadline_at > {self.NOW} THEN deadline_at END",
            "modified_by": "%s", "status": "0", "heartbeat_at": "NULL", "updated_at": self.NOW,
            "cancel_requested_at": "NULL", "cancel_requested_by": "NULL", "progress": "NULL",
            "progress_message": "NULL",
        }  # fmt: skip
        if edits:
            changed["revision"] = "revision + 1"
            changed |= dict.fromkeys(edits, "%s")
        if not keep_key:
            changed["idempotency_key"] = "NULL"
        given = {"modified_by": by, **edits}
        params = [given[column] for column in HOT_COLUMNS if column in given]
        among, id_params = self._among("id", ids)
        first, last = self.INSERT_IGNORE
        self._execute(
            f"{first} {HOT} ({names(HOT_COLUMNS)}) SELECT {select(HOT_COLUMNS, changed)} FROM {DLQ} "
            f"WHERE {among} ORDER BY id {last}",
            [*params, *id_params],
        )
        return {row[0] for row in self._query(f"SELECT id FROM {HOT} WHERE {among}", id_params)}

    def _key_held(self, keys: dict[str, str]) -> list[Conflict]:
        if not keys:
            return []
        among, params = self._among("idempotency_key", sorted(set(keys.values())))
        holders: dict[str, str] = dict(self._query(f"SELECT idempotency_key, id FROM {HOT} WHERE {among}", params))
        return [
            Conflict(job_id, f"Its idempotency key is held by the active job {holders.get(key, '(just finished)')}.")
            for job_id, key in keys.items()
        ]

    def _why_not_dead(self, ids: Sequence[str]) -> list[Conflict]:
        if not ids:
            return []
        among, params = self._among("id", ids)
        active = {row[0] for row in self._query(f"SELECT id FROM {HOT} WHERE {among}", params)}
        absent = {conflict.id: conflict for conflict in self._why_absent([i for i in ids if i not in active])}
        return [absent.get(job_id) or Conflict(job_id, "The job is active, not dead.") for job_id in ids]

    # -- rescue -------------------------------------------------------------------------------------------------------

    def live_rows(self) -> list[LiveRow]:
        sql = f"SELECT {names(_LIVE)} FROM {HOT} WHERE status IN ({FETCHED}, {PROCESSING})"
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
                f"SELECT {names(_LIVE)} FROM {self._by_key(HOT)} {self.HINT_SKIP} WHERE {among} "
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
        conditions, params = [f"{finished} <= {self._after()}"], [-older_than]
        if reason is not None:
            conditions.append(f"failure_reason = {int(reason)}")
        if but_reasons:
            conditions.append(f"failure_reason NOT IN ({', '.join(str(int(r)) for r in sorted(but_reasons))})")
        oldest = (
            f"SELECT id FROM {name} {self.HINT_SKIP} WHERE {' AND '.join(conditions)} "
            f"ORDER BY {finished} {self.LIMIT} {self.LOCK_SKIP}"
        )
        return self._unit(lambda: self._trim(name, oldest, [*params, limit]))

    def _trim(self, table: str, oldest: str, params: Sequence[object]) -> int:
        ids = [row[0] for row in self._query(oldest, params)]
        for part in chunks(ids):
            self._delete(table, part)
        return len(ids)

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
