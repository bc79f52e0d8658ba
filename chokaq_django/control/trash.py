"""Verbs that put jobs into the Trash and fetch them back."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

from django.db import transaction

from .. import wake
from ..conf import get_options
from ..storage import BulkResult, get_storage
from .acts import PERSON_LIMIT, Operator, authorised, on_jobs
from .arguments import KeyConflict, clean_key_conflict, unusual_policy

__all__ = ["purge", "remove", "restore"]


def remove(ids: str | Iterable[str], *, by: str | Operator, reason: str = "") -> BulkResult:
    """Put active jobs that are not running into the Trash, without a trace in the DLQ. Running ones are refused.

    Needs ``chokaq.cancel`` and ``chokaq.purge``. They can be restored for RETENTION.TRASH.
    """
    actor = authorised(by, "cancel", "purge")
    options = get_options()
    alias = options.database

    def act(chunk: list[str]) -> BulkResult:
        return get_storage(alias).remove(chunk, actor[:PERSON_LIMIT], options.retention.trash)

    return on_jobs("remove", ids, act, alias=alias, actor=actor, reason=reason, details={}, places=("hot",))


def purge(ids: str | Iterable[str], *, by: str | Operator, reason: str = "") -> BulkResult:
    """Put dead or archived jobs into the Trash. Needs ``chokaq.purge``. They can be restored for RETENTION.TRASH."""
    actor = authorised(by, "purge")
    options = get_options()
    alias = options.database

    def act(chunk: list[str]) -> BulkResult:
        return get_storage(alias).purge(chunk, actor[:PERSON_LIMIT], options.retention.trash)

    return on_jobs("purge", ids, act, alias=alias, actor=actor, reason=reason, details={}, places=("dlq", "archive"))


def restore(
    ids: str | Iterable[str],
    *,
    by: str | Operator,
    reason: str = "",
    on_key_conflict: KeyConflict = "skip",
) -> BulkResult:
    """Take jobs out of the Trash, back to where they came from, as they were. Needs ``chokaq.purge``.

    Nothing in a job changes: one whose deadline has passed meanwhile expires, and one that is older than its retention
    is trimmed again. ``on_key_conflict``: when another active job holds the idempotency key of one that goes back to
    work, "skip" refuses and names the holder, "drop" restores it without its key.
    """
    actor = authorised(by, "purge")
    clean_key_conflict(on_key_conflict)
    alias = get_options().database

    def act(chunk: list[str]) -> BulkResult:
        transaction.on_commit(partial(wake.notify, alias), using=alias, robust=True)
        return get_storage(alias).restore(chunk, on_key_conflict=on_key_conflict)

    details = unusual_policy(on_key_conflict)
    return on_jobs("restore", ids, act, alias=alias, actor=actor, reason=reason, details=details, places=("trash",))
