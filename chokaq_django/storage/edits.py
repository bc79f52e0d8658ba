"""Edits of waiting and dead jobs: each counts a revision, and keeps the payload that it replaces."""

# ruff: noqa: S608 - statements are composed of constants and column names of ours; every value is a parameter

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from .columns import DLQ, HOT
from .contract import Conflict, EditResult, JobEdit
from .engine import chunks
from .moves import PENDING
from .trash import TrashStatements

_BEFORE = ("queue", "type", "priority", "tags", "schema_version")
"""What an edit may change, beside the payload."""
_READ = ("revision", "modified_by", *_BEFORE)

Before = dict[str, Any]


class EditStatements(TrashStatements):
    """Changing what a job is to do, before it does it."""

    def edit(self, revisions: Mapping[str, int | None], by: str | None, changes: JobEdit) -> EditResult:
        new = {name: value for name, value in asdict(changes).items() if value is not None}
        if not new:
            raise ValueError("an edit must change something")
        answer = EditResult()
        for part in chunks(list(revisions)):
            done = self._unit(lambda part=part: self._edit({i: revisions[i] for i in part}, by, new))  # type: ignore[misc]
            answer.add(done)
            answer.before |= done.before
            answer.outdated |= done.outdated
        return answer

    def _edit(self, revisions: Mapping[str, int | None], by: str | None, new: dict[str, Any]) -> EditResult:
        answer = EditResult()
        ids = list(revisions)
        waiting = self._locked(HOT, (*_READ, "status"), ids)
        dead = self._locked(DLQ, _READ, [job_id for job_id in ids if job_id not in waiting])
        apply: dict[str, list[str]] = {HOT: [], DLQ: []}
        for job_id in ids:
            row = waiting.get(job_id) or dead.get(job_id)
            if row is None:
                continue
            if job_id in waiting and row[-1] != PENDING:
                answer.refused.append(
                    Conflict(job_id, "The job is not waiting: only waiting and dead jobs are edited.")
                )
                continue
            revision, editor = row[:2]
            before = dict(zip(_BEFORE, row[2:], strict=False))
            if revisions[job_id] not in (None, revision):
                answer.refused.append(Conflict(job_id, _outdated(revisions[job_id], revision, editor)))
                answer.outdated[job_id] = revision
            elif "payload" not in new and all(before[name] == value for name, value in new.items()):
                answer.refused.append(Conflict(job_id, "The job has these values already."))
            else:
                apply[HOT if job_id in waiting else DLQ].append(job_id)
                answer.before[job_id] = {"revision": revision, **before}
        for table, part in apply.items():
            self._write_edit(table, part, by, new)
        if "queue" in new and apply[HOT]:
            self._announce([new["queue"]])
        answer.applied = [job_id for job_id in ids if job_id in answer.before]
        answer.refused += self._why_absent([job_id for job_id in ids if job_id not in waiting and job_id not in dead])
        return answer

    def _write_edit(self, table: str, ids: Sequence[str], by: str | None, new: Mapping[str, Any]) -> None:
        if not ids:
            return
        if "payload" in new:
            self._keep_payloads(table, ids, by)
        among, id_params = self._among("id", ids)
        assignments = [f"{name} = %s" for name in new]
        if table == HOT:
            assignments.append(f"updated_at = {self.NOW}")
        self._execute(
            f"UPDATE {self._by_key(table)} SET revision = revision + 1, modified_by = %s, {', '.join(assignments)} "
            f"WHERE {among}",
            [by, *new.values(), *id_params],
        )


def _outdated(seen: int | None, revision: int, editor: str | None) -> str:
    who = f" by {editor}" if editor else ""
    return f"The job was changed meanwhile{who}: it is at revision {revision}, not {seen}."
