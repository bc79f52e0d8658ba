"""What all the admin pages share: reading from the job database, no adding and deleting, verbs by POST."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from django.contrib import admin, messages
from django.contrib.admin.utils import quote, unquote
from django.contrib.admin.views.main import ChangeList
from django.core.exceptions import PermissionDenied
from django.db.models import Model, QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseBase, HttpResponseNotAllowed, HttpResponseRedirect
from django.urls import URLPattern, path, reverse
from django.utils.text import capfirst
from django.utils.translation import gettext as _

from ..conf import get_options
from ..control import BulkAction, BulkResult, Operator
from ..job.envelope import EnvelopeError
from ..sentence import in_words, number
from .bulk_words import needs_confirmation
from .export import FORMATS
from .inspector.verbs import JobVerb
from .listing import TERM_LIMIT, BoundedChangeList, CappedPaginator, PagedChangeList
from .pages.bulk_new import OFFERED, look_at
from .text import EMPTY, wrong

__all__ = ["PagedAdmin", "TableAdmin", "Verb", "as_action"]

MOST_AT_ONCE = 1_000
"""Rows of one list action: it runs inside a request."""
REFUSALS_SHOWN = 5

Act = Callable[[list[str], Operator, str, Mapping[str, str]], BulkResult]


@dataclass(frozen=True)
class Verb:
    """An act on rows of one table: a list action, and a button on the page of one row where it ``applies``. (Jobs have
    a :class:`JobVerb`.)

    ``act`` gets the keys, the user, the reason and what else the button's form said. It checks the permission itself;
    ``permission`` (of app ``chokaq``) decides who is offered the act.
    """

    name: str
    label: Any
    many: Any
    done: Any
    permission: str
    applies: Callable[[Any], bool]
    act: Act
    dangerous: bool = False


class TableAdmin(admin.ModelAdmin):  # type: ignore[type-arg]
    """Rows of one table in the job database: looked at here, changed only by verbs."""

    verbs: tuple[Verb, ...] = ()

    paginator = CappedPaginator
    show_full_result_count = False
    show_facets = admin.ShowFacets.NEVER
    list_per_page = 50
    empty_value_display = EMPTY

    class Media:
        css = {"all": ["chokaq/admin.css"]}

    # who may ----------------------------------------------------------------------------------------------------------

    def has_view_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return request.user.has_perm("chokaq.view_deck") or super().has_view_permission(request, obj)

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_cancel_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perm("chokaq.cancel")

    def has_edit_payload_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perm("chokaq.edit_payload")

    def has_resurrect_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perm("chokaq.resurrect")

    def has_operate_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perm("chokaq.operate")

    def has_purge_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perm("chokaq.purge")

    # what is read -----------------------------------------------------------------------------------------------------

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        return super().get_queryset(request).using(get_options().database)

    def lookup_allowed(self, lookup: str, value: Any, request: HttpRequest | None = None) -> bool:
        """No column may be named in an address: Django would allow any, a hidden payload's text included."""
        return False

    def get_object(self, request: HttpRequest, object_id: str, from_field: str | None = None) -> Any:
        return None if "\x00" in object_id else super().get_object(request, object_id, from_field)

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[ChangeList]:
        return BoundedChangeList

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Any], search_term: str
    ) -> tuple[QuerySet[Any], bool]:
        term = search_term.strip()[:TERM_LIMIT]
        return (self.search(queryset, term) if term and self.search_fields else queryset), False

    def search(self, rows: QuerySet[Any], term: str) -> QuerySet[Any]:
        """The rows that ``term`` means, taken literally."""
        return rows.filter(**{f"{self.search_fields[0]}__startswith": term})

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        title = capfirst(self.opts.verbose_name_plural)
        return super().changelist_view(request, {"title": title, **(extra_context or {})})

    # what is done -----------------------------------------------------------------------------------------------------

    @property
    def actions(self) -> list[Callable[..., HttpResponse | None]]:  # type: ignore[override]
        return [as_action(verb) for verb in self.verbs]

    def get_urls(self) -> list[URLPattern]:
        own = []
        for verb in self.verbs:
            view = self.admin_site.admin_view(_as_view(self, verb))
            own.append(path(f"<path:object_id>/{verb.name}/", view, name=self._url_name(verb)))
        return [*own, *super().get_urls()]

    def _url_name(self, verb: Verb) -> str:
        return f"{self.opts.app_label}_{self.opts.model_name}_{verb.name}"

    def buttons(self, request: HttpRequest, obj: Model) -> list[dict[str, Any]]:
        """What the page of one row offers this user now."""
        return [
            {
                "name": verb.name,
                "label": verb.label,
                "url": reverse(f"{self.admin_site.name}:{self._url_name(verb)}", args=[quote(obj.pk)]),
                "dangerous": verb.dangerous,
            }
            for verb in self.verbs
            if verb.applies(obj) and request.user.has_perm(f"chokaq.{verb.permission}")
        ]

    def render_change_form(
        self, request: HttpRequest, context: dict[str, Any], *args: Any, **kwargs: Any
    ) -> HttpResponse:
        if (obj := kwargs.get("obj")) is not None:
            context |= self.page_context(request, obj)
        return super().render_change_form(request, context, *args, **kwargs)

    def page_context(self, request: HttpRequest, obj: Any) -> dict[str, Any]:
        """What the template of one row's page gets beside admin's own."""
        return {"chokaq_buttons": self.buttons(request, obj)}

    def place_of(self, key: str) -> str:
        """Where to go after an act on one row."""
        return reverse(f"{self.admin_site.name}:{self.opts.app_label}_{self.opts.model_name}_change", args=[quote(key)])

    def tell(self, request: HttpRequest, verb: Verb | JobVerb, answer: BulkResult) -> None:
        """Say what an act did, and why not where it did not."""
        if answer.applied:
            self.message_user(request, verb.done % {"count": number(len(answer.applied))}, messages.SUCCESS)
        if answer.requested:
            text = _("Asked to stop: %(count)s. Their workers act on it within seconds.")
            self.message_user(request, text % {"count": number(len(answer.requested))}, messages.SUCCESS)
        for refusal in answer.refused[:REFUSALS_SHOWN]:
            self.message_user(request, f"{refusal.id}: {in_words(refusal.reason)}", messages.WARNING)
        if len(answer.refused) > REFUSALS_SHOWN:
            text = _("%(count)s more were refused.") % {"count": number(len(answer.refused) - REFUSALS_SHOWN)}
            self.message_user(request, text, messages.WARNING)


class PagedAdmin(TableAdmin):
    """Rows of history: a list that is read page after page, and goes out as a file whole."""

    changelist_class: type[PagedChangeList]
    change_list_template = "admin/chokaq/paged_list.html"
    sortable_by = ()

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[PagedChangeList]:
        return self.changelist_class

    def get_urls(self) -> list[URLPattern]:
        view = self.admin_site.admin_view(self.export_view)
        name = f"{self.opts.app_label}_{self.opts.model_name}_export"
        return [path("export/", view, name=name), *super().get_urls()]

    def export_view(self, request: HttpRequest) -> HttpResponseBase:
        """All that the filter in the address finds, as a file."""
        if request.method not in ("GET", "HEAD"):
            return HttpResponseNotAllowed(["GET", "HEAD"])
        if not request.user.has_perm("chokaq.view_deck"):  # admin's own right to look is no right to take along
            raise PermissionDenied
        kind = request.GET.get("format", "ndjson")
        try:
            if kind not in FORMATS:
                raise EnvelopeError("format", _("must be one of %(formats)s") % {"formats": ", ".join(FORMATS)})
            return self.exported(request, kind)
        except EnvelopeError as error:
            self.message_user(request, wrong(error), messages.ERROR)
            query = request.GET.copy()
            query.pop("format", None)
            return HttpResponseRedirect(f"../?{query.urlencode()}")

    def exported(self, request: HttpRequest, kind: str) -> HttpResponseBase:
        raise NotImplementedError


def as_action(verb: Verb | JobVerb) -> Callable[..., HttpResponse | None]:
    """A verb as an action of admin's lists, on what is selected. Many jobs, and every purge, are a bulk operation's
    affair, which is confirmed and can be undone; so is what has to be told first what it is to do."""
    act = verb.act

    @admin.action(description=verb.many, permissions=[verb.permission])
    def action(model_admin: TableAdmin, request: HttpRequest, queryset: QuerySet[Any]) -> HttpResponse | None:
        keys = [str(key) for key in queryset.values_list("pk", flat=True)[: MOST_AT_ONCE + 1]]
        if len(keys) > MOST_AT_ONCE:
            text = _("At most %(count)s at once: narrow the list, or select fewer.") % {"count": number(MOST_AT_ONCE)}
            model_admin.message_user(request, text, messages.ERROR)
            return None
        if not keys:
            text = _("Nothing was done: what was selected is not in this list any more.")
            model_admin.message_user(request, text, messages.WARNING)
            return None
        is_many = verb.name in OFFERED and needs_confirmation(BulkAction(verb.name), len(keys))
        if act is None or (isinstance(verb, JobVerb) and is_many):
            return look_at(request, model_admin.admin_site, verb.name, keys)
        model_admin.tell(request, verb, act(keys, request.user, "", {}))
        return None

    action.__name__ = verb.name
    return action


def _as_view(model_admin: TableAdmin, verb: Verb) -> Callable[..., HttpResponse]:
    def view(request: HttpRequest, object_id: str) -> HttpResponse:
        if request.method != "POST":
            return HttpResponseNotAllowed(["POST"])
        key = unquote(object_id)
        try:
            answer = verb.act([key], request.user, request.POST.get("reason", ""), request.POST)
        except EnvelopeError as error:
            model_admin.message_user(request, wrong(error), messages.ERROR)
        else:
            model_admin.tell(request, verb, answer)
        return HttpResponseRedirect(model_admin.place_of(key))

    return view
