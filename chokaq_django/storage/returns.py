"""Jobs that go to Hot once more: the dead by resurrection, archived ones as new jobs; and what all such ways share."""

# ruff: noqa: S608 - statements are composed of constants and column names of ours; every value is a parameter

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from ..job.ids import new_id
from ..sentence import Sentence, stored
from .columns import ARCHIVE, DLQ, HOT, HOT_COLUMNS, PAYLOAD_VERSION, names, select
from .contract import AGAIN_HEADER, BulkResult, Conflict, Copies
from .engine import chunks
from .groups import GROUPED
from .moves import MoveStatements

COPIES = 50
"""Jobs that are run again in one transaction: each takes a few statements of its own."""
_VERSIONED = ("revision", "type", "schema_version", "payload")


_HELD = stored("Its idempotency key is held by the active job %(key)s.")


def drops_keys(on_key_conflict: str) -> bool:
    """Whether a job whose key another active job holds comes back without it; ValueError for an unknown policy."""
    if on_key_conflict not in ("skip", "drop"):
        raise ValueError(f"on_key_conflict must be 'skip' or 'drop', not {on_key_conflict!r}")
    return on_key_conflict == "drop"


class ReturnStatements(MoveStatements):
    """Resurrection, running again, and the insertion into Hot that restoring uses too."""

    # -- resurrect ----------------------------------------------------------------------------------------------------

    def resurrect(self, ids: Sequence[str], by: str | None, *, payload: str | None = None, tags: str | None = None,
                  priority: int | None = None, schema_version: int | None = None,
                  on_key_conflict: str = "skip") -> BulkResult:  # fmt: skip
        drop = drops_keys(on_key_conflict)
        given = {"payload": payload, "tags": tags, "priority": priority, "schema_version": schema_version}
        edits: dict[str, object] = {column: value for column, value in given.items() if value is not None}
        return self._by_chunks(ids, (DLQ,), lambda part: self._resurrect(part, by, edits, drop))

    def _resurrect(self, ids: Sequence[str], by: str | None, edits: dict[str, object], drop_key: bool) -> BulkResult:
        dead = self._locked(DLQ, (*GROUPED, "idempotency_key"), ids)
        found = [job_id for job_id in ids if job_id in dead]
        alive = self._insert_resurrected(found, by, edits, keep_key=True)
        if drop_key and len(alive) < len(found):
            rest = [job_id for job_id in found if job_id not in alive]
            alive |= self._insert_resurrected(rest, by, edits, keep_key=False)
        if alive:
            if "payload" in edits:
                self._keep_payloads(DLQ, sorted(alive), by)
            self._delete(DLQ, sorted(alive))
            self._announce(sorted({dead[job_id][0] for job_id in alive}))
            self._move_groups(left={job_id: dead[job_id][:-1] for job_id in alive})
        answer = BulkResult(applied=[job_id for job_id in found if job_id in alive])
        answer.refused = self._key_held({job_id: dead[job_id][-1] for job_id in found if job_id not in alive})
        answer.refused += self._why_absent([job_id for job_id in ids if job_id not in dead])
        return answer

    def _insert_resurrected(
        self, ids: Sequence[str], by: str | None, edits: dict[str, object], *, keep_key: bool
    ) -> set[str]:
        """Copy DLQ rows to Hot, but those whose key an active job holds; the ids that are in Hot now."""
        if not ids:
            return set()
        changed = {**self._fresh(), "generation": "generation + 1", "modified_by": "%s"}
        if edits:
            changed["revision"] = "revision + 1"
            changed |= dict.fromkeys(edits, "%s")
        self._into_hot(DLQ, ids, changed, {"modified_by": by, **edits}, keep_key=keep_key)
        return self._in_hot(ids)

    # -- run again ----------------------------------------------------------------------------------------------------

    def run_again(self, ids: Sequence[str], by: str | None, *, on_key_conflict: str = "skip") -> Copies:
        drop = drops_keys(on_key_conflict)
        answer = Copies()
        self._lock_ahead(ids, (ARCHIVE,), COPIES)
        for part in chunks(list(dict.fromkeys(ids)), COPIES):
            done = self._unit(lambda part=part: self._run_again(part, by, drop))  # type: ignore[misc]
            answer.add(done)
            answer.new_ids |= done.new_ids
        return answer

    def _run_again(self, ids: Sequence[str], by: str | None, drop_key: bool) -> Copies:
        done = self._locked(ARCHIVE, ("queue", "idempotency_key", "headers"), ids)
        answer = Copies()
        held: dict[str, str] = {}
        for job_id in sorted(done):
            new = self._copy(job_id, done[job_id][2], by, keep_key=True)
            if new is None and drop_key:
                new = self._copy(job_id, done[job_id][2], by, keep_key=False)
            if new is None:
                held[job_id] = done[job_id][1]
            else:
                answer.new_ids[job_id] = new
        answer.applied = [job_id for job_id in ids if job_id in answer.new_ids]
        if answer.applied:
            self._announce(sorted({done[job_id][0] for job_id in answer.applied}))
        answer.refused = self._key_held(held) + self._why_absent([job_id for job_id in ids if job_id not in done])
        return answer

    def _copy(self, job_id: str, headers: str, by: str | None, *, keep_key: bool) -> str | None:
        """Enqueue an archived job once more; the id of the new one, None when its key is held."""
        new = new_id()
        changed = {
            **self._fresh(), "id": "%s", "headers": "%s", "modified_by": "%s", "claim_number": "0", "generation": "0",
            "revision": "0", "attempt_log": "'[]'", "created_at": self.NOW,
        }  # fmt: skip
        given = {"id": new, "headers": _linked(headers, job_id), "modified_by": by}
        self._into_hot(ARCHIVE, [job_id], changed, given, keep_key=keep_key)
        return new if self._in_hot([new]) else None

    # -- into Hot -----------------------------------------------------------------------------------------------------

    def _fresh(self) -> dict[str, str]:
        """Column -> SQL of its value, of a row that begins anew: pending, due now, no attempt made."""
        return {
            "attempt": "0", "crash_count": "0", "snooze_count": "0", "worker_id": "NULL", "started_at": "NULL",
            "run_at": self.NOW, "due_at": self.NOW,
            "deadline_at": f"CASE WHEN deadline_at > {self.NOW} THEN deadline_at END",
            "status": "0", "heartbeat_at": "NULL", "updated_at": self.NOW, "cancel_requested_at": "NULL",
            "cancel_requested_by": "NULL", "progress": "NULL", "progress_message": "NULL",
        }  # fmt: skip

    def _into_hot(
        self, source: str, ids: Sequence[str], changed: Mapping[str, str], given: Mapping[str, object], *,
        keep_key: bool,
    ) -> None:  # fmt: skip
        """Copy rows of ``source``, which this transaction has locked, to Hot; but those whose idempotency key an active
        job holds, without an error, unless ``keep_key`` is false: then they come without their key.

        ``changed``: column -> SQL of its value, instead of its own; ``given``: column -> the parameter in that.
        """
        if not keep_key:
            changed = {**changed, "idempotency_key": "NULL"}
        params = [given[column] for column in HOT_COLUMNS if column in given]
        among, id_params = self._among("id", ids)
        first, last = self.INSERT_IGNORE
        self._execute(
            f"{first} {HOT} ({names(HOT_COLUMNS)}) SELECT {select(HOT_COLUMNS, changed)} FROM {source} "
            f"WHERE {among} ORDER BY id {last}",
            [*params, *id_params],
        )

    def _in_hot(self, ids: Sequence[str]) -> set[str]:
        """Which of these are in Hot."""
        among, params = self._among("id", ids)
        return {row[0] for row in self._query(f"SELECT id FROM {HOT} WHERE {among}", params)}

    def _keep_payloads(self, table: str, ids: Sequence[str], by: str | None) -> None:
        """Keep the payloads that these rows, locked, have now and are about to lose."""
        among, params = self._among("id", ids)
        self._execute(
            f"INSERT INTO {PAYLOAD_VERSION} (job_id, {names(_VERSIONED)}, replaced_at, replaced_by) "
            f"SELECT id, {names(_VERSIONED)}, {self.NOW}, %s FROM {table} WHERE {among}",
            [by, *params],
        )

    def _key_held(self, keys: dict[str, str]) -> list[Conflict]:
        if not keys:
            return []
        among, params = self._among("idempotency_key", sorted(set(keys.values())))
        holders: dict[str, str] = dict(self._query(f"SELECT idempotency_key, id FROM {HOT} WHERE {among}", params))
        return [
            Conflict(
                job_id,
                Sentence(_HELD, key=holders.get(key, "(just finished)")),
            )
            for job_id, key in keys.items()
        ]


def _linked(headers: str, job_id: str) -> str:
    """``headers`` (JSON text of an object) naming the job that is run again. Text that is none is left as it is."""
    try:
        own = json.loads(headers)
    except ValueError:
        return headers
    if not isinstance(own, dict):
        return headers
    return json.dumps({**own, AGAIN_HEADER: job_id}, ensure_ascii=False, separators=(",", ":"))
