"""The ASGI application that daphne serves. It serves the static files too, so that the demo needs no second server;
a real site leaves those to a web server or to WhiteNoise."""

from __future__ import annotations

import os

from channels.routing import ProtocolTypeRouter
from django.contrib.staticfiles.handlers import ASGIStaticFilesHandler
from django.core.asgi import get_asgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "example_project.settings")

http = get_asgi_application()  # first: the import below needs the apps

from chokaq_django.deck.routing import deck_websocket  # noqa: E402

application = ProtocolTypeRouter({"http": ASGIStaticFilesHandler(http), "websocket": deck_websocket()})
