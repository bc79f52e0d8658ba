"""Wake-ups between processes through the project's channel layer, where it has one that reaches them (Redis).

Workers are woken through it where the database itself cannot notify: PostgreSQL notifies and SQLite tells who
committed; MariaDB, MySQL and SQL Server do neither, and a pooler in front of PostgreSQL passes no notices on. The Deck
is told whatever the engine that there is something new to see. Without such a layer they poll, and a message that is
lost costs a poll and nothing else.
"""

from __future__ import annotations

import asyncio
import functools
import logging
import os
import re
import threading
import time
from collections.abc import Collection
from typing import Any

from django.conf import settings
from django.core.signals import setting_changed
from django.db import connections

from .conf import get_options
from .observability.events import Event, log_event

__all__ = [
    "DECK", "MESSAGE", "PATIENCE", "Sender", "channel_layer", "group_of", "reaches_processes", "tell", "tell_deck",
    "usable",
]  # fmt: skip

logger = logging.getLogger("chokaq.wake")

MESSAGE = "chokaq.wake"
"""Type of the messages; they carry ``queues``, a list of names, which is empty when any queue may have work."""
DECK = "chokaq.deck"
"""Type of the messages to the Deck: look now, whatever it is."""
GAPS = {MESSAGE: 0.005, DECK: 0.05}
"""Seconds between two messages of a kind: what is told meanwhile goes into the next."""
NAMED = 100
"""Queues that one message names; with more, any queue is meant."""
PATIENCE = 5.0
"""Seconds for one call of the layer."""
LOG_INTERVAL = 30.0


def group_of(alias: str, kind: str = MESSAGE) -> str:
    """The group in which workers on this job database, or Decks, listen."""
    return f"{kind}.{re.sub(r'[^A-Za-z0-9.-]', '-', alias)[:60]}"


def channel_layer() -> Any:
    """The project's default channel layer."""
    from channels.layers import get_channel_layer  # a process that neither sends nor listens need not have it

    return get_channel_layer()


@functools.cache
def reaches_processes() -> bool:
    """Whether the project's channel layer is one for several processes. The one in memory is not."""
    backend = str((getattr(settings, "CHANNEL_LAYERS", None) or {}).get("default", {}).get("BACKEND", ""))
    return bool(backend) and backend.rpartition(".")[2] != "InMemoryChannelLayer"


@functools.cache
def usable(alias: str) -> bool:
    """Whether wake-ups of workers on this job database go through the channel layer."""
    if not reaches_processes():
        return False
    vendor = connections[alias].vendor
    return vendor != "sqlite" and (vendor != "postgresql" or get_options().worker.wake_up == "poll")


def _settings_changed(*, setting: str, **_: Any) -> None:
    if setting in ("CHANNEL_LAYERS", "CHOKAQ", "DATABASES"):
        reaches_processes.cache_clear()
        usable.cache_clear()


setting_changed.connect(_settings_changed)


class Sender:
    """Sends one kind of message from a thread of its own: who tells neither waits for the layer nor fails with it."""

    def __init__(self, kind: str = MESSAGE) -> None:
        self._kind = kind
        self._lock = threading.Lock()
        self._pending: dict[str, set[str] | None] = {}
        """Alias -> names of queues; None for any queue."""
        self._filled = threading.Event()
        self._thread: threading.Thread | None = None
        self._logged_at = float("-inf")

    def tell(self, alias: str, queues: Collection[str]) -> None:
        with self._lock:
            named = self._pending.setdefault(alias, set())
            if not queues:
                self._pending[alias] = None
            elif named is not None:
                named.update(queues)
            if self._thread is None:
                thread = threading.Thread(target=self._run, name=self._kind.replace(".", "-"), daemon=True)
                try:
                    thread.start()
                except RuntimeError as error:  # no more threads, or the interpreter is ending
                    self._pending.clear()
                    self._log(error)
                    return
                self._thread = thread
        self._filled.set()

    def _run(self) -> None:
        with asyncio.Runner() as runner:
            while True:
                self._filled.wait()
                self._filled.clear()
                with self._lock:
                    pending, self._pending = self._pending, {}
                for alias, queues in pending.items():
                    self._send(runner, alias, queues)
                time.sleep(GAPS[self._kind])

    def _send(self, runner: asyncio.Runner, alias: str, queues: Collection[str] | None) -> None:
        named = sorted(queues) if queues is not None and len(queues) <= NAMED else []
        message = {"type": self._kind, "queues": named}
        try:
            runner.run(asyncio.wait_for(channel_layer().group_send(group_of(alias, self._kind), message), PATIENCE))
        except Exception as error:  # noqa: BLE001 - of whatever layer: what is new is found by the next poll
            self._log(error)

    def _log(self, error: Exception) -> None:
        if time.monotonic() - self._logged_at < LOG_INTERVAL:
            return
        self._logged_at = time.monotonic()
        log_event(
            logger, logging.WARNING, Event.WAKE_UP_TROUBLE,
            "the channel layer does not take messages, workers and the Deck find what is new by polling: %s: %s",
            type(error).__name__, error,
        )  # fmt: skip


_sender, _deck_sender = Sender(), Sender(DECK)


def _after_fork() -> None:
    """A child has no thread of its parent's."""
    global _sender, _deck_sender
    _sender, _deck_sender = Sender(), Sender(DECK)


os.register_at_fork(after_in_child=_after_fork)


def tell(alias: str, queues: Collection[str]) -> None:
    """Tell workers of other processes that there may be work in these queues (in any, when it is empty). Returns at
    once; call it after the commit. What is not sent when the process ends is found by the next poll."""
    _sender.tell(alias, queues)


def tell_deck(alias: str) -> None:
    """Tell the Decks of other processes to look now. Returns at once, and does nothing where no layer reaches them;
    call it after the commit. What is told within 50 ms goes into one message."""
    if reaches_processes():
        _deck_sender.tell(alias, ())
