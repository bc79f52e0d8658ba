"""Hears the messages of a group in the project's channel layer, as long as the process wants to."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable
from typing import Any

from .channel_wake import PATIENCE, channel_layer, group_of
from .observability.events import Event, log_event

__all__ = ["ChannelListener"]

logger = logging.getLogger("chokaq.wake")


class ChannelListener:
    """Listens in a thread with an event loop of its own, and begins again by itself when the layer has failed.

    ``heard(message)`` and ``joined()`` are called in that thread and must not wait; ``joined`` because what was sent
    before nobody heard. ``listening``: whether messages arrive now.
    """

    RETRY = 5.0
    """Seconds until a layer that failed is tried again."""
    JOIN = 600.0
    """Seconds between two joins of the group: layers forget members after some time (Redis: a day)."""

    def __init__(
        self, kind: str, alias: str, heard: Callable[[dict[str, Any]], object], joined: Callable[[], object]
    ) -> None:
        self.listening = False
        self._kind, self._group = kind, group_of(alias, kind)
        self._heard, self._joined = heard, joined
        self._logged = False
        self._loop = asyncio.new_event_loop()
        self._task: asyncio.Task[None] | None = None
        self.thread = threading.Thread(target=self._run, name=f"{kind.replace('.', '-')}-listener", daemon=True)
        self.thread.start()

    def close(self) -> None:
        """Leave the group and end; waits for that, but not long. May be called again."""
        try:
            self._loop.call_soon_threadsafe(lambda: self._task.cancel() if self._task else None)
        except RuntimeError:
            return  # the loop has ended by itself
        self.thread.join(PATIENCE)

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._task = self._loop.create_task(self._listen())
        try:
            self._loop.run_until_complete(self._task)
        except asyncio.CancelledError:
            pass
        finally:
            self.listening = False
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
                        "the channel layer gives no messages, what is new is found by polling: %s: %s",
                        type(error).__name__, error,
                    )  # fmt: skip
            await asyncio.sleep(self.RETRY)

    async def _hear(self) -> None:
        layer = channel_layer()
        channel = await asyncio.wait_for(layer.new_channel(), PATIENCE)
        joined = float("-inf")
        receive: asyncio.Future[dict[str, Any]] | None = None
        try:
            while True:
                if time.monotonic() - joined >= self.JOIN:
                    await asyncio.wait_for(layer.group_add(self._group, channel), PATIENCE)
                    joined = time.monotonic()
                    if not self.listening:
                        self.listening, self._logged = True, False
                        self._joined()
                receive = receive or asyncio.ensure_future(layer.receive(channel))
                done, _ = await asyncio.wait({receive}, timeout=self.JOIN)
                if done:
                    message, receive = receive.result(), None
                    if message.get("type") == self._kind:
                        self._heard(message)
        finally:
            was_listening, self.listening = self.listening, False
            if receive is not None:
                receive.cancel()
            if was_listening:
                await asyncio.wait_for(layer.group_discard(self._group, channel), PATIENCE)
