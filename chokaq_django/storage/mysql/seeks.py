"""What is waiting, found by seeks: the priorities of each queue, and when the first job of each is due.

Only MIN and MAX with constants in all columns before theirs are a seek on these servers; DISTINCT, GROUP BY and
recursive queries read every waiting row. So what was found before is remembered, and one statement asks for each known
priority when its first row is due, and for each gap between known priorities whether it holds another one. An answer is
exact: when a gap does hold one, the statement is sent again with it.
"""

# ruff: noqa: S608 - statements are composed of constants and column names of ours; every value is a parameter

from __future__ import annotations

import datetime as dt
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..columns import HOT, QUEUE
from .floors import BEGINNING, SHARE, SLOW, Floors, Pair
from .session import MySQLSession

_PENDING = f"FROM {HOT} WHERE status = 0"
_UNTIL = f"TIMESTAMPDIFF(MICROSECOND, {MySQLSession.NOW}, MIN(run_at))"
_CLOSED, _CLOCK = -1, -2
_FIRST = f"SELECT {_CLOSED}, NULL, name FROM {QUEUE} WHERE is_paused OR NOT is_active"
# SYSDATE is the time at which it is evaluated, NOW the time at which the statement began.
_TOOK = "TIMESTAMPDIFF(MICROSECOND, NOW(6), SYSDATE(6))"
_LAST = f"SELECT {_CLOCK}, {_TOOK}, CONCAT({MySQLSession.NOW})"
FORGET_AFTER = 64
"""Priorities of one queue that are remembered although nothing waits there."""


@dataclass(slots=True)
class Look:
    """``until``: pair -> seconds until its first row is due, of all pairs that hold rows of open queues."""

    until: dict[Pair, float] = field(default_factory=dict)

    def due(self) -> list[Pair]:
        return [pair for pair, seconds in self.until.items() if seconds <= 0]

    def next_due(self) -> float | None:
        """Seconds until the first row that is not due yet heads its pair."""
        return min((seconds for seconds in self.until.values() if seconds > 0), default=None)


class Seeks(MySQLSession):
    """Looks without locks."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._floors = Floors()
        self._priorities: dict[str, list[int]] = {}
        self._names: list[str] = []
        self._answer: list[str] = []
        self._answer_until = float("-inf")

    def _look(self, queues: Sequence[str]) -> Look:
        """All pairs of these queues, but of those that are paused or inactive."""
        look = Look()
        closed: set[str] = set()
        from_beginning, took, now = not self._floors.used, 0.0, BEGINNING
        empty: list[Pair] = []
        missing: Iterable[str] = dict.fromkeys(queues)
        while missing:
            asked, sql, params = self._questions(missing)
            found: set[str] = set()
            for slot, number, name in self._query(sql, params):
                if slot == _CLOSED:
                    closed.add(name)
                    continue
                if slot == _CLOCK:
                    took += number / 1_000_000
                    now = dt.datetime.fromisoformat(name)
                    continue
                queue, priority = asked[slot]
                if priority is None:
                    if number is not None:
                        found.add(queue)
                        self._learn(queue, int(number))
                elif number is not None:
                    look.until[queue, priority] = number / 1_000_000
                else:
                    empty.append((queue, priority))
            missing = found
        if from_beginning:
            first = {pair: now + dt.timedelta(seconds=seconds) for pair, seconds in look.until.items()}
            self._floors.looked(took, first | dict.fromkeys(empty, now))
        self._forget(look)
        look.until = {pair: seconds for pair, seconds in look.until.items() if pair[0] not in closed}
        return look

    def _questions(self, queues: Iterable[str]) -> tuple[list[tuple[str, int | None]], str, list[Any]]:
        """What each slot asks (a pair, or None for a gap), the statement and its parameters."""
        asked: list[tuple[str, int | None]] = []
        selects, params = [_FIRST], list[Any]()
        for queue in queues:
            above: int | None = None
            for priority in [*self._priorities.get(queue, ()), None]:
                gap = ""
                bounds: list[Any] = [queue]
                if priority is not None:
                    gap += " AND priority > %s"
                    bounds.append(priority)
                if above is not None:
                    gap += " AND priority < %s"
                    bounds.append(above)
                selects.append(f"SELECT {len(asked)}, MAX(priority), NULL {_PENDING} AND queue = %s{gap}")
                params += bounds
                asked.append((queue, None))
                if priority is not None:
                    pair = "queue = %s AND priority = %s AND run_at >= %s"
                    selects.append(f"SELECT {len(asked)}, {_UNTIL}, NULL {_PENDING} AND {pair}")
                    params += [queue, priority, self._floors.of((queue, priority))]
                    asked.append((queue, priority))
                above = priority
        return asked, " UNION ALL ".join([*selects, _LAST]), params

    def _learn(self, queue: str, priority: int) -> None:
        known = self._priorities.setdefault(queue, [])
        known.append(priority)
        known.sort(reverse=True)

    def _forget(self, look: Look) -> None:
        """Every known priority costs a seek: those where nothing waits are forgotten when there are many."""
        for queue, known in self._priorities.items():
            if len(known) > FORGET_AFTER:
                known[:] = [priority for priority in known if (queue, priority) in look.until]

    def _pairs(self, queues: Sequence[str]) -> list[Pair]:
        return list(self._look(queues).until)

    def _next_due(self, pairs: Sequence[Pair]) -> float | None:
        """Seconds until the earliest future row of these pairs."""
        if not pairs:
            return None
        future = f"SELECT {_UNTIL} {_PENDING} AND queue = %s AND priority = %s AND run_at > {self.NOW}"
        rows = self._query(" UNION ALL ".join([future] * len(pairs)), [value for pair in pairs for value in pair])
        return min((number / 1_000_000 for (number,) in rows if number is not None), default=None)

    def pending_queues(self) -> list[str]:
        if time.monotonic() < self._answer_until:
            return list(self._answer)
        answer, took = self._single(self._pending_queues)
        if took > SLOW:  # as Floors says why; this one has no place to start from
            self._answer, self._answer_until = answer, time.monotonic() + took / SHARE
        return answer

    def _pending_queues(self) -> tuple[list[str], float]:
        """The same with names: whether anything waits in each known queue, and what the gaps between them hold. Also
        the seconds that it took on the server."""
        took = 0.0
        while True:
            known = self._names
            selects, params = list[str](), list[Any]()
            below: str | None = None
            for name in [*known, None]:
                gap = ""
                if below is not None:
                    gap += " AND queue > %s"
                    params.append(below)
                if name is not None:
                    gap += " AND queue < %s"
                    params.append(name)
                selects.append(f"SELECT 1, MIN(queue) {_PENDING}{gap}")
                if name is not None:
                    selects.append(f"SELECT 0, MIN(queue) {_PENDING} AND queue = %s")
                    params.append(name)
                below = name
            *rows, (_, micros) = self._query(" UNION ALL ".join([*selects, f"SELECT {_CLOCK}, {_TOOK}"]), params)
            took += int(micros) / 1_000_000
            present = [name for new, name in rows if name is not None and not new]
            others = [name for new, name in rows if name is not None and new]
            if not others:
                self._names = present if len(known) > FORGET_AFTER else known
                return present, took
            self._names = sorted([*known, *others])
