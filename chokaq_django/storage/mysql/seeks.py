"""What is waiting, found by seeks: the priorities of each queue, and when the first job of each is due.

Only MIN and MAX with constants in all columns before theirs are a seek on these servers; DISTINCT, GROUP BY and
recursive queries read every waiting row. So what was found before is remembered, and one statement asks for each known
priority when its first row is due, and for each gap between known priorities whether it holds another one. An answer is
exact: when a gap does hold one, that one is asked about, and the rest of its gap.
"""

# ruff: noqa: S608 - statements are composed of constants and column names of ours; every value is a parameter

from __future__ import annotations

import datetime as dt
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..columns import HOT, QUEUE
from ..engine import Row, chunks
from .floors import BEGINNING, SHARE, SLOW, Floors, Pair, floor
from .session import MySQLSession

_PENDING = f"FROM {HOT} WHERE status = 0"
# MySQL counts nothing from a day that does not exist, which somebody wrote by hand; what it is before is due.
_UNTIL = (
    f"COALESCE(TIMESTAMPDIFF(MICROSECOND, {MySQLSession.NOW}, MIN(run_at)), "
    f"IF(MIN(run_at) <= {MySQLSession.NOW}, 0, NULL))"
)
_CLOSED, _CLOCK = -1, -2
_FIRST = f"SELECT {_CLOSED}, NULL, name FROM {QUEUE} WHERE is_paused OR NOT is_active"
# SYSDATE is the time at which it is evaluated, NOW the time at which the statement began.
_TOOK = "TIMESTAMPDIFF(MICROSECOND, NOW(6), SYSDATE(6))"
_LAST = f"SELECT {_CLOCK}, {_TOOK}, CONCAT({MySQLSession.NOW})"
FORGET_AFTER = 64
"""Priorities of one queue that are remembered although nothing waits there."""
REMEMBERED = 1_000
"""Queues whose priorities are remembered although only others are asked for."""
SELECTS = 100
"""Seeks of one statement, at most: each opens the table once more, and the server plans all before it begins."""


@dataclass(slots=True)
class _Question:
    """A seek: when the first row of a pair is due, or with no ``priority`` whether a gap of the queue, which ends
    ``above`` a known one, holds another."""

    queue: str
    priority: int | None
    select: str
    params: list[Any]
    above: int | None = None


@dataclass(slots=True)
class _Answer:
    """``until``: as :class:`Look` has it; ``found``: gaps and what they hold; ``now``, ``took``: the server's clock and
    its work."""

    closed: set[str] = field(default_factory=set)
    until: dict[Pair, float] = field(default_factory=dict)
    empty: list[Pair] = field(default_factory=list)
    found: list[tuple[_Question, int]] = field(default_factory=list)
    now: dt.datetime = BEGINNING
    took: float = 0.0


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
        from_beginning, took = not self._floors.used, 0.0
        first: dict[Pair, dt.datetime] = {}
        questions = self._questions(dict.fromkeys(queues))
        while questions:
            further: list[_Question] = []
            for part in chunks(questions, SELECTS):
                answer = self._ask(part)
                took += answer.took
                closed |= answer.closed
                look.until |= answer.until
                first |= dict.fromkeys(answer.empty, answer.now)
                first |= {pair: floor(answer.now, seconds) for pair, seconds in answer.until.items()}
                for gap, priority in answer.found:
                    self._learn(gap.queue, priority)
                    # What is new is asked about, and what else its gap holds: nothing is asked twice.
                    further += [self._head(gap.queue, priority), self._gap(gap.queue, gap.above, priority)]
            questions = further
        if from_beginning:
            self._floors.looked(took, first)
        self._forget(look, queues)
        look.until = {pair: seconds for pair, seconds in look.until.items() if pair[0] not in closed}
        return look

    def _questions(self, queues: Iterable[str]) -> list[_Question]:
        """For each queue its known priorities and the gaps between them."""
        questions: list[_Question] = []
        for queue in queues:
            below: int | None = None
            for priority in self._priorities.get(queue, ()):
                questions += [self._gap(queue, priority, below), self._head(queue, priority)]
                below = priority
            questions.append(self._gap(queue, None, below))
        return questions

    def _gap(self, queue: str, above: int | None, below: int | None) -> _Question:
        """The highest priority between these two."""
        gap, bounds = "", list[Any]()
        for sign, bound in ((">", above), ("<", below)):
            if bound is not None:
                gap += f" AND priority {sign} %s"
                bounds.append(bound)
        select = f"MAX(priority), NULL {_PENDING} AND queue = %s{gap}"
        return _Question(queue, None, select, [queue, *bounds], above)

    def _head(self, queue: str, priority: int) -> _Question:
        """When the first row of this priority is due."""
        pair = "queue = %s AND priority = %s AND run_at >= %s"
        params = [queue, priority, self._floors.of((queue, priority))]
        return _Question(queue, priority, f"{_UNTIL}, NULL {_PENDING} AND {pair}", params)

    def _ask(self, questions: Sequence[_Question]) -> _Answer:
        """One statement for all of them."""
        selects = [f"SELECT {slot}, {question.select}" for slot, question in enumerate(questions)]
        params = [value for question in questions for value in question.params]
        answer = _Answer()
        for slot, number, name in self._query(" UNION ALL ".join([_FIRST, *selects, _LAST]), params):
            if slot == _CLOSED:
                answer.closed.add(name)
            elif slot == _CLOCK:
                answer.took, answer.now = number / 1_000_000, dt.datetime.fromisoformat(name)
            elif (priority := questions[slot].priority) is not None:
                pair = (questions[slot].queue, priority)
                if number is None:
                    answer.empty.append(pair)
                else:
                    answer.until[pair] = number / 1_000_000
            elif number is not None:
                answer.found.append((questions[slot], int(number)))
        return answer

    def _learn(self, queue: str, priority: int) -> None:
        known = self._priorities.setdefault(queue, [])
        known.append(priority)
        known.sort(reverse=True)

    def _forget(self, look: Look, queues: Sequence[str]) -> None:
        """Every known priority costs a seek: those where nothing waits are forgotten when there are many. So are queues
        that nobody asks for any more."""
        if len(self._priorities) > max(REMEMBERED, 2 * len(queues)):
            self._priorities = {name: known for name in queues if (known := self._priorities.get(name))}
        for queue, known in self._priorities.items():
            if len(known) > FORGET_AFTER:
                known[:] = [priority for priority in known if (queue, priority) in look.until]

    def _pairs(self, queues: Sequence[str]) -> list[Pair]:
        return list(self._look(queues).until)

    def _next_due(self, pairs: Sequence[Pair]) -> float | None:
        """Seconds until the earliest future row of these pairs."""
        future = f"SELECT {_UNTIL} {_PENDING} AND queue = %s AND priority = %s AND run_at > {self.NOW}"
        rows: list[Row] = []
        for part in chunks(pairs, SELECTS):
            rows += self._query(" UNION ALL ".join([future] * len(part)), [value for pair in part for value in pair])
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
        known = self._names
        questions: list[tuple[str, list[str]]] = []
        gaps: list[tuple[str | None, str | None]] = []
        for after, before in zip([None, *known], [*known, None], strict=True):
            questions.append(_name_after(after, before, slot=len(gaps)))
            gaps.append((after, before))
            if before is not None:
                questions.append((f"SELECT -1, MIN(queue) {_PENDING} AND queue = %s", [before]))
        took, present, others = 0.0, list[str](), list[str]()
        for part in chunks(questions, SELECTS):
            sql = " UNION ALL ".join([*(select for select, _ in part), f"SELECT {_CLOCK}, {_TOOK}"])
            *answers, (_, micros) = self._query(sql, [value for _, bounds in part for value in bounds])
            took += int(micros) / 1_000_000
            for slot, name in answers:
                if name is None:
                    continue
                if slot < 0:
                    present.append(name)
                    continue
                # A gap that holds a queue may hold more: from each to the next.
                following: str | None = name
                while following is not None:
                    others.append(following)
                    ((_, following),) = self._query(*_name_after(following, gaps[slot][1], slot=0))
        if others:
            self._names = sorted([*known, *others])
        elif len(known) > FORGET_AFTER:
            self._names = sorted(present)
        return sorted([*present, *others]), took


def _name_after(after: str | None, before: str | None, *, slot: int) -> tuple[str, list[str]]:
    """The query of the first queue between these two in which anything waits, and its parameters."""
    gap, bounds = "", list[str]()
    for sign, bound in ((">", after), ("<", before)):
        if bound is not None:
            gap += f" AND queue {sign} %s"
            bounds.append(bound)
    return f"SELECT {slot}, MIN(queue) {_PENDING}{gap}", bounds
