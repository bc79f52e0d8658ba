"""What all verbs share: who may act, which ids are meant, the audit entry, the log record."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, Protocol, TypeVar

from django.core.exceptions import PermissionDenied
from django.db import connections, transaction

from ..job.envelope import PERSON_LIMIT, EnvelopeError, bounded
from ..job.ids import clean_id, new_id
from ..job.text import safe_text
from ..models import AuditEntry
from ..observability.events import Event, log_event
from ..reading.settings import follow_settings
from ..sentence import Sentence, shown
from ..storage import BulkResult, Conflict, get_storage
from ..storage.retry import Retrier

__all__ = [
    "PERSON_LIMIT",
    "REASON_LIMIT",
    "Operator",
    "act_transaction",
    "audit",
    "authorised",
    "bounded_ids",
    "clean_id",
    "clean_ids",
    "clean_reason",
    "each_of",
    "lock_ahead",
    "log_act",
    "on_jobs",
]

logger = logging.getLogger("chokaq.control")

T = TypeVar("T")

CHUNK = 1_000
"""Ids per transaction."""
MOST_IDS = 100_000
NAME_LIMIT, REASON_LIMIT = 150, 2_000
"""Characters kept in an audit entry of who acts, and of why. A job's row keeps PERSON_LIMIT of who."""


class Operator(Protocol):
    """What is asked of a user object; Django's users have it."""

    def get_username(self) -> str: ...

    def has_perm(self, perm: str, /) -> bool: ...


def authorised(by: str | Operator, *permissions: str) -> str:
    """The name of who acts, after checking a user's permissions. Whoever acts does so by the options that hold now."""
    follow_settings()
    if isinstance(by, str):
        name = by
    elif isinstance(by, type) or not (hasattr(by, "get_username") and hasattr(by, "has_perm")):
        raise EnvelopeError("by", Sentence("must be a user or a name, got %(by)s", by=shown(by)))
    else:
        name = by.get_username()
        missing = [permission for permission in permissions if not by.has_perm(f"chokaq.{permission}")]
        if missing:
            log_event(logger, logging.WARNING, Event.OPERATOR_ACT, "refused: %s lacks chokaq.%s", name, missing[0])
            raise PermissionDenied(f"This needs the permission chokaq.{missing[0]}.")
    name = safe_text(name.strip(), NAME_LIMIT)
    if not name:
        raise EnvelopeError("by", Sentence("must say who acts"))
    return name


def each_of(ids: str | Iterable[str]) -> Sequence[str]:
    """One id, or up to MOST_IDS of them, as they are given; ``EnvelopeError`` for what is neither."""
    if isinstance(ids, str):
        return (ids,)
    given: object = ids
    if isinstance(given, bytes) or not isinstance(given, Iterable):
        raise EnvelopeError("ids", Sentence("must be an id or a list of ids, got %(ids)s", ids=shown(ids)))
    return bounded_ids(ids)


def bounded_ids(values: Iterable[T]) -> list[T]:
    """``values``, one for each id that a call names."""
    return bounded("ids", values, MOST_IDS, Sentence("must be at most %(most)s in one call", most=f"{MOST_IDS:,}"))


def clean_ids(ids: str | Iterable[str], answer: BulkResult) -> list[str]:
    """``ids`` trimmed, in their order, each once; what cannot be an id is refused in ``answer``."""
    clean: dict[str, None] = {}
    for value in each_of(ids):
        job_id = clean_id(value)
        if job_id is None:
            told = safe_text(value, 64) if isinstance(value, str) else shown(value, 64)
            answer.refused.append(Conflict(told, Sentence("This is not a job id, which has 26 letters and digits.")))
        else:
            clean[job_id] = None
    return list(clean)


def clean_reason(reason: object) -> str:
    """Why somebody acts, as audits keep it."""
    if not isinstance(reason, str):
        raise EnvelopeError("reason", Sentence("must be a string, got %(name)s", name=type(reason).__name__))
    return safe_text(reason.strip(), REASON_LIMIT)


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
    places: Sequence[str],
) -> BulkResult:
    """``act`` on the ids chunk by chunk, each with its audit entries in one transaction.

    ``details``: of all entries, or a function that gives them for an id after the act. ``places``: where the act locks
    jobs, in the order in which it does.
    """
    details_of = details if callable(details) else lambda job_id: details
    reason = clean_reason(reason)  # before anything is done: each chunk is a transaction of its own
    answer = BulkResult()
    clean = clean_ids(ids, answer)
    if len(clean) > CHUNK:  # in a transaction of the caller's, which keeps what one chunk locks beyond the next
        lock_ahead(alias, clean, places)

    def acted(chunk: list[str]) -> BulkResult:
        with act_transaction(alias):
            part = act(chunk)
            targets: dict[str, Mapping[str, Any]] = {job_id: details_of(job_id) for job_id in part.applied}
            targets |= {job_id: {**details_of(job_id), "outcome": "requested"} for job_id in part.requested}
            audit(alias, action, targets, actor, reason)
        return part

    for start in range(0, len(clean), CHUNK):
        answer.add(_but_for_deadlocks(alias, partial(acted, clean[start : start + CHUNK])))
    log_act(action, actor, answer)
    return answer


def lock_ahead(alias: str, ids: Sequence[str], places: Sequence[str]) -> None:
    """In the transaction that is open, of an act or of the caller's: lock these jobs in the one order, before an act
    comes to them part by part. Nothing where none is open."""
    if connections[alias].get_autocommit():
        return

    def lock() -> None:
        with transaction.atomic(using=alias):  # a savepoint
            get_storage(alias).lock_ahead(ids, places)

    _but_for_deadlocks(alias, lock)


def _but_for_deadlocks(alias: str, act: Callable[[], T]) -> T:
    """``act()``, which is one transaction, or in a caller's one a savepoint; again while it is the victim of a
    deadlock, which has undone all of it. Where a deadlock undoes more than the savepoint it is the caller's to begin
    again; and where the circle goes through what the caller has locked before, in the end."""
    storage = get_storage(alias)
    if not connections[alias].get_autocommit() and not storage.deadlock_spares_savepoints:
        return act()
    return Retrier(storage.is_deadlock, recover=lambda error: None).run(act)


def audit(alias: str, action: str, targets: Mapping[str, Mapping[str, Any]], actor: str, reason: str) -> None:
    """One entry for each target, with its details, in the transaction that is open."""
    why = clean_reason(reason)
    if not targets:
        return
    at = get_storage(alias).now()
    AuditEntry.objects.using(alias).bulk_create(
        AuditEntry(
            id=new_id(),
            at=at,
            by=actor,
            action=action,
            target=target,
            reason=why,
            details=_written(details),
        )
        for target, details in targets.items()
    )


def _written(details: Mapping[str, Any]) -> str:
    """JSON, times as ISO text. Lone surrogates, which a row written by hand may spell, stay spelled: no engine stores
    them."""
    text = json.dumps(details, ensure_ascii=False, default=str)
    return text if safe_text(text) == text else json.dumps(details, default=str)


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
