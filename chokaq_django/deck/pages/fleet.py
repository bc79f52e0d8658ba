"""The worker processes, and what may be asked of them."""

from __future__ import annotations

from django.http import HttpRequest
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from ... import control
from ...job.envelope import EnvelopeError
from ..page import LivePage, tell

__all__ = ["FleetPage"]


class FleetPage(LivePage):
    name = "fleet"
    route = "fleet/"
    title = gettext_lazy("Fleet")
    script = "chokaq/deck/fleet.js"

    def act_concurrency(self, request: HttpRequest) -> None:
        text = request.POST.get("concurrency", "").strip()
        if not (text.isascii() and text.isdecimal() and len(text) < 10):
            raise EnvelopeError("concurrency", _("must be a whole number"))
        answer = control.set_concurrency(self._worker(), int(text), by=request.user, reason=self._reason())
        tell(request, answer, "", _("Asked to run so many jobs at once; the worker acts on it within seconds."))

    def act_drain(self, request: HttpRequest) -> None:
        answer = control.drain_worker(self._worker(), by=request.user, reason=self._reason())
        tell(request, answer, "", _("Asked to claim nothing more; the worker acts on it within seconds."))

    def act_stop(self, request: HttpRequest) -> None:
        answer = control.stop_worker(self._worker(), by=request.user, reason=self._reason())
        tell(request, answer, "", _("Asked to stop; the worker acts on it within seconds."))

    def _worker(self) -> str:
        return self.request.POST.get("worker", "")

    def _reason(self) -> str:
        return self.request.POST.get("reason", "")
