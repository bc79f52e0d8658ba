"""What a step of a bulk operation does to its jobs: the verb, and what its items keep for an undo."""

# ruff: noqa: S608 - statements are composed of constants and column names of ours; every value is a parameter

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from ..job.patch import PayloadPatch
from ..models import BulkAction
from ..sentence import Sentence, stored
from .bulk_rules import Operation
from .bulk_sets import BulkSets
from .columns import ARCHIVE, DLQ, HOT, PAYLOAD_VERSION
from .contract import BulkResult, NotRenewedError, Renew, StorageError, StoredPayload
from .edits import RENEWED
from .engine import CHUNK, chunks
from .patching import patching
from .returns import drops_keys

TABLES = {
    BulkAction.RESURRECT: (DLQ,), BulkAction.PURGE: (DLQ, ARCHIVE), BulkAction.CANCEL: (HOT,),
    BulkAction.REMOVE: (HOT,), BulkAction.EDIT: (HOT, DLQ),
    BulkAction.REVERT: (HOT, DLQ),
}  # fmt: skip
"""Where the jobs are that an action is for, in the order in which it locks them."""
_ARGUMENTS = {
    BulkAction.RESURRECT: {"priority", "on_key_conflict"},
    BulkAction.PURGE: {"ttl"},
    BulkAction.REMOVE: {"ttl"},
    BulkAction.RESTORE: {"on_key_conflict"},
    BulkAction.EDIT: {"priority", "queue", "patch", "blind"},
}
"""What this code knows of each action: an operation that was told more is not done by half."""
_NOT_KEPT = Sentence(stored("The payload that was replaced is not kept any more."))

Notes = Mapping[str, str]


class BulkVerbs(BulkSets):
    """Each verb on a chunk, in the transaction of the step."""

    def _verb(self, op: Operation, ids: list[str], notes: Notes) -> tuple[BulkResult, Notes]:
        """The action on these jobs, and for each the note that its item gets."""
        given: dict[str, Any] = json.loads(op.arguments)
        if unknown := sorted(given.keys() - _ARGUMENTS.get(BulkAction(op.action), set())):
            raise StorageError(f"newer code began it: the code here does not know {', '.join(unknown)}")
        by = (op.requested_by or "")[:100] or None
        match BulkAction(op.action):
            case BulkAction.RESURRECT:
                edits = {name: given[name] for name in ("priority",) if given.get(name) is not None}
                return self._resurrect(ids, by, edits, drops_keys(given.get("on_key_conflict", "skip"))), {}
            case BulkAction.PURGE:
                return self._with_mark(op, self._purge(ids, by, given.get("ttl"), op.id))
            case BulkAction.REMOVE:
                return self._with_mark(op, self._remove(ids, by, given.get("ttl"), op.id))
            case BulkAction.CANCEL:
                return self._cancel(ids, by), {}
            case BulkAction.RESTORE:
                drop = drops_keys(given.get("on_key_conflict", "skip"))
                return self._restore(ids, drop, {i: json.loads(note)["operation"] for i, note in notes.items()}), {}
            case BulkAction.EDIT:
                new = {name: given[name] for name in ("priority", "queue") if given.get(name) is not None}
                patch = given.get("patch")
                # Whoever looks at the operation reads its refusals: they tell nothing of what is stored.
                renew = None
                if patch is not None:
                    renew = patching(
                        PayloadPatch.stored(patch),
                        sees=False,
                        quotes=lambda _path: False,
                        tells=not given.get("blind"),
                    )
                done = self._edit(dict.fromkeys(ids), by, new, renew)
                told, more = ("revision", *new), {} if renew is None else {"payload": True}
                return done, {i: _json({name: old[name] for name in told} | more) for i, old in done.before.items()}
            case BulkAction.REVERT:
                return self._revert(ids, by, notes), {}

    @staticmethod
    def _with_mark(op: Operation, done: BulkResult) -> tuple[BulkResult, Notes]:
        """What was purged or removed, noted so that an undo restores what this operation did, and no later act."""
        return done, dict.fromkeys(done.applied, _json({"operation": op.id}))

    def _revert(self, ids: Sequence[str], by: str | None, notes: Notes) -> BulkResult:
        """Give back the values of before an edit to jobs that nobody has edited since."""
        groups: dict[tuple[str, int], list[str]] = {}
        for job_id in ids:
            old = json.loads(notes[job_id])
            groups.setdefault((_json({**old, "revision": None}), old["revision"]), []).append(job_id)
        answer = BulkResult()
        if len(groups) > 1:
            self._lock_all(ids, TABLES[BulkAction.REVERT])
        for (text, revision), alike in groups.items():
            values = json.loads(text)
            del values["revision"]
            patched = values.pop("payload", False)
            if unknown := sorted(values.keys() - {"priority", "queue"}):
                raise StorageError(f"newer code made the edit: the code here cannot give back {', '.join(unknown)}")
            for part in chunks(alike, RENEWED if patched else CHUNK):
                renew = self._payloads_of(part, revision) if patched else None
                answer.add(self._edit(dict.fromkeys(part, revision + 1), by, values, renew))
        return answer

    def _payloads_of(self, ids: Sequence[str], revision: int) -> Renew:
        """Gives these jobs the payloads that they had at this revision."""
        among, params = self._among("job_id", ids)
        rows = self._query(
            f"SELECT job_id, payload, schema_version FROM {PAYLOAD_VERSION} WHERE {among} AND revision = %s",
            [*params, revision],
        )
        kept = {job_id: (payload, version) for job_id, payload, version in rows}

        def renew(job: StoredPayload) -> tuple[str, int]:
            if job.id not in kept:
                raise NotRenewedError(_NOT_KEPT)
            return kept[job.id]

        return renew


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, sort_keys=True)
