"""Jobs that somebody has selected, by their ids or as the frozen set of an operation: where they are, and of what
kind."""

from __future__ import annotations

import datetime as dt
from collections import Counter, defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from django.db.models import Count

from ..models import BulkItem, BulkOperation, FailureReason, JobDLQ
from ..storage import BulkCount
from ..storage.bulk_counts import AGES, read_kinds, reasons_of
from .bulk_items import ACTED_ON
from .job import MODELS
from .selection import PLACES

__all__ = ["Selected", "acted_on", "frozen_reasons", "look_up"]


@dataclass(slots=True)
class Selected:
    """``counts``: those in the places that were asked for, by queue and type. ``elsewhere``: how many are in other
    places, by their names; ``""``: nowhere. ``reasons``: the dead ones by failure reason."""

    counts: list[BulkCount] = field(default_factory=list)
    elsewhere: Counter[str] = field(default_factory=Counter)
    reasons: Counter[int] = field(default_factory=Counter)

    @property
    def total(self) -> int:
        return sum(count.count for count in self.counts)


def look_up(ids: Sequence[str], places: Collection[str], alias: str, now: dt.datetime) -> Selected:
    """What these ids (1,000 at most) are of; one statement for each table."""
    result, groups = Selected(), defaultdict(list)
    missing = set(ids)
    for place, model in MODELS.items():
        columns = ["pk", "queue", "type", PLACES[place], *(["failure_reason"] if place == "dlq" else [])]
        for pk, queue, type_key, at, *reason in (
            model._default_manager.using(alias).filter(pk__in=ids).values_list(*columns)
        ):
            missing.discard(pk)
            if place not in places:
                result.elsewhere[place] += 1
                continue
            groups[queue, type_key].append(at)
            result.reasons.update(reason)
    if missing:
        result.elsewhere[""] = len(missing)
    result.counts = [_count(*kind, moments, now) for kind, moments in sorted(groups.items())]
    return result


def acted_on(operation_id: str, limit: int, alias: str, now: dt.datetime) -> Selected:
    """The jobs that a bulk operation acted on and that are dead now, ``limit`` of them at most."""
    result, groups = Selected(), defaultdict(list)
    items = BulkItem.objects.using(alias).filter(operation_id=operation_id, state__in=ACTED_ON).values("job_id")
    rows = JobDLQ.objects.using(alias).filter(pk__in=items).order_by("pk")
    for queue, type_key, at, reason in rows.values_list("queue", "type", "failed_at", "failure_reason")[:limit]:
        groups[queue, type_key].append(at)
        result.reasons[reason] += 1
    result.counts = [_count(*kind, moments, now) for kind, moments in sorted(groups.items())]
    return result


def _count(queue: str, type_key: str, moments: list[dt.datetime], now: dt.datetime) -> BulkCount:
    ages = dict.fromkeys([*(name for name, _ in AGES), "older"], 0)
    for at in moments:
        seconds = (now - at).total_seconds()
        ages[next((name for name, most in AGES if seconds < most), "older")] += 1
    return BulkCount(queue, type_key, len(moments), min(moments), max(moments), ages)


def frozen_reasons(operation_id: str, reasons: Collection[FailureReason], alias: str) -> Counter[int]:
    """How many of the frozen set died of these reasons: as was counted while it was frozen, where that was done."""
    counts = BulkOperation.objects.using(alias).filter(pk=operation_id).values_list("counts", flat=True).first()
    if counts:
        return Counter({reason: n for reason, n in reasons_of(read_kinds(counts)).items() if reason in reasons})
    items = BulkItem.objects.using(alias).filter(operation_id=operation_id).values("job_id")
    rows = JobDLQ.objects.using(alias).filter(pk__in=items, failure_reason__in=reasons).order_by()
    return Counter(dict(rows.values_list("failure_reason").annotate(jobs=Count("pk"))))
