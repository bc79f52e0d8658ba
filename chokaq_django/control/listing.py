"""Lists of jobs, page by page, at a cost that does not grow with the tables.

A page is read along one index, from the newest to the oldest: time and id, behind a queue, type, reason or fingerprint
where one of these is asked for. What no index serves is looked for among the rows met there, of which one page reads
:data:`MOST_READ` at most: such a page may hold fewer jobs than asked for, and still have a next one.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from django.db.models import Q, QuerySet

from ..conf import get_options
from ..job.envelope import EnvelopeError, clean_key, clean_time
from ..models import FailureReason, JobBase, JobStatus
from ..reading.selection import HEAVY, tags_of
from .view import MODELS, Location, status_of

__all__ = ["JobPage", "JobSummary", "list_jobs"]

MOST_READ = 10_000
MOST_LISTED = 1_000
STEP = 500
"""Rows of one statement where some will not fit."""
LONGEST_SEARCH = dt.timedelta(days=7)
"""Range of time in which a list of the past is searched for what has no index."""

_TIME = {Location.ARCHIVE: "finished_at", Location.DLQ: "failed_at", Location.TRASH: "purged_at"}
"""What the lists of the past are ordered by. Hot has no index on a time; its ids grow with the time of creation."""
_INDEXED = {
    Location.HOT: ("status", "queue"),
    Location.ARCHIVE: ("queue", "type"),
    Location.DLQ: ("fingerprint", "failure_reason", "type", "queue"),
    Location.TRASH: (),
}
"""Filters that an index serves, the one that leaves the fewest rows first."""
_ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSummary:
    """A job of a list. ``at``: the time that the list is ordered by. Times are aware, in UTC."""

    id: str
    location: Location
    status: JobStatus | int
    at: dt.datetime
    queue: str
    type: str
    priority: int
    tags: tuple[str, ...]
    attempt: int
    max_attempts: int
    revision: int
    generation: int
    worker_id: str | None
    created_by: str | None
    created_at: dt.datetime
    run_at: dt.datetime
    due_at: dt.datetime
    deadline_at: dt.datetime | None
    idempotency_key: str | None
    progress: int | None
    duration_ms: int | None
    failure_reason: int | None
    error_type: str | None
    fingerprint: str | None
    expires_at: dt.datetime | None


@dataclass(frozen=True, slots=True)
class JobPage:
    """``next``: what to give as ``after`` for the page that follows; None when there is none."""

    jobs: list[JobSummary]
    next: str | None


def list_jobs(
    place: Location | str = Location.HOT,
    *,
    status: JobStatus | int | None = None,
    queue: str | None = None,
    type: str | None = None,  # noqa: A002 - the word for it everywhere
    reason: FailureReason | int | None = None,
    fingerprint: str | None = None,
    tag: str | None = None,
    created_by: str | None = None,
    worker: str | None = None,
    key: str | None = None,
    id_prefix: str = "",
    since: dt.datetime | None = None,
    until: dt.datetime | None = None,
    limit: int = 50,
    after: str | None = None,
) -> JobPage:
    """Jobs in a place (``hot``, ``archive``, ``dlq``, ``trash``), newest first; by creation, end, death or purge.

    All filters must hold. ``status`` is of active jobs, ``reason`` and ``fingerprint`` of dead ones. ``key``: the
    idempotency key. ``since`` and ``until``: aware bounds of the time that the list is ordered by, ``until`` left out.
    ``tag``, ``created_by``, ``worker`` and ``key`` have no index: in the past they need a filter that has one (queue,
    type, reason, fingerprint) or a range of at most seven days. ``after``: ``next`` of the page before.
    ``EnvelopeError`` for a bad filter.
    """
    location = _location(place)
    if isinstance(limit, bool) or not isinstance(limit, int) or not 1 <= limit <= MOST_LISTED:
        raise EnvelopeError("limit", f"must be from 1 to {MOST_LISTED:,}, got {limit!r}")
    named: dict[str, Any] = {
        "status": None if status is None else _number("status", status),
        "queue": clean_key(queue, "queue"),
        "type": clean_key(type, "type"),
        "failure_reason": None if reason is None else _number("reason", reason),
        "fingerprint": clean_key(fingerprint, "fingerprint"),
        "created_by": clean_key(created_by, "created_by"),
        "worker_id": clean_key(worker, "worker"),
        "idempotency_key": clean_key(key, "key"),
    }
    equal = {name: value for name, value in named.items() if value is not None}
    for name, where in (("status", Location.HOT), ("failure_reason", Location.DLQ), ("fingerprint", Location.DLQ)):
        if name in equal and location is not where:
            raise EnvelopeError(name.removeprefix("failure_"), f"is of {where} jobs only, not of {location}")
    found = _Search(location, equal, clean_key(tag, "tag"))
    found.within(_prefix(id_prefix), clean_time(since, "since"), clean_time(until, "until"), after)
    return found.page(limit)


def _location(place: Location | str) -> Location:
    try:
        return Location(place)
    except ValueError:
        raise EnvelopeError("place", f"must be one of {', '.join(Location)}, got {place!r}") from None


def _number(field: str, value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise EnvelopeError(field, f"must be an integer, got {value!r}")
    return int(value)


def _prefix(text: str) -> str:
    prefix = text.strip().upper()
    if len(prefix) > 26 or any(letter not in _ALPHABET for letter in prefix):
        raise EnvelopeError("id_prefix", f"must be the beginning of a job id, got {text!r:.64}")
    return prefix


class _Search:
    """One list: its rows by index, and what to look for among them."""

    def __init__(self, location: Location, equal: dict[str, Any], tag: str | None) -> None:
        self._location, self._tag = location, tag
        self._time = _TIME.get(location)
        rows = MODELS[location]._default_manager.using(get_options().database).all()
        present = {field.name for field in rows.model._meta.get_fields()}
        rows = rows.defer(*(name for name in HEAVY if name in present))
        # Hot is small beside the past, and its planner knows how few rows a status has.
        served = [name for name in _INDEXED[location] if name in equal]
        self._leading = served if location is Location.HOT else served[:1]
        self._rest = {name: value for name, value in equal.items() if name not in self._leading}
        rows = rows.filter(**{name: equal[name] for name in self._leading})
        self._rows: QuerySet[Any] = rows.order_by(*([f"-{self._time}"] if self._time else []), "-pk")

    def within(self, prefix: str, since: dt.datetime | None, until: dt.datetime | None, after: str | None) -> None:
        """Bounds, all of them along the index."""
        if prefix:
            self._rows = self._rows.filter(pk__gte=prefix, pk__lte=prefix.ljust(26, "Z"))
        unserved = self._tag or any(name in self._rest for name in ("created_by", "worker_id", "idempotency_key"))
        bounded = since is not None and (until or dt.datetime.now(dt.UTC)) - since <= LONGEST_SEARCH
        if self._time and unserved and not (self._leading or bounded or len(prefix) >= 10):
            raise EnvelopeError(
                "since", "must be at most seven days before the end of the range, or a queue, type, reason or "
                "fingerprint must be named: what is looked for has no index",
            )  # fmt: skip
        if since is not None:
            self._rows = self._rows.filter(**self._bound("gte", since))
        if until is not None:
            self._rows = self._rows.filter(**self._bound("lt", until))
        if after is not None:
            self._rows = self._rows.filter(self._beyond(*self._parsed(after)))

    def _bound(self, comparison: str, instant: dt.datetime) -> dict[str, Any]:
        if self._time:
            return {f"{self._time}__{comparison}": instant}
        return {f"pk__{comparison}": first_id(instant)}

    def _beyond(self, at: dt.datetime | None, job_id: str) -> Q:
        """What follows this row."""
        if at is None:
            return Q(pk__lt=job_id)
        # The first condition is for the index, which does not see that the second implies it.
        return Q(**{f"{self._time}__lte": at}) & (Q(**{f"{self._time}__lt": at}) | Q(pk__lt=job_id))

    def _parsed(self, after: str) -> tuple[dt.datetime | None, str]:
        time, _, job_id = after.rpartition("~")
        try:
            if bool(time) is not bool(self._time) or len(_prefix(job_id)) != 26:
                raise ValueError("of another list")
            at = dt.datetime.fromisoformat(time) if time else None
            if at is not None and at.tzinfo is None:
                raise ValueError("a time without a zone")
        except ValueError:
            raise EnvelopeError("after", f"must be the 'next' of a page of this list, got {after!r:.80}") from None
        return at, job_id

    def page(self, limit: int) -> JobPage:
        jobs: list[JobSummary] = []
        last = None
        for row in self._read(limit):
            if row is None:  # read far enough
                break
            if self._fits(row):
                if len(jobs) == limit:
                    return JobPage(jobs, self._cursor(last))
                jobs.append(self._summary(row))
            last = row
        else:
            return JobPage(jobs, None)
        return JobPage(jobs, self._cursor(last))

    def _read(self, limit: int) -> Iterator[Any]:
        """The rows in order, step by step; None after MOST_READ of them, if there may be more."""
        step = STEP if self._rest or self._tag else limit + 1
        rows, read = self._rows, 0
        while True:
            part = list(rows[:step])
            yield from part
            read += len(part)
            if len(part) < step:
                return
            if read >= MOST_READ:
                yield None
                return
            rows = self._rows.filter(self._beyond(self._at(part[-1]), part[-1].pk))

    def _fits(self, row: JobBase) -> bool:
        if any(getattr(row, name) != value for name, value in self._rest.items()):
            return False
        return self._tag is None or self._tag in tags_of(row.tags)

    def _at(self, row: JobBase) -> dt.datetime | None:
        return getattr(row, self._time) if self._time else None

    def _cursor(self, row: Any) -> str:
        at = self._at(row)
        return f"{'' if at is None else at.isoformat()}{'~' if at else ''}{row.pk}"

    def _summary(self, row: JobBase) -> JobSummary:
        plain: dict[str, Any] = {name: getattr(row, name, None) for name in _PLAIN}
        at = self._at(row) or row.created_at
        return JobSummary(location=self._location, status=status_of(row), at=at, tags=tuple(tags_of(row.tags)), **plain)


_PLAIN = tuple(name for name in JobSummary.__slots__ if name not in ("location", "status", "at", "tags"))


def first_id(instant: dt.datetime) -> str:
    """The lowest id that a job made at this instant can have: a ULID begins with its milliseconds."""
    milliseconds = max(0, int(instant.timestamp() * 1000))
    digits = ""
    for _ in range(10):
        milliseconds, digit = divmod(milliseconds, 32)
        digits = _ALPHABET[digit] + digits
    return digits + "0" * 16
