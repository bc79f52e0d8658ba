"""What every page of the Deck shares: who may see it, where it is, what its template gets, how its forms act."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any, ClassVar

from django.contrib import messages
from django.contrib.admin import AdminSite
from django.core.exceptions import PermissionDenied
from django.core.handlers.asgi import ASGIRequest
from django.http import HttpRequest, HttpResponse, HttpResponseBase, HttpResponseRedirect, JsonResponse
from django.middleware.csrf import get_token
from django.template.response import TemplateResponse
from django.urls import NoReverseMatch, URLPattern, get_script_prefix, path, reverse
from django.utils.http import urlencode
from django.utils.translation import gettext as _
from django.views import View

from ..conf import get_options
from ..control import BulkResult
from ..job.envelope import EnvelopeError
from ..reading.settings import follow_settings
from ..sentence import in_words, number
from .feed.access import knows_who_left
from .text import wrong

__all__ = ["DeckPage", "LivePage", "deck_url", "tell"]

REFUSALS_SHOWN = 5
PERMISSIONS = ("view_deck", "operate", "edit_payload", "resurrect", "cancel", "purge", "view_payload")
SOCKET = "ws/chokaq/deck/"
_ADDRESSES = {
    "overview": "chokaq_deck_changelist",
    "queues": "chokaq_deck_queues",
    "queue": "chokaq_deck_queue",
    "fleet": "chokaq_deck_fleet",
    "circuits": "chokaq_deck_circuits",
    "failures": "chokaq_deck_failures",
    "bulk": "chokaq_deck_bulk",
    "health": "chokaq_deck_health",
    "active": "chokaq_jobhot_changelist",
    "archive": "chokaq_jobarchive_changelist",
    "dlq": "chokaq_jobdlq_changelist",
    "audit": "chokaq_auditentry_changelist",
    "snapshot": "chokaq_deck_data_snapshot",
    "series": "chokaq_deck_data_series",
}
_ADDRESSES_OF_ONE = {"job": "id", "failure": "fingerprint", "bulk_one": "id"}
"""Pages of one thing, and what the scripts put into their address in the place of ``_id_``."""


def deck_url(site_name: str, page: str, *args: Any, **query: Any) -> str:
    """The address of a page of the Deck: ``args`` go into its path, ``query`` behind it. Names of queues, types and
    people belong into the query: in a path, a browser would resolve one that is called ``..``."""
    address = reverse(f"{site_name}:chokaq_deck_{page}", args=args)
    wanted = {name: value for name, value in query.items() if value not in (None, "")}
    return f"{address}?{urlencode(wanted, doseq=True)}" if wanted else address


class DeckPage(View):
    """One page. Subclasses say their ``name``, ``route`` and ``title``, and what :meth:`context` their template gets.

    A form names what it asks for in ``act``: ``act_pause`` answers ``act=pause``. Acts call
    :mod:`chokaq_django.control` with ``by=request.user``, which checks the permission at that moment.
    """

    name: ClassVar[str]
    route: ClassVar[str]
    """Below the Deck's own address; what it captures is given to :meth:`context` and to the acts."""
    title: ClassVar[Any]
    section: ClassVar[str] = ""
    """Name of the page that the navigation marks as the current one; empty: this one."""
    template_name: ClassVar[str]
    permission: ClassVar[str] = "view_deck"
    topics: ClassVar[tuple[str, ...]] = ()
    """What the page subscribes to in the live feed; a context with ``deck_topics`` says it for one request."""

    admin_site: AdminSite = None  # type: ignore[assignment]
    http_method_names = ["get", "head", "post", "options"]

    @classmethod
    def pattern(cls, site: AdminSite) -> URLPattern:
        """Where admin serves it."""
        view = site.admin_view(cls.as_view(admin_site=site))
        return path(cls.route, view, name=f"chokaq_deck_{cls.name}")

    def dispatch(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        if not request.user.has_perm(f"chokaq.{self.permission}"):
            raise PermissionDenied
        request.current_app = self.admin_site.name  # "admin:" in templates means this site
        follow_settings()
        return super().dispatch(request, *args, **kwargs)

    # looking ----------------------------------------------------------------------------------------------------------

    def get(self, request: HttpRequest, **kwargs: Any) -> HttpResponseBase:
        return self.render(**self.context(request, **kwargs))

    def context(self, request: HttpRequest, **kwargs: Any) -> dict[str, Any]:
        """What the template gets beside what all pages have."""
        return {}

    def render(self, status: int = 200, **context: Any) -> HttpResponse:
        """The page, with what all of them have."""
        whole = {**self.shared(), **context}
        whole["deck_config"] = {**self.config(), "topics": whole["deck_topics"]}
        return TemplateResponse(self.request, self.template_name, whole, status=status)

    def shared(self) -> dict[str, Any]:
        """What the frame around every page needs."""
        return {
            **self.admin_site.each_context(self.request),
            "title": self.title,
            "deck_section": self.section or self.name,
            "deck_topics": list(self.topics),
            "deck_site": self.admin_site.name,
        }

    def config(self) -> dict[str, Any]:
        """What the page's scripts get, as JSON, beside the topics."""
        lag = get_options().deck
        return {
            "socket": get_script_prefix() + SOCKET
            if isinstance(self.request, ASGIRequest) and knows_who_left()
            else "",
            "permissions": [name for name in PERMISSIONS if self.request.user.has_perm(f"chokaq.{name}")],
            "urls": self._addresses,
            "lag": {"warning": lag.lag_warning, "critical": lag.lag_critical},
            "csrf": get_token(self.request),
        }

    @cached_property
    def _addresses(self) -> dict[str, str]:
        """Where the scripts' links lead, as far as this site has the pages."""
        found = {}
        one = {name: (f"chokaq_deck_{name}", [f"_{place}_"]) for name, place in _ADDRESSES_OF_ONE.items()}
        views: dict[str, tuple[str, list[str]]] = {name: (view, []) for name, view in _ADDRESSES.items()} | one
        for name, (view, args) in views.items():
            try:
                found[name] = reverse(f"{self.admin_site.name}:{view}", args=args)
            except NoReverseMatch:
                continue
        return found

    def url(self, page: str, *args: Any, **query: Any) -> str:
        return deck_url(self.admin_site.name, page, *args, **query)

    # acting -----------------------------------------------------------------------------------------------------------

    def post(self, request: HttpRequest, **kwargs: Any) -> HttpResponseBase:
        act: Callable[..., HttpResponseBase | None] | None = getattr(self, f"act_{request.POST.get('act', '')}", None)
        if act is None:
            messages.error(request, _("This page knows no such act."))
            return self.answer(self.back())
        try:
            response = act(request, **kwargs)
        except EnvelopeError as error:  # a value that no verb takes
            messages.error(request, wrong(error))
            response = None
        return self.answer(response or self.back())

    def answer(self, response: HttpResponseBase) -> HttpResponseBase:
        """What a form sent by a script gets in the place of a redirect: the messages, and where it would have led."""
        if self.request.headers.get("Accept") != "application/json" or not isinstance(response, HttpResponseRedirect):
            return response
        said = [{"level": message.level_tag, "text": str(message)} for message in messages.get_messages(self.request)]
        return JsonResponse({"messages": said, "url": response.url})

    def back(self) -> HttpResponse:
        """To the same page by GET, so that a reload does not act again."""
        return HttpResponseRedirect(self.request.get_full_path())


class LivePage(DeckPage):
    """A page that its ``script`` draws, by the live feed."""

    template_name = "chokaq/deck/live.html"
    topics = ("overview",)
    script: ClassVar[str]
    """A module among the static files."""

    def shared(self) -> dict[str, Any]:
        return {**super().shared(), "deck_script": self.script}


def tell(request: HttpRequest, answer: BulkResult, done: str, asked: str = "") -> None:
    """Say what an act did, and why not where it did not. ``done``, and ``asked`` for what somebody else has yet to do,
    have a place for ``%(count)s``, a number as it is written."""
    if answer.applied:
        messages.success(request, done % {"count": number(len(answer.applied))})
    if answer.requested:
        text = asked or _("Asked to stop: %(count)s. Their workers act on it within seconds.")
        messages.success(request, text % {"count": number(len(answer.requested))})
    for refusal in answer.refused[:REFUSALS_SHOWN]:
        messages.warning(request, f"{refusal.id}: {in_words(refusal.reason)}")
    if len(answer.refused) > REFUSALS_SHOWN:
        messages.warning(
            request, _("%(count)s more were refused.") % {"count": number(len(answer.refused) - REFUSALS_SHOWN)}
        )
