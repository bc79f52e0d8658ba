"""Sends Django signals from a thread of their own, so that no receiver holds up the group commit."""

from __future__ import annotations

import logging
import threading
from queue import SimpleQueue
from typing import Any

from django.db import close_old_connections, connections
from django.dispatch import Signal

from ..job.error_info import describe
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
        self._inbox.put((signal, sender, arguments))
        if self._thread is None:
            self._begin()

    def _begin(self) -> None:
        with self._lock:
            if self._thread is not None:
                return
            thread = threading.Thread(target=self._loop, name="chokaq-signals", daemon=True)
            try:
                thread.start()
            except Exception as error:  # noqa: BLE001 - whoever sends is on the way of a job, which goes on
                log_event(
                    logger, logging.WARNING, Event.THREAD_REFUSED,
                    "No thread could be made for signals; the next one tries again: %s", error,
                )  # fmt: skip
            else:
                self._thread = thread

    def close(self, timeout: float = 5.0) -> None:
        """Send what waits, then end."""
        if self._thread is not None:
            self._inbox.put(None)
            self._thread.join(timeout)

    def _loop(self) -> None:
        try:
            while (item := self._inbox.get()) is not None:
                try:
                    self._send(*item)
                except BaseException as error:  # noqa: BLE001 - SystemExit in a receiver: the next signals go out too
                    log_event(
                        logger, logging.ERROR, Event.SIGNAL_RECEIVER_FAILED,
                        "A signal did not reach all of its receivers: %s", describe(error).message, exc_info=error,
                    )  # fmt: skip
        finally:
            connections.close_all()

    @staticmethod
    def _send(signal: Signal, sender: Any, arguments: dict[str, Any]) -> None:
        close_old_connections()
        for receiver, answer in signal.send_robust(sender, **arguments):
            if isinstance(answer, Exception):
                log_event(
                    logger, logging.ERROR, Event.SIGNAL_RECEIVER_FAILED, "Signal receiver %s failed: %s",
                    receiver, answer, exc_info=answer,
                )  # fmt: skip
