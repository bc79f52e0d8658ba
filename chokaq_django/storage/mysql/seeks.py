"""What is waiting, found by seeks: the priorities of each queue, and when the first job of each is due.

Only MIN and MAX with constants in all columns before theirs are a seek on these servers; DISTINCT, GROUP BY and
recursive queries read every waiting row. So what was found before is remembered, and one statement asks for each known
priority when its first row is due, and for each gap between known priorities whether it holds another one. An answer is
exact: when a gap does hold one, the statement is sent again with it.
"""

# ruff: noqa: S608 - statements are composed of constants and column names of ours; every value is a parameter

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..columns import HOT, QUEUE
from .session import MySQLSession

Pair = tuple[str, int]

_PENDING = f"FROM {HOT} WHERE status = 0"
_UNTIL = f"TIMESTAMPDIFF(MICROSECOND, {MySQLSession.NOW}, MIN(run_at))"
_CLOSED = f"SELECT -1, NULL, name FROM {QUEUE} WHERE is_paused OR NOT is_active"
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
        self._priorities: dict[str, list[int]] = {}
        self._names: list[str] = []

    def _look(self, queues: Sequence[str]) -> Look:
        """All pairs of these queues, but of those that are paused or inactive."""
        look = Look()
        closed: set[str] = set()
        missing: Iterable[str] = dict.fromkeys(queues)
        while missing:
            asked, sql, params = self._questions(missing)
            found: set[str] = set()
            for slot, number, name in self._query(sql, params):
                if slot < 0:
                    closed.add(name)
                    continue
                queue, priority = asked[slot]
                if priority is None:
                    if number is not None:
                        found.add(queue)
                        self._learn(queue, int(number))
                elif number is not None:
                    look.until[queue, priority] = number / 1_000_000
            missing = found
        look.until = {pair: seconds for pair, seconds in look.until.items() if pair[0] not in closed}
        self._forget(look)
        return look

    def _questions(self, queues: Iterable[str]) -> tuple[list[tuple[str, int | None]], str, list[Any]]:
        """What each slot asks (a pair, or None for a gap), the statement and its parameters."""
        asked: list[tuple[str, int | None]] = []
        selects, params = [_CLOSED], list[Any]()
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
                    selects.append(f"SELECT {len(asked)}, {_UNTIL}, NULL {_PENDING} AND queue = %s AND priority = %s")
                    params += [queue, priority]
                    asked.append((queue, priority))
                above = priority
        return asked, " UNION ALL ".join(selects), params

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
        return self._single(self._pending_queues)

    def _pending_queues(self) -> list[str]:
        """The same with names: whether anything waits in each known queue, and what the gaps between them hold."""
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
            rows = self._query(" UNION ALL ".join(selects), params)
            present = [name for new, name in rows if name is not None and not new]
            others = [name for new, name in rows if name is not None and new]
            if not others:
                self._names = present if len(known) > FORGET_AFTER else known
                return present
            self._names = sorted([*known, *others])
