"""All queues as they are now, and the switches on them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.http import HttpRequest
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from ... import control
from ..page import LivePage, tell

__all__ = ["QueuesPage", "Switches"]


class Switches(LivePage):
    """The acts on one queue, which several pages offer."""

    def meant(self) -> str:
        """The queue that a form is about."""
        return self.request.POST.get("name", "")

    def act_pause(self, request: HttpRequest) -> None:
        self._turn(control.pause_queue, _("Paused: %(name)s."))

    def act_resume(self, request: HttpRequest) -> None:
        self._turn(control.resume_queue, _("Resumed: %(name)s."))

    def act_hide(self, request: HttpRequest) -> None:
        self._turn(control.hide_queue, _("Hidden: %(name)s."))

    def act_show(self, request: HttpRequest) -> None:
        self._turn(control.show_queue, _("Shown again: %(name)s."))

    def _turn(self, verb: Callable[..., Any], done: str) -> None:
        name = self.meant()
        answer = verb(name, by=self.request.user, reason=self.request.POST.get("reason", ""))
        tell(self.request, answer, (done % {"name": name}).replace("%", "%%"))


class QueuesPage(Switches):
    name = "queues"
    route = "queues/"
    title = gettext_lazy("Queues")
    script = "chokaq/deck/queues.js"
