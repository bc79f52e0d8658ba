"""A waker that hears of new work through the project's channel layer."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable

from ..channel_wake import MESSAGE, PATIENCE, channel_layer, group_of
from ..observability.events import Event, log_event
from .wakeup import PollingWaker

logger = logging.getLogger("chokaq.worker.wakeup")


class ChannelWaker(PollingWaker):
    """Listens in a thread with an event loop of its own; polls as without a layer while the layer does not answer."""

    RETRY = 5.0
    """Seconds until a layer that failed is tried again."""
    JOIN = 600.0
    """Seconds between two joins of the group: layers forget members after some time (Redis: a day)."""

    def __init__(self, alias: str, interested: Callable[[str], bool]) -> None:
        super().__init__()
        self._group = group_of(alias)
        self._interested = interested
        self._heard: set[str] = set()
        self._lock = threading.Lock()
        self._listening = False
        self._logged = False
        self._loop = asyncio.new_event_loop()
        self._task: asyncio.Task[None] | None = None
        self._thread = threading.Thread(target=self._run, name="chokaq-channel-waker", daemon=True)
        self._thread.start()

    def wait(self, timeout: float) -> list[str]:
        if not self._listening:
            super().wait(timeout)
        else:
            self._event.wait(timeout)
            self._event.clear()
        with self._lock:
            heard, self._heard = self._heard, set()
        return sorted(heard)

    def close(self) -> None:
        try:
            self._loop.call_soon_threadsafe(lambda: self._task.cancel() if self._task else None)
        except RuntimeError:
            return  # the loop has ended by itself
        self._thread.join(self.RETRY)

    # -- the listening thread ------------------------------------------------------------------------------------------

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._task = self._loop.create_task(self._listen())
        try:
            self._loop.run_until_complete(self._task)
        except asyncio.CancelledError:
            pass
        finally:
            self._listening = False
            self._loop.run_until_complete(self._loop.shutdown_asyncgens())
            self._loop.close()

    async def _listen(self) -> None:
        while True:
            try:
                await self._hear()
            except Exception as error:  # noqa: BLE001 - of whatever layer: polling goes on, it is tried again later
                if not self._logged:
                    self._logged = True
                    log_event(
                        logger, logging.WARNING, Event.WAKE_UP_TROUBLE,
                        "the channel layer gives no wake-ups, the worker polls: %s: %s", type(error).__name__, error,
                    )  # fmt: skip
            await asyncio.sleep(self.RETRY)

    async def _hear(self) -> None:
        layer = channel_layer()
        channel = await asyncio.wait_for(layer.new_channel(), PATIENCE)
        joined = float("-inf")
        receive: asyncio.Future[dict[str, object]] | None = None
        try:
            while True:
                if time.monotonic() - joined >= self.JOIN:
                    await asyncio.wait_for(layer.group_add(self._group, channel), PATIENCE)
                    joined = time.monotonic()
                    if not self._listening:
                        self._listening, self._logged = True, False
                        self.set()  # what was announced before nobody heard
                receive = receive or asyncio.ensure_future(layer.receive(channel))
                done, _ = await asyncio.wait({receive}, timeout=self.JOIN)
                if done:
                    message, receive = receive.result(), None
                    self._take(message)
        finally:
            was_listening, self._listening = self._listening, False
            if receive is not None:
                receive.cancel()
            if was_listening:
                await asyncio.wait_for(layer.group_discard(self._group, channel), PATIENCE)

    def _take(self, message: dict[str, object]) -> None:
        queues = message.get("queues") if message.get("type") == MESSAGE else None
        if not isinstance(queues, list):
            return
        ours = [name for name in queues if isinstance(name, str) and self._interested(name)]
        if ours or not queues:
            with self._lock:
                self._heard.update(ours)
            self.set()
