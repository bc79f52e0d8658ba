"""How a list of jobs finds its page.

A page is read along one index: time and id, behind a queue, type, reason or fingerprint where one of these is asked
for. Active jobs have no index on a time: theirs is by their ids, which grow with the time of creation as far as the
clocks of those who enqueue agree, so that they do not say when the database took a job. What no index serves is looked
for among the rows met there, of which one page looks at :data:`MOST_READ` at most, at no more columns than it needs:
such a page may hold fewer jobs than asked for, and still have a next one. Where another index finds few rows, in some
other order, these are sorted here.
"""

from __future__ import annotations

import datetime as dt
import operator
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from django.db.models import QuerySet

from ..conf import get_options
from ..job.envelope import EnvelopeError, clean_time
from ..models import JobBase, JobDLQ, JobStatus
from ..sentence import Sentence, shown
from ..storage import get_storage
from .job import MODELS, Location
from .keyset import behind
from .plans import LIVE, WAITING, by_index
from .reach import is_within_reach
from .selection import FINGERPRINT, HEAVY, PLACES, Condition, JobFilter, clean_prefix, tags_of

__all__ = ["RowPage", "Search"]

MOST_READ = 10_000
STEP = 500
"""Rows of the first statement where some will not fit; each further one reads twice as many."""
IDS = 500
"""Rows of one statement by their ids."""
PRECISE = 10
"""Characters at the beginning of an id that say when the job was made, to the millisecond."""

_LEADING = {
    "hot": (),
    "archive": ("queue", "type"),
    "dlq": ("fingerprint", "failure_reason", "type", "queue"),
    "trash": (),
}
"""Columns that have an index with the time beside them, the one that leaves the fewest rows first."""
_UNSERVED = frozenset({"tags", "created_by", "worker_id", "idempotency_key", "concurrency_key"})
_ACTIVE = WAITING, LIVE, "status = 7"
"""Active jobs in the words of the partial indexes that have them."""

_COMPARED: dict[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "in": lambda found, values: found in values,
    "from": lambda found, start: found.startswith(start),
    "has": lambda found, tag: tag in tags_of(found),
}

Seen = tuple[Any, ...]
"""What is looked at of a row: its id, its time but of active jobs, and the columns that are asked about."""


@dataclass(frozen=True, slots=True)
class RowPage:
    """``rows``: of one of the job tables. ``first``: the place of the first of them, as ``after`` for what comes before
    it in the other direction. ``next``: what to give as ``after`` for the page that follows; None when there is none.
    """

    rows: list[Any]
    first: str | None
    next: str | None


class Search:
    """One list: its rows by index, and what to look for among them."""

    def __init__(self, where: JobFilter, oldest_first: bool, after: str | None) -> None:
        self._alias = get_options().database
        place = where.place
        self._ascending = oldest_first
        self._at = PLACES[place]
        self._time = None if place == "hot" else self._at
        clock = get_storage(self._alias).now() if where.status in ("due", "scheduled") else dt.datetime.now(dt.UTC)
        conditions = self._whole_fingerprint(where.conditions(clock))
        self._equal = {column: value for column, how, value in conditions if how == "="}
        self._prefix = next((value for column, _, value in conditions if column == "id"), "")
        self._leading = next((name for name in _LEADING[place] if name in self._equal), None)
        rest = {column for column, how, _ in conditions if (column, how) != (self._leading, "=")}
        self._served = rest <= ({"at"} if self._time else set())
        self._mostly_fits = rest == {"at"}
        self._check_range(where, {column for column, _, _ in conditions})
        self._conditions = [self._by_column(condition) for condition in conditions]
        self._columns = tuple(dict.fromkeys(["pk", *([self._time] if self._time else []),
                                             *(column for column, _, _ in self._conditions)]))  # fmt: skip
        self._after = None if after is None else self._parsed(after)
        self._all = MODELS[Location(place)]._default_manager.using(self._alias).all()
        names = {field.name for field in self._all.model._meta.get_fields()}
        self._light = self._all.defer(*(name for name in HEAVY if name in names))

    def _whole_fingerprint(self, conditions: list[Condition]) -> list[Condition]:
        """The beginning of a fingerprint as the whole one, where there is but one that begins so."""
        start = next((value for column, how, value in conditions if (column, how) == ("fingerprint", "from")), None)
        if start is None:
            return conditions
        rows = JobDLQ.objects.using(self._alias).filter(fingerprint__lte=start.ljust(FINGERPRINT, "f"))
        found = rows.order_by("fingerprint").values_list("fingerprint", flat=True)
        first = found.filter(fingerprint__gte=start).first()
        if first is None or found.filter(fingerprint__gt=first).exists():
            return conditions
        return [("fingerprint", "=", first) if each[0] == "fingerprint" else each for each in conditions]

    def _check_range(self, where: JobFilter, columns: set[str]) -> None:
        if not self._time or not columns & _UNSERVED:
            return
        since, until = where.since, where.until or dt.datetime.now(dt.UTC)
        if self._leading or len(self._prefix) >= PRECISE or is_within_reach(since, until):
            return
        raise EnvelopeError(
            "since",
            Sentence(
                "must be at most seven days before the end of the range, or a queue, type, reason or fingerprint must "
                "be named: what is looked for has no index"
            ),
        )

    def _by_column(self, condition: Condition) -> Condition:
        column, how, value = condition
        if column == "id":
            return "pk", how, value
        if column == "at":
            return self._at, how, value
        return condition

    # -- pages --------------------------------------------------------------------------------------------------------

    def page(self, limit: int) -> RowPage:
        if self._served:
            rows = list(self._walked(self._light, self._after)[: limit + 1])
            found, last = rows[:limit], self._seen(rows[limit - 1]) if len(rows) > limit else None
        else:
            ids, last = self._search(limit)
            found = [row for row in self._fetched(ids) if self._fits(self._seen(row))]
        first = self._cursor(self._seen(found[0])) if found else None
        return RowPage(found, first, None if last is None else self._cursor(last))

    def _search(self, limit: int) -> tuple[list[str], Seen | None]:
        """The ids of a page, and the last row that was looked at, if there may be others behind it."""
        ids: list[str] = []
        last: Seen | None = None
        for seen in self._met(limit + 1 if self._mostly_fits else STEP):
            if seen is None:  # looked far enough
                return ids, last
            if self._fits(seen):
                if len(ids) == limit:
                    return ids, last
                ids.append(seen[0])
            last = seen
        return ids, None

    def _met(self, step: int) -> Iterator[Seen | None]:
        few = self._few()
        return (
            self._walk(step) if few is None else (seen for seen in few if self._after is None or self._is_beyond(seen))
        )

    def _fits(self, seen: Seen) -> bool:
        for column, how, value in self._conditions:
            found = seen[self._columns.index(column)]
            if found is None or not _COMPARED[how](found, value):
                return False
        return True

    def _fetched(self, ids: Sequence[str]) -> Iterator[Any]:
        """The rows with these ids, as far as they are still there."""
        for start in range(0, len(ids), IDS):
            part = ids[start : start + IDS]
            rows = {row.pk: row for row in self._light.filter(pk__in=part)}
            yield from (rows[job_id] for job_id in part if job_id in rows)

    # -- rows along the index that has them in order ------------------------------------------------------------------

    def _walk(self, step: int) -> Iterator[Seen | None]:
        """The rows in order, step by step, the first of so many; None after MOST_READ of them, if there may be more."""
        after, read = self._after, 0
        while read < MOST_READ:
            step = min(step, MOST_READ - read)
            part = list(self._walked(self._all, after).values_list(*self._columns)[:step])
            yield from part
            if len(part) < step:
                return
            after, step, read = part[-1], 2 * step, read + step
        yield None

    def _walked(self, rows: QuerySet[Any], after: Seen | None) -> QuerySet[Any]:
        """``rows`` in order, behind one of them."""
        order = [*([self._time] if self._time else []), "pk"]
        rows = rows.order_by(*(order if self._ascending else (f"-{name}" for name in order)))
        if self._leading:
            rows = rows.filter(**{self._leading: self._equal[self._leading]})
        for column, how, value in self._conditions:
            if column == self._time and how in (">=", "<"):
                rows = rows.filter(**{f"{column}__{'gte' if how == '>=' else 'lt'}": value})
        return rows if after is None else self._behind(rows, after)

    def _behind(self, rows: QuerySet[Any], seen: Seen) -> QuerySet[Any]:
        """What follows this row."""
        if self._time is None:
            return rows.filter(**{f"pk__{'gt' if self._ascending else 'lt'}": seen[0]})
        return behind(rows, self._time, seen[1], seen[0], ascending=self._ascending)

    # -- few rows by another index ------------------------------------------------------------------------------------

    def _few(self) -> list[Seen] | None:
        """What an index finds that has not the list's order, sorted here; None when it finds more than MOST_READ."""
        parts = self._parts()
        if not parts:
            return None
        found: list[Seen] = []
        with by_index(self._alias):
            for part in parts:
                found += part.order_by().values_list(*self._columns)[: MOST_READ + 1 - len(found)]
                if len(found) > MOST_READ:
                    return None
        return sorted(found, key=self._in_order, reverse=not self._ascending)

    def _parts(self) -> Sequence[QuerySet[Any]]:
        """The rows by an index that is worth a try, if there is one."""
        if len(self._prefix) >= PRECISE:
            return [self._all.filter(pk__gte=self._prefix, pk__lte=self._prefix.ljust(26, "Z"))]
        if self._time:
            return []
        if "idempotency_key" in self._equal:
            return [self._all.filter(idempotency_key=self._equal["idempotency_key"])]
        if not {"status", "queue"} & self._equal.keys():
            return []
        status = self._equal.get("status")
        leased = (JobStatus.FETCHED, JobStatus.PROCESSING)
        words = _ACTIVE if status is None else [LIVE] if status in leased else [f"status = {int(status)}"]
        rows = self._all.filter(queue=self._equal["queue"]) if "queue" in self._equal else self._all
        return [rows.extra(where=[text]) for text in words]  # noqa: S610 - constants

    def _is_beyond(self, seen: Seen) -> bool:
        assert self._after is not None  # noqa: S101 - who calls has looked
        here, there = self._in_order(self._after), self._in_order(seen)
        return there > here if self._ascending else there < here

    def _in_order(self, seen: Seen) -> Seen:
        return (seen[1], seen[0]) if self._time else (seen[0],)

    # -- cursors ------------------------------------------------------------------------------------------------------

    def _parsed(self, after: str) -> Seen:
        time, _, job_id = after.rpartition("~") if isinstance(after, str) else ("", "", "")
        try:
            if bool(time) is not bool(self._time) or len(clean_prefix(job_id)) != 26:
                raise ValueError("of another list")
            if not time:
                return (job_id,)
            at = clean_time(dt.datetime.fromisoformat(time), "after")
        except ValueError:
            raise EnvelopeError(
                "after", Sentence("must be the 'next' of a page of this list, got %(after)s", after=shown(after))
            ) from None
        return job_id, at

    def _seen(self, row: JobBase) -> Seen:
        return tuple(getattr(row, column) for column in self._columns)

    def _cursor(self, seen: Seen) -> str:
        return f"{seen[1].isoformat()}~{seen[0]}" if self._time else str(seen[0])
