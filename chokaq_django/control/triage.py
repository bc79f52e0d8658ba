"""What people note on failures: on a group, for all jobs that die alike, and on single dead jobs."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from ..conf import get_options
from ..job.envelope import EnvelopeError
from ..job.text import safe_text
from ..models import FailureGroup, FailureTriage, JobDLQ
from ..sentence import Sentence, shown
from ..storage import BulkResult, Conflict, Note, get_storage
from .acts import NAME_LIMIT, Operator, act_transaction, audit, authorised, clean_reason, log_act, on_jobs
from .arguments import clean_flag, need_one

__all__ = ["NOTE_LIMIT", "annotate", "clean_note", "recount_groups", "triage"]

NOTE_LIMIT = 10_000
_FINGERPRINT = re.compile(r"[0-9a-f]{32}")


def triage(
    fingerprint: str,
    *,
    by: str | Operator,
    reason: str = "",
    note: str | None = None,
    assignee: str | None = None,
    acknowledged: bool | None = None,
) -> BulkResult:
    """Note something on the failures of one fingerprint; what is None stays. Needs ``chokaq.operate``.

    ``note``: text, which replaces the one that is there. ``assignee``: who looks after it, "" for nobody.
    ``acknowledged``: whether somebody knows of it; jobs that die alike later show as having come again. What is noted
    stays when the group is empty. ``EnvelopeError`` for a bad value.
    """
    actor = authorised(by, "operate")
    wanted = clean_note(note, assignee, acknowledged)
    key = fingerprint.strip().lower() if isinstance(fingerprint, str) else ""
    if not _FINGERPRINT.fullmatch(key):
        raise EnvelopeError(
            "fingerprint", Sentence("must be 32 hex digits, got %(fingerprint)s", fingerprint=shown(fingerprint))
        )
    alias = get_options().database
    answer = BulkResult()
    with act_transaction(alias):
        row = FailureTriage.objects.using(alias).select_for_update().filter(pk=key).first()
        if row is None and not _is_known(alias, key):
            answer.refused.append(Conflict(key, Sentence("No job has died of this, as far as is known.")))
        elif not wanted.changes(*_noted(row)):
            answer.refused.append(Conflict(key, Sentence("The group has these notes already.")))
        else:
            audit(alias, "triage", {key: _write(alias, key, wanted, actor)}, actor, reason)
            answer.applied.append(key)
    log_act("triage", actor, answer)
    return answer


def annotate(
    ids: str | Iterable[str],
    *,
    by: str | Operator,
    reason: str = "",
    note: str | None = None,
    assignee: str | None = None,
    acknowledged: bool | None = None,
) -> BulkResult:
    """Note something on dead jobs, as :func:`triage` does on a group. Needs ``chokaq.operate``.

    A job that is resurrected leaves these notes behind.
    """
    actor = authorised(by, "operate")
    wanted = clean_note(note, assignee, acknowledged)
    alias = get_options().database
    told = {"note": wanted.text, "assignee": wanted.assignee, "acknowledged": wanted.acknowledged}
    return on_jobs(
        "annotate", ids, lambda chunk: get_storage(alias).annotate(chunk, wanted), alias=alias, actor=actor,
        reason=reason, details={name: value for name, value in told.items() if value is not None},
        places=("dlq",),
    )  # fmt: skip


def recount_groups(*, by: str | Operator, reason: str = "") -> int:
    """Set the failure groups to what the DLQ holds, while jobs move; how many were not right. Needs ``chokaq.operate``.

    Groups are kept right by themselves. This counts jobs that were dead before there were groups, or that somebody
    changed behind the storage's back. ``StorageError`` while somebody else does it.
    """
    actor, reason = authorised(by, "operate"), clean_reason(reason)
    alias = get_options().database
    count = get_storage(alias).recount_groups()
    if count:
        with act_transaction(alias):
            audit(alias, "recount_groups", {"failure groups": {"corrected": count}}, actor, reason)
        log_act("recount_groups", actor, BulkResult(applied=["failure groups"]))
    return count


def clean_note(note: object, assignee: object, acknowledged: object) -> Note:
    """What is given, in the form the tables keep."""
    need_one(note=note, assignee=assignee, acknowledged=acknowledged)
    known = None if acknowledged is None else clean_flag("acknowledged", acknowledged)
    return Note(_text("note", note, NOTE_LIMIT), _text("assignee", assignee, NAME_LIMIT), known)


def _text(field: str, value: object, limit: int) -> str | None:
    if value is None:
        return None
    if not isinstance(value, str):
        raise EnvelopeError(field, Sentence("must be a string, got %(name)s", name=type(value).__name__))
    text = safe_text(value.replace("\r\n", "\n").strip())
    length = len(text.encode("utf-16-le")) // 2  # as SQL Server counts
    if length > limit:
        raise EnvelopeError(
            field, Sentence("must be at most %(limit)s characters, got %(length)s", limit=limit, length=length)
        )
    return text


def _is_known(alias: str, fingerprint: str) -> bool:
    return any(
        model._default_manager.using(alias).filter(fingerprint=fingerprint).exists() for model in (FailureGroup, JobDLQ)
    )


def _noted(row: FailureTriage | None) -> tuple[str, str | None, bool]:
    return ("", None, False) if row is None else (row.note, row.assignee, row.acknowledged_at is not None)


def _write(alias: str, key: str, wanted: Note, actor: str) -> dict[str, Any]:
    """Write the row; what changed, for the audit."""
    now = get_storage(alias).now()
    row, _ = FailureTriage.objects.using(alias).select_for_update().get_or_create(pk=key, defaults={"updated_at": now})
    old = dict(zip(("note", "assignee", "acknowledged"), _noted(row), strict=True))
    if wanted.text is not None:
        row.note = wanted.text
    if wanted.assignee is not None:
        row.assignee = wanted.assignee or None
    if wanted.acknowledged is not None and wanted.acknowledged != old["acknowledged"]:
        row.acknowledged_at, row.acknowledged_by = (now, actor) if wanted.acknowledged else (None, None)
    row.updated_at, row.updated_by = now, actor
    row.save(using=alias)
    new = dict(zip(old, _noted(row), strict=True))
    return {name: {"from": old[name], "to": new[name]} for name in old if new[name] != old[name]}
