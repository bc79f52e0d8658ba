"""Which jobs may run beside each other in one process.

When a process dies, nobody knows which of its jobs killed it: all of them count a crash. A job whose next crash would
bury it as poison therefore runs in a process only while no other job that has ever crashed runs there. So what kills
its process is buried alone, and its company has, at the latest then, a run without it.

Jobs that have crashed and have chances left run together, and could follow one another for ever while one with its last
chance waits. So after a minute of that no further one starts, until the last of them has ended; then they begin anew in
the order of the claim. What waits here waits no longer than that minute and the longest run of what goes before it; an
idle process takes it at once.

A claim takes nothing that may not run here now, so that other processes find it in its place. It never starts what has
crashed before but only leases it, and the death of a worker counts for nothing what it had only leased: of several that
it brings at once, those that may not run together go back without a risk.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable

from .execution import Execution

PATIENCE = 60.0
"""Seconds for which jobs that have crashed may follow one another without a pause."""


class Isolation:
    """``crash_limit``: crashes a job may have without being poison, 1 or more. ``running()``: what this process has
    started and not settled."""

    def __init__(
        self,
        crash_limit: int,
        running: Callable[[], Iterable[Execution]],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._limit = crash_limit
        self._running = running
        self._clock = clock
        self._worst = 0
        """The most crashes that any job has which runs here, as of the last look."""
        self._since: float | None = None
        """Since when there has always been one here that has crashed."""

    def observe(self) -> None:
        """Look at what runs here now. What starts after it, and has crashed before, :meth:`starts` is told."""
        self._worst = max((execution.job.crash_count for execution in self._running()), default=0)
        if not self._worst:
            self._since = None
        elif self._since is None:
            self._since = self._clock()

    def starts(self, crash_count: int) -> None:
        """A job that has crashed so often starts."""
        self._worst = max(self._worst, crash_count)

    def most(self) -> int | None:
        """The most crashes that a job may have to start beside what runs here; None: any number."""
        if not self._worst:
            return None
        if self._worst >= self._limit or (self._since is not None and self._clock() - self._since > PATIENCE):
            return 0
        return self._limit - 1

    def admits(self, crash_count: int) -> bool:
        """Whether a job that has crashed so often may start."""
        most = self.most()
        return most is None or crash_count <= most
