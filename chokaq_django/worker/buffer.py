"""Jobs that this worker has leased and not started (Fetched): the death of the worker counts for nothing with them."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Mapping, Sequence

from ..job.definition import JobType
from ..job.registry import registry
from ..storage import ClaimedJob, Lease
from .isolation import Isolation
from .room import Room


class Buffer:
    """``place(queue)``: where it comes in the worker's strict order. ``released(lease, delay)`` gives a job back,
    ``passed_up(job)`` the permit of a probe that does not start."""

    def __init__(
        self,
        place: Callable[[str], int],
        isolation: Isolation,
        released: Callable[[Lease, float], None],
        passed_up: Callable[[ClaimedJob], None],
    ) -> None:
        self._place, self._isolation, self._released, self._passed_up = place, isolation, released, passed_up
        self._jobs: list[ClaimedJob] = []
        self._permitted: set[Lease] = set()
        """Leases that hold the permit of a probe."""

    def most_crashes(self) -> int | None:
        """The most crashes that a job may have to start beside what runs now; None: any number."""
        self._isolation.observe()
        return self._isolation.most()

    def __len__(self) -> int:
        return len(self._jobs)

    def leases(self) -> list[Lease]:
        """Of all that is here."""
        return [job.lease for job in self._jobs]

    def add(self, job: ClaimedJob, *, permitted: bool) -> None:
        """Keep a job; ``permitted``: it holds the permit of a probe."""
        self._jobs.append(job)
        if permitted:
            self._permitted.add(job.lease)

    def sort(self) -> None:
        """Into the order of the claim."""
        if len(self._jobs) > 1:
            self._jobs.sort(key=self._turn)

    def _turn(self, job: ClaimedJob) -> tuple[int, int, dt.datetime, str]:
        return self._place(job.queue), -job.priority, job.run_at, job.id

    def choose(self, room: Room, blocked: Mapping[str, float]) -> tuple[list[tuple[ClaimedJob, JobType]], list[Lease]]:
        """What may start now, which stays here until :meth:`take`; and what may not, beside it and what runs, to be
        given back. Jobs of ``blocked`` types are given back here, for the seconds given there."""
        free = {kind: room.free(kind) for kind in (False, True)}
        self._isolation.observe()
        chosen: list[tuple[ClaimedJob, JobType]] = []
        kept: list[ClaimedJob] = []
        apart: list[Lease] = []
        for job in self._jobs:
            job_type = registry.get(job.type) or JobType(job.type, None)
            if job.type in blocked and job.lease not in self._permitted:
                self._released(job.lease, blocked[job.type])
            elif free[job_type.is_async] <= 0:
                kept.append(job)
            elif not self._isolation.admits(job.crash_count):
                self._pass_up(job)
                apart.append(job.lease)
            else:
                free[job_type.is_async] -= 1
                self._isolation.starts(job.crash_count)
                chosen.append((job, job_type))
        self._jobs = [*kept, *(job for job, _ in chosen)]
        return chosen, apart

    def take(self, started: Sequence[ClaimedJob], gone: Sequence[ClaimedJob]) -> frozenset[str]:
        """Let go of jobs that have started and of those that did not and are not ours any more; ids of the started ones
        that are probes."""
        for job in gone:
            self._pass_up(job)
        leases = {job.lease for job in started}
        probes = self._permitted & leases
        self._permitted -= probes
        leases.update(job.lease for job in gone)
        self._jobs = [job for job in self._jobs if job.lease not in leases]
        return frozenset(lease.id for lease in probes)

    def give_back(self) -> None:
        """Everything."""
        for job in self._jobs:
            self._pass_up(job)
            self._released(job.lease, 0.0)
        self._jobs = []

    def _pass_up(self, job: ClaimedJob) -> None:
        if job.lease in self._permitted:
            self._permitted.discard(job.lease)
            self._passed_up(job)
