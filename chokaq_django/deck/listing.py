"""Lists that stay fast whatever the tables hold: capped counts, filters on indexed columns, literal search."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterable
from typing import Any

from django.contrib import admin
from django.contrib.admin.views.main import ChangeList
from django.core.paginator import Paginator
from django.db.models import Model, QuerySet
from django.http import HttpRequest
from django.utils.functional import cached_property
from django.utils.translation import gettext_lazy as _

from ..conf import get_options
from ..job.registry import registry
from ..models import FailureReason, JobStatus, Queue

__all__ = [
    "TERM_LIMIT",
    "BoundedChangeList",
    "CappedPaginator",
    "PeriodFilter",
    "QueueFilter",
    "ReasonFilter",
    "StatusFilter",
    "TypeFilter",
    "search_jobs",
]

MOST_COUNTED = 10_000
MOST_CHOICES = 100
TERM_LIMIT = 255
RESERVED = (FailureReason.CIRCUIT_BREAKER_OPEN, FailureReason.REJECTED, FailureReason.TRANSIENT)
HEAVY = ("payload", "headers", "attempt_log", "result", "error_details", "progress_message")
"""Columns that may hold a megabyte each and that no list shows."""

_ID_PREFIX = re.compile(r"[0-7][0-9A-HJKMNP-TV-Z]{9,25}")


class CappedPaginator(Paginator):  # type: ignore[type-arg]
    """Counts no further than 10,000 rows; ``capped`` says that there are more."""

    @cached_property
    def _counted(self) -> int:
        rows: QuerySet[Model] = self.object_list  # type: ignore[assignment]
        return rows.order_by().values("pk")[: MOST_COUNTED + 1].count()

    @cached_property
    def count(self) -> int:
        return min(self._counted, MOST_COUNTED)

    @property
    def capped(self) -> bool:
        return self._counted > MOST_COUNTED

    @property
    def most(self) -> int:
        return MOST_COUNTED


class BoundedChangeList(ChangeList):
    """A list that reads no more rows than it may show, and not the columns that no list shows."""

    def get_queryset(self, request: HttpRequest, *args: Any, **kwargs: Any) -> QuerySet[Any]:
        rows = super().get_queryset(request, *args, **kwargs)
        names = {field.name for field in self.opts.fields}
        return rows.defer(*(name for name in HEAVY if name in names))

    def get_results(self, request: HttpRequest) -> None:
        super().get_results(request)
        # Django takes a list that fits on one page whole; rows may have come since they were counted.
        self.result_list = self.result_list[: self.list_max_show_all]


# -- search ------------------------------------------------------------------------------------------------------------


def search_jobs(rows: QuerySet[Any], term: str) -> QuerySet[Any]:
    """Jobs whose id begins with ``term`` (ten characters or more), else those of exactly this queue or type.

    One column at a time, so that an index serves each.
    """
    prefix = term.upper()
    if _ID_PREFIX.fullmatch(prefix):
        return rows.filter(pk__gte=prefix, pk__lte=prefix.ljust(26, "Z"))
    of_queue = rows.filter(queue=term)
    return of_queue if of_queue.exists() else rows.filter(type=term)


# -- filters -----------------------------------------------------------------------------------------------------------


class _NameFilter(admin.SimpleListFilter):
    """Exactly one name. Choices are what settings, code and control rows know: no look into the job tables."""

    def names(self) -> Iterable[str]:
        raise NotImplementedError

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        names = sorted(set(self.names()))[:MOST_CHOICES]
        chosen = request.GET.get(self.parameter_name or "")
        if chosen and chosen not in names:
            names.append(chosen[:TERM_LIMIT])
        return [(name, name) for name in names]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        value = self.value()
        return queryset if value is None else queryset.filter(**{str(self.parameter_name): value[:TERM_LIMIT]})


class QueueFilter(_NameFilter):
    title = _("queue")
    parameter_name = "queue"

    def names(self) -> Iterable[str]:
        options = get_options()
        rows = Queue.objects.using(options.database).order_by("name").values_list("name", flat=True)[:MOST_CHOICES]
        return {*rows, *options.queues, *(job_type.queue for job_type in registry.types())}


class TypeFilter(_NameFilter):
    title = _("type")
    parameter_name = "type"

    def names(self) -> Iterable[str]:
        return (job_type.key for job_type in registry.types() if not job_type.wants_raw)


class StatusFilter(admin.SimpleListFilter):
    title = _("status")
    parameter_name = "status"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, Any]]:
        return [
            ("due", _("Pending, due")),
            ("scheduled", _("Pending, scheduled")),
            ("fetched", _("Fetched")),
            ("processing", _("Processing")),
            ("awaiting", _("Awaiting")),
        ]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        match self.value():
            case "due":
                return queryset.filter(status=JobStatus.PENDING, run_at__lte=dt.datetime.now(dt.UTC))
            case "scheduled":
                return queryset.filter(status=JobStatus.PENDING, run_at__gt=dt.datetime.now(dt.UTC))
            case "fetched" | "processing" | "awaiting" as name:
                return queryset.filter(status=JobStatus[name.upper()])
        return queryset


class ReasonFilter(admin.SimpleListFilter):
    title = _("reason")
    parameter_name = "reason"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [(reason.name.lower(), reason.label) for reason in FailureReason if reason not in RESERVED]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        name = (self.value() or "").upper()
        return queryset.filter(failure_reason=FailureReason[name]) if name in FailureReason.__members__ else queryset


class PeriodFilter(admin.SimpleListFilter):
    """Rows of the last hours or days, by the column of the model admin's ``period_field``."""

    title = _("period")
    parameter_name = "period"
    HOURS = {"1h": 1, "1d": 24, "7d": 7 * 24, "30d": 30 * 24}

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, Any]]:
        self._field: str = model_admin.period_field
        return [("1h", _("Past hour")), ("1d", _("Past day")), ("7d", _("Past 7 days")), ("30d", _("Past 30 days"))]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        hours = self.HOURS.get(self.value() or "")
        if hours is None:
            return queryset
        return queryset.filter(**{f"{self._field}__gte": dt.datetime.now(dt.UTC) - dt.timedelta(hours=hours)})
