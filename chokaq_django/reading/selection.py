"""Jobs by filter: the lists of an operator, and the sets that a verb is to act on.

A list reads no further than it shows. Filters on queue, type, reason and fingerprint are served by an index with the
time beside it; a tag is looked for among what these and the time leave.
"""

from __future__ import annotations

import datetime as dt
import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from django.db.models import Model, QuerySet

from ..models import FailureReason, JobArchive, JobDLQ, JobHot, JobStatus, JobTrash
from .plans import live

__all__ = ["PLACES", "STATUSES", "JobFilter", "Preview", "matches", "preview", "rows_of"]

HEAVY = ("payload", "headers", "attempt_log", "result", "error_details", "progress_message")
"""Columns that may hold a megabyte each and that no list shows."""
PAGE = 500
FINGERPRINT = 32
TAG_DAYS = 7
"""Days of history that are searched for a tag alone."""

_DEAD = {
    "cancelled": (FailureReason.CANCELLED,),
    "zombie": (FailureReason.ZOMBIE,),
    "expired": (FailureReason.EXPIRED,),
    "failed": tuple(
        reason
        for reason in FailureReason
        if reason not in (FailureReason.CANCELLED, FailureReason.ZOMBIE, FailureReason.EXPIRED)
    ),
}
_HOT: dict[str, dict[str, int]] = {
    "pending": {"status": JobStatus.PENDING},
    "due": {"status": JobStatus.PENDING},
    "scheduled": {"status": JobStatus.PENDING},
    "retrying": {"status": JobStatus.PENDING, "attempt__gt": 0},
    "fetched": {"status": JobStatus.FETCHED},
    "processing": {"status": JobStatus.PROCESSING},
    "awaiting": {"status": JobStatus.AWAITING},
}
PLACES: dict[str, tuple[type[Model], str]] = {
    "hot": (JobHot, "created_at"),
    "archive": (JobArchive, "finished_at"),
    "dlq": (JobDLQ, "failed_at"),
    "trash": (JobTrash, "purged_at"),
}
"""Name of a place to its model and the time that its lists are about."""
STATUSES = {
    "active": "hot", **dict.fromkeys(_HOT, "hot"), "succeeded": "archive", "dead": "dlq", **dict.fromkeys(_DEAD, "dlq"),
    "purged": "trash",
}  # fmt: skip
"""Status as one asks for it to the place where such jobs are."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobFilter:
    """Which jobs. ``status`` is one of :data:`STATUSES`; ``since``: created, finished, dead or purged since then."""

    status: str = "active"
    queue: str | None = None
    type: str | None = None
    reason: FailureReason | None = None
    fingerprint: str | None = None
    tag: str | None = None
    since: dt.datetime | None = None

    @property
    def place(self) -> str:
        return STATUSES[self.status]

    @property
    def fits(self) -> bool:
        """Whether such jobs have what is asked of them: only dead ones have a reason and a fingerprint."""
        return self.place == "dlq" or (self.reason is None and self.fingerprint is None)

    @property
    def is_everything(self) -> bool:
        """Whether nothing but the status narrows it."""
        return not any((self.queue, self.type, self.reason is not None, self.fingerprint, self.tag, self.since))

    def sentence(self) -> str:
        """The filter in words."""
        reason = None if self.reason is None else self.reason.label
        named = [
            ("queue", self.queue), ("type", self.type), ("failure", reason),
            ("fingerprint", self.fingerprint), ("tag", self.tag), ("since", self.since and self.since.isoformat()),
        ]  # fmt: skip
        words = [f"{name} {value}" for name, value in named if value]
        return ", ".join([f"status {self.status}", *words])


def rows_of(wanted: JobFilter, alias: str, now: dt.datetime) -> QuerySet[Any]:
    """The rows, newest first. ``now``, the database's, tells due from scheduled. A tag is still to be looked for:
    :func:`matches`."""
    model, moment = PLACES[wanted.place]
    rows: QuerySet[Any] = model._default_manager.using(alias).all()
    if wanted.status in _HOT:
        rows = rows.filter(**_HOT[wanted.status])
    if wanted.status in ("fetched", "processing"):
        rows = live(rows)
    if wanted.status == "due":
        rows = rows.filter(run_at__lte=now)
    elif wanted.status == "scheduled":
        rows = rows.filter(run_at__gt=now)
    elif wanted.status in _DEAD:
        rows = rows.filter(failure_reason__in=_DEAD[wanted.status])
    if wanted.queue is not None:
        rows = rows.filter(queue=wanted.queue)
    if wanted.type is not None:
        rows = rows.filter(type=wanted.type)
    if wanted.fingerprint is not None:  # its first digits will do
        rows = rows.filter(
            fingerprint__gte=wanted.fingerprint, fingerprint__lte=wanted.fingerprint.ljust(FINGERPRINT, "f")
        )
    if wanted.reason is not None:
        rows = rows.filter(failure_reason=wanted.reason)
    since = wanted.since
    if wanted.tag is not None:
        # Tags have no index, and engines differ in what LIKE ignores: the rows are looked at here, this spares most.
        rows = rows.filter(tags__contains=json.dumps(wanted.tag, ensure_ascii=False))
        narrowed = wanted.queue or wanted.type or wanted.fingerprint or wanted.reason is not None
        if since is None and not narrowed and wanted.place != "hot":
            since = now - dt.timedelta(days=TAG_DAYS)
    if since is not None:
        rows = rows.filter(**{f"{moment}__gte": since})
    # Hot has no index on a time, but its ids grow with the time of creation.
    return rows.order_by("-pk") if wanted.place == "hot" else rows.order_by(f"-{moment}", "-pk")


def matches(rows: QuerySet[Any], wanted: JobFilter, limit: int | None = None) -> Iterator[Any]:
    """The rows that match, without their heavy columns, at most ``limit``; read in pages by a single statement."""
    names = {field.name for field in rows.model._meta.get_fields()}
    rows = rows.defer(*(name for name in HEAVY if name in names))
    if wanted.tag is None and limit is not None:
        yield from rows[:limit]
        return
    found = 0
    for row in rows.iterator(PAGE):
        if wanted.tag is None or wanted.tag in tags_of(row.tags):
            found += 1
            yield row
            if limit is not None and found >= limit:
                return


def tags_of(text: str) -> list[str]:
    """The tags in a row's column; none in what is no list."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return []
    return [str(tag) for tag in value] if isinstance(value, list) else []


@dataclass(slots=True)
class Preview:
    """A frozen selection: these ids and no later ones, with how many are of which queue and type."""

    ids: list[str]
    kinds: Counter[tuple[str, str]]
    oldest: dt.datetime | None = None


def preview(
    wanted: JobFilter,
    alias: str,
    now: dt.datetime,
    limit: int | None = None,
    note: Callable[[int], None] = lambda n: None,
) -> Preview:
    """Everything that matches now, oldest first: what came first is acted on first."""
    _, moment = PLACES[wanted.place]
    columns = ("pk", "queue", "type", "tags", moment)
    rows = rows_of(wanted, alias, now).values_list(*columns)
    rows = rows.order_by("pk") if wanted.place == "hot" else rows.order_by(moment, "pk")
    found = Preview([], Counter())
    selected: Iterable[Any] = rows if wanted.tag or limit is None else rows[:limit]
    for pk, queue, type_key, tags, at in selected.iterator(PAGE) if isinstance(selected, QuerySet) else selected:
        if wanted.tag is not None and wanted.tag not in tags_of(tags):
            continue
        found.ids.append(pk)
        found.kinds[queue, type_key] += 1
        found.oldest = at if found.oldest is None else min(found.oldest, at)
        if len(found.ids) % PAGE == 0:
            note(len(found.ids))
        if limit is not None and len(found.ids) >= limit:
            break
    return found
