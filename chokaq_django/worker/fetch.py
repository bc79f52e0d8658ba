"""The fetch loop: keeps the slots full and the database quiet.

Free slots are filled by a claim that also starts the jobs, in one transaction. Two things hide its latency:

* *Run-ahead*: when jobs are short (a few milliseconds), some more are started than slots are free, about 30 ms of work
  by the measured rate, or as much as a claim takes, so that the slots never wait for a commit. Long jobs are never
  started ahead.
* *Buffer*: jobs leased but not started (Fetched); a claim never starts what has crashed before (see isolation). With
  ``PREFETCH`` "auto" it holds about 50 ms of work of jobs of medium length. It also holds a few jobs of one kind
  (threads, event loop) while only the other kind has free slots, and only from queues that have had both kinds lately:
  what a busy worker holds, an idle one cannot run.
"""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ..conf import Options, get_options
from ..job.definition import JobType
from ..job.registry import registry
from ..observability.events import Event, log_event
from ..storage import ClaimedJob, ClaimRequest, Lease, Storage
from .buffer import Buffer
from .doubts import Doubts
from .room import Room
from .service import LOCK_WAIT, Service
from .views import LONGEST_UNKNOWN, CircuitView, QueueView
from .wakeup import Waker

logger = logging.getLogger("chokaq.worker.fetch")

VIEW_GRACE = 1.0
"""Seconds by which what is known of queues and circuits may be older when a notice has come."""
BROUGHT_FORWARD = 500
"""Jobs of a circuit that has closed which a worker with free slots takes back to the head of their queue at once."""
FORWARD = 1.0
"""Seconds between looks for such jobs that found none."""
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

    ``dispatch(jobs, probes)`` makes started jobs run, those with ids in ``probes`` on permits; ``unknown(job)`` and
    ``expired(job)`` settle what cannot; ``released(lease, delay)`` gives back what has not started;
    ``passed_up(job)`` gives back its permit of a probe; ``drained()`` is called in burst mode when no due job is
    left.
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
        room: Room,
        buffer: Buffer,
        doubts: Doubts,
        dispatch: Callable[[Sequence[tuple[ClaimedJob, JobType]], frozenset[str]], None],
        unknown: Callable[[ClaimedJob], None],
        expired: Callable[[ClaimedJob], None],
        released: Callable[[Lease, float], None],
        passed_up: Callable[[ClaimedJob], None],
        drained: Callable[[], None],
    ) -> None:
        super().__init__()
        self._options, self._plan, self._open, self._waker = options, plan, open_storage, waker
        self._queues, self._circuits, self._room, self._buffer = queues, circuits, room, buffer
        self._doubts = doubts
        self._dispatch, self._unknown, self._expired = dispatch, unknown, expired
        self._released, self._passed_up, self._drained = released, passed_up, drained
        self._storage: Storage | None = None
        # Until the next look nobody keeps the leases alive of jobs whose claim was answered into a broken connection.
        self.longest_pause = min(self.longest_pause, options.recovery.zombie_timeout / 4)
        self._begun = False
        self._backlog = False
        """There is probably more: the last claim was full, or did not ask all queues."""
        self._freed = 0
        """Grows whenever slots have run dry, also when nobody waits for that."""
        self._woken = False
        """Woken by a notice that named no queue: what it is about may be news to the queue view."""
        self._look_again = False
        self._called = False
        """Woken by a notice that named a queue of ours."""
        self._active_at = time.monotonic()
        self._forward_at = 0.0
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
        if self._room.waiting() > self._room.low:
            return
        self._freed += 1
        if self._backlog or self._buffer:
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
            self._storage.limit_lock_waits(LOCK_WAIT)
            self._storage.hurry(self.longest_pause / 4)
        if not self._begun:
            self._queues.seed(self._storage)
            self._queues.refresh(self._storage, force=True)
            self._circuits.refresh(self._storage)
            # Workers with older code may have put off jobs of types that are known here.
            known = (key for job_type in registry.types() for key in (job_type.key, *job_type.aliases))
            self._circuits.let_go(known, LONGEST_UNKNOWN)
            self._begun = True
        if unheard := self._doubts.unheard(self._storage):
            with self._doubts.noticing(self._storage):
                self._hear(unheard)
        pause = min(self._round(self._storage), self._doubts.due_in())
        if pause > 0 and not self.stopping:
            if self._called:
                self._queues.refresh(self._storage)
                self._circuits.refresh(self._storage)
            self.wait(pause)

    def _round(self, storage: Storage) -> float:
        """Fill slots and buffer once; seconds to wait, at most, before the next round."""
        if self.on_hold:
            self._buffer.give_back()
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
        claimable = self._queues.claimable()
        if not claimable:
            return self._nothing(fresh, None)
        freed = self._freed
        names, limit, start = self._room.plan(claimable, len(self._buffer))
        if limit <= 0:
            return self._until_a_slot_is_free(freed, None)
        request = self._request(names, limit, start)
        all_asked = len(request.queues) == len(claimable)
        began = time.monotonic()
        with self._doubts.noticing(storage):
            claim = storage.claim(request)
            self._room.claimed(time.monotonic() - began)
            if claim.jobs:
                self._active_at = time.monotonic()
                self._waker.busy()
                self._take(claim.jobs, frozenset(request.probing))
        self._backlog = len(claim.jobs) >= limit
        if claim.contended:
            return random.uniform(0.005, 0.02)
        leased = any(job.status == 1 and not job.expired for job in claim.jobs)  # the next round starts what it can
        if claim.deferred or self._backlog or leased or self._bring_forward(storage):
            return 0.0
        if not all_asked:
            return self._until_a_slot_is_free(freed, claim.next_due)
        if claim.jobs:
            return self._idle_pause(claim.next_due)
        return self._nothing(fresh, claim.next_due, all_asked=request.max_crashes is None)

    def _until_a_slot_is_free(self, freed: int, next_due: float | None) -> float:
        """Queues were not asked, for want of slots: the next free slot does it, which may be free by now."""
        self._backlog = True
        return self._idle_pause(next_due) if self._freed == freed else 0.0

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

    def _nothing(self, fresh: bool, next_due: float | None, *, all_asked: bool = True) -> float:
        """No job was due, of all or of those that may run beside what runs; seconds to wait."""
        if self._woken and not fresh:
            self._woken, self._look_again = False, True  # a queue that is new, or open again since we last looked
            return 0.0
        if self._plan.burst and not self._buffer and all_asked and not self._doubts.open:
            self._drained()
        return self._idle_pause(next_due)

    def _request(self, names: Sequence[str], limit: int, start: bool) -> ClaimRequest:
        capped = self._queues.caps(names)
        if not start:
            # A cap counts leases: a capped queue is claimed into free slots only, never into the buffer.
            names = [name for name in names if name not in capped]
        blocked = self._circuits.blocked()
        # No permit for a type that no code here knows: whoever can use it would have to wait for it.
        probing = {key: self._probes(key) for key in self._circuits.probing() if key not in blocked}
        return ClaimRequest(
            self._plan.worker_id, names, limit, start, self._plan.strict, capped, blocked, probing,
            self._buffer.most_crashes(),
        )  # fmt: skip

    def _probes(self, type_key: str) -> tuple[int, float]:
        """Probe permits of a type (or of an alias of it, or of what a raw handler matches) and seconds to hold one."""
        job_type = registry.get(type_key)
        policy = (job_type.circuit if job_type is not None else None) or get_options().circuit
        return policy.probes, float(policy.probe_timeout)

    def _hear(self, jobs: Sequence[ClaimedJob]) -> None:
        """Take up what was claimed or started although no answer said so."""
        log_event(
            logger, logging.INFO, Event.STORAGE_RECOVERED,
            "%d jobs had been claimed although the answer was lost: %s",
            len(jobs), ", ".join(job.id for job in jobs[:20]),
        )  # fmt: skip
        held = self._buffer.take([job for job in jobs if job.status == 2], [])
        # Their claim may have taken permits too, and nobody else gives those back: a report of one that it did not take
        # is passed over.
        self._take(jobs, frozenset(self._circuits.probing()) | {job.type for job in jobs if job.id in held})

    def _take(self, jobs: Sequence[ClaimedJob], probing: frozenset[str]) -> None:
        """Keep, start or give back what was claimed; of ``probing`` types each may hold the permit of a probe."""
        started: list[tuple[ClaimedJob, JobType]] = []
        passed: list[Lease] = []
        room = self._room
        unsure = {job.queue for job in jobs if room.peeked or room.is_new(job.queue)}
        room.forget()
        # Asked once: one for which a slot comes free meanwhile must not go before those in front of it, which are given
        # back.
        free = {kind: room.free(kind) for kind in (False, True)}
        for job in jobs:
            job_type = registry.get(job.type)
            if job_type is not None:
                room.had(job.queue, job_type.is_async)
            if job.expired:
                self._expired(job)
            elif job_type is None or job_type.handler is None:
                self._unknown(job)
            elif job.status == 1 and job.queue in unsure and free[job_type.is_async] <= 0:
                passed.append(job.lease)  # only a look at what kinds of jobs there are
            elif job.status == 1:
                free[job_type.is_async] -= 1
                self._buffer.add(job, permitted=job.type in probing)
                continue
            else:
                started.append((job, job_type))
                continue
            if job.type in probing:
                self._passed_up(job)
        if started:
            self._dispatch(started, frozenset(job.id for job, _ in started if job.type in probing))
        self._buffer.sort()
        if passed:
            self._put_back(passed)

    def _put_back(self, leases: Sequence[Lease]) -> None:
        """Give back what was only looked at or may not start, before the next claim: it would take what comes behind
        them."""
        left = leases
        try:
            if self._storage is not None:
                applied = self._storage.release(self._plan.worker_id, leases)
                left = [lease for lease in leases if lease.id not in applied]
        finally:
            for lease in left:
                self._released(lease, 0.0)

    def _start_buffered(self, storage: Storage) -> None:
        """Start buffered jobs for which a slot of their kind is free."""
        # What is half open starts by a claim only, which hands out the permits.
        blocked = {**dict.fromkeys(self._circuits.probing(), 0.0), **self._circuits.blocked()}
        chosen, apart = self._buffer.choose(self._room, blocked)
        if apart:
            self._put_back(apart)
        if not chosen:
            return
        with self._doubts.noticing(storage):
            self._start(storage, chosen)

    def _start(self, storage: Storage, chosen: Sequence[tuple[ClaimedJob, JobType]]) -> None:
        reply = storage.start(self._plan.worker_id, [job.lease for job, _ in chosen])
        started = [(job, job_type) for job, job_type in chosen if job.id in reply.started]
        gone = [job for job, _ in chosen if job.id not in reply.started]
        probes = self._buffer.take([job for job, _ in started], gone)
        for job, _ in started:
            job.attempt, job.started_at = reply.started[job.id]
            job.status = 2
        for job in gone:
            if job.id in reply.expired:
                self._expired(job)
            elif job.id not in reply.released:
                log_event(
                    logger, logging.INFO, Event.JOB_CONFLICT,
                    "Job %s was not started: its lease is gone, or an earlier try has started it", job.id,
                )  # fmt: skip
                self._doubts.begin()
        if started:
            self._active_at = time.monotonic()
            self._dispatch(started, probes)

    def _idle_pause(self, next_due: float | None) -> float:
        worker = self._options.worker
        pause = (worker.idle_poll_interval if self._silent() else worker.poll_interval) * random.uniform(0.9, 1.1)
        return pause if next_due is None else min(pause, max(0.001, next_due))

    # -- shutdown ------------------------------------------------------------------------------------------------------

    def give_back(self) -> None:
        """Release everything in the buffer; in the loop, or after it has ended."""
        self._buffer.give_back()

    def closed(self) -> None:
        if self._storage is None:
            return
        try:
            if unheard := self._doubts.unheard(self._storage, now=True):
                self._hear(unheard)
        except Exception as error:  # noqa: BLE001 - at the end of the loop there is nobody left to raise to
            message = "Jobs may be left that were claimed although the answer was lost; their leases run out: %s"
            log_event(logger, logging.WARNING, Event.STORAGE_TROUBLE, message, error)
        self._storage.close()
