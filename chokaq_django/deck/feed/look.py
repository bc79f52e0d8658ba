"""One look at the database: what several topics need is read once."""

from __future__ import annotations

import datetime as dt
import time
from collections.abc import Collection
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from ... import health
from ...models import Circuit
from ...reading.bulk import BulkView
from ...reading.fleet import WorkerView, read_workers
from ...reading.groups import GroupView, count_dead, count_groups, read_groups
from ...reading.happenings import Happening, happened_lately
from ...reading.job import find_job
from ...reading.live import find_jobs, leased, operations, unclosed_circuits
from ...reading.queues import QueueFigures, read_queues
from ...reading.recent import Outcomes, Recent
from ...reading.waiting import Hold, why_waiting

__all__ = ["FEW_GROUPS", "MANY_GROUPS", "MATRIX", "Look", "Memory"]

MATRIX = 100
"""Leased jobs that are shown."""
HEALTH = 5.0
"""Seconds for which findings are good."""
FEW_GROUPS, MANY_GROUPS = 8, 100
"""Failure groups in an overview, and in the topic that is about them."""
DEAR = 0.1
"""Seconds from which on a count of what waits is spared."""
LONGEST_COUNTS = 10.0
"""Seconds for which such a count is good at most."""
EXPLAINED, MOST_EXPLAINED = 4, 20
"""Waiting jobs for which each look finds out anew why they wait, by some ten statements each; and at most, with those
whose reasons are old."""
EXPLAINED_FOR = 5.0
"""Seconds for which these reasons are good, where many single jobs are looked at."""


@dataclass(slots=True)
class Memory:
    """What one look leaves to the next, so that it need not read it again."""

    recent: Recent
    findings: list[health.Finding] = field(default_factory=list)
    found_at: dt.datetime | None = None
    queues: dict[str, QueueFigures] = field(default_factory=dict)
    counted_at: dt.datetime | None = None
    count_took: float = 0.0
    """Seconds; 0 for what need not be spared."""
    whys: dict[str, tuple[dt.datetime, list[Hold]]] = field(default_factory=dict)
    """Why jobs wait, and when that was found out."""


class Look:
    """What the database says at ``now``, its own clock. Each property costs its statements once, when it is asked for.

    ``jobs`` and ``bulk``: ids of single jobs and operations that somebody looks at. ``most_groups``: of failures.
    """

    def __init__(
        self, alias: str, now: dt.datetime, memory: Memory, jobs: Collection[str] = (), bulk: Collection[str] = (),
        most_groups: int = FEW_GROUPS,
    ) -> None:  # fmt: skip
        self.alias, self.now = alias, now
        self._memory, self._jobs, self._bulk, self._most_groups = memory, jobs, bulk, most_groups
        self._asked = self._explained = 0
        memory.whys = {job_id: memory.whys[job_id] for job_id in jobs if job_id in memory.whys}

    @cached_property
    def recent(self) -> Recent:
        self._memory.recent.read(self.now)
        return self._memory.recent

    @cached_property
    def lately(self) -> dict[str, Outcomes]:
        """What ended within a minute, by queue."""
        return self.recent.by_queue(60)

    @cached_property
    def queues(self) -> dict[str, QueueFigures]:
        """What waits is counted again only when the last count is five times as old as it took: with backlogs of many
        thousands that is most of a look."""
        memory, now = self._memory, self.now
        age = None if memory.counted_at is None else (now - memory.counted_at).total_seconds()
        fresh = age is not None and 0 <= age < min(LONGEST_COUNTS, 5 * memory.count_took)
        began = time.monotonic()
        found = {one.name: one for one in read_queues(self.alias, now, counted=memory.queues if fresh else None)}
        if not fresh:
            took = time.monotonic() - began
            memory.queues, memory.counted_at = found, now
            memory.count_took = took if took >= DEAR else 0.0
        return found

    @property
    def counted_at(self) -> dt.datetime:
        """When what waits was counted."""
        return self._memory.counted_at or self.now

    @cached_property
    def workers(self) -> list[WorkerView]:
        return read_workers(self.alias, self.now)

    @cached_property
    def leased(self) -> list[dict[str, Any]]:
        return leased(self.alias, MATRIX)

    def leased_of(self, queue: str) -> list[dict[str, Any]]:
        return leased(self.alias, MATRIX, queue)

    @cached_property
    def circuits(self) -> list[Circuit]:
        return unclosed_circuits(self.alias)

    @cached_property
    def happenings(self) -> list[Happening]:
        return happened_lately(self.alias, self.circuits)

    @cached_property
    def dead(self) -> int:
        """How many jobs are dead now, as whoever moves them counts."""
        return max(0, count_dead(self.alias))

    @cached_property
    def group_count(self) -> int:
        return count_groups(self.alias)

    @cached_property
    def groups(self) -> list[GroupView]:
        """As many as the largest list of them shows: the largest first."""
        return read_groups(self.alias, self.now, self._most_groups)

    @cached_property
    def findings(self) -> list[health.Finding]:
        """What is not well, no older than :data:`HEALTH`: among other things, it loads the migrations."""
        memory, now = self._memory, self.now
        if memory.found_at is None or not 0 <= (now - memory.found_at).total_seconds() < HEALTH:
            memory.findings = health.findings(self.alias, now, list(self.queues.values()), self.workers)
            memory.found_at = now
        return memory.findings

    @property
    def found_at(self) -> dt.datetime | None:
        return self._memory.found_at

    @cached_property
    def _operations(self) -> tuple[list[BulkView], dict[str, BulkView]]:
        return operations(self.alias, self.now, self._bulk)

    @property
    def operations(self) -> list[BulkView]:
        return self._operations[0]

    def operation(self, operation_id: str) -> BulkView | None:
        return self._operations[1].get(operation_id)

    @cached_property
    def _found_jobs(self) -> dict[str, tuple[str, dict[str, Any]]]:
        return find_jobs(self.alias, self._jobs)

    def job(self, job_id: str) -> tuple[str, dict[str, Any]] | None:
        return self._found_jobs.get(job_id)

    def why(self, job_id: str) -> list[Hold]:
        """Why a waiting job does not run; of many that are looked at, as it was some seconds ago, and nothing of those
        whose turn did not come yet."""
        at, holds = self._memory.whys.get(job_id, (None, []))
        self._asked += 1
        is_good = at is not None and 0 <= (self.now - at).total_seconds() < EXPLAINED_FOR
        if self._asked > EXPLAINED and (is_good or self._explained >= MOST_EXPLAINED):
            return holds
        self._explained += 1
        job = find_job(job_id, self.alias)
        holds = [] if job is None else why_waiting(job, self.alias, self.now)
        self._memory.whys[job_id] = (self.now, holds)
        return holds
