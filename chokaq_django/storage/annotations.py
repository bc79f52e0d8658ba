"""What people note on single dead jobs."""

# ruff: noqa: S608 - statements are composed of constants and column names of ours; every value is a parameter

from __future__ import annotations

from collections.abc import Sequence

from ..sentence import Sentence
from .columns import DLQ
from .contract import BulkResult, Conflict, Note
from .moves import MoveStatements


class AnnotationStatements(MoveStatements):
    """Notes change nothing that a job does, and count no revision."""

    def annotate(self, ids: Sequence[str], note: Note) -> BulkResult:
        return self._by_chunks(ids, (DLQ,), lambda part: self._annotate(part, note))

    def _annotate(self, ids: Sequence[str], note: Note) -> BulkResult:
        rows = self._locked(DLQ, ("note", "assignee", "acknowledged_at"), ids)
        answer = BulkResult()
        for job_id in ids:
            if job_id not in rows:
                continue
            text, assignee, acknowledged_at = rows[job_id]
            if note.changes(text, assignee, acknowledged_at is not None):
                answer.applied.append(job_id)
            else:
                answer.refused.append(Conflict(job_id, Sentence("The job has these notes already.")))
        self._write_note(answer.applied, note)
        answer.refused += self._why_absent([job_id for job_id in ids if job_id not in rows])
        return answer

    def _write_note(self, ids: Sequence[str], note: Note) -> None:
        if not ids:
            return
        assignments, params = [], list[object]()
        if note.text is not None:
            assignments.append("note = %s")
            params.append(note.text)
        if note.assignee is not None:
            assignments.append("assignee = %s")
            params.append(note.assignee or None)
        if note.acknowledged is not None:
            # Who acknowledges again does not change since when it is.
            at = f"COALESCE(acknowledged_at, {self.NOW})" if note.acknowledged else "NULL"
            assignments.append(f"acknowledged_at = {at}")
        among, id_params = self._among("id", ids)
        self._execute(f"UPDATE {self._by_key(DLQ)} SET {', '.join(assignments)} WHERE {among}", [*params, *id_params])
