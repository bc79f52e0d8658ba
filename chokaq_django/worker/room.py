"""How many jobs to claim, from which queues, and whether to start them at once: what slots are free, and of which kind.

A job is of one of two kinds: False stands for threads (``def`` handlers), True for the event loop (``async def``). What
kind the next job of a queue is, nobody knows before it is claimed; what kinds it had lately is known.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Mapping, Sequence

from ..conf.options import WorkerOptions
from ..job.registry import registry
from .pace import Pace
from .slots import Slots

SHORT = 0.005
"""Seconds: jobs shorter than this on average are started ahead."""
MEDIUM = 0.1
"""Seconds: jobs shorter than this on average are leased ahead."""
RUN_AHEAD = 0.03
"""Seconds of work to start ahead, and of a claim that is quick enough for that."""
LONGEST_AHEAD = 1.0
"""Seconds of work to start or to lease ahead, at most, where claims are slow."""
QUICKEST = 0.000_1
"""Seconds of a job, at least, where its slots' rate is reckoned by it."""
CLAIMS = 3
"""Claims in a row that must all be slow: one may be for any reason."""
PEEK = 1.0
"""Seconds between looks for jobs of a kind that a queue had not lately."""
LOOK_PAST = 20
"""Jobs of a kind without a free slot to hold while looking for jobs of the other kind behind them."""
LATELY = 60.0
"""Seconds for which a queue is known by the kinds of jobs it has had."""
QUEUES_KEPT = 20_000


class Room:
    """``slots``: by kind. ``strict``: the order of the queues comes before everything else."""

    def __init__(self, worker: WorkerOptions, strict: bool, slots: Mapping[bool, Slots], pace: Pace) -> None:
        self._worker, self._strict, self._slots, self._pace = worker, strict, slots, pace
        self._kinds = frozenset(job_type.is_async for job_type in registry.types() if job_type.handler is not None)
        """What this code has handlers of."""
        self._had: dict[str, dict[bool, float]] = {}
        """Queue -> kind -> when it last had a job of that kind."""
        self._claims: deque[float] = deque(maxlen=CLAIMS)
        """Seconds that the last claims took."""
        self._peek_at = 0.0
        self.peeked = False
        """The claim under way only looks for jobs of a kind that its queues had not lately."""
        self.low = 0
        """Started jobs without a slot, down to which a freed slot needs no claim."""

    # -- what there is -------------------------------------------------------------------------------------------------

    def free(self, kind: bool) -> int:
        """Slots of that kind; negative when more jobs were started than fit."""
        return self._slots[kind].free()

    def waiting(self) -> int:
        """Jobs that were started and have no thread yet."""
        return self._slots[False].waiting()

    def had(self, queue: str, kind: bool) -> None:
        """A job of that kind came from that queue."""
        self._had.setdefault(queue, {})[kind] = time.monotonic()

    def is_new(self, queue: str) -> bool:
        """Whether nothing is known of the kinds of jobs that the queue has."""
        return not self._had_lately(queue)

    def forget(self) -> None:
        """Keep what is remembered small, where names of queues come and go."""
        if len(self._had) > QUEUES_KEPT:
            self._had.clear()

    def _had_lately(self, queue: str) -> set[bool]:
        since = time.monotonic() - LATELY
        return {kind for kind, at in self._had.get(queue, {}).items() if at > since}

    def _kinds_of(self, names: Sequence[str]) -> set[bool]:
        """Which kinds of jobs these queues may have: those they had lately; any kind where that is not known."""
        if len(self._kinds) < 2:
            return set(self._kinds or (False,)) if names else set()
        found: set[bool] = set()
        for name in names:
            found |= self._had_lately(name) or self._kinds
        return found

    # -- how long claims take -----------------------------------------------------------------------------------------

    def claimed(self, seconds: float) -> None:
        """A claim took so long."""
        self._claims.append(seconds)

    def _meanwhile(self, least: float) -> float:
        """Seconds of work to have at hand, lest the slots run dry during a claim. It looks at every queue: over
        thousands it takes longer than the jobs that it brings."""
        if len(self._claims) < CLAIMS:
            return least
        return max(least, min(*self._claims, LONGEST_AHEAD))

    # -- what to claim -------------------------------------------------------------------------------------------------

    def plan(self, names: Sequence[str], held: int) -> tuple[Sequence[str], int, bool]:
        """From which queues to claim how many jobs, and whether to start them at once, while ``held`` are leased."""
        self.peeked = False
        kinds = self._kinds_of(names)
        free = {kind: self.free(kind) for kind in kinds}
        if len(kinds) > 1 and not self._strict and min(free.values()) <= held:
            # What only has jobs of a kind without a free slot waits where every other worker finds it.
            names = [name for name in names if any(free[kind] > 0 for kind in self._kinds_of([name]))]
            kinds = self._kinds_of(names)
        if not kinds:
            return names, 0, False
        if len(kinds) == 1:
            kind = next(iter(kinds))
            if self.free(kind) > 0 or not self._peeks():
                return names, *self._of_one_kind(kind, held)
        batch = self._worker.fetch_batch
        self.low = 0
        if min(free.values()) > held:
            return names, min(batch, min(free.values()) - held), True
        return names, min(batch, LOOK_PAST) - held, False

    def _peeks(self) -> bool:
        """Whether it is time to look past jobs of a kind without a free slot for one of the other kind, which has room:
        a queue may have more kinds of jobs than it had lately."""
        now = time.monotonic()
        if len(self._kinds) < 2 or now < self._peek_at or max(slots.free() for slots in self._slots.values()) <= 0:
            return False
        self._peek_at, self.peeked = now + PEEK, True
        return True

    def _of_one_kind(self, kind: bool, held: int) -> tuple[int, bool]:
        """How many, and whether to start them, where all jobs are of one kind."""
        batch, free, ahead = self._worker.fetch_batch, self.free(kind), self._ahead(kind)
        self.low = ahead // 2
        if free + ahead > 0 and (free > 0 or -free <= self.low):
            return min(batch, free + ahead), True
        wanted = self._prefetch(kind) - held
        return (min(batch, wanted), False) if wanted > 0 else (0, False)

    def _ahead(self, kind: bool) -> int:
        """Jobs of this kind to start beyond the free slots; only short ones, by time and not by number."""
        if self._worker.prefetch == 0 or self._pace.mean > SHORT or not self._pace.known:
            return 0
        work = self._meanwhile(RUN_AHEAD)
        if time.monotonic() - self._pace.last > work:
            return 0  # nothing has ended lately: what runs now is not short, and would hold up what waits behind it
        # Where slots have waited for claims, the rate is that of the claims.
        rate = self._pace.rate() if work <= RUN_AHEAD else self._slots[kind].size / max(self._pace.mean, QUICKEST)
        return min(self._worker.fetch_batch, int(rate * work))

    def _prefetch(self, kind: bool) -> int:
        """Jobs of this kind to lease into the buffer."""
        wanted = self._worker.prefetch
        if isinstance(wanted, int):
            return wanted
        if not self._pace.known or not SHORT < self._pace.mean <= MEDIUM:
            return 0
        work = self._meanwhile(MEDIUM / 2)
        return min(self._worker.fetch_batch, max(1, round(self._slots[kind].size * work / self._pace.mean)))
