"""The jobs of bulk operations: which they are, and what has become of them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from django.db.models import Count, QuerySet

from ..conf import get_options
from ..job.ids import clean_id
from ..models import (
    BulkAction,
    BulkItem,
    BulkItemState,
    BulkOperation,
    FailureReason,
    JobArchive,
    JobBase,
    JobDLQ,
    JobHot,
)
from ..storage import BulkCount, get_storage
from .bulk import MOST_LISTED, member_of, page_start
from .bulk_fates import BECAME
from .limits import clean_limit

__all__ = [
    "ACTED_ON",
    "MOST_FOLLOWED",
    "MOST_LOOKED_AT",
    "BulkItemPage",
    "BulkOutcomes",
    "bulk_counts",
    "bulk_dead",
    "bulk_items",
    "bulk_outcomes",
    "bulk_reasons",
    "bulk_types",
]

MOST_FOLLOWED = 50_000
"""Jobs of an operation whose outcomes are looked for at once."""
MOST_LOOKED_AT = 20_000
"""Jobs of a set among which those of one state are looked for, for one page."""
ACTED_ON = (BulkItemState.APPLIED, BulkItemState.SUCCEEDED, BulkItemState.DIED, BulkItemState.GONE)
"""States of the jobs that an operation changed, whatever has become of them since."""


@dataclass(frozen=True, slots=True)
class BulkItemPage:
    """``items``: ``job_id``, ``state``, and in ``note`` why a job was refused or left alone. ``next``: what to give as
    ``after`` for the page that follows; None when there is none."""

    items: list[BulkItem]
    next: str | None


def bulk_items(
    operation_id: str, *, state: BulkItemState | int | None = None, after: str | None = None, limit: int = 100
) -> BulkItemPage:
    """Jobs of an operation in the order of their ids.

    Of a resurrection, ``state`` is what has become of the job until now, as in :func:`bulk_outcomes`, whether anything
    watched it or not. ``after``: ``next`` of the page before. No index has their states: of one ``state``, those are
    found that are among the next MOST_LOOKED_AT jobs, so a page may hold fewer than ``limit`` and still have a next.
    """
    clean_limit(limit, MOST_LISTED)
    wanted = None if state is None else member_of(BulkItemState, "state", state)
    begin = "" if after in (None, "") else page_start("after", after)
    operations = BulkOperation.objects.using(get_options().database)
    brought_back = operations.filter(pk=clean_id(operation_id), action=BulkAction.RESURRECT).exists()
    if wanted is None:
        rows, last = _items(operation_id).filter(job_id__gt=begin), None
    else:
        rows, last = _next_items(operation_id, begin, MOST_LOOKED_AT)
        rows = rows.filter(state__in={wanted.value, BulkItemState.APPLIED.value} if brought_back else [wanted.value])
    if brought_back:
        rows = rows.annotate(became=BECAME)
        if wanted is not None:
            rows = rows.filter(became=wanted.value)
    found = list(rows.order_by("job_id")[: limit + 1])
    for item in found if brought_back else []:
        item.state = item.became  # type: ignore[attr-defined]
    return BulkItemPage(found[:limit], found[limit - 1].job_id if len(found) > limit else last)


def _items(operation_id: str) -> QuerySet[BulkItem]:
    return BulkItem.objects.using(get_options().database).filter(operation_id=clean_id(operation_id))


def _next_items(operation_id: str, after: str, most: int) -> tuple[QuerySet[BulkItem], str | None]:
    """The next ``most`` jobs of an operation, and the last of them if there are others behind it."""
    rows = _items(operation_id).filter(job_id__gt=after)
    ends = list(rows.order_by("job_id").values_list("job_id", flat=True)[most - 1 : most + 1])
    return (rows.filter(job_id__lte=ends[0]), ends[0]) if len(ends) == 2 else (rows, None)


@dataclass(frozen=True, slots=True)
class BulkOutcomes:
    """What has become of the jobs that an operation acted on, in numbers of jobs. ``active``: not ended yet; ``gone``:
    cancelled or deleted."""

    succeeded: int
    died: int
    active: int
    gone: int


def bulk_outcomes(operation_id: str, first: int | None = None) -> BulkOutcomes | None:
    """What has become of an operation's jobs until now, whether anything watched them or not; also when it has ended.

    It looks at all of them, so it is None for an operation that acted on more than 50,000 jobs, and for none; or at
    those among the ``first`` of its set, 50,000 at most.
    """
    if first is not None:
        first = clean_limit(first, MOST_FOLLOWED, "first")
    alias = get_options().database
    row = BulkOperation.objects.using(alias).filter(pk=clean_id(operation_id)).first()
    if row is None or (first is None and row.applied > MOST_FOLLOWED):
        return None
    items = _items(row.id) if first is None else _next_items(row.id, "", first)[0]
    states = dict(items.filter(state__in=ACTED_ON).order_by().values_list("state").annotate(jobs=Count("job_id")))
    unknown = items.filter(state=BulkItemState.APPLIED).values("job_id")
    counted: dict[type[JobBase], int] = dict.fromkeys((JobHot, JobArchive, JobDLQ), 0)
    if states.get(BulkItemState.APPLIED):
        for model in counted:
            counted[model] = model._default_manager.using(alias).filter(pk__in=unknown).count()
    cancelled = 0
    if counted[JobDLQ]:
        cancelled = JobDLQ.objects.using(alias).filter(pk__in=unknown, failure_reason=FailureReason.CANCELLED).count()
    absent = max(0, states.get(BulkItemState.APPLIED, 0) - sum(counted.values()))
    return BulkOutcomes(
        succeeded=states.get(BulkItemState.SUCCEEDED, 0) + counted[JobArchive],
        died=states.get(BulkItemState.DIED, 0) + counted[JobDLQ] - cancelled,
        active=counted[JobHot],
        gone=states.get(BulkItemState.GONE, 0) + cancelled + absent,
    )


def bulk_dead(operation_id: str, most: int) -> tuple[int, bool]:
    """How many of the jobs that it acted on are dead now, and whether there may be more: counted up to ``most``, among
    the first MOST_LOOKED_AT of its set."""
    alias = get_options().database
    items, last = _next_items(operation_id, "", MOST_LOOKED_AT)
    rows = JobDLQ.objects.using(alias).filter(pk__in=items.filter(state__in=ACTED_ON).values("job_id")).order_by()
    found = rows.values("pk")[: most + 1].count()
    return min(found, most), found > most or last is not None


def bulk_reasons(operation_id: str, limit: int = 10, *, left_alone: bool = False) -> list[tuple[str, int]]:
    """Why an operation refused jobs, or left them alone, and how many for each reason, the most frequent first. It
    reads all of them."""
    state = BulkItemState.LEFT_ALONE if left_alone else BulkItemState.REFUSED
    rows = _items(operation_id).filter(state=state).order_by()
    found = rows.values_list("note").annotate(jobs=Count("job_id"))
    return [(note or "", jobs) for note, jobs in found.order_by("-jobs", "note")[: clean_limit(limit, MOST_LISTED)]]


def bulk_types(operation_id: str, among: Iterable[str]) -> list[str]:
    """Which of the types ``among`` are in the set, as far as its jobs are dead or active: its first MOST_LOOKED_AT jobs
    are looked at."""
    alias, wanted = get_options().database, list(among)
    if not wanted:
        return []
    ids = _next_items(operation_id, "", MOST_LOOKED_AT)[0].values("job_id")
    looks = [
        model._default_manager.using(alias)
        .filter(pk__in=ids, type__in=wanted)
        .order_by()
        .values_list("type")
        .distinct()
        for model in (JobDLQ, JobHot)
    ]
    return sorted({key for look in looks for (key,) in look})


def bulk_counts(operation_id: str) -> list[BulkCount]:
    """The frozen set by queue, type and age, counted exactly, as far as its jobs are in Hot, Archive or DLQ: as it was
    frozen, of one that was held; of others as it is now, which may take seconds."""
    clean = clean_id(operation_id)
    return get_storage(get_options().database).bulk_frozen(clean) if clean else []
