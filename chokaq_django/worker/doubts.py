"""Answers that got lost: the database committed a claim or a start, and the connection ended before it said so.

Such jobs would stay leased by a worker that does not know of them, until they count as dead. So after every error of a
claim or a start the worker compares what the database says it holds with what it knows of, and takes up the rest: also
what was started while the worker takes it for leased only. It looks again for a while, at last at growing distances: a
server may still be at work on a statement whose connection is gone, or wait for its standby with a commit.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager

from ..storage import ClaimedJob, Lease, Storage

SETTLES = 5.0
"""Seconds after an error for which what it did may well become visible still."""
LOOK = 0.25
"""Seconds between two looks within that time; later each is twice as far from the error as the last."""


class Doubts:
    """``known()``: every lease that this worker has, or had and has let go of, but those of ``waiting()``: of what it
    has leased and not started. ``horizon``: seconds after an error until the last look.

    Only the thread that asks here may add to them.
    """

    def __init__(
        self,
        worker_id: str,
        known: Callable[[], Collection[Lease]],
        waiting: Callable[[], Collection[Lease]],
        horizon: float,
    ) -> None:
        self._worker_id, self._known, self._waiting, self._horizon = worker_id, known, waiting, horizon
        self._since: float | None = None
        self._look_at = 0.0
        self.open = False
        """Whether there may well be jobs of this worker that it does not know of."""

    def due_in(self) -> float:
        """Seconds until the next look; infinite without a doubt."""
        return float("inf") if self._since is None else max(0.0, self._look_at - time.monotonic())

    @contextmanager
    def noticing(self, storage: Storage) -> Iterator[None]:
        """Around a claim or a start: an error in it, also one after which it was tried again, begins a doubt."""
        errors = storage.errors
        try:
            yield
        except BaseException:
            self.begin()
            raise
        if storage.errors != errors:
            self.begin()

    def begin(self) -> None:
        """There is reason to look, from now on."""
        self._since = self._look_at = time.monotonic()
        self.open = True

    def unheard(self, storage: Storage, *, now: bool = False) -> list[ClaimedJob]:
        """Jobs of this worker that no answer has named, in the order of a claim; without a statement unless there is a
        doubt, and a look is due (or wanted ``now``)."""
        if self._since is None or (self.due_in() > 0.0 and not now):
            return []
        began = time.monotonic()
        # Before the look: whatever leaves them later has left the database's answer as well.
        known, waiting = set(self._known()), set(self._waiting())
        found = [
            job
            for job in storage.claimed_by(self._worker_id)
            if job.lease not in known and (job.status == 2 or job.lease not in waiting)
        ]
        age = began - self._since
        self.open = age < SETTLES
        self._look_at = began + (LOOK if self.open else max(LOOK, min(age, self._horizon - age)))
        if age >= max(SETTLES, self._horizon):
            self._since = None
        return found
