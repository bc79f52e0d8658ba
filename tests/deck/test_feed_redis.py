"""With Redis as channel layer the Deck is told by workers what is new; without it, the tick goes on."""

from __future__ import annotations

import asyncio
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import redis

from chokaq_django import enqueue
from chokaq_django.channel_listener import ChannelListener
from chokaq_django.channel_wake import tell_deck
from chokaq_django.deck.feed.hub import Hub
from chokaq_django.models import JobArchive, Queue, Worker
from tests import factories as make
from tests.helpers import WorkerProcess, wait_until
from tests.jobs import ResultJob

from .conftest import ALL
from .feed import OVERVIEW, Browser, in_database, session_of, with_browsers

FAR = 600
"""Seconds between two ticks: what is seen before was told."""


@pytest.fixture
def session(feed: Hub, settings: Any) -> str:
    settings.CHOKAQ = {**settings.CHOKAQ, "DECK": {"TICK": FAR}}
    return session_of(make.operator(*ALL, username="grace"))


def listening(hub: Hub) -> bool:
    listener = hub.listener
    return listener is not None and listener.listening


def test_what_a_worker_does_is_told_at_once(
    redis_url: str,
    session: str,
    feed: Hub,
    worker_process: Callable[..., WorkerProcess],
) -> None:
    worker_process(env={"REDIS_URL": redis_url})
    wait_until(Worker.objects.exists, 30)

    async def look(browser: Browser) -> None:
        await browser.subscribe(OVERVIEW)
        await browser.snapshot()
        await asyncio.to_thread(wait_until, lambda: listening(feed))
        job = await in_database(enqueue, ResultJob())
        # The worker has its own time for it; then comes what the Deck is told.
        has_run = JobArchive.objects.filter(pk=job.id).exists
        await in_database(wait_until, has_run, 30, what="the worker has run it")

        def ended(message: dict[str, Any]) -> bool:
            return message["type"] == "event" and any(
                event["kind"] == "archived" and event["job"] == job.id for event in message["events"]
            )

        await browser.until(ended)

    with_browsers(Browser(session), work=look)


class RedisServer:
    """A Redis of the test's own, at a socket in its folder: nobody else takes that while it is away."""

    def __init__(self, folder: str) -> None:
        self._folder, self._socket = folder, f"{folder}/redis.sock"
        self.url = f"unix://{self._socket}"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        where = ["--port", "0", "--unixsocket", self._socket, "--dir", self._folder]
        self._process = subprocess.Popen(
            ["redis-server", *where, "--save", "", "--appendonly", "no"], stdout=subprocess.DEVNULL
        )
        wait_until(self._answers, 30, what="Redis answers")

    def _answers(self) -> bool:
        try:
            return bool(redis.Redis.from_url(self.url).ping())
        except redis.RedisError:
            return False

    def stop(self) -> None:
        if self._process is not None:
            self._process.terminate()
            self._process.wait(30)


@pytest.fixture
def own_redis(settings: Any) -> Iterator[RedisServer]:
    if shutil.which("redis-server") is None:
        pytest.skip("redis-server is not on this machine")
    with tempfile.TemporaryDirectory(prefix="chokaq-redis-") as folder:
        server = RedisServer(folder)
        server.start()
        backend = "channels_redis.pubsub.RedisPubSubChannelLayer"
        settings.CHANNEL_LAYERS = {"default": {"BACKEND": backend, "CONFIG": {"hosts": [server.url]}}}
        try:
            yield server
        finally:
            server.stop()


def test_redis_may_go_away_and_come_back(
    own_redis: RedisServer, session: str, feed: Hub, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ChannelListener, "RETRY", 0.1)
    make.queue()

    async def changed(browser: Browser, cap: int) -> None:
        """Somebody commits, and goes on saying so to whoever listens."""
        await in_database(Queue.objects.filter(name="mail").update, max_workers=cap)
        seen = asyncio.create_task(browser.section("queue", lambda queue: queue["max_workers"] == cap))
        while not (await asyncio.wait({seen}, timeout=0.1))[0]:
            tell_deck("default")
        await seen

    async def look(browser: Browser) -> None:
        await browser.subscribe("queue:mail")
        await browser.snapshot("queue:mail")
        await asyncio.to_thread(wait_until, lambda: listening(feed))
        await changed(browser, 1)
        await asyncio.to_thread(own_redis.stop)
        settings.CHOKAQ = {**settings.CHOKAQ, "DECK": {"TICK": 0.1}}
        feed.ensure()
        await changed(browser, 2)
        settings.CHOKAQ = {**settings.CHOKAQ, "DECK": {"TICK": FAR}}
        await asyncio.to_thread(own_redis.start)
        await asyncio.to_thread(wait_until, lambda: listening(feed))
        await changed(browser, 3)

    with_browsers(Browser(session), work=look)
