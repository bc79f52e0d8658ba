"""The fetch loop: keeps the slots full and the database quiet.

Free slots are filled by a claim that also starts the jobs, in one transaction. Two things hide its latency:

* *Run-ahead*: when jobs are short (a few milliseconds), some more are started than slots are free, about 30 ms of work
  by the measured rate, so that the slots never wait for a commit. Long jobs are never started ahead.
* *Buffer*: jobs leased but not started (Fetched). With ``PREFETCH`` "auto" it holds about 50 ms of work of jobs of
  medium length. It also holds a few jobs of one kind (threads, event loop) while only the other kind has free slots,
  and only from queues that have had both kinds lately: what a busy worker holds, an idle one cannot run.
"""

from __future__ import annotations

import datetime as dt
import logging
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ..conf import Options
from ..job.definition import JobType
from ..job.registry import registry
from ..observability.events import Event, log_event
from ..storage import ClaimedJob, ClaimRequest, Lease, Storage
from .pace import Pace
from .service import Service
from .slots import Slots
from .views import LONGEST_UNKNOWN, CircuitView, QueueView
from .wakeup import Waker

logger = logging.getLogger("chokaq.worker.fetch")

SHORT = 0.005
"""Seconds: jobs shorter than this on average are started ahead."""
MEDIUM = 0.05
"""Seconds: jobs shorter than this on average are leased ahead."""
RUN_AHEAD = 0.03
VIEW_GRACE = 1.0
"""Seconds by which what is known of queues and circuits may be older when a notice has come."""
PEEK = 1.0
"""Seconds between looks for jobs of a kind that a queue had not lately."""
LOOK_PAST = 20
"""Jobs of a kind without a free slot to hold while looking for jobs of the other kind behind them."""
LATELY = 60.0
"""Seconds for which a queue is known by the kinds of jobs it has had."""
BROUGHT_FORWARD = 500
"""Jobs of a circuit that has closed which a worker with free slots takes back to the head of their queue at once."""
FORWARD = 1.0
"""Seconds between looks for such jobs that found none."""
QUEUES_KEPT = 1_000
QUIET_AFTER = 60.0
"""Seconds of silence after which IDLE_POLL_INTERVAL holds."""


@dataclass(slots=True)
class FetchPlan:
    """What this worker was told to do."""

    worker_id: str
    strict: bool
    burst: bool


class Fetcher(Service):
    """Claims jobs and hands them to the slots.

    ``dispatch(job, type)`` makes a started job run; ``unknown(job)`` and ``expired(job)`` settle what cannot;
    ``drained()`` is called in burst mode when no due job is left.
    """

    name = "fetch"

    def __init__(
        self,
        options: Options,
        plan: FetchPlan,
        open_storage: Callable[[], Storage],
        waker: Waker,
        queues: QueueView,
        circuits: CircuitView,
        threads: Slots,
        loop: Slots,
        pace: Pace,
        dispatch: Callable[[Sequence[tuple[ClaimedJob, JobType]], frozenset[str]], None],
        unknown: Callable[[ClaimedJob], None],
        expired: Callable[[ClaimedJob], None],
        released: Callable[[Lease, float], None],
        drained: Callable[[], None],
    ) -> None:
        super().__init__()
        self._options, self._plan, self._open, self._waker = options, plan, open_storage, waker
        self._queues, self._circuits, self._threads, self._loop, self._pace = queues, circuits, threads, loop, pace
        self._dispatch, self._unknown, self._expired = dispatch, unknown, expired
        self._released, self._drained = released, drained
        self._storage: Storage | None = None
        self._buffer: list[ClaimedJob] = []
        self._backlog = False
        """The last claim was full: there is probably more."""
        self._low = 0
        self._woken = False
        """Woken by a notice that named no queue: what it is about may be news to the queue view."""
        self._look_again = False
        self._called = False
        """Woken by a notice that named a queue of ours."""
        self._active_at = time.monotonic()
        self._kinds = frozenset(job_type.is_async for job_type in registry.types() if job_type.handler is not None)
        """What this code has handlers of: False stands for threads, True for the event loop."""
        self._peek_at = 0.0
        self._forward_at = 0.0
        self._peeked = False
        """The claim under way is such a look."""
        self._had: dict[str, dict[bool, float]] = {}
        """Queue -> kind -> when it last had a job of that kind."""
        self.on_hold = False
        """An operator wants nothing more to be claimed."""

    # -- from other threads --------------------------------------------------------------------------------------------

    def wake(self) -> None:
        self._waker.set()

    def wait(self, timeout: float | None) -> None:
        longest = timeout if timeout is not None else 3600.0
        end = time.monotonic() + longest
        names = self._waker.wait(longest)
        for name in names:
            self._queues.found(name)
        self._called = bool(names)
        self._woken = not names and time.monotonic() < end

    def slot_freed(self) -> None:
        """A job ended: claim again if there is more and the slots are running dry."""
        if (self._backlog or self._buffer) and self._threads.waiting() <= self._low:
            self._waker.set()

    def hold(self, on: bool) -> None:
        """Claim nothing and give the buffer back, or claim again."""
        if on is not self.on_hold:
            self.on_hold = on
            self._waker.set()

    def buffered(self) -> int:
        return len(self._buffer)

    # -- one round -----------------------------------------------------------------------------------------------------

    def step(self) -> None:
        if self._storage is None:
            self._storage = self._open()
            self._queues.seed(self._storage)
            self._queues.refresh(self._storage, force=True)
            self._circuits.refresh(self._storage)
            # Workers with older code may have put off jobs of types that are known here.
            known = (key for job_type in registry.types() for key in (job_type.key, *job_type.aliases))
            self._circuits.let_go(known, LONGEST_UNKNOWN)
        pause = self._round(self._storage)
        if pause > 0 and not self.stopping:
            if self._called:
                self._queues.refresh(self._storage)
                self._circuits.refresh(self._storage)
            self.wait(pause)

    def _round(self, storage: Storage) -> float:
        """Fill slots and buffer once; seconds to wait, at most, before the next round."""
        if self.on_hold:
            self.give_back()
            return self._options.worker.idle_poll_interval
        if self._buffer:
            self._start_buffered(storage)
        if not self._called and self._silent() and not self._plan.burst and not self._anything(storage):
            return self._idle_pause(None)
        # A job that was just announced is claimed first; the views are read again while it runs (see step).
        grace = VIEW_GRACE if self._called else 0.0
        fresh = self._queues.refresh(storage, force=self._look_again, grace=grace)
        self._look_again = False
        self._circuits.refresh(storage, grace=grace)
        names: Sequence[str] = self._queues.claimable()
        if not names:
            return self._nothing(fresh, None)
        self._peeked = False
        names, limit, start = self._room(names)
        if limit <= 0:
            self._backlog = True  # nobody looked: the next free slot does
            return self._options.worker.poll_interval
        request = self._request(names, limit, start)
        claim = storage.claim(request)
        if claim.jobs:
            self._active_at = time.monotonic()
            self._waker.busy()
            self._take(claim.jobs, frozenset(request.probing))
        self._backlog = len(claim.jobs) >= limit
        if claim.contended:
            return random.uniform(0.005, 0.02)
        if claim.deferred or self._backlog or (claim.jobs and not start) or self._bring_forward(storage):
            return 0.0
        return self._idle_pause(claim.next_due) if claim.jobs else self._nothing(fresh, claim.next_due)

    def _bring_forward(self, storage: Storage) -> bool:
        """Now that slots are free: give jobs whose circuit has closed their place back; whether there were any.

        Once a second while there may be any: other workers may put some off a little longer, and a queue that is closed
        now may open.
        """
        freed = self._circuits.freed()
        if not freed or time.monotonic() < self._forward_at:
            return False
        moved = storage.advance(self._queues.claimable(), freed, max(freed.values()), BROUGHT_FORWARD)
        if not moved:
            self._forward_at = time.monotonic() + FORWARD
        return moved > 0

    def _silent(self) -> bool:
        return time.monotonic() - self._active_at > QUIET_AFTER

    def _anything(self, storage: Storage) -> bool:
        """Whether any job waits in our queues, due or not. In long silence this one statement is all a poll costs."""
        return any(self._queues.interested(name) for name in storage.pending_queues())

    def _nothing(self, fresh: bool, next_due: float | None) -> float:
        """No job was due; seconds to wait."""
        if self._woken and not fresh:
            self._woken, self._look_again = False, True  # a queue that is new, or open again since we last looked
            return 0.0
        if self._plan.burst and not self._buffer:
            self._drained()
        return self._idle_pause(next_due)

    def _room(self, names: Sequence[str]) -> tuple[Sequence[str], int, bool]:
        """From which queues to claim how many jobs, and whether to start them at once."""
        kinds = self._kinds_of(names)
        free = {kind: self._free(kind) for kind in kinds}
        if len(kinds) > 1 and not self._plan.strict and min(free.values()) <= len(self._buffer):
            # What only has jobs of a kind without a free slot waits where every other worker finds it.
            names = [name for name in names if any(free[kind] > 0 for kind in self._kinds_of([name]))]
            kinds = self._kinds_of(names)
        if not kinds:
            return names, 0, False
        if len(kinds) == 1:
            kind = next(iter(kinds))
            if self._free(kind) > 0 or not self._peeks():
                return names, *self._room_of(kind)
        batch, held = self._options.worker.fetch_batch, len(self._buffer)
        self._low = 0
        if min(free.values()) > held:
            return names, min(batch, min(free.values()) - held), True
        return names, min(batch, LOOK_PAST) - held, False

    def _peeks(self) -> bool:
        """Whether it is time to look past jobs of a kind without a free slot for one of the other kind, which has room:
        a queue may have more kinds of jobs than it had lately."""
        now = time.monotonic()
        if len(self._kinds) < 2 or now < self._peek_at or max(self._threads.free(), self._loop.free()) <= 0:
            return False
        self._peek_at, self._peeked = now + PEEK, True
        return True

    def _room_of(self, kind: bool) -> tuple[int, bool]:
        """The same where all jobs are of one kind."""
        batch, free, ahead = self._options.worker.fetch_batch, self._free(kind), self._ahead()
        self._low = ahead // 2
        if free + ahead > 0 and (free > 0 or -free <= self._low):
            return min(batch, free + ahead), True
        wanted = self._prefetch(kind) - len(self._buffer)
        return (min(batch, wanted), False) if wanted > 0 else (0, False)

    def _free(self, kind: bool) -> int:
        return (self._loop if kind else self._threads).free()

    def _kinds_of(self, names: Sequence[str]) -> set[bool]:
        """Which kinds of jobs these queues may have: those they had lately; any kind where that is not known."""
        if len(self._kinds) < 2:
            return set(self._kinds or (False,)) if names else set()
        since = time.monotonic() - LATELY
        found: set[bool] = set()
        for name in names:
            found |= self._had_since(since, name) or self._kinds
        return found

    def _had_since(self, since: float, name: str) -> set[bool]:
        return {kind for kind, at in self._had.get(name, {}).items() if at > since}

    def _ahead(self) -> int:
        """Jobs to start beyond the free slots; only short ones, by time and not by number."""
        if self._options.worker.prefetch == 0 or self._pace.mean > SHORT or not self._pace.known:
            return 0
        if time.monotonic() - self._pace.last > RUN_AHEAD:
            return 0  # nothing has ended lately: what runs now is not short, and would hold up what waits behind it
        return min(self._options.worker.fetch_batch, int(self._pace.rate() * RUN_AHEAD))

    def _prefetch(self, kind: bool) -> int:
        """Jobs of this kind to lease into the buffer."""
        wanted = self._options.worker.prefetch
        if isinstance(wanted, int):
            return wanted
        if not self._pace.known or not SHORT < self._pace.mean <= MEDIUM:
            return 0
        size = (self._loop if kind else self._threads).size
        return min(self._options.worker.fetch_batch, max(1, round(size * MEDIUM / self._pace.mean / 2)))

    def _request(self, names: Sequence[str], limit: int, start: bool) -> ClaimRequest:
        capped = self._queues.caps(names)
        if not start:
            # A cap counts leases: a capped queue is claimed into free slots only, never into the buffer.
            names = [name for name in names if name not in capped]
        return ClaimRequest(
            self._plan.worker_id, names, limit, start, self._plan.strict, capped, self._circuits.blocked(),
            {key: self._probes(key) for key in self._circuits.probing()},
        )  # fmt: skip

    def _probes(self, type_key: str) -> tuple[int, float]:
        """Probe permits of a type (or of an alias of it, or of what a raw handler matches) and seconds to hold one."""
        job_type = registry.get(type_key)
        policy = (job_type.circuit if job_type is not None else None) or self._options.circuit
        return policy.probes, float(policy.probe_timeout)

    def _take(self, jobs: Sequence[ClaimedJob], probing: frozenset[str]) -> None:
        started: list[tuple[ClaimedJob, JobType]] = []
        now = time.monotonic()
        peeked = self._peeked
        new = {job.queue for job in jobs if not self._had_since(now - LATELY, job.queue)}
        if len(self._had) > QUEUES_KEPT:
            self._had.clear()
        for job in jobs:
            job_type = registry.get(job.type)
            if job_type is not None:
                self._had.setdefault(job.queue, {})[job_type.is_async] = now
            if job.expired:
                self._expired(job)
            elif job_type is None or job_type.handler is None:
                self._unknown(job)
            elif job.status == 1 and (peeked or job.queue in new) and self._free(job_type.is_async) <= 0:
                # Only a look at what kinds of jobs there are: those without a free slot go back at once.
                self._released(job.lease, 0.0)
            elif job.status == 1:
                self._buffer.append(job)
            else:
                started.append((job, job_type))
        if started:
            self._dispatch(started, probing)
        if len(self._buffer) > 1:
            self._buffer.sort(key=self._turn)

    def _turn(self, job: ClaimedJob) -> tuple[int, int, dt.datetime, str]:
        """Sorts jobs into the order of the claim."""
        place = self._queues.place(job.queue) if self._plan.strict else 0
        return place, -job.priority, job.run_at, job.id

    def _start_buffered(self, storage: Storage) -> None:
        """Start buffered jobs for which a slot of their kind is free."""
        room = {False: self._threads.free(), True: self._loop.free()}
        chosen: list[tuple[ClaimedJob, JobType]] = []
        kept: list[ClaimedJob] = []
        # What is half open starts by a claim only, which hands out the permits.
        blocked = {**dict.fromkeys(self._circuits.probing(), 0.0), **self._circuits.blocked()}
        for job in self._buffer:
            job_type = registry.get(job.type) or JobType(job.type, None)
            if job.type in blocked:
                self._released(job.lease, blocked[job.type])
            elif room[job_type.is_async] > 0:
                room[job_type.is_async] -= 1
                chosen.append((job, job_type))
            else:
                kept.append(job)
        if not chosen:
            self._buffer = kept
            return
        reply = storage.start(self._plan.worker_id, [job.lease for job, _ in chosen])
        self._buffer = kept
        started = []
        for job, job_type in chosen:
            if job.id in reply.started:
                job.attempt, job.started_at = reply.started[job.id]
                job.status = 2
                started.append((job, job_type))
            elif job.id in reply.expired:
                self._expired(job)
            elif job.id not in reply.released:
                log_event(
                    logger, logging.INFO, Event.JOB_CONFLICT,
                    "Job %s could not be started: its lease is gone", job.id,
                )  # fmt: skip
        if started:
            self._active_at = time.monotonic()
            self._dispatch(started, frozenset())

    def _idle_pause(self, next_due: float | None) -> float:
        worker = self._options.worker
        pause = (worker.idle_poll_interval if self._silent() else worker.poll_interval) * random.uniform(0.9, 1.1)
        return pause if next_due is None else min(pause, max(0.001, next_due))

    # -- shutdown ------------------------------------------------------------------------------------------------------

    def give_back(self) -> None:
        """Release everything in the buffer; in the loop, or after it has ended."""
        for job in self._buffer:
            self._released(job.lease, 0.0)
        self._buffer = []

    def closed(self) -> None:
        if self._storage is not None:
            self._storage.close()
