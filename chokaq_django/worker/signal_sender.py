"""Sends Django signals from a thread of their own, so that no receiver holds up the group commit."""

from __future__ import annotations

import logging
import threading
from queue import SimpleQueue
from typing import Any

from django.db import close_old_connections, connections
from django.dispatch import Signal

from ..observability.events import Event, log_event

logger = logging.getLogger("chokaq.worker.signals")


class SignalSender:
    """A thread that starts with the first signal somebody listens to."""

    def __init__(self) -> None:
        self._inbox: SimpleQueue[tuple[Signal, Any, dict[str, Any]] | None] = SimpleQueue()
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()

    def send(self, signal: Signal, sender: Any, **arguments: Any) -> None:
        """Send soon, in order."""
        if self._thread is None:
            with self._lock:
                if self._thread is None:
                    self._thread = threading.Thread(target=self._loop, name="chokaq-signals", daemon=True)
                    self._thread.start()
        self._inbox.put((signal, sender, arguments))

    def close(self, timeout: float = 5.0) -> None:
        """Send what waits, then end."""
        if self._thread is not None:
            self._inbox.put(None)
            self._thread.join(timeout)

    def _loop(self) -> None:
        try:
            while (item := self._inbox.get()) is not None:
                signal, sender, arguments = item
                close_old_connections()
                for receiver, answer in signal.send_robust(sender, **arguments):
                    if isinstance(answer, Exception):
                        log_event(
                            logger, logging.ERROR, Event.SIGNAL_RECEIVER_FAILED, "Signal receiver %s failed: %s",
                            receiver, answer, exc_info=answer,
                        )  # fmt: skip
        finally:
            connections.close_all()
