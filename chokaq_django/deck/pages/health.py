"""Health: do jobs get done, and if not, what to do; with the doctor, when somebody asks for it."""

from __future__ import annotations

import datetime as dt
import threading
from dataclasses import dataclass
from typing import Any

from django.http import HttpRequest
from django.urls import NoReverseMatch
from django.utils.translation import gettext_lazy

from ...doctor import AREAS, Diagnosis, Examination, Severity, examine
from ...health import CHECKS, Finding, Report, State, cached
from ..page import DeckPage

__all__ = ["HealthPage"]

FRESH = 30.0
"""Seconds for which the doctor is not called again."""
_TONES = {State.HEALTHY: "good", State.DEGRADED: "warn", State.UNHEALTHY: "bad"}
_STATES = {
    State.HEALTHY: gettext_lazy("Healthy"), State.DEGRADED: gettext_lazy("Degraded"),
    State.UNHEALTHY: gettext_lazy("Unhealthy"),
}  # fmt: skip
_CHECKS = {
    "chokaq_storage": (gettext_lazy("Storage"), gettext_lazy("Does the job database answer, and has it its tables?")),
    "chokaq_worker": (gettext_lazy("Workers"), gettext_lazy("Has every open queue with work a live worker?")),
    "chokaq_queue_saturation": (
        gettext_lazy("Saturation"), gettext_lazy("Do queues keep up, do few jobs die, is no circuit open?"),
    ),
}  # fmt: skip
_CHECK_STATES = {
    "healthy": gettext_lazy("healthy"), "degraded": gettext_lazy("degraded"), "unhealthy": gettext_lazy("unhealthy"),
    "unknown": gettext_lazy("unknown"),
}  # fmt: skip
_CHECK_TONES = {"healthy": "good", "degraded": "warn", "unhealthy": "bad", "unknown": "quiet"}
_PLACES = {
    "no_worker": "fleet", "worker_silent": "fleet", "queue_without_worker": "queue", "queue_lag": "queue",
    "circuit_open": "circuits", "dlq_growth": "failures",
}  # fmt: skip
"""Code of a finding to the page of what it is about."""
_AREAS = {
    "settings": gettext_lazy("settings"), "code": gettext_lazy("code"), "database": gettext_lazy("database"),
    "tables": gettext_lazy("tables"), "engine": gettext_lazy("engine"), "wake-up": gettext_lazy("wake-up"),
    "fleet": gettext_lazy("fleet"), "work": gettext_lazy("work"),
}  # fmt: skip
_SEVERITIES = {
    Severity.INFO: ("info", gettext_lazy("Note")), Severity.WARNING: ("warn", gettext_lazy("Warning")),
    Severity.ERROR: ("bad", gettext_lazy("Error")),
}  # fmt: skip


@dataclass(slots=True)
class Visit:
    """What the doctor found in this process, and when."""

    at: dt.datetime
    found: Examination


class _Doctor:
    """One visit at a time, whoever asks: it costs the database more than a page does."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.last: Visit | None = None

    def call(self) -> Visit:
        with self._lock:
            last = self.last
            if last is None or (dt.datetime.now(dt.UTC) - last.at).total_seconds() > FRESH:
                self.last = last = Visit(dt.datetime.now(dt.UTC), examine(handlers=False))
            return last

    def forget(self) -> None:
        self.last = None


doctor = _Doctor()


class HealthPage(DeckPage):
    name = "health"
    route = "health/"
    title = gettext_lazy("Health")
    template_name = "chokaq/deck/health.html"
    topics = ("overview",)

    def context(self, request: HttpRequest, **kwargs: Any) -> dict[str, Any]:
        report = cached()
        states = report.checks()
        return {
            "state": _STATES[report.state],
            "tone": _TONES[report.state],
            "as_of": report.as_of,
            "signature": _signature(report),
            "checks": [
                {
                    "title": _CHECKS[name][0],
                    "meaning": _CHECKS[name][1],
                    "state": _CHECK_STATES[states[name]],
                    "tone": _CHECK_TONES[states[name]],
                }
                for name in CHECKS
            ],
            "findings": [
                {
                    "finding": finding,
                    "state": _STATES[finding.state],
                    "tone": _TONES[finding.state],
                    "url": self._place(finding),
                }
                for finding in report.findings
            ],
            **self._visit(doctor.last),
        }

    def _place(self, finding: Finding) -> str:
        page = _PLACES.get(finding.code, "")
        try:
            if not page:
                return ""
            return self.url(page, name=finding.target) if page == "queue" else self.url(page)
        except NoReverseMatch:  # a site of one's own may leave pages out
            return ""

    def _visit(self, visit: Visit | None) -> dict[str, Any]:
        if visit is None:
            return {"visit": None}
        found = visit.found
        areas = [
            {"name": _AREAS[area], "seen": area in found.seen, "worst": _worst(area, found.findings)} for area in AREAS
        ]
        diagnoses = [
            {"diagnosis": each, "tone": _SEVERITIES[each.severity][0], "severity": _SEVERITIES[each.severity][1]}
            for each in found.findings
        ]
        return {"visit": visit, "engine": found.engine, "areas": areas, "diagnoses": diagnoses}

    def act_examine(self, request: HttpRequest) -> Any:
        """The doctor, now. It reads only; the answer is the page, because another process may answer the next one."""
        doctor.call()
        return self.get(request)


def _worst(area: str, findings: list[Diagnosis]) -> dict[str, Any] | None:
    severities = [each.severity for each in findings if each.area == area]
    if not severities:
        return None
    tone, label = _SEVERITIES[max(severities)]
    return {"tone": tone, "label": label, "count": len(severities)}


def _signature(report: Report) -> str:
    """What the page shows, as far as a change of it is worth a fresh page: health.js makes the same of the feed."""
    return " ".join([report.state.label, *sorted(f"{each.code}:{each.target}" for each in report.findings)])
