"""Who asks: a session with its CSRF token, or a token in the header ``Authorization``."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest, HttpResponse
from django.middleware.csrf import CsrfViewMiddleware

from .errors import ApiError
from .tokens import user_of

__all__ = ["authenticated"]


class _CsrfCheck(CsrfViewMiddleware):
    """Says why a request is refused, instead of answering with a page."""

    def _reject(self, request: HttpRequest, reason: str) -> Any:
        return reason


def authenticated(request: HttpRequest) -> Any:
    """The user who asks, who is active, staff and may look at the Deck; :class:`ApiError` for anybody else.

    A session counts only with a CSRF token where something may change, whatever the project's middleware does. A token
    is sent by no browser by itself, so it needs none.
    """
    scheme, _, token = request.headers.get("Authorization", "").partition(" ")
    if scheme.lower() == "bearer":
        user = user_of(token.strip())
        if user is None:
            raise ApiError(401, "bad_token", "The token is not valid, or not any more.")
    else:
        user = getattr(request, "user", None)
        if user is None or not user.is_authenticated:
            raise ApiError(401, "unauthenticated", "Send a token in the header Authorization, or log in.")
        _check_csrf(request)
    if not (user.is_active and getattr(user, "is_staff", False) and user.has_perm("chokaq.view_deck")):
        raise ApiError(403, "forbidden", "This needs a member of the staff with the permission chokaq.view_deck.")
    return user


def _nothing(request: HttpRequest) -> HttpResponse:
    return HttpResponse()


def _check_csrf(request: HttpRequest) -> None:
    check = _CsrfCheck(_nothing)
    check.process_request(request)
    reason = check.process_view(request, _nothing, (), {})
    if reason is not None:
        raise ApiError(403, "csrf", f"{reason} Send the cookie's token in the header X-CSRFToken.")
