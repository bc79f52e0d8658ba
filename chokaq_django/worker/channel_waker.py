"""A waker that hears of new work through the project's channel layer."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from ..channel_listener import ChannelListener
from ..channel_wake import MESSAGE
from .wakeup import PollingWaker


class ChannelWaker(PollingWaker):
    """Waits for messages; polls as without a layer while the layer does not answer."""

    def __init__(self, alias: str, interested: Callable[[str], bool]) -> None:
        super().__init__()
        self._interested = interested
        self._heard: set[str] = set()
        self._lock = threading.Lock()
        self._listener = ChannelListener(MESSAGE, alias, self._take, self.set)

    def wait(self, timeout: float) -> list[str]:
        if not self._listener.listening:
            super().wait(timeout)
        else:
            self._event.wait(timeout)
            self._event.clear()
        with self._lock:
            heard, self._heard = self._heard, set()
        return sorted(heard)

    def close(self) -> None:
        self._listener.close()

    def _take(self, message: dict[str, Any]) -> None:
        queues = message.get("queues")
        if not isinstance(queues, list):
            return
        ours = [name for name in queues if isinstance(name, str) and self._interested(name)]
        if ours or not queues:
            with self._lock:
                self._heard.update(ours)
            self.set()
