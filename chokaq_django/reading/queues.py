"""Figures of every queue: what waits, what is due, since when, what runs.

A few statements for all queues together, each part of them a seek into an index. Counts stop at :data:`MOST_COUNTED`.
"""

# ruff: noqa: S608 - statements are composed of constants of this module; every value is a parameter

from __future__ import annotations

import datetime as dt
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from django.db.models import Count, Exists, Model, OuterRef, Q

from ..conf import Options, get_options
from ..conf.options import window_open
from ..job.registry import registry
from ..models import AuditEntry, Counter, JobArchive, JobDLQ, JobHot, JobStatus, Queue
from ..storage import get_storage
from ..storage.contract import QueueRow
from .plans import WAITING, by_index, live
from .selects import Selects

__all__ = ["MOST_COUNTED", "QueueFigures", "known_queues", "read_queues"]

MOST_COUNTED = 10_000
"""Rows counted of one queue; where there are more, ``capped`` says so."""
MOST_PRIORITIES = 50
"""Priorities of one queue that are looked at; what is due below them is not seen."""
_ACTS = ("pause_queue", "resume_queue", "hide_queue", "show_queue", "set_queue", "reset_queue")
"""How the audit calls what operators do to queues."""

_WAITING = f"FROM {JobHot._meta.db_table} WHERE {WAITING}"
_PENDING = f"{_WAITING} AND queue = %s"


@dataclass(slots=True)
class QueueFigures:
    """One queue as it was when it was looked at.

    ``pending``: all that wait, ``due``: those that could run now. ``capped``: there are more than these counts say.
    ``oldest``: since when the one that has been due longest could have run.
    """

    name: str
    is_paused: bool = False
    is_active: bool = True
    in_window: bool = True
    max_workers: int | None = None
    zombie_timeout: float | None = None
    execution_timeout: float | None = None
    window: tuple[dt.time, dt.time, str] | None = None
    pending: int = 0
    due: int = 0
    capped: bool = False
    oldest: dt.datetime | None = None
    fetched: int = 0
    processing: int = 0

    @property
    def is_open(self) -> bool:
        """Whether workers may take jobs from it now."""
        return self.is_active and not self.is_paused and self.in_window

    @property
    def scheduled(self) -> int:
        return max(0, self.pending - self.due)

    @property
    def state(self) -> str:
        if not self.is_active:
            return "hidden"
        if self.is_paused:
            return "paused"
        return "open" if self.in_window else "outside its window"

    def take_counts(self, other: QueueFigures) -> None:
        """What waits, as other figures of the same queue have it."""
        self.pending, self.due, self.capped, self.oldest = other.pending, other.due, other.capped, other.oldest

    def lag(self, now: dt.datetime) -> float:
        """Seconds for which the oldest due job has waited; a queue that may not run has none."""
        return max(0.0, (now - self.oldest).total_seconds()) if self.oldest is not None and self.is_open else 0.0


def known_queues(options: Options | None = None) -> set[str]:
    """Names that settings, code, operators or jobs know. A row that a worker made for its own ``--queues`` is no such
    knowledge: a slip there would pass for a queue at the worker's next start. What operators did and undid again is in
    the audit alone, and known for as long as that keeps it."""
    options = options or get_options()
    by_operators = Q(updated_by__isnull=False) | Q(is_paused=True) | Q(is_active=False)
    acts = AuditEntry.objects.filter(target=OuterRef("name"), action__in=_ACTS).order_by()
    told = by_operators | Q(Exists(acts)) | _has(JobArchive) | _has(JobDLQ) | _has(Counter)
    rows = Queue.objects.using(options.database).filter(told).values_list("name", flat=True)
    types = (job_type.queue for job_type in registry.types())
    at_work = live(JobHot.objects.using(options.database).order_by()).values_list("queue", flat=True).distinct()
    known = {name for name in (*rows, *options.queues, *types, *at_work) if name}
    with by_index(options.database):
        return known | _Reader(options.database).others(known)


def _has(model: type[Model]) -> Q:
    """Whether the model has a row of a queue."""
    return Q(Exists(model._default_manager.filter(queue=OuterRef("name")).order_by()))


def read_queues(
    alias: str, now: dt.datetime, only: str | None = None, counted: Mapping[str, QueueFigures] | None = None
) -> list[QueueFigures]:
    """Figures of the queues that have a row, waiting jobs or running ones, by name; ``now`` is the database's.

    ``counted``: earlier figures, from which the counts of waiting jobs are taken where they have the queue: with long
    backlogs, counting is most of the work.
    """
    storage = get_storage(alias)
    found = {row.name: _from_row(row, now) for row in storage.queues()}
    at_work = live(JobHot.objects.using(alias).order_by())
    for name, status, count in at_work.values_list("queue", "status").annotate(count=Count("pk")):
        figures = found.setdefault(name, QueueFigures(name))
        if status == JobStatus.PROCESSING:
            figures.processing = count
        else:
            figures.fetched = count
    reader = _Reader(alias)
    with by_index(alias):
        if only is None:
            found |= {name: QueueFigures(name) for name in reader.others(found)}
        else:
            found = {only: found.get(only, QueueFigures(only))}
        known = {name: counted[name] for name in found if name in counted} if counted else {}
        for name, earlier in known.items():
            found[name].take_counts(earlier)
        _count_waiting(reader, {name: figures for name, figures in found.items() if name not in known}, now)
    return [found[name] for name in sorted(found)]


def _from_row(row: QueueRow, now: dt.datetime) -> QueueFigures:
    return QueueFigures(
        row.name,
        row.is_paused,
        row.is_active,
        _open(row, now),
        row.max_workers,
        row.zombie_timeout,
        row.execution_timeout,
        row.window,
    )


def _open(row: QueueRow, now: dt.datetime) -> bool:
    try:
        return window_open(row.window, now)
    except (KeyError, ValueError, OSError):  # a zone that nobody knows here: workers do not claim either
        return False


def _count_waiting(reader: _Reader, found: dict[str, QueueFigures], now: dt.datetime) -> None:
    for name, (count, _) in zip(found, reader.bounded([("", [name]) for name in found]), strict=True):
        found[name].pending = min(count, MOST_COUNTED)
        found[name].capped = count > MOST_COUNTED
    pairs = list(_priorities(reader, [name for name, figures in found.items() if figures.pending]))
    instant = reader.parameter(now)
    due = reader.bounded([(" AND priority = %s AND run_at <= %s", [*pair, instant]) for pair in pairs])
    for (name, _), (count, oldest) in zip(pairs, due, strict=True):
        figures = found[name]
        figures.due = min(figures.due + count, MOST_COUNTED)
        figures.capped = figures.capped or count > MOST_COUNTED
        figures.pending = max(figures.pending, figures.due)
        if oldest is not None and (figures.oldest is None or oldest < figures.oldest):
            figures.oldest = oldest


def _priorities(reader: _Reader, names: Sequence[str]) -> Iterator[tuple[str, int]]:
    """The priorities at which jobs wait, by seeks from the highest downwards: one statement a step for all queues."""
    below: dict[str, int | None] = dict.fromkeys(names)
    for _ in range(MOST_PRIORITIES):
        asked = list(below.items())
        answers = reader.highest(asked)
        below = {name: top for (name, _), top in zip(asked, answers, strict=True) if top is not None}
        yield from ((name, top) for name, top in below.items() if top is not None)
        if not below:
            return


class _Reader(Selects):
    """What is asked of the waiting jobs."""

    def bounded(self, wanted: Sequence[tuple[str, list[Any]]]) -> list[tuple[int, dt.datetime | None]]:
        """For each condition after the queue's, with its parameters: how many rows, and the earliest ``run_at`` of a
        condition that names one priority."""
        selects = []
        first, last = self.limited(MOST_COUNTED + 1)
        for place, (condition, params) in enumerate(wanted):
            # The index's own order lets every engine stop at the limit. The earliest is the first within one priority.
            order = "run_at" if condition else "priority"
            inner = f"SELECT {first}run_at {_PENDING}{condition} ORDER BY {order}{last}"
            earliest = self.readable("MIN(run_at)") if condition else "NULL"
            selects.append((f"SELECT {place} AS place, COUNT(*) AS rows_found, {earliest} FROM ({inner}) t", params))
        found = {place: (count, self.instant(value)) for place, count, value in self.run(selects)}
        return [found.get(place, (0, None)) for place in range(len(wanted))]

    def highest(self, wanted: Sequence[tuple[str, int | None]]) -> list[int | None]:
        """For each queue, the highest priority below the given one."""
        selects = []
        for place, (name, below) in enumerate(wanted):
            condition, params = ("", [name]) if below is None else (" AND priority < %s", [name, below])
            selects.append((self._first(place, "priority", f"{_PENDING}{condition}", "DESC"), params))
        found = dict(self.run(selects))
        return [found.get(place) for place in range(len(wanted))]

    def _first(self, place: int, column: str, where: str, direction: str = "") -> str:
        """The first value of ``column``. Not MIN or MAX: for these PostgreSQL reads all that waits where its statistics
        are from before a backlog came."""
        first, last = self.limited(1)
        found = f"SELECT {first}{column} {where} ORDER BY {column} {direction}{last}"
        return f"SELECT {place} AS place, {column} FROM ({found}) t"

    def others(self, known: Collection[str]) -> set[str]:
        """Queues with waiting jobs that are not ``known``: what lies between the known names, by seeks. Workers give
        every queue they meet a row, so that there are hardly ever any."""
        names: list[str | None] = [None, *sorted(known), None]
        gaps = list(pairwise(names))
        found: set[str] = set()
        while gaps:
            selects = []
            for place, (low, high) in enumerate(gaps):
                condition = ("" if low is None else " AND queue > %s") + ("" if high is None else " AND queue < %s")
                params = [name for name in (low, high) if name is not None]
                selects.append((self._first(place, "queue", f"{_WAITING}{condition}"), params))
            answers = dict(self.run(selects))
            new = {place: name for place, name in answers.items() if name is not None and name not in found}
            found.update(new.values())
            gaps = [(name, gaps[place][1]) for place, name in new.items()]
        return found - set(known)
