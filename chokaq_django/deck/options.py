"""The form in which an operator sets one option, or resets it, for the pages that show options."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, HttpResponseBase, HttpResponseRedirect
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from .. import control
from ..conf import get_options
from ..conf.overridable import locate
from ..conf.text import NONE, read_value, show_value
from ..control.settings import SettingView
from ..job.envelope import EnvelopeError
from ..reading.retention import COUNTED, would_delete
from ..sentence import in_words, number
from .page import DeckPage, tell

__all__ = ["OptionRow", "OptionsPage", "option_row"]

SOURCES = {
    "default": gettext_lazy("default"),
    "preset": gettext_lazy("preset"),
    "project": gettext_lazy("project"),
    "operator": gettext_lazy("operator"),
}
_FOR_EVER = gettext_lazy("for ever")
_HELP = {
    "seconds": gettext_lazy("A time: 90 s, 5 min, 12 h, 30 d."),
    "seconds or none": gettext_lazy("A time: 90 s, 5 min, 12 h, 30 d; or none."),
    "rules": gettext_lazy("How long to keep them: 12 h, 30 d; none keeps them for ever."),
    "count": gettext_lazy("A whole number."),
    "count or none": gettext_lazy("A whole number; or none."),
    "number": gettext_lazy("A number."),
}
_KEEPS = gettext_lazy("How long to keep them: 12 h, 30 d; none keeps them for ever.")


@dataclass(frozen=True, slots=True)
class OptionRow:
    """An option as a page shows it."""

    view: SettingView
    name: str
    value: str
    project: str
    source: Any

    @property
    def short(self) -> str:
        """Without its section."""
        return self.name.partition(".")[2] or self.name

    @property
    def is_queue(self) -> bool:
        """Whether it is a limit of a queue, which the queue's own page changes."""
        return self.name.startswith("QUEUES.")

    @property
    def queue(self) -> str:
        """The queue whose limit it is."""
        return self.short.rpartition(".")[0]

    @property
    def is_set(self) -> bool:
        return self.view.source == "operator"


def option_row(view: SettingView) -> OptionRow:
    """The option with its values as text."""
    return OptionRow(view, view.name, _text(view, view.value), _text(view, view.project), SOURCES[view.source])


def _text(view: SettingView, value: Any) -> str:
    if value is None and view.name.startswith("RETENTION."):
        return str(_FOR_EVER)
    if value is None or value == []:
        return NONE
    if isinstance(value, list):
        return ", ".join(show_value("number", item) for item in value)
    return show_value("count" if view.kind == "fixed" else view.kind, value)


class OptionsPage(DeckPage):
    """A page on which ``?name=`` opens the form of one option. An option that deletes more than before is set only
    when the form says so a second time."""

    def form(self, name: str, rows: dict[str, OptionRow], **said: Any) -> dict[str, Any] | None:
        """What the template of the form gets; None when the page shows none. ``said``: ``text``, ``error`` and ``why``
        of a form that was sent, ``warning`` of what it would delete."""
        if not name:
            return None
        try:
            place = locate(name)
        except ValueError as error:
            messages.error(self.request, f"{name} {error}")
            return None
        row = rows.get(place.name)
        help_text = _KEEPS if place.section == "RETENTION" else _HELP[place.kind]
        text = "" if row is None else show_value(place.kind, row.view.value)
        return {"name": place.name, "row": row, "help": help_text, "text": text, "error": "", "why": "", **said}

    def act_set(self, request: HttpRequest) -> HttpResponseBase:
        """Set the option that the form is of."""
        return self.set_option(request.POST.get("name", "").strip())

    def set_option(self, name: str) -> HttpResponseBase:
        """Set the option ``name`` to what the form says."""
        request = self.request
        text, why = (request.POST.get(field, "").strip() for field in ("value", "why"))
        try:
            place = locate(name)
            value = read_value(place.kind, text)
        except ValueError as error:
            return self.again(name, text=text, why=why, error=in_words(str(error)))
        warning = self._warning(place.name, {place.name: value}, text)
        if warning:
            return self.again(place.name, text=text, why=why, warning=warning)
        try:
            answer = control.set_setting(place.name, value, by=request.user, reason=why)
        except EnvelopeError as error:
            return self.again(place.name, text=text, why=why, error=in_words(error.message))
        tell(request, answer, _("Set: %(name)s. Every process follows within seconds.") % {"name": place.name})
        return HttpResponseRedirect(self.url(self.name))

    def act_reset(self, request: HttpRequest) -> HttpResponseBase:
        """Reset the option that the form is of."""
        name, why = request.POST.get("name", "").strip(), request.POST.get("why", "").strip()
        warning = self._warning(name, {}, "")
        if warning:
            return self.again(name, why=why, warning=warning, resets=True)
        answer = control.reset_setting(name, by=request.user, reason=why)
        tell(request, answer, _("Reset: %(name)s. Every process follows within seconds.") % {"name": name})
        return HttpResponseRedirect(self.url(self.name))

    def _warning(self, name: str, changed: dict[str, Any], text: str) -> str:
        """What would be deleted, if the form has not been sent with just that warning before. Nothing is counted for
        somebody whom the verb refuses."""
        if not self.request.user.has_perm("chokaq.operate"):
            return ""
        if not name.startswith("RETENTION.") or self.request.POST.get("confirmed") == f"{name}={text}":
            return ""
        count, more = would_delete(get_options().database, name, changed)
        if not count:
            return ""
        counted = f"{number(COUNTED)}+" if more else number(count)
        return _(
            "The next pass, within a minute, would delete %(count)s jobs by this. They do not go to the Trash: "
            "nobody can bring them back."
        ) % {"count": counted}  # fmt: skip

    def context(self, request: HttpRequest, **kwargs: Any) -> dict[str, Any]:
        return self.look(request.GET.get("name", ""))

    def again(self, name: str, **said: Any) -> HttpResponse:
        """The page with the form as it was sent, and what is wrong with it."""
        return self.render(422, **self.look(name, **said))

    def look(self, name: str, **said: Any) -> dict[str, Any]:
        """What the page shows, with the form of the option ``name``; ``said`` is for :meth:`form`."""
        raise NotImplementedError
