"""All endpoints, and their addresses."""

from __future__ import annotations

from itertools import groupby
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.urls import URLPattern, path, re_path
from django.views.decorators.csrf import csrf_exempt

from . import bulk, failures, house, jobs, queues
from .endpoint import Call, Endpoint, view_of
from .errors import ApiError, error_response
from .openapi import description

__all__ = ["ENDPOINTS", "urlpatterns"]


def _describe(call: Call) -> dict[str, Any]:
    return description(ENDPOINTS, call.request.path.removesuffix("openapi.json"))


ENDPOINTS: tuple[Endpoint, ...] = (
    *jobs.ENDPOINTS,
    *failures.ENDPOINTS,
    *bulk.ENDPOINTS,
    *queues.ENDPOINTS,
    *house.ENDPOINTS,
    Endpoint("getDescription", "GET", "openapi.json", "This description.", _describe, dict[str, Any]),
)


@csrf_exempt
def _nowhere(request: HttpRequest, **captured: str) -> HttpResponse:
    return error_response(ApiError(404, "no_such_address", "There is nothing at this address; openapi.json lists all."))


def _patterns() -> list[URLPattern]:
    """An address serves all methods that it has. Fixed ones come before those with an id in their place."""
    ordered = sorted(ENDPOINTS, key=lambda endpoint: ("<" in endpoint.path, endpoint.path))
    grouped = groupby(ordered, key=lambda endpoint: endpoint.path)
    found = []
    for address, endpoints in grouped:
        some = list(endpoints)
        found.append(path(address, view_of(some), name=some[0].name))
    return [*found, re_path(r"", _nowhere)]


urlpatterns = _patterns()
