"""Answers for probes of a web process. JSON without names, texts or secrets: whoever can reach it may know it.

``chokaq_django.health_urls`` has the addresses. None of them needs a session; wrap or hide them where even this much is
nobody's business.
"""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest, HttpResponse, JsonResponse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from .health import Report, State, cached, ready

__all__ = ["health", "live", "readiness"]


def _answer(ok: bool, document: dict[str, Any]) -> HttpResponse:
    return JsonResponse(document, status=200 if ok else 503)


@require_safe
@never_cache
def live(request: HttpRequest) -> HttpResponse:
    """This process answers. It asks nothing of the database: restarting the web does not repair that."""
    return _answer(True, {"status": "live"})


@require_safe
@never_cache
def readiness(request: HttpRequest) -> HttpResponse:
    """This process can accept jobs: the database answers and has the tables. Lag and dead workers do not matter here:
    a load balancer that took every web process out for them would make things worse."""
    finding = ready()
    if finding is None:
        return _answer(True, {"status": "ready"})
    return _answer(False, {"status": "not ready", "code": finding.code})


@require_safe
@never_cache
def health(request: HttpRequest) -> HttpResponse:
    """Jobs get done: for alerts, not for load balancers. At most five seconds old."""
    report = cached()
    return _answer(report.state is not State.UNHEALTHY, summary(report))


def summary(report: Report) -> dict[str, Any]:
    """States and codes, and how often each; no names and no texts."""
    codes: dict[str, int] = {}
    for finding in report.findings:
        codes[finding.code] = codes.get(finding.code, 0) + 1
    return {
        "status": report.state.label,
        "checks": report.checks(),
        "findings": codes,
        "as_of": None if report.as_of is None else report.as_of.isoformat(),
    }
