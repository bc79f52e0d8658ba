"""What an endpoint is, and the view that serves those of one address."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

import msgspec
from django.http import HttpRequest, HttpResponse
from django.views.decorators.cache import never_cache
from django.views.decorators.csrf import csrf_exempt

from ..conf import get_options
from ..storage import get_storage
from .access import authenticated
from .encoding import encoded
from .errors import ApiError, answer_to, error_response

__all__ = ["BODY_LIMIT", "Call", "Endpoint", "Nothing", "view_of"]

BODY_LIMIT = 4_000_000
"""Bytes of a body. Django's own DATA_UPLOAD_MAX_MEMORY_SIZE (2.5 MB unless set) holds as well."""


class Nothing(msgspec.Struct, forbid_unknown_fields=True):
    """No parameters."""


@dataclass
class Call:
    """A request that may be served: who asks, and what was sent, checked and typed."""

    request: HttpRequest
    user: Any
    path: Mapping[str, str]
    query: Any
    body: Any

    @cached_property
    def alias(self) -> str:
        return get_options().database

    @cached_property
    def now(self) -> dt.datetime:
        """The database's clock."""
        return get_storage(self.alias).now()

    def may(self, permission: str) -> bool:
        return bool(self.user.has_perm(f"chokaq.{permission}"))


@dataclass(frozen=True, slots=True)
class Endpoint:
    """``path`` as Django writes it; ``query`` and ``body``: structs that check what is sent; ``answer``: the type of
    the document; ``needs``: permissions beside ``view_deck``, for the description: ``control`` checks them."""

    name: str
    method: Literal["GET", "POST"]
    path: str
    summary: str
    act: Callable[[Call], Any]
    answer: Any
    query: type[msgspec.Struct] = Nothing
    body: type[msgspec.Struct] | None = None
    needs: str = ""
    status: int = 200
    errors: Sequence[int] = field(default=())


def view_of(endpoints: Sequence[Endpoint]) -> Callable[..., HttpResponse]:
    """The view of one address. Who asks is looked at first: a stranger learns nothing else."""
    by_method = {endpoint.method: endpoint for endpoint in endpoints}
    methods = sorted({*by_method, *(["HEAD"] if "GET" in by_method else [])})

    @csrf_exempt  # sessions are checked by authenticated(), tokens need none
    @never_cache
    def view(request: HttpRequest, **path: str) -> HttpResponse:
        try:
            user = authenticated(request)
            endpoint = by_method.get("GET" if request.method == "HEAD" else str(request.method))  # type: ignore[call-overload]
            if endpoint is None:
                error = ApiError(405, "method", f"This address answers to {' and '.join(methods)}.")
                return error_response(error, Allow=", ".join(methods))
            document = endpoint.act(_call(endpoint, request, user, path))
        except Exception as error:  # whatever is not for the caller is raised again
            told = answer_to(error)
            if told is None:
                raise
            headers = {"WWW-Authenticate": 'Bearer realm="chokaq"'} if told.status == 401 else {}
            return error_response(told, **headers)
        return HttpResponse(encoded(document), content_type="application/json", status=endpoint.status)

    return view


def _call(endpoint: Endpoint, request: HttpRequest, user: Any, path: Mapping[str, str]) -> Call:
    query = msgspec.convert(request.GET.dict(), endpoint.query, strict=False)
    return Call(request, user, path, query, None if endpoint.body is None else _decoded(request, endpoint.body))


def _decoded(request: HttpRequest, body: type[msgspec.Struct]) -> Any:
    text = _body(request)
    try:
        text.decode()  # what is kept as it is written, a payload, would otherwise be looked at by nobody
        return msgspec.json.decode(text, type=body)
    except UnicodeDecodeError as error:
        raise ApiError(400, "not_json", f"The body is not UTF-8: {error.reason} at byte {error.start:,}.") from None
    except RecursionError:
        raise ApiError(400, "not_json", "The body is nested too deeply.") from None


def _body(request: HttpRequest) -> bytes:
    length = request.headers.get("Content-Length", "")
    if length.isdecimal() and int(length) > BODY_LIMIT:
        raise ApiError(413, "too_large", f"A body has at most {BODY_LIMIT:,} bytes.")
    body = request.body
    if len(body) > BODY_LIMIT:
        raise ApiError(413, "too_large", f"A body has at most {BODY_LIMIT:,} bytes.")
    if body and request.content_type != "application/json":
        said = (request.content_type or "nothing")[:80]
        raise ApiError(415, "not_json", f"The body must be application/json, not {said}.")
    return body or b"{}"
