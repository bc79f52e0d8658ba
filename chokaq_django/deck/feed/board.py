"""The newest state of every topic that somebody looks at: one for the whole process, whoever asks."""

from __future__ import annotations

import contextlib
import itertools
import json
import logging
import os
import threading
import time
from collections import OrderedDict
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Any

from django.core.signals import setting_changed
from django.db import Error as DatabaseError
from django.db import connections

from ...conf import get_options
from ...observability.events import Event, log_event
from ...reading.plans import by_index
from ...reading.recent import Recent
from ...reading.settings import follow_settings
from ...storage import StorageError, get_storage
from .changes import Section, TopicState
from .look import FEW_GROUPS, MANY_GROUPS, Look, Memory
from .masked import masked
from .probe import Probe
from .sections import build

__all__ = ["Board", "Stale", "as_frame", "clear", "current", "encode", "get_board"]

logger = logging.getLogger("chokaq.deck.feed")

RESTLESS = 1.0
"""Seconds after which a topic with something that waits is read again although nothing was committed: it gets later."""
LONGEST = 5.0
"""The same for a topic in which nothing waits."""
FORGOTTEN = 30.0
"""Seconds after which a topic that nobody asks for is forgotten."""
MOST_TOPICS = 2_000
HUNG = 5.0
"""Seconds without an answer of the database, neither data nor an error, after which what is shown is called stale."""
LOG_INTERVAL = 30.0
ENCODED = 64
"""Messages that are kept as text: browsers with the same state get the same one."""
STATES = 1_000_000
"""More states than a topic will count."""

_numbers = itertools.count(1)


def current() -> float:
    """Seconds within which whatever is looked at has been looked at again."""
    return 2 * get_options().deck.tick + 1


@dataclass(frozen=True, slots=True)
class Stale:
    """The database does not answer: what is shown is from ``since`` (seconds since 1970; None: nothing was seen)."""

    since: float | None
    reason: str

    def message(self) -> dict[str, Any]:
        return {"type": "stale", "since": self.since, "reason": self.reason}


@dataclass(slots=True)
class _Topic:
    """The states for those who may see payloads (``open``) and for those who may not. Times are ``time.monotonic``'s.

    ``version`` is the board's when it was read. ``restless``: it changes although nothing is written.
    """

    open: TopicState
    masked: TopicState
    asked_at: float
    checked_at: float = float("-inf")
    read_at: float = float("-inf")
    version: int = -1
    restless: bool = True


def encode(value: dict[str, Any]) -> str:
    """A message as JSON, in ASCII: a lone surrogate of a job's text does no harm."""
    return json.dumps(value, separators=(",", ":"))


def as_frame(texts: Collection[str], number: int | None = None) -> str:
    """Encoded messages as one frame: one alone, several as a batch."""
    frame = next(iter(texts)) if len(texts) == 1 else f'{{"type":"batch","messages":[{",".join(texts)}]}}'
    return frame if number is None else f'{frame[:-1]},"frame":{number}}}'


class Board:
    """Topics and their states. :meth:`refresh` reads, in whatever thread calls it and on that thread's connections;
    one thread at a time, the others wait for what it finds. The rest looks at what is there and is for any thread."""

    def __init__(self) -> None:
        self._reading = threading.Lock()
        self._lock = threading.Lock()
        self._topics: dict[str, _Topic] = {}
        self._texts: OrderedDict[tuple[Any, ...], list[str]] = OrderedDict()
        self._alias = ""
        self._probe = Probe("")
        self._memory = Memory(Recent(""))
        self._version = 0
        self._told: tuple[float, float] | None = None
        """The database's time, and ours when it told it."""
        self._seen_at = 0.0
        """When the database last answered, while ``_told`` is not None."""
        self._asked_at: float | None = None
        """Since when a look is under way."""
        self._stale: Stale | None = None
        self._logged_at = float("-inf")
        self.looks = 0
        """How often the database was read: for tests."""

    # -- reading -------------------------------------------------------------------------------------------------------

    def refresh(self, names: Iterable[str], max_age: float, patience: float = -1) -> bool:
        """Look at those of these topics at which nobody has looked for ``max_age`` seconds; whether there is anything
        new to tell.

        It waits ``patience`` seconds (-1: as long as it takes) for a look that another thread takes. It does not raise
        when the database does not answer: :meth:`stale` says so.
        """
        if not self._reading.acquire(timeout=patience):
            return False
        self._asked_at = time.monotonic()
        try:
            return self._refresh(names, max_age)
        except Exception as error:  # noqa: BLE001 - what it cannot show, it says, and goes on
            return self.failed(error)
        finally:
            self._asked_at = None
            self._reading.release()

    def _refresh(self, names: Iterable[str], max_age: float) -> bool:
        now = time.monotonic()
        self._follow_settings()
        topics = self._entries(names, now)
        due = {name: topic for name, topic in topics.items() if now - topic.checked_at >= max_age}
        if not due:
            return False
        if self._probe.changed():
            self._version += 1
        behind = {name: topic for name, topic in due.items() if self._is_behind(topic, now)}
        changed = self._read(behind, now) if behind else False
        self._seen_at = time.monotonic()
        for topic in due.values():
            topic.checked_at = self._seen_at  # by its end: a look may take longer than what is seen counts as new
        healed, self._stale = self._stale is not None, None
        if healed:
            log_event(logger, logging.INFO, Event.STORAGE_RECOVERED, "the Deck sees the job database again")
        return changed or healed

    def _follow_settings(self) -> None:
        alias = get_options().database
        if alias != self._alias:
            self._probe.close()
            self._alias, self._probe, self._memory = alias, Probe(alias), Memory(Recent(alias))

    def _entries(self, names: Iterable[str], now: float) -> dict[str, _Topic]:
        """These topics; those that nobody has asked for lately are dropped."""
        with self._lock:
            wanted = {name: self._topics.get(name) or self._new(name, now) for name in names}
            for topic in wanted.values():
                topic.asked_at = now
            kept = sorted(self._topics.items(), key=lambda item: item[1].asked_at, reverse=True)[:MOST_TOPICS]
            self._topics = {name: topic for name, topic in kept if now - topic.asked_at < FORGOTTEN} | wanted
        return wanted

    def _new(self, name: str, now: float) -> _Topic:
        first = next(_numbers) * STATES
        return _Topic(TopicState(name, first), TopicState(name, first), now)

    def _is_behind(self, topic: _Topic, now: float) -> bool:
        return topic.version != self._version or now - topic.read_at >= (RESTLESS if topic.restless else LONGEST)

    def _read(self, topics: dict[str, _Topic], now: float) -> bool:
        told = get_storage(self._alias).now()
        follow_settings()
        self._told = (told.timestamp(), time.monotonic())
        most_groups = MANY_GROUPS if "failures" in topics else FEW_GROUPS
        look = Look(self._alias, told, self._memory, _ids(topics, "job"), _ids(topics, "bulk"), most_groups)
        changed, at = False, round(told.timestamp(), 3)
        with by_index(self._alias):
            found = {name: build(name, look) for name in topics}
        for name, sections in found.items():
            topic = topics[name]
            with self._lock:
                changed = topic.open.update(sections, at) or changed
                changed = topic.masked.update(masked(sections), at) or changed
            topic.read_at, topic.version, topic.restless = now, self._version, _is_restless(sections)
        self.looks += 1
        return changed

    def failed(self, error: Exception) -> bool:
        """A look has failed: give up what may be broken, the next one opens it again. Whether that is news."""
        reason = "database" if isinstance(error, (DatabaseError, StorageError, OSError)) else "error"
        news = self._stale is None
        if news:
            self._stale = Stale(self._seen_time(), reason)
        if news or time.monotonic() - self._logged_at >= LOG_INTERVAL:
            self._logged_at = time.monotonic()
            log_event(
                logger, logging.WARNING, Event.STORAGE_TROUBLE, "the Deck does not see the job database: %s: %s",
                type(error).__name__, error, exc_info=error if reason == "error" else None,
            )  # fmt: skip
        with contextlib.suppress(Exception):
            self._probe.close()
            if not connections[self._alias].in_atomic_block:
                connections[self._alias].close()
        return news

    # -- looking at what is there --------------------------------------------------------------------------------------

    def news(self, topic: str, is_masked: bool, base: int | None) -> tuple[list[str], int | None]:
        """Encoded messages for a client that has the state ``base`` of a topic (None: none), and the state that it has
        with them; no messages when there is nothing new, or nothing yet."""
        with self._lock:
            found = self._topics.get(topic)
            if found is None:
                return [], base
            state = found.masked if is_masked else found.open
            if state.seq == state.first:
                return [], base
            if base is None and self._stale is None and time.monotonic() - found.checked_at > current():
                return [], base  # somebody looked at it a while ago: what is new is read first
            key = (topic, is_masked, base, state.seq)
            texts = self._texts.get(key)
            if texts is None:
                messages = [state.snapshot()] if base is None else state.since(base)
                texts = self._texts[key] = [encode(message) for message in messages]
                while len(self._texts) > ENCODED:
                    self._texts.popitem(last=False)
            return texts, state.seq

    def stale(self) -> Stale | None:
        """Whether the database does not answer: with an error, or not at all for :data:`HUNG` seconds."""
        asked_at = self._asked_at
        if self._stale is None and asked_at is not None and time.monotonic() - asked_at > HUNG:
            return Stale(self._seen_time(), "database")
        return self._stale

    def at(self) -> float:
        """Up to when what is there holds, in seconds since 1970; our own clock until the database has told its."""
        return self._seen_time() or round(time.time(), 3)

    def _seen_time(self) -> float | None:
        told = self._told
        return None if told is None else round(told[0] + max(0.0, self._seen_at - told[1]), 3)


def _ids(topics: Iterable[str], kind: str) -> list[str]:
    named = (name.partition(":") for name in topics)
    return [rest for first, _, rest in named if first == kind and rest]


def _is_restless(sections: dict[str, Section]) -> bool:
    """Whether something waits, so that it gets later, or due, while nothing is written."""
    tiles, queue, job = (sections.get(name) for name in ("tiles", "queue", "job"))
    return bool((tiles and tiles["pending"]["value"]) or (queue and queue["pending"]) or (job and job["waiting"]))


_board = Board()


def get_board() -> Board:
    """The process's own."""
    return _board


def clear(**_: Any) -> None:
    """Forget everything that was seen: after a fork, and between tests."""
    global _board
    _board = Board()


def _settings_changed(*, setting: str, **_: Any) -> None:
    if setting in ("CHOKAQ", "DATABASES"):
        clear()


os.register_at_fork(after_in_child=clear)
setting_changed.connect(_settings_changed)
