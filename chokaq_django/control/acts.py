"""What all verbs share: who may act, which ids are meant, the audit entry, the log record."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Protocol

from django.core.exceptions import PermissionDenied
from django.db import connections, transaction

from ..job.failures import safe_text
from ..job.ids import new_id
from ..models import AuditEntry
from ..observability.events import Event, log_event
from ..storage import BulkResult, Conflict, get_storage

__all__ = [
    "PERSON_LIMIT",
    "REASON_LIMIT",
    "Operator",
    "act_transaction",
    "audit",
    "authorised",
    "clean_id",
    "clean_ids",
    "log_act",
    "on_jobs",
]

logger = logging.getLogger("chokaq.control")

CHUNK = 1_000
"""Ids per transaction."""
MOST_IDS = 100_000
PERSON_LIMIT, NAME_LIMIT, REASON_LIMIT = 100, 150, 2_000
"""Characters kept of who acts: in a job's row, in an audit entry; and of why."""
_ID = re.compile(r"[0-7][0-9A-HJKMNP-TV-Z]{25}")


class Operator(Protocol):
    """What is asked of a user object; Django's users have it."""

    def get_username(self) -> str: ...

    def has_perm(self, perm: str, /) -> bool: ...


def authorised(by: str | Operator, *permissions: str) -> str:
    """The name of who acts, after checking a user's permissions."""
    if isinstance(by, str):
        name = by
    else:
        name = by.get_username()
        missing = [permission for permission in permissions if not by.has_perm(f"chokaq.{permission}")]
        if missing:
            log_event(logger, logging.WARNING, Event.OPERATOR_ACT, "refused: %r lacks chokaq.%s", name, missing[0])
            raise PermissionDenied(f"This needs the permission chokaq.{missing[0]}.")
    name = safe_text(name.strip(), NAME_LIMIT)
    if not name:
        raise ValueError("'by' must say who acts")
    return name


def clean_id(value: object) -> str | None:
    """A job id as it is stored; None for what cannot be one."""
    text = value.strip().upper() if isinstance(value, str) else ""
    return text if _ID.fullmatch(text) else None


def clean_ids(ids: str | Iterable[str], answer: BulkResult) -> list[str]:
    """``ids`` trimmed, in their order, each once; what cannot be an id is refused in ``answer``."""
    clean: dict[str, None] = {}
    for value in (ids,) if isinstance(ids, str) else ids:
        job_id = clean_id(value)
        if job_id is None:
            shown = safe_text(value, 64) if isinstance(value, str) else f"{value!r:.64}"
            answer.refused.append(Conflict(shown, "This is not a job id, which has 26 letters and digits."))
        else:
            clean[job_id] = None
        if len(clean) + len(answer.refused) > MOST_IDS:
            raise ValueError(f"more than {MOST_IDS:,} ids in one call")
    return list(clean)


@contextmanager
def act_transaction(alias: str) -> Iterator[None]:
    """The transaction of an act and its audit entry."""
    with transaction.atomic(using=alias):
        if not connections[alias].features.has_select_for_update:
            # SQLite refuses the first write of a transaction that began as a reader once anybody else has written,
            # whatever its timeout says. A write that changes nothing makes it begin as a writer, which waits its turn.
            AuditEntry.objects.using(alias).filter(pk="").update(reason="")
        yield


def on_jobs(
    action: str,
    ids: str | Iterable[str],
    act: Callable[[list[str]], BulkResult],
    *,
    alias: str,
    actor: str,
    reason: str,
    details: Mapping[str, Any] | Callable[[str], Mapping[str, Any]],
) -> BulkResult:
    """``act`` on the ids chunk by chunk, each with its audit entries in one transaction.

    ``details``: of all entries, or a function that gives them for an id after the act.
    """
    details_of = details if callable(details) else lambda job_id: details
    answer = BulkResult()
    clean = clean_ids(ids, answer)
    for start in range(0, len(clean), CHUNK):
        with act_transaction(alias):
            part = act(clean[start : start + CHUNK])
            targets: dict[str, Mapping[str, Any]] = {job_id: details_of(job_id) for job_id in part.applied}
            targets |= {job_id: {**details_of(job_id), "outcome": "requested"} for job_id in part.requested}
            audit(alias, action, targets, actor, reason)
        answer.add(part)
    log_act(action, actor, answer)
    return answer


def audit(alias: str, action: str, targets: Mapping[str, Mapping[str, Any]], actor: str, reason: str) -> None:
    """One entry for each target, with its details, in the transaction that is open."""
    if not targets:
        return
    at, why = get_storage(alias).now(), safe_text(reason.strip(), REASON_LIMIT)
    AuditEntry.objects.using(alias).bulk_create(
        AuditEntry(
            id=new_id(),
            at=at,
            by=actor,
            action=action,
            target=target,
            reason=why,
            details=json.dumps(details, ensure_ascii=False, default=str),  # times as ISO text
        )
        for target, details in targets.items()
    )


def log_act(action: str, actor: str, answer: BulkResult) -> None:
    log_event(
        logger,
        logging.INFO,
        Event.OPERATOR_ACT,
        "%s by %s: %d applied, %d requested, %d refused",
        action,
        actor,
        len(answer.applied),
        len(answer.requested),
        len(answer.refused),
    )
