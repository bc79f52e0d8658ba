"""The Trash: removed and purged jobs, kept whole until they expire, and restored as they were.

The Trash has all columns of all three tables, so that a row goes there and back by INSERT ... SELECT alone: nothing is
turned into text and read back, and no payload passes through Python.
"""

# ruff: noqa: S608 - statements are composed of constants and column names of ours; every value is a parameter

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from ..sentence import Sentence, stored
from .columns import ARCHIVE_COLUMNS, DLQ_COLUMNS, HOT_COLUMNS, TRASH, TRASH_COLUMNS, names, select
from .contract import BulkResult, Conflict
from .groups import GROUPED
from .moves import FETCHED, FORGOTTEN, PENDING, PLACES, PROCESSING
from .retention_marks import MarkStatements
from .returns import ReturnStatements, drops_keys

_COLUMNS = {"hot": HOT_COLUMNS, "archive": ARCHIVE_COLUMNS, "dlq": DLQ_COLUMNS}
# What waits in a worker's buffer is given back first: a lease must not come to life again when the row is restored.
_GIVEN_BACK = {
    "status": f"CASE WHEN status = {FETCHED} THEN {PENDING} ELSE status END",
    "worker_id": f"CASE WHEN status = {FETCHED} THEN NULL ELSE worker_id END",
}
_NOTHING: Mapping[str, str] = MappingProxyType({})
_AGAIN = Sentence(stored("The job was purged or removed anew since."))


class TrashStatements(ReturnStatements, MarkStatements):
    """Into the Trash, back, and out of it for good."""

    def remove(self, ids: Sequence[str], by: str | None, ttl: float | None) -> BulkResult:
        return self._by_chunks(ids, (PLACES["hot"],), lambda part: self._remove(part, by, ttl))

    def _remove(
        self, ids: Sequence[str], by: str | None, ttl: float | None, operation: str | None = None
    ) -> BulkResult:
        rows = self._locked(PLACES["hot"], ("status",), ids)
        running = {job_id for job_id, (status,) in rows.items() if status == PROCESSING}
        answer = BulkResult(applied=[job_id for job_id in ids if job_id in rows and job_id not in running])
        self._to_trash("hot", answer.applied, by, ttl, operation, _GIVEN_BACK)
        answer.refused = [
            Conflict(job_id, Sentence("The job is running: cancel it instead.")) for job_id in ids if job_id in running
        ]
        answer.refused += self._why_absent([job_id for job_id in ids if job_id not in rows])
        return answer

    def purge(self, ids: Sequence[str], by: str | None, ttl: float | None) -> BulkResult:
        return self._by_chunks(ids, (PLACES["dlq"], PLACES["archive"]), lambda part: self._purge(part, by, ttl))

    def _purge(self, ids: Sequence[str], by: str | None, ttl: float | None, operation: str | None = None) -> BulkResult:
        dead = self._locked(PLACES["dlq"], GROUPED, ids)
        self._to_trash("dlq", sorted(dead), by, ttl, operation)
        done = self._locked(PLACES["archive"], ("queue",), [job_id for job_id in ids if job_id not in dead])
        self._to_trash("archive", sorted(done), by, ttl, operation)
        self._move_groups(left=dead)
        gone = {*dead, *done}
        answer = BulkResult(applied=[job_id for job_id in ids if job_id in gone])
        answer.refused = self._why_absent([job_id for job_id in ids if job_id not in gone])
        return answer

    def _to_trash(
        self, place: str, ids: Sequence[str], by: str | None, ttl: float | None, operation: str | None,
        changed: Mapping[str, str] = _NOTHING,
    ) -> None:  # fmt: skip
        """Move rows of ``place``, which this transaction has locked; ``operation``: the one that does it, if any."""
        if not ids:
            return
        columns = _COLUMNS[place]
        among, id_params = self._among("id", ids)
        expires, ttl_params = ("NULL", []) if ttl is None else (self._after(), [ttl])
        self._execute(
            f"INSERT INTO {TRASH} ({names(columns)}, came_from, purged_at, purged_by, expires_at, operation_id) "
            f"SELECT {select(columns, changed)}, '{place}', {self.NOW}, %s, {expires}, %s FROM {PLACES[place]} "
            f"WHERE {among}",
            [by, *ttl_params, operation, *id_params],
        )
        self._delete(PLACES[place], ids)

    # -- back ---------------------------------------------------------------------------------------------------------

    def restore(self, ids: Sequence[str], *, on_key_conflict: str = "skip") -> BulkResult:
        drop = drops_keys(on_key_conflict)
        return self._by_chunks(ids, (TRASH,), lambda part: self._restore(part, drop))

    def _restore(self, ids: Sequence[str], drop_key: bool, operations: Mapping[str, str] = _NOTHING) -> BulkResult:
        """``operations``: the ones that must have put them there, where that is known."""
        found = self._locked(TRASH, ("operation_id", "came_from", "idempotency_key", "status", *GROUPED), ids)
        again = [i for i in ids if i in found and operations.get(i, found[i][0]) != found[i][0]]
        rows = {job_id: row[1:] for job_id, row in found.items() if job_id not in again}
        back: set[str] = set()
        for place in ("archive", "dlq"):
            from_there = [job_id for job_id in ids if job_id in rows and rows[job_id][0] == place]
            self._copy_back(place, from_there)
            back.update(from_there)
        active = [job_id for job_id in ids if job_id in rows and rows[job_id][0] == "hot"]
        alive = self._reactivate(active, keep_key=True)
        if drop_key:
            alive |= self._reactivate([job_id for job_id in active if job_id not in alive], keep_key=False)
        back |= alive
        if back:
            self._delete(TRASH, sorted(back))
        waiting = {rows[job_id][3] for job_id in alive if rows[job_id][2] == PENDING}
        if waiting:
            self._announce(sorted(waiting))
        self._move_groups(back={job_id: rows[job_id][3:] for job_id in back if rows[job_id][0] == "dlq"})
        answer = BulkResult(applied=[job_id for job_id in ids if job_id in back])
        answer.refused = self._key_held({job_id: rows[job_id][1] for job_id in active if job_id not in alive})
        answer.refused += [Conflict(job_id, _AGAIN) for job_id in again]
        answer.refused += self._why_absent([job_id for job_id in ids if job_id not in found])
        return answer

    def _copy_back(self, place: str, ids: Sequence[str]) -> None:
        if not ids:
            return
        columns = names(_COLUMNS[place])
        among, params = self._among("id", ids)
        self._execute(f"INSERT INTO {PLACES[place]} ({columns}) SELECT {columns} FROM {TRASH} WHERE {among}", params)
        self._came_back(place, ids)

    def _reactivate(self, ids: Sequence[str], *, keep_key: bool) -> set[str]:
        """Copy rows to Hot, but those whose key an active job holds; the ids that are there now."""
        if not ids:
            return set()
        self._into_hot(TRASH, ids, {}, {}, keep_key=keep_key)
        return self._in_hot(ids)

    # -- out of it ----------------------------------------------------------------------------------------------------

    def expire_trash(self, limit: int) -> int:
        oldest = (
            f"SELECT {names(FORGOTTEN[TRASH])} FROM {TRASH} {self.HINT_SKIP} WHERE expires_at <= {self.NOW} "
            f"ORDER BY expires_at {self.LIMIT} {self.LOCK_SKIP}"
        )
        return self._unit(lambda: self._forget_rows(TRASH, self._query(oldest, [limit])))


assert all(set(columns) <= set(TRASH_COLUMNS) for columns in _COLUMNS.values()), "the Trash keeps everything"  # noqa: S101
