"""Failure groups: the dead jobs that died alike, as their counts tell, summed over the shards.

A look costs a fixed number of statements: the sums of the small group table, and for the groups that are shown one seek
each for their newest row and for what died lately.
"""

# ruff: noqa: S608 - statements are composed of constants of this module; every value is a parameter

from __future__ import annotations

import datetime as dt
import enum
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from django.db.models import Count, Max, Min, QuerySet, Sum

from ..job.failures import UNREADABLE
from ..models import FailureGroup, FailureReason, FailureTriage, JobDLQ
from .group_sums import first_groups, sum_of_all
from .plans import by_index
from .selection import FINGERPRINT
from .selects import Select, Selects

__all__ = [
    "LATELY_COUNTED",
    "MOST_GROUPS",
    "GroupView",
    "ReplayRisk",
    "count_dead",
    "count_groups",
    "find_groups",
    "newest_dead",
    "read_group",
    "read_groups",
    "replay_risk",
    "sample_error",
]

MOST_GROUPS = 500
"""Groups of one look."""
MOST_KINDS = 2_000
"""Pairs of queue and type of all groups of one look; where there are more, the rarest are left out."""
LATELY_COUNTED = 1_000
"""Jobs that are counted of one group's last hour, and of the hour before."""
HOUR = dt.timedelta(hours=1)

Order = Literal["count", "last_seen"]


class ReplayRisk(enum.Enum):
    """What may already have been done by a job that is run once more."""

    NONE = "none"  # its handler did not run
    IF_STARTED = "if_started"  # it was cancelled, as most are that wait: if it had begun, what it did before is done
    PARTLY = "partly"  # its handler raised: what it did before that is done
    LIKELY = "likely"  # it was stopped from outside, or its worker died: all of it may be done


_RISKS = {
    FailureReason.EXPIRED: ReplayRisk.NONE,
    FailureReason.UNKNOWN_TYPE: ReplayRisk.NONE,
    FailureReason.PARENT_FAILED: ReplayRisk.NONE,
    FailureReason.CIRCUIT_BREAKER_OPEN: ReplayRisk.NONE,
    FailureReason.REJECTED: ReplayRisk.NONE,
    FailureReason.CANCELLED: ReplayRisk.IF_STARTED,
    FailureReason.ZOMBIE: ReplayRisk.LIKELY,
    FailureReason.POISON: ReplayRisk.LIKELY,
    FailureReason.TIMEOUT: ReplayRisk.LIKELY,
    FailureReason.HEARTBEAT_FAILURE: ReplayRisk.LIKELY,
}


def _is_unread(reason: int, error_type: str | None) -> bool:
    """Whether a worker could not read the payload, so that no handler ran, and none will before it is repaired. (An
    error that a handler raised may be about another payload.)"""
    return reason == FailureReason.FATAL_ERROR and error_type == UNREADABLE


def replay_risk(reason: int, error_type: str | None = None) -> ReplayRisk:
    """By the failure reason, and for a payload that could not be read by the error's type; a reason that only newer
    code knows counts as raised by the handler."""
    if _is_unread(reason, error_type):
        return ReplayRisk.NONE
    return next((risk for known, risk in _RISKS.items() if known == reason), ReplayRisk.PARTLY)


@dataclass(slots=True)
class GroupView:
    """The dead jobs of one fingerprint.

    ``count``: in the DLQ now; ``total``: died since they are counted. ``queues``, ``types``, ``kinds``: how many of
    each, and of each pair of them. ``error_type``, ``message``: of the job that came last, ``sample_id``, which may
    have left the DLQ. ``last_hour``, ``hour_before``: died then and still there, counted up to LATELY_COUNTED.
    """

    fingerprint: str
    count: int
    total: int
    first_seen: dt.datetime
    last_seen: dt.datetime
    reason: int = 0
    error_type: str | None = None
    message: str = ""
    sample_id: str = ""
    kinds: Counter[tuple[str, str]] = field(default_factory=Counter)
    last_hour: int = 0
    hour_before: int = 0
    triage: FailureTriage | None = None

    @property
    def queues(self) -> dict[str, int]:
        return self._by(0)

    @property
    def types(self) -> dict[str, int]:
        return self._by(1)

    def _by(self, place: int) -> dict[str, int]:
        found: Counter[str] = Counter()
        for kind, count in self.kinds.items():
            found[kind[place]] += count
        return dict(sorted(found.items(), key=lambda item: (-item[1], item[0])))

    @property
    def risk(self) -> ReplayRisk:
        return replay_risk(self.reason, self.error_type)

    @property
    def is_unread(self) -> bool:
        """Whether these are payloads that no worker could read."""
        return _is_unread(self.reason, self.error_type)

    @property
    def acknowledged(self) -> bool:
        return self.triage is not None and self.triage.acknowledged_at is not None

    @property
    def assignee(self) -> str | None:
        return self.triage.assignee if self.triage is not None else None

    @property
    def came_again(self) -> bool:
        """Whether jobs died of it after somebody had acknowledged it."""
        at = self.triage.acknowledged_at if self.triage is not None else None
        return at is not None and self.last_seen > at

    def trend(self, now: dt.datetime) -> str:
        """``new``: within the last hour for the first time; ``quiet``: not within it; else ``rising``, ``falling`` or
        ``steady`` against the hour before, where chance alone explains the difference."""
        if not self.last_hour:
            return "quiet"
        if self.first_seen > now - HOUR:
            return "new"
        more = self.last_hour - self.hour_before
        if abs(more) <= 2 * (self.last_hour + self.hour_before) ** 0.5:  # two standard deviations of such counts
            return "steady"
        return "rising" if more > 0 else "falling"


def read_groups(
    alias: str,
    now: dt.datetime,
    limit: int = 50,
    *,
    order: Order = "count",
    queue: str | None = None,
    type: str | None = None,  # noqa: A002 - the word for it everywhere
    reason: FailureReason | None = None,
    acknowledged: bool | None = None,
) -> list[GroupView]:
    """Groups with jobs in the DLQ, the largest or those that came last first; ``now`` is the database's.

    Without ``queue``, ``type`` and ``reason`` they are found by index; with one, the counts of all groups are read.
    ``queue``, ``type``: only what is in these counts; a group's trend is of all its jobs.
    """
    if order not in ("count", "last_seen"):
        raise ValueError(f"order must be 'count' or 'last_seen', not {order!r}")
    if queue is None and type is None and reason is None:
        sums = first_groups(alias, min(limit, MOST_GROUPS), order, acknowledged)
        views = [GroupView(one.fingerprint, one.dead, one.ever, one.first_seen, one.last_seen) for one in sums]
    else:
        views = _summed(_rows(alias, queue, type, reason, acknowledged), order, min(limit, MOST_GROUPS))
    if views:
        with by_index(alias):
            _complete(alias, now, {view.fingerprint: view for view in views}, queue, type)
    return views


def _summed(rows: QuerySet[FailureGroup], order: Order, limit: int) -> list[GroupView]:
    """The first groups of these rows, all of which are read."""
    found = rows.values("fingerprint").annotate(
        dead=Sum("count"), ever=Sum("total"), first=Min("first_seen"), last=Max("last_seen")
    )
    first = "-dead" if order == "count" else "-last"
    found = found.filter(dead__gt=0).order_by(first, "-fingerprint")[:limit]
    return [GroupView(row["fingerprint"], row["dead"], row["ever"], row["first"], row["last"]) for row in found]


def count_dead(alias: str) -> int:
    """How many jobs are in the DLQ: the sum of all groups."""
    return sum_of_all(alias)


def count_groups(
    alias: str,
    *,
    queue: str | None = None,
    type: str | None = None,  # noqa: A002 - the word for it everywhere
    reason: FailureReason | None = None,
    acknowledged: bool | None = None,
) -> int:
    """How many groups there are, by the filter of :func:`read_groups`; counted up to MOST_GROUPS and one more."""
    rows = _rows(alias, queue, type, reason, acknowledged)
    return rows.values("fingerprint").annotate(dead=Sum("count")).filter(dead__gt=0)[: MOST_GROUPS + 1].count()


def read_group(alias: str, now: dt.datetime, fingerprint: str) -> GroupView | None:
    """One group, also without a job in the DLQ any more; None when nothing is known of it."""
    rows = FailureGroup.objects.using(alias).order_by().filter(fingerprint=fingerprint)
    sums = rows.aggregate(
        rows=Count("pk"), dead=Sum("count"), ever=Sum("total"), first=Min("first_seen"), last=Max("last_seen")
    )
    if not sums["rows"]:
        return None
    view = GroupView(fingerprint, sums["dead"], sums["ever"], sums["first"], sums["last"])
    with by_index(alias):
        _complete(alias, now, {fingerprint: view})
    return view


def find_groups(alias: str, beginning: str, limit: int) -> list[str]:
    """Fingerprints that begin like this."""
    rows = FailureGroup.objects.using(alias).filter(
        fingerprint__gte=beginning, fingerprint__lte=beginning.ljust(FINGERPRINT, "f")
    )
    return list(rows.order_by("fingerprint").values_list("fingerprint", flat=True).distinct()[:limit])


_NEWEST = (
    "pk", "queue", "type", "attempt", "max_attempts", "generation", "failed_at", "worker_id", "note", "assignee",
    "acknowledged_at",
)  # fmt: skip


def newest_dead(alias: str, fingerprint: str, limit: int) -> list[dict[str, Any]]:
    """The jobs that died last of a group and are still dead: their names, attempts and notes."""
    rows = JobDLQ.objects.using(alias).filter(fingerprint=fingerprint).order_by("-failed_at")
    with by_index(alias):
        return list(rows.values(*_NEWEST)[:limit])


def sample_error(alias: str, fingerprint: str) -> tuple[str, str | None]:
    """The job that died last of a group and is still dead, and its error's whole text; "" and None without one."""
    rows = JobDLQ.objects.using(alias).filter(fingerprint=fingerprint).order_by("-failed_at")
    with by_index(alias):
        found = rows.values_list("pk", "error_details").first()
    return found or ("", None)


def _rows(
    alias: str, queue: str | None, type_key: str | None, reason: FailureReason | None, acknowledged: bool | None
) -> QuerySet[FailureGroup]:
    rows = FailureGroup.objects.using(alias).order_by()
    named = {"queue": queue, "type": type_key, "reason": reason}
    rows = rows.filter(**{name: value for name, value in named.items() if value is not None})
    if acknowledged is not None:
        known = FailureTriage.objects.using(alias).filter(acknowledged_at__isnull=False).values("pk")
        rows = rows.filter(fingerprint__in=known) if acknowledged else rows.exclude(fingerprint__in=known)
    return rows


def _complete(
    alias: str, now: dt.datetime, views: dict[str, GroupView], queue: str | None = None, type_key: str | None = None
) -> None:
    """What the sums do not tell of these groups, of which there is one at least."""
    rows = _rows(alias, queue, type_key, None, None).filter(fingerprint__in=views)
    kinds = rows.values_list("fingerprint", "queue", "type").annotate(dead=Sum("count")).filter(dead__gt=0)
    for fingerprint, name, key, count in kinds.order_by("-dead", "fingerprint", "queue", "type")[:MOST_KINDS]:
        views[fingerprint].kinds[name, key] = count
    for triage in FailureTriage.objects.using(alias).filter(pk__in=views):
        views[triage.fingerprint].triage = triage
    reader = _Reader(alias)
    for fingerprint, *told in reader.newest(views):
        view = views[fingerprint]
        view.reason, view.error_type, view.message, view.sample_id = told
    hours = [(fingerprint, now - HOUR, now + HOUR) for fingerprint in views]
    hours += [(fingerprint, now - 2 * HOUR, now - HOUR) for fingerprint in views]
    counts = reader.died(hours)
    for place, view in enumerate(views.values()):
        view.last_hour, view.hour_before = counts[place], counts[place + len(views)]


class _Reader(Selects):
    """What is asked of each group by itself."""

    def newest(self, fingerprints: Iterable[str]) -> list[tuple[Any, ...]]:
        """Fingerprint, reason, error type, message and sample of each group's newest row; of one with a message, if
        there is any: a row of jobs that only left has none."""
        wanted = list(fingerprints)
        columns = "fingerprint, reason, error_type, message, sample_id"
        numbered = (
            f"SELECT {columns}, ROW_NUMBER() OVER (PARTITION BY fingerprint ORDER BY CASE WHEN message <> '' THEN 0 "
            f"ELSE 1 END, last_seen DESC, series) AS place FROM {FailureGroup._meta.db_table} "
            f"WHERE fingerprint IN ({', '.join(['%s'] * len(wanted))})"
        )
        return self.run([(f"SELECT {columns} FROM ({numbered}) g WHERE place = 1", wanted)])

    def died(self, wanted: Sequence[tuple[str, dt.datetime, dt.datetime]]) -> list[int]:
        """For each fingerprint, start and end: how many jobs died between and are still dead."""
        first, last = self.limited(LATELY_COUNTED)
        selects: list[Select] = []
        for place, (fingerprint, start, end) in enumerate(wanted):
            select = (
                f"SELECT {place} AS place, COUNT(*) AS died FROM (SELECT {first}failed_at FROM "
                f"{JobDLQ._meta.db_table} WHERE fingerprint = %s AND failed_at > %s AND failed_at <= %s "
                f"ORDER BY failed_at{last}) d"
            )
            selects.append((select, [fingerprint, self.parameter(start), self.parameter(end)]))
        found = dict(self.run(selects))
        return [found.get(place, 0) for place in range(len(wanted))]
