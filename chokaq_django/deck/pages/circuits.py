"""Circuits: types whose jobs are held back, and the operator's hand on them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.http import HttpRequest
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from ... import control
from ...job.registry import registry
from ..page import LivePage, tell

__all__ = ["CircuitsPage"]


class CircuitsPage(LivePage):
    name = "circuits"
    route = "circuits/"
    title = gettext_lazy("Circuits")
    template_name = "chokaq/deck/circuits.html"
    script = "chokaq/deck/circuits.js"

    def context(self, request: HttpRequest, **kwargs: Any) -> dict[str, Any]:
        return {"types": sorted(job_type.key for job_type in registry.types() if not job_type.wants_raw)}

    def act_open(self, request: HttpRequest) -> None:
        self._turn(control.open_circuit, _("Opened, until somebody closes it: %(type)s."))

    def act_close(self, request: HttpRequest) -> None:
        self._turn(control.close_circuit, _("Closed: %(type)s."))

    def act_reset(self, request: HttpRequest) -> None:
        self._turn(control.reset_circuit, _("Failures forgotten: %(type)s."))

    def _turn(self, verb: Callable[..., Any], done: str) -> None:
        key = self.request.POST.get("type", "")
        answer = verb(key, by=self.request.user, reason=self.request.POST.get("reason", ""))
        tell(self.request, answer, (done % {"type": key}).replace("%", "%%"))
