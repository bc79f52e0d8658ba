"""Browsers for tests of the live feed: real sockets of the project's ASGI application, a real hub, a real database."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from asgiref.sync import sync_to_async
from channels.testing import WebsocketCommunicator
from django.conf import settings
from django.contrib.auth.models import User
from django.db import connections
from django.test import Client

from chokaq_django.deck.routing import deck_websocket

T = TypeVar("T")
DEADLINE = 15.0
OVERVIEW = "overview"


def session_of(user: User) -> str:
    """The key of a session in which the user is signed in."""
    client = Client()
    client.force_login(user)
    return str(client.cookies[settings.SESSION_COOKIE_NAME].value)


async def in_database(work: Callable[..., T], *args: Any, **named: Any) -> T:
    """Do it in a thread, which leaves no connection open."""

    def run() -> T:
        try:
            return work(*args, **named)
        finally:
            connections.close_all()

    return await sync_to_async(run, thread_sensitive=False)()


class Browser:
    """One browser with one socket. It keeps what it was told by topic, as the documentation says.

    ``acks``: whether it answers frames.
    """

    def __init__(
        self, session: str | None, origin: str | None = "http://testserver", host: str = "testserver", acks: bool = True
    ) -> None:
        headers = [(b"host", host.encode())]
        if origin is not None:
            headers.append((b"origin", origin.encode()))
        if session is not None:
            headers.append((b"cookie", f"{settings.SESSION_COOKIE_NAME}={session}".encode()))
        self.socket = WebsocketCommunicator(deck_websocket(), "/ws/chokaq/deck/", headers=headers)
        self.acks = acks
        self.frames: list[dict[str, Any]] = []
        self.messages: list[dict[str, Any]] = []
        self.closed: int | None = None
        """The code with which the server closed it."""

    async def connect(self) -> bool:
        accepted, _ = await self.socket.connect(timeout=DEADLINE)
        return bool(accepted)

    async def close(self) -> None:
        await self.socket.disconnect(timeout=DEADLINE)

    async def say(self, message: object) -> None:
        await self.socket.send_to(text_data=message if isinstance(message, str) else json.dumps(message))

    async def subscribe(self, *topics: str) -> None:
        await self.say({"type": "subscribe", "topics": list(topics)})

    async def frame(self) -> dict[str, Any] | None:
        """The next frame; None when the server has closed the socket."""
        output = await self.socket.receive_output(DEADLINE)
        if output["type"] == "websocket.close":
            self.closed = output.get("code")
            return None
        frame: dict[str, Any] = json.loads(output["text"])
        self.frames.append(frame)
        self.messages += frame["messages"] if frame["type"] == "batch" else [frame]
        if self.acks:
            await self.say({"type": "ack", "frame": frame["frame"]})
        return frame

    async def until(self, found: Callable[[dict[str, Any]], Any]) -> dict[str, Any]:
        """The first message from now on, or of those not looked at yet, for which ``found`` is true."""
        async with asyncio.timeout(DEADLINE):
            while True:
                while self.messages:
                    message = self.messages.pop(0)
                    if found(message):
                        return message
                assert await self.frame() is not None, f"closed with {self.closed}"

    async def until_closed(self) -> int | None:
        """The code with which the server closes it; what comes before does not matter."""
        async with asyncio.timeout(DEADLINE):
            while await self.frame() is not None:
                pass
        return self.closed

    async def snapshot(self, topic: str = OVERVIEW) -> dict[str, Any]:
        """The sections of the next snapshot of a topic."""
        message = await self.until(lambda one: one["type"] == "snapshot" and one["topic"] == topic)
        sections: dict[str, Any] = message["sections"]
        return sections

    async def snapshots(self, *topics: str) -> dict[str, dict[str, Any]]:
        """The sections of the next snapshot of each topic, which come in any order."""
        found: dict[str, dict[str, Any]] = {}
        while missing := set(topics) - set(found):
            message = await self.until(lambda one: one["type"] == "snapshot" and one["topic"] in missing)
            found[message["topic"]] = message["sections"]
        return found

    async def section(self, name: str, found: Callable[[dict[str, Any]], Any]) -> dict[str, Any]:
        """A section of a snapshot or a delta for which ``found`` is true."""

        def has(message: dict[str, Any]) -> bool:
            section = message.get("sections", {}).get(name)
            return section is not None and bool(found(section))

        message = await self.until(has)
        section: dict[str, Any] = message["sections"][name]
        return section


def with_browsers(*browsers: Browser, work: Callable[..., Awaitable[T]]) -> T:
    """Connect the browsers, do the work with them, and close them."""

    async def run() -> T:
        try:
            for browser in browsers:
                assert await browser.connect()
            return await work(*browsers)
        finally:
            for browser in browsers:
                await browser.close()

    return asyncio.run(run())
