"""Lists that stay fast whatever the tables hold.

Of history they show page after page in the order of time and id: a page begins behind a row of the page before, so that
it costs the same wherever it is, and what comes meanwhile moves no other row. Short tables are counted, to a limit.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from typing import Any, NamedTuple

from django.contrib.admin.exceptions import DisallowedModelAdminLookup
from django.contrib.admin.helpers import ACTION_CHECKBOX_NAME
from django.contrib.admin.views.main import ChangeList
from django.core.paginator import Paginator
from django.db.models import Model, QuerySet
from django.http import HttpRequest
from django.utils.functional import cached_property
from django.utils.http import urlencode
from django.utils.translation import gettext as _

from ..conf import get_options
from ..control import BulkAction, JobFilter
from ..job.envelope import EnvelopeError
from ..job.ids import clean_id
from ..reading.acts import acts_from, list_acts
from ..reading.filter_text import FIELDS, filter_from, filter_query
from ..reading.job import find_row
from ..reading.listing import list_rows
from ..reading.selection import HEAVY, STATUSES
from ..sentence import in_words
from ..storage import get_storage
from .bulk_words import WORDS, may
from .filters import ACT_INPUTS, Input, act_inputs, job_inputs, job_parameters
from .page import deck_url

__all__ = [
    "TERM_LIMIT",
    "ActChangeList",
    "BoundedChangeList",
    "CappedPaginator",
    "JobChangeList",
    "PagedChangeList",
    "job_filter",
]

MOST_COUNTED = 10_000
TERM_LIMIT = 255
IGNORED = ("o", "p", "all", "e")
"""Parameters of admin's own lists: an order and a page that these have not, and that an address failed once."""


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


class Page(NamedTuple):
    """Rows, newest first, and the places behind which newer and older ones are; None where there are none."""

    rows: list[Any]
    newer: str | None
    older: str | None


class PagedChangeList(ChangeList):
    """A list of history. Its address says the filter, and the place where the page begins (``after``, or ``before`` on
    the way back); nothing is counted.

    Subclasses say which parameters they take, and read a page.
    """

    parameters: tuple[str, ...] = ()
    error: EnvelopeError | None = None
    """Why the list shows nothing: a filter that cannot be, or that no index serves."""

    def get_queryset(self, request: HttpRequest, *args: Any, **kwargs: Any) -> QuerySet[Any]:
        """What an action is done to: the rows that are ticked, and not all that an unseen page may hold."""
        return self.root_queryset.filter(pk__in=request.POST.getlist(ACTION_CHECKBOX_NAME))

    def get_results(self, request: HttpRequest) -> None:
        self.named = {name: text for name in self.parameters if (text := request.GET.get(name, "")).strip()}
        unknown = set(request.GET) - {*self.parameters, "after", "before", *IGNORED}
        if unknown:
            # Admin would filter by any column, a hidden payload's text included.
            raise DisallowedModelAdminLookup(f"Filtering by {min(unknown)[:80]} not allowed")
        page = Page([], None, None)
        try:
            page = self._page(request.GET.get("after"), request.GET.get("before"))
        except EnvelopeError as error:
            self.error = error
        self.result_list = page.rows
        self.result_count, self.full_result_count = len(page.rows), None
        self.multi_page = self.can_show_all = self.has_filters = self.has_active_filters = False
        self.filter_specs: list[Any] = []
        self.newer = self.url(before=page.newer) if page.newer else ""
        self.older = self.url(after=page.older) if page.older else ""
        self.is_first = not self.newer

    def _page(self, after: str | None, before: str | None) -> Page:
        if before:
            rows, first, further = self.read(before, oldest_first=True)
            if further is not None:
                return Page(rows[::-1], further, first)
            after = None  # there is nothing newer than these: the first page, and whole
        rows, first, further = self.read(after, oldest_first=False)
        return Page(rows, (first or after) if after else None, further)

    def read(self, after: str | None, *, oldest_first: bool) -> tuple[list[Any], str | None, str | None]:
        """A page: its rows, the place of the first of them, and the place behind which it goes on."""
        raise NotImplementedError

    def url(self, **more: str | None) -> str:
        """The address of this list with its filter, and what else it is to say."""
        query = {**self.named, **{name: value for name, value in more.items() if value}}
        return f"?{urlencode(query)}" if query else "?"

    @property
    def exports(self) -> list[tuple[str, str]]:
        """Format and address of the files that hold all that the filter finds."""
        return [(kind.upper(), f"export/{self.url(format=kind)}") for kind in ("ndjson", "csv")]

    def inputs(self) -> tuple[list[Input], list[Input]]:
        """The filter's inputs: those always in sight, and the rest."""
        raise NotImplementedError

    def filled_inputs(self) -> tuple[list[Input], list[Input]]:
        first, rest = self.inputs()
        for each in (*first, *rest):
            if self.error is not None and each.name == self.error.field:
                each.error = in_words(self.error.message)
        return first, rest

    @cached_property
    def form(self) -> dict[str, Any]:
        """What the template shows above the list."""
        first, rest = self.filled_inputs()
        known = {each.name for each in (*first, *rest)}
        apart = self.error if self.error is not None and self.error.field not in known else None
        return {"first": first, "rest": rest, "is_open": any(each.value for each in rest), "error": apart}


class JobChangeList(PagedChangeList):
    """A list of jobs: each leads to the Deck's page of it."""

    parameters = (*FIELDS, "q")
    _actions = {
        "hot": (BulkAction.CANCEL, BulkAction.REMOVE, BulkAction.EDIT),
        "archive": (BulkAction.PURGE,),
        "dlq": (BulkAction.RESURRECT, BulkAction.EDIT, BulkAction.PURGE),
        "trash": (),
    }

    @property
    def usual_status(self) -> str:
        """The status of all jobs of this list."""
        model_admin: Any = self.model_admin
        return str(model_admin.usual_status)

    @property
    def place(self) -> str:
        return STATUSES[self.usual_status]

    @cached_property
    def where(self) -> JobFilter:
        """The filter of the address; ``EnvelopeError`` where it is none of such jobs."""
        return job_filter(self.usual_status, self.named)

    def read(self, after: str | None, *, oldest_first: bool) -> tuple[list[Any], str | None, str | None]:
        page = list_rows(self.where, limit=self.list_per_page, after=after, oldest_first=oldest_first)
        return page.rows, page.first, page.next

    def inputs(self) -> tuple[list[Input], list[Input]]:
        if self.error is not None and self.error.field == "q":  # it stays to be typed on
            term, named = self.named.get("q", ""), {name: self.named[name] for name in FIELDS if name in self.named}
        else:
            term, named = "", job_parameters(self.named)
        first, rest = job_inputs(self.place, {"status": self.usual_status, **named})
        return [Input("q", term), *first], rest

    def url_for_result(self, result: Any) -> str:
        return deck_url(self.model_admin.admin_site.name, "job", result.pk)

    def get_results(self, request: HttpRequest) -> None:
        super().get_results(request)
        self.elsewhere = self._elsewhere()
        site, actions = self.model_admin.admin_site.name, self._actions[self.place] if self.error is None else ()
        self.on_all: list[tuple[Any, str]] = [
            (WORDS[action].all_of, deck_url(site, "bulk_new", action=action.value, **filter_query(self.where)))
            for action in actions
            if may(request.user, action)
        ]
        """What this user may do to all that the filter finds: a label, and the address of the page that previews it."""

    def _elsewhere(self) -> dict[str, Any] | None:
        """The job whose whole id was looked for where it is not, or not within the filter: the list it is in, and where
        its page is."""
        if self.result_list or self.error is not None:
            return None
        job_id = clean_id(self.where.id_prefix)
        row = find_row(job_id, get_options().database) if job_id else None
        if row is None:
            return None
        return {"id": row.pk, "list": row._meta.verbose_name_plural, "url": self.url_for_result(row)}


def job_filter(usual_status: str, named: Mapping[str, str]) -> JobFilter:
    """The filter that an address of a list of jobs names."""
    now = get_storage(get_options().database).now()
    found = filter_from({"status": usual_status, **job_parameters(named)}, now)
    if found.place != STATUSES[usual_status]:
        fitting = ", ".join(status for status, place in STATUSES.items() if place == STATUSES[usual_status])
        raise EnvelopeError("status", _("must be one of %(fitting)s here") % {"fitting": fitting})
    return found


class ActChangeList(PagedChangeList):
    """The audit."""

    parameters = ACT_INPUTS

    def read(self, after: str | None, *, oldest_first: bool) -> tuple[list[Any], str | None, str | None]:
        where = acts_from(self.named, dt.datetime.now(dt.UTC))
        page = list_acts(where, limit=self.list_per_page, after=after, oldest_first=oldest_first)
        return page.rows, page.first, page.next

    def inputs(self) -> tuple[list[Input], list[Input]]:
        return act_inputs(self.named), []
