"""One socket of the live feed. Nothing can be done over it: it only tells, and every act is a POST."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import secrets
import time
from typing import Any

from channels.generic.websocket import AsyncWebsocketConsumer
from django.conf import settings
from django.http.cookie import parse_cookie

from ...observability.events import Event, log_event
from .access import Access, knows_who_left
from .board import Stale, as_frame, encode, get_board
from .hub import Client, get_hub
from .pace import Pace
from .protocol import (
    BAD_MESSAGE,
    MOST_TOPICS,
    NOT_KEEPING_UP,
    Budget,
    ProtocolError,
    Refusal,
    clean_topics,
    from_own_origin,
    hello,
    parse,
)

__all__ = ["DeckConsumer"]

logger = logging.getLogger("chokaq.deck.feed")

ALIVE = 5.0
"""Seconds of silence after which the browser is told that nothing has changed."""
WINDOW = 2
"""Frames that a browser may leave unanswered."""
HIGHEST = 2**48
"""Number of a frame; JavaScript counts so far, and nobody guesses it."""
DEAD = 60.0
"""Seconds without an answer after which a browser is given up."""
ANSWER = 10.0
"""Seconds for the database to say who may look."""
BROKEN, TRY_LATER = 1011, 1013
MOST_SOCKETS = 1_000
"""Of one process."""
MOST_REPLIES = 5


class DeckConsumer(AsyncWebsocketConsumer):  # type: ignore[misc]
    """Tells a browser what has changed in the topics that it shows.

    One task sends: whatever is to be said goes through it, at most five frames a second, and no more than two that the
    browser has not answered. It always sends the newest state, so that a slow browser gets no backlog.
    """

    channel_layer_alias = "chokaq deck: no layer"
    """Sockets use none: the hub listens for all of them, and a layer that fails must not end them."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._client: Client | None = None
        self._sender: asyncio.Task[None] | None = None
        self._news = asyncio.Event()
        self._states: dict[str, int | None] = {}
        """Topic -> the state that the browser has; None: it needs all of it."""
        self._replies: list[dict[str, Any]] = []
        self._stale: Stale | None = None
        """What the browser was told."""
        self._budget, self._pace = Budget(), Pace()
        self._waiting: list[int] = []
        """Frames that the browser has not answered."""
        self._answered: int | None = None
        self._sent_at = self._answered_at = 0.0

    # -- life ----------------------------------------------------------------------------------------------------------

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._end()  # a server that shuts down may cancel it

    async def connect(self) -> None:
        session = _session_key(self.scope)
        if not session or not from_own_origin(self.scope) or len(get_hub()) >= MOST_SOCKETS or not knows_who_left():
            await self.close()  # before it is accepted: HTTP 403
            return
        access = await self._ask(session)
        if access is None or access.code is not None:
            await self.close()
            return
        self._client = Client(session, access, self._news.set, self._access_changed)
        await self.accept()
        self._answered_at = time.monotonic()
        await self._put([encode(hello(access, "live", get_board().at()))])
        self._sender = asyncio.create_task(self._send_all())
        get_hub().join(self._client)

    def _end(self) -> None:
        """From here on, nothing is sent any more."""
        if self._client is not None:
            get_hub().leave(self._client)
        if self._sender is not None and self._sender is not asyncio.current_task():
            self._sender.cancel()
        self._sender = None

    async def _hang_up(self, code: int) -> None:
        self._end()
        await self.close(code)

    # -- who it is -----------------------------------------------------------------------------------------------------

    async def _ask(self, session: str) -> Access | None:
        """What the user may do now; None when the database does not say."""
        try:
            return await asyncio.wait_for(get_hub().may_look(session), ANSWER)
        except Exception:  # noqa: BLE001 - of whatever kind, who is not known may not look
            return None

    def _access_changed(self, access: Access) -> None:
        if self._sender is None:
            return
        if access.code is not None:
            self._sender.cancel()
            self._sender = asyncio.create_task(self._hang_up(access.code))
            return
        self._reply(hello(access, "live", get_board().at()))
        self._states = dict.fromkeys(self._states)  # masked, or not any more
        self._news.set()

    # -- what the browser says -----------------------------------------------------------------------------------------

    async def receive(self, text_data: str | None = None, bytes_data: bytes | None = None) -> None:
        if self._client is None or self._sender is None:
            return  # it is being closed
        try:
            self._budget.spend()
            await self._hear(parse(text_data))
        except ProtocolError as error:
            await self._hang_up(error.code)
        except Refusal as refusal:
            self._reply({"type": "error", "code": refusal.code, "message": str(refusal)})

    async def _hear(self, message: dict[str, Any]) -> None:
        kind = message.get("type")
        if kind == "ack":
            self._acknowledge(message.get("frame"))
        elif kind == "subscribe":
            await self._subscribe(clean_topics(message.get("topics")))
        elif kind == "resync":
            await self._subscribe([topic for topic in clean_topics([message.get("topic")]) if topic in self._states])
        elif kind == "unsubscribe":
            left = _texts(message.get("topics"))
            self._set_topics({topic: state for topic, state in self._states.items() if topic not in left})
        else:
            raise Refusal("unknown_type", f"there is no message {str(kind)[:80]!r}")

    def _acknowledge(self, frame: object) -> None:
        if type(frame) is int and frame in self._waiting:
            self._waiting = self._waiting[self._waiting.index(frame) + 1 :]
            self._answered, self._answered_at = frame, time.monotonic()
            self._news.set()
        elif type(frame) is not int or frame != self._answered:
            raise Refusal("bad_message", "ack needs the number of a frame that was sent")

    async def _subscribe(self, topics: list[str]) -> None:
        """Add topics, or send those again that are there: to whom may look now."""
        wanted = {**self._states, **dict.fromkeys(topics)}
        if len(wanted) > MOST_TOPICS:
            raise Refusal("too_many_topics", f"at most {MOST_TOPICS} topics")
        assert self._client is not None  # noqa: S101 - receive looks
        access = await self._ask(self._client.session)
        if access is None or access.code is not None:
            raise ProtocolError(TRY_LATER if access is None else access.code or BAD_MESSAGE)
        self._set_topics({**self._states, **dict.fromkeys(topics)})

    def _set_topics(self, states: dict[str, int | None]) -> None:
        self._states = states
        if self._client is not None:
            self._client.topics = frozenset(states)
        get_hub().ensure()
        self._news.set()

    # -- what it is told -----------------------------------------------------------------------------------------------

    def _reply(self, message: dict[str, Any]) -> None:
        self._replies = [*self._replies, message][-MOST_REPLIES:]
        self._news.set()

    async def _send_all(self) -> None:
        try:
            await self._keep_sending()
        except Exception as error:  # noqa: BLE001 - of the server, when the browser is gone; or a mistake of ours
            log_event(logger, logging.INFO, Event.FEED_BROKE_OFF, "a socket of the Deck broke off", exc_info=error)
            await self._hang_up(BROKEN)

    async def _keep_sending(self) -> None:
        """Until it is cancelled: wait for news, and for the browser, then send what it does not have yet."""
        while True:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._news.wait(), ALIVE)
            get_hub().ensure()  # should its thread have died
            await asyncio.sleep(self._pace.wait())
            self._news.clear()
            if len(self._waiting) >= WINDOW:
                if time.monotonic() - self._answered_at >= DEAD:
                    await self._hang_up(NOT_KEEPING_UP)
                    return
                continue
            await self._send_frame()

    async def _send_frame(self) -> None:
        texts = self._new_texts()
        if not texts:
            if time.monotonic() - self._sent_at < ALIVE:
                return
            texts = [encode({"type": "alive", "at": get_board().at()})]
        if not self._waiting:
            self._answered_at = time.monotonic()  # it is from now on that an answer is waited for
        self._pace.took()
        await self._put(texts)

    async def _put(self, texts: list[str]) -> None:
        """Send a frame. Who does not read it cannot answer it: what is kept here for somebody who reads nothing is no
        more than WINDOW frames."""
        number = secrets.randbelow(HIGHEST)
        self._waiting.append(number)
        self._sent_at = time.monotonic()
        await self.send(text_data=as_frame(texts, number))

    def _new_texts(self) -> list[str]:
        """Everything that the browser lacks, encoded; from here on it has it."""
        board = get_board()
        replies, self._replies = self._replies, []
        texts = [encode(reply) for reply in replies]
        is_masked = self._client is None or self._client.allowed.is_masked
        for topic, base in self._states.items():
            found, self._states[topic] = board.news(topic, is_masked, base)
            texts += found
        stale = board.stale()
        if stale != self._stale:
            self._stale = stale
            texts.append(encode(stale.message() if stale is not None else _HEALED))
        return texts


_HEALED = {"type": "stale", "since": None, "reason": None}


def _session_key(scope: dict[str, Any]) -> str | None:
    """The session that the browser says it has, if there can be such a one: a quoted cookie spells any character, NUL
    too, and the hub asks for all sockets by one statement, which must not fail for a stranger's sake."""
    said = "; ".join(value.decode("latin-1") for name, value in scope["headers"] if name.lower() == b"cookie")
    key = parse_cookie(said).get(settings.SESSION_COOKIE_NAME, "")
    return key if key and key.isascii() and key.isprintable() else None


def _texts(topics: object) -> list[str]:
    if not isinstance(topics, list):
        raise Refusal("bad_message", "topics must be a list of texts")
    return [topic for topic in topics if isinstance(topic, str)]
