"""Keeps the board up to date while sockets are open: one thread for all of them, with a database connection of its own.

The thread begins with the first socket and ends after the last. It also says who may look: when a socket asks for it,
and every two seconds for all of them.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import threading
import time
from collections.abc import Callable
from typing import Any

from django.db import Error as DatabaseError
from django.db import connections, reset_queries

from ...channel_listener import ChannelListener
from ...channel_wake import DECK, reaches_processes
from ...conf import get_options
from ...observability.events import Event, log_event
from .access import Access, may_look
from .board import current, get_board
from .pace import Pace

__all__ = ["Client", "Hub", "get_hub"]

logger = logging.getLogger("chokaq.deck.feed")

ACCESS = 2.0
"""Seconds between two looks at who may look."""
LIMITS: dict[str, dict[str, Any]] = {
    "postgresql": {
        "connect_timeout": 10, "keepalives": 1, "keepalives_idle": 10, "keepalives_interval": 5, "keepalives_count": 3,
    },
    "mysql": {"connect_timeout": 10, "read_timeout": 30, "write_timeout": 30},
}  # fmt: skip
"""Options of the thread's connection where the project has set none: a server that is gone must not look for ever like
one that takes its time."""

Question = tuple[str, "asyncio.Future[Access]", asyncio.AbstractEventLoop]


class Client:
    """One socket, as the hub knows it; made in the socket's event loop, where ``news()`` and ``access(Access)`` are
    called: there may be something to send; what its user may do has changed.

    ``topics`` is replaced, never changed.
    """

    def __init__(
        self, session: str, allowed: Access, news: Callable[[], None], access: Callable[[Access], None]
    ) -> None:
        self.session, self.allowed = session, allowed
        self.topics: frozenset[str] = frozenset()
        self._news, self._access = news, access
        self._loop = asyncio.get_running_loop()

    def tell_news(self) -> None:
        call_in(self._loop, self._news)

    def tell_access(self, access: Access) -> None:
        if access != self.allowed:
            self.allowed = access
            call_in(self._loop, self._access, access)


def call_in(loop: asyncio.AbstractEventLoop, call: Callable[..., object], *args: Any) -> None:
    """Call it in that loop, unless that has ended."""
    with contextlib.suppress(RuntimeError):
        loop.call_soon_threadsafe(call, *args)


class Hub:
    """The sockets of this process and the thread that serves them."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._clients: set[Client] = set()
        self._questions: list[Question] = []
        self._wake = threading.Event()
        self._hinted = False
        self._pace = Pace()
        self._thread: threading.Thread | None = None
        self.listener: ChannelListener | None = None
        """What hears hints, where a channel layer reaches other processes."""
        self._looked_at = self._checked_at = float("-inf")

    # -- from event loops ----------------------------------------------------------------------------------------------

    async def may_look(self, session: str) -> Access:
        """What the session's user may do now, as the database says; its errors are raised."""
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[Access] = loop.create_future()
        with self._lock:
            self._questions.append((session, answer, loop))
        self.ensure()
        return await answer

    def join(self, client: Client) -> None:
        with self._lock:
            self._clients.add(client)
        self.ensure()

    def leave(self, client: Client) -> None:
        with self._lock:
            self._clients.discard(client)
        self._wake.set()

    def ensure(self) -> None:
        """Have the thread running, and let it look at what is asked of it."""
        with self._lock:
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(target=self._run, name="chokaq-deck", daemon=True)
                self._thread.start()
        self._wake.set()

    def hint(self, *_: Any) -> None:
        """There is something new; any thread."""
        self._hinted = True
        self._wake.set()

    def __len__(self) -> int:
        return len(self._clients)

    @property
    def thread(self) -> threading.Thread | None:
        """The thread, while there is one."""
        return self._thread

    # -- the thread ----------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        listener = None
        try:
            alias = get_options().database
            _limit(alias)
            if reaches_processes():
                self.listener = listener = ChannelListener(DECK, alias, self.hint, self.hint)
            while self._is_wanted():
                self._wake.wait(self._pause())
                self._wake.clear()
                self._round()
        except Exception:  # noqa: BLE001 - sockets that wait in vain start another thread
            log_event(logger, logging.ERROR, Event.FEED_BROKE_OFF, "the Deck's feed broke off", exc_info=True)
        finally:
            if listener is not None:
                listener.close()
            with contextlib.suppress(Exception):
                connections.close_all()

    def _is_wanted(self) -> bool:
        """Whether anybody is left. If not, the thread is given up here: the next client starts another."""
        with self._lock:
            wanted = bool(self._clients or self._questions) and self._thread is threading.current_thread()
            if not wanted and self._thread is threading.current_thread():
                self._thread = None
            return wanted

    def _pause(self) -> float:
        return max(0.0, min(self._next_look(), self._checked_at + ACCESS) - time.monotonic())

    def _next_look(self) -> float:
        """When everything is to be looked at: every tick; after a hint as soon as it may be told."""
        if self._hinted:
            return time.monotonic() + self._pace.wait()
        return self._looked_at + get_options().deck.tick

    def _round(self) -> None:
        """Do what is to be done now."""
        board = get_board()
        try:
            self._check_access()
        except Exception as error:  # noqa: BLE001 - sessions and users may be elsewhere than in a database
            changed = board.failed(error)  # what nobody is known to be allowed to see is not read either
        else:
            changed = board.refresh(self._topics(), self._max_age())
        if changed:
            self._pace.took()
            for client in self._everybody():
                client.tell_news()
        reset_queries()  # with DEBUG, Django keeps them

    def _max_age(self) -> float:
        """Of what is looked at in this round: everything when a look is due; else only topics that are new."""
        if self._next_look() > time.monotonic():
            return current()
        self._looked_at, self._hinted = time.monotonic(), False
        return 0.0

    def _topics(self) -> frozenset[str]:
        return frozenset().union(*(client.topics for client in self._everybody()))

    def _everybody(self) -> list[Client]:
        with self._lock:
            return list(self._clients)

    # -- who may look --------------------------------------------------------------------------------------------------

    def _check_access(self) -> None:
        """Answer the questions; and look at everybody when it is time."""
        with self._lock:
            questions, self._questions = self._questions, []
            clients = list(self._clients)
        due = time.monotonic() - self._checked_at >= ACCESS
        if not questions and not (due and clients):
            return
        try:
            allowed = _ask({session for session, _, _ in questions} | {client.session for client in clients})
        except Exception as error:
            for _, answer, loop in questions:
                call_in(loop, _answer, answer, error)
            raise
        self._checked_at = time.monotonic()
        for session, answer, loop in questions:
            call_in(loop, _answer, answer, allowed[session])
        for client in clients:
            client.tell_access(allowed[client.session])


def _ask(sessions: set[str]) -> dict[str, Access]:
    try:
        return may_look(sessions)
    except DatabaseError:
        connections.close_all()  # the server may have been restarted since, and answers
        return may_look(sessions)


def _answer(future: asyncio.Future[Access], answer: Access | Exception) -> None:
    if future.done():
        return
    if isinstance(answer, Exception):
        future.set_exception(answer)
    else:
        future.set_result(answer)


def _limit(alias: str) -> None:
    """Give this thread a connection that belongs to it alone, none of a pool's, and that does not wait for ever."""
    wrapper = connections.create_connection(alias)
    options = {key: value for key, value in wrapper.settings_dict["OPTIONS"].items() if key != "pool"}
    wrapper.settings_dict = {**wrapper.settings_dict, "OPTIONS": {**LIMITS.get(wrapper.vendor, {}), **options}}
    connections[alias] = wrapper


_hub = Hub()


def get_hub() -> Hub:
    """The process's own."""
    return _hub


def _after_fork() -> None:
    """A child has no thread of its parent's, and none of its sockets."""
    global _hub
    _hub = Hub()


os.register_at_fork(after_in_child=_after_fork)
