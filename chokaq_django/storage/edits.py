"""Edits of waiting and dead jobs: each counts a revision, and keeps the payload that it replaces."""

# ruff: noqa: S608 - statements are composed of constants and column names of ours; every value is a parameter

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any

from ..sentence import Sentence
from .columns import DLQ, HOT
from .contract import Conflict, EditResult, JobEdit, NotRenewedError, Renew, StoredPayload
from .engine import Row, chunks
from .groups import GROUPED
from .moves import PENDING
from .trash import TrashStatements

_BEFORE = ("queue", "type", "priority", "tags", "schema_version")
"""What an edit may change, beside the payload."""
_READ = ("revision", "modified_by", *_BEFORE)
_OTHERS = tuple(name for name in GROUPED if name not in _BEFORE)

RENEWED = 50
"""Payloads that are in memory at a time, of a megabyte each at most."""

Before = dict[str, Any]
_ALREADY = Sentence("The job has these values already.")


class EditStatements(TrashStatements):
    """Changing what a job is to do, before it does it."""

    def edit(self, revisions: Mapping[str, int | None], by: str | None, changes: JobEdit) -> EditResult:
        values = {field.name: getattr(changes, field.name) for field in fields(changes)}
        new = {name: value for name, value in values.items() if value is not None}
        renew = new.pop("renew", None)
        if not new and renew is None:
            raise ValueError("an edit must change something")
        answer = EditResult()
        self._lock_ahead(list(revisions), (HOT, DLQ))
        for part in chunks(list(revisions)):
            some = {job_id: revisions[job_id] for job_id in part}
            done = self._unit(lambda some=some: self._edit(some, by, new, renew))  # type: ignore[misc]
            answer.add(done)
            answer.before |= done.before
            answer.outdated |= done.outdated
        return answer

    def _edit(
        self, revisions: Mapping[str, int | None], by: str | None, new: dict[str, Any], renew: Renew | None = None
    ) -> EditResult:
        answer = EditResult()
        ids = list(revisions)
        waiting = self._locked(HOT, (*_READ, "status"), ids)
        dead = self._locked(DLQ, (*_READ, *_OTHERS), [job_id for job_id in ids if job_id not in waiting])
        apply: dict[str, list[str]] = {HOT: [], DLQ: []}
        for job_id in ids:
            row = waiting.get(job_id) or dead.get(job_id)
            if row is None:
                continue
            if job_id in waiting and row[-1] != PENDING:
                answer.refused.append(
                    Conflict(job_id, Sentence("The job is not waiting: only waiting and dead jobs are edited."))
                )
                continue
            revision, editor = row[:2]
            before = dict(zip(_BEFORE, row[2:], strict=False))
            if revisions[job_id] not in (None, revision):
                answer.refused.append(Conflict(job_id, _outdated(revisions[job_id], revision, editor)))
                answer.outdated[job_id] = revision
            elif renew is None and "payload" not in new and all(before[name] == value for name, value in new.items()):
                answer.refused.append(Conflict(job_id, _ALREADY, left_alone=True))
            else:
                apply[HOT if job_id in waiting else DLQ].append(job_id)
                answer.before[job_id] = {"revision": revision, **before}
        for table, part in apply.items():
            if renew is None:
                self._write_edit(table, part, by, new)
            else:
                apply[table] = self._renew(table, part, by, new, renew, answer)
        self._regroup({job_id: dead[job_id] for job_id in apply[DLQ]}, new)
        if "queue" in new and apply[HOT]:
            self._announce([new["queue"]])
        answer.applied = [job_id for job_id in ids if job_id in answer.before]
        answer.refused += self._why_absent([job_id for job_id in ids if job_id not in waiting and job_id not in dead])
        return answer

    def _renew(
        self, table: str, ids: Sequence[str], by: str | None, new: Mapping[str, Any], renew: Renew, answer: EditResult
    ) -> list[str]:
        """Give each of these locked rows a payload of its own; those that got one. The others are refused."""
        done: list[str] = []
        for part in chunks(ids, RENEWED):
            alike: dict[tuple[str, int], list[str]] = defaultdict(list)
            for job_id, (text,) in self._locked(table, ("payload",), part).items():
                before = answer.before[job_id]
                key = new.get("type", before["type"])
                stored = StoredPayload(job_id, before["revision"], key, text, before["schema_version"])  # type: ignore[arg-type]
                try:
                    alike[renew(stored)].append(job_id)
                except NotRenewedError as why:
                    answer.refused.append(Conflict(job_id, str(why), why.left_alone))
                    del answer.before[job_id]
            applied = [job_id for some in alike.values() for job_id in some]
            if applied:
                self._keep_payloads(table, applied, by)
            for (payload, version), some in alike.items():
                self._write_edit(table, some, by, {**new, "payload": payload, "schema_version": version}, kept=True)
            done += applied
        return done

    def _regroup(self, dead: Mapping[str, Row], new: Mapping[str, Any]) -> None:
        """Count dead jobs, whose columns of before the edit these are, in the groups of their new queue and type; other
        rules of retention may go for them now."""
        if not new.keys() & {"queue", "type"}:
            return
        self._came_back("dlq", list(dead))
        before = {job_id: dict(zip((*_READ, *_OTHERS), row, strict=True)) for job_id, row in dead.items()}
        self._move_groups(
            left={job_id: tuple(job[name] for name in GROUPED) for job_id, job in before.items()},
            back={job_id: tuple((job | dict(new))[name] for name in GROUPED) for job_id, job in before.items()},
        )

    def _write_edit(
        self, table: str, ids: Sequence[str], by: str | None, new: Mapping[str, Any], *, kept: bool = False
    ) -> None:
        if not ids:
            return
        if "payload" in new and not kept:
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
    numbers = {"revision": revision, "seen": seen or 0}
    if editor:
        return Sentence(
            "The job was changed meanwhile by %(who)s: it is at revision %(revision)s, not %(seen)s.",
            who=editor, **numbers,
        )  # fmt: skip
    return Sentence("The job was changed meanwhile: it is at revision %(revision)s, not %(seen)s.", **numbers)
