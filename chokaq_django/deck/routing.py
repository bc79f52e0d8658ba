"""Where the live feed is served: for the project's ASGI application.

    from channels.routing import ProtocolTypeRouter
    from chokaq_django.deck.routing import deck_websocket

    application = ProtocolTypeRouter({"http": get_asgi_application(), "websocket": deck_websocket()})

Who may connect is looked at by the consumer itself, by the session's cookie: neither ``AuthMiddlewareStack`` nor an
origin validator is needed around it, and neither does harm.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from channels.routing import URLRouter
from django.urls import path, re_path

from .feed.consumer import DeckConsumer

__all__ = ["WEBSOCKET_PATH", "deck_websocket", "websocket_urlpatterns"]

WEBSOCKET_PATH = "ws/chokaq/deck/"
"""Where browsers look for the socket, below the prefix under which the site is mounted."""

websocket_urlpatterns = [path(WEBSOCKET_PATH, DeckConsumer.as_asgi())]
"""For a router of the project's own."""


async def _refuse(scope: Any, receive: Any, send: Any) -> Any:
    """A socket at an address that there is not: refused, without an error in the log."""
    await receive()
    await send({"type": "websocket.close"})


def deck_websocket(more: Sequence[Any] = ()) -> Any:
    """The application for ``"websocket"``. ``more``: the project's own routes beside the Deck's."""
    return URLRouter([*websocket_urlpatterns, *more, re_path(r"", _refuse)])
