"""The audit, page by page, along an index: the time, or the target and the time."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from dataclasses import dataclass, fields

from django.db.models import Q, QuerySet

from ..conf import get_options
from ..job.envelope import EnvelopeError, clean_key, clean_time
from ..models import AuditEntry
from ..sentence import Sentence, shown
from .filter_text import LONGEST_TEXT, given_texts, moment_from
from .keyset import behind
from .reach import is_within_reach

__all__ = ["ActFilter", "ActPage", "acts_from", "acts_on", "last_act", "list_acts"]

MOST_LOOKED_THROUGH = 1_000
"""Acts on one target among which one of a certain kind is looked for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ActFilter:
    """Which acts; all that is given must hold. ``since`` and ``until`` are aware, ``until`` itself is left out.

    ``by`` and ``action`` have no index: they need a target, or a range of at most seven days.
    """

    target: str | None = None
    by: str | None = None
    action: str | None = None
    since: dt.datetime | None = None
    until: dt.datetime | None = None

    def given(self) -> dict[str, str]:
        """What narrows it, as :func:`acts_from` reads it."""
        values = {each.name: getattr(self, each.name) for each in fields(self)}
        return {
            name: value.isoformat() if isinstance(value, dt.datetime) else value
            for name, value in values.items()
            if value is not None
        }

    def conditions(self) -> Q:
        """What must hold of an entry; ``EnvelopeError`` for a bad value."""
        found = Q()
        named = {name: clean_key(getattr(self, name), name) for name in ("target", "by", "action")}
        for name, text in named.items():
            if text is not None:
                found &= Q(**{name: text})
        since, until = clean_time(self.since, "since"), clean_time(self.until, "until")
        if (named["by"] or named["action"]) and not named["target"]:
            end = until or dt.datetime.now(dt.UTC)
            if not is_within_reach(since, end):
                raise EnvelopeError(
                    "since", Sentence(
                        "must be at most seven days before the end of the range, or a target must be named: what is "
                        "looked for has no index"
                    ),
                )  # fmt: skip
        if since is not None:
            found &= Q(at__gte=since)
        if until is not None:
            found &= Q(at__lt=until)
        return found


@dataclass(frozen=True, slots=True)
class ActPage:
    """``first``, ``next``: as ``after`` of what comes before the page, in the other direction, and of what follows."""

    rows: list[AuditEntry]
    first: str | None
    next: str | None


def acts_from(named: Mapping[str, str], now: dt.datetime) -> ActFilter:
    """The filter that text names, blank ones left out; times as :func:`filter_from` reads them."""
    given = given_texts(named)
    moments = {name: moment_from(given.pop(name), name, now) for name in ("since", "until") if name in given}
    where = ActFilter(**given, **moments)  # type: ignore[arg-type]
    where.conditions()
    return where


def list_acts(where: ActFilter, *, limit: int, after: str | None = None, oldest_first: bool = False) -> ActPage:
    """Acts of operators, newest first. ``EnvelopeError`` for a bad filter."""
    rows: QuerySet[AuditEntry] = AuditEntry.objects.using(get_options().database).filter(where.conditions())
    rows = rows.order_by("at", "id") if oldest_first else rows.order_by("-at", "-id")
    if after is not None:
        rows = _behind(rows, after, ascending=oldest_first)
    found = list(rows[: limit + 1])
    more, found = len(found) > limit, found[:limit]
    first, last = (_cursor(found[0]), _cursor(found[-1])) if found else (None, None)
    return ActPage(found, first, last if more else None)


def acts_on(target: str, most: int) -> list[AuditEntry]:
    """The latest acts on a job, queue, worker, type or failure group, newest first."""
    return list_acts(ActFilter(target=target), limit=most).rows


def last_act(target: str, action: str) -> AuditEntry | None:
    """The latest act of this kind on the target, if it is among its latest thousand.

    These are read along the index of targets. Narrowed by the action too, engines may rather read the audit backwards
    until they find one.
    """
    rows = AuditEntry.objects.using(get_options().database)
    latest = rows.filter(target=target).order_by("-at", "-id").values_list("pk", "action")[:MOST_LOOKED_THROUGH]
    found = next((pk for pk, each in latest if each == action), None)
    return None if found is None else rows.filter(pk=found).first()


def _cursor(entry: AuditEntry) -> str:
    return f"{entry.at.isoformat()}~{entry.id}"


def _behind(rows: QuerySet[AuditEntry], after: str, *, ascending: bool) -> QuerySet[AuditEntry]:
    time, _, entry_id = after.partition("~")
    try:
        at = clean_time(dt.datetime.fromisoformat(time), "after")
        if at is None or not entry_id or len(entry_id) > LONGEST_TEXT or "\x00" in entry_id:
            raise ValueError("not of a page")
    except ValueError:
        raise EnvelopeError(
            "after", Sentence("must be the 'next' of a page of this list, got %(after)s", after=shown(after))
        ) from None
    return behind(rows, "at", at, entry_id, ascending=ascending)
