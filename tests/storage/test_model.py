"""The storage against a plain Python model of its four job tables, driven in random order with real commits.

Every step asks the storage and the model for the same thing and compares the answers; after every step the tables must
be what the model says. Old leases are kept and used again at any time, so that each write is also tried by executions
that lost their job long ago.
"""

from __future__ import annotations

import datetime as dt
import functools
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)

from chokaq_django.job.failures import FailureReason
from chokaq_django.models import (
    BucketOutcome,
    FailureGroup,
    FailureTotal,
    JobArchive,
    JobBase,
    JobDLQ,
    JobHot,
    JobTrash,
    MetricBucket,
    MetricRollup,
    PayloadVersion,
    Queue,
    RetentionMark,
)
from chokaq_django.models import Counter as LifetimeCounter
from chokaq_django.storage import (
    ClaimRequest,
    Enqueued,
    JobEdit,
    Lease,
    Outcome,
    OutcomeKind,
    Storage,
    get_storage,
    open_storage,
)
from chokaq_django.storage.contract import LiveRow, QueueRow, RescueAction

from .invariants import assert_one_place
from .support import AWAITING, FETCHED, LOG, NOBODY, PENDING, PROCESSING, committed, new_job, trim
from .support import rule as trim_rule

WORKERS = ("worker-1", "worker-2")
QUEUES = ("a", "b")
TYPES = ("x.v1", "y.v1")
BACK = (OutcomeKind.RETRY, OutcomeKind.SNOOZED, OutcomeKind.INTERRUPTED)
UNSTARTED = (OutcomeKind.EXPIRED, OutcomeKind.UNSTARTED_DEAD)
CAP = 2
LONG_AGO = dt.datetime(2000, 1, 1, tzinfo=dt.UTC)
PAYLOAD = new_job().payload
TABLES: dict[str, type[JobBase]] = {"hot": JobHot, "archive": JobArchive, "dlq": JobDLQ, "trash": JobTrash}

numbers = st.integers(0, 10_000)  # picks from what there is, by remainder
few = st.lists(numbers, min_size=1, max_size=4)


def only_if(condition: Callable[[Any], object]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """A rule that does nothing while there is nothing to do it to. No precondition: what Hypothesis draws would depend
    on how many jobs a claim has found, which on a busy server may be fewer the second time."""

    def wrap(method: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(method)
        def run(self: Any, *args: Any, **named: Any) -> None:
            if condition(self):
                method(self, *args, **named)

        return run

    return wrap


@dataclass
class Modelled:
    """One job as the model has it. ``run_at`` is copied from the table after each step: times are the server's."""

    id: str
    queue: str
    type: str
    priority: int
    key: str | None
    place: str = "hot"
    status: int = PENDING
    worker: str | None = None
    claim_number: int = 0
    attempt: int = 0
    executions: int = 0
    crash_count: int = 0
    snooze_count: int = 0
    generation: int = 0
    reason: int | None = None
    cancel_by: str | None = None
    late: bool = False
    revision: int = 0
    payload: str = PAYLOAD
    versions: list[str] = field(default_factory=list)
    """Payloads that edits have replaced."""
    came_from: str | None = None
    kept: dict[str, Any] = field(default_factory=dict)
    """Every column of the row when it went to the Trash."""
    expired: bool = False
    run_at: dt.datetime = LONG_AGO
    settled: tuple[int, OutcomeKind, str] | None = None
    """The settle that brought it where it is, while nothing else has happened to it since."""

    def back(self) -> None:
        self.status, self.worker, self.settled = PENDING, None, None

    def end(self, place: str, reason: int | None = None) -> None:
        self.place, self.reason, self.settled = place, reason, None


@dataclass
class Tables:
    """The model: all jobs ever accepted, every lease ever given, and what the metrics must say."""

    jobs: dict[str, Modelled] = field(default_factory=dict)
    gone: set[str] = field(default_factory=set)
    """Expired in the Trash, and deleted for good."""
    leases: list[tuple[str, Lease]] = field(default_factory=list)
    counts: Counter[tuple[int, int]] = field(default_factory=Counter)
    paused: set[str] = field(default_factory=set)

    def hot(self) -> list[Modelled]:
        return [job for job in self.jobs.values() if job.place == "hot"]

    def holder(self, key: str | None) -> Modelled | None:
        return next((job for job in self.hot() if key is not None and job.key == key), None)

    def live(self, queue: str) -> int:
        return sum(job.queue == queue and job.status in (FETCHED, PROCESSING) for job in self.hot())

    def leased(self, worker: str, lease: Lease, status: int) -> Modelled | None:
        """The job, if ``lease`` is its lease, held by ``worker`` in ``status``."""
        job = self.jobs.get(lease.id)
        if job is None or job.place != "hot" or job.status != status or job.worker != worker:
            return None
        return job if job.claim_number == lease.claim_number else None

    def bury(self, job: Modelled, reason: FailureReason) -> None:
        job.end("dlq", int(reason))
        self.counts[BucketOutcome.DEAD, int(reason)] += 1


class StorageMachine(RuleBasedStateMachine):
    """The rules. Each worker has a storage of its own: one on a private connection, one on the thread's."""

    def __init__(self) -> None:
        super().__init__()
        self.model = Tables()
        self.private = open_storage()
        self.storages: dict[str, Storage] = {WORKERS[0]: self.private, WORKERS[1]: get_storage()}
        self.views: list[LiveRow] = []
        self.made = 0

    @initialize()
    def empty(self) -> None:
        counted = (MetricBucket, MetricRollup, LifetimeCounter, FailureGroup, FailureTotal)
        for model in (*TABLES.values(), PayloadVersion, Queue, RetentionMark, *counted):
            model._default_manager.all().delete()
        for queue in QUEUES:
            self.private.seed_queue(QueueRow(queue, False, True, None, None, None, None))
        self._past()

    def _past(self) -> None:
        """Jobs in every place and state: of a few dozen random steps, most would go into making the first of them."""
        first, second = WORKERS
        for kind in (OutcomeKind.SUCCEEDED, OutcomeKind.DEAD):
            self.enqueue([("a", "x.v1", 0, None, 0.0, None)] * 2 + [("b", "y.v1", 0, "k", 0.0, None)])
            self.claim(first, ("a", "b"), 3, True, False, (), None)
            self.what_runs_ends(kind)
        self.enqueue([("a", "x.v1", 1, "k", 0.0, None), ("b", "x.v1", 1, None, 0.0, 7200.0)] * 3)
        self.claim(first, ("a",), 1, True, False, (), None)
        self.claim(second, ("b",), 2, False, False, (), None)

    def teardown(self) -> None:
        self.private.close()

    # -- picking -------------------------------------------------------------------------------------------------------

    def pick_jobs(self, picks: list[int]) -> list[Modelled]:
        every = list(self.model.jobs.values())
        return list({every[pick % len(every)].id: every[pick % len(every)] for pick in picks}.values())

    def pick_of(self, picks: list[int], *wanted: str) -> list[Modelled]:
        """Jobs of these places, and the last pick one of any place."""
        those = [job for job in self.model.jobs.values() if job.place in wanted]
        last = self.pick_jobs(picks[-1:])
        chosen = [those[pick % len(those)] for pick in picks[:-1]] if those else []
        return list({job.id: job for job in (*chosen, *last)}.values())

    def pick_leases(self, picks: list[int]) -> list[tuple[str, Lease]]:
        """Leases of any age, the newest ones more often, each job at most once."""
        found: dict[str, tuple[str, Lease]] = {}
        for pick in picks:
            recent = self.model.leases[-6:] if pick % 3 else self.model.leases
            worker, lease = recent[pick % len(recent)]
            found.setdefault(lease.id, (worker, lease))
        return list(found.values())

    # -- producing -----------------------------------------------------------------------------------------------------

    @rule(
        rows=st.lists(
            st.tuples(
                st.sampled_from(QUEUES), st.sampled_from(TYPES), st.integers(-1, 1),
                st.sampled_from([None, None, "k", "K"]), st.sampled_from([0.0, 0.0, 0.0, 3600.0]),
                st.sampled_from([None, None, 7200.0, -1.0]),
            ),
            min_size=1, max_size=4,
        )
    )  # fmt: skip
    def enqueue(self, rows: list[tuple[str, str, int, str | None, float, float | None]]) -> None:
        new, expected = [], []
        for queue, type_, priority, key, delay, deadline in rows:
            self.made += 1
            job_id = f"01MDE{self.made:021d}"
            new.append(new_job(id=job_id, queue=queue, type=type_, priority=priority, idempotency_key=key, delay=delay,
                               deadline_after=deadline))  # fmt: skip
            holder = self.model.holder(key)
            expected.append(Enqueued(holder.id, False) if holder else Enqueued(job_id, True))
            if holder is None:
                self.model.jobs[job_id] = Modelled(job_id, queue, type_, priority, key, late=deadline == -1.0)
        assert self.storages[WORKERS[1]].enqueue(new) == expected

    # -- working -------------------------------------------------------------------------------------------------------

    @rule(
        worker=st.sampled_from(WORKERS), queues=st.sampled_from([("a",), ("b", "a"), ("a", "b"), ("b", "nothing")]),
        limit=st.integers(1, 5), start=st.booleans(), strict=st.booleans(),
        capped=st.sampled_from([(), (), ("a",), QUEUES]), blocked=st.sampled_from([None, None, None, "y.v1"]),
    )  # fmt: skip
    def claim(
        self, worker: str, queues: tuple[str, ...], limit: int, start: bool, strict: bool, capped: tuple[str, ...],
        blocked: str | None,
    ) -> None:  # fmt: skip
        now = self.storages[worker].now()
        request = ClaimRequest(
            worker, queues, limit, start=start, strict=strict, capped=dict.fromkeys(capped, CAP),
            blocked={blocked: 3600.0} if blocked else {},
        )  # fmt: skip
        claim = self.storages[worker].claim(request)
        assert not claim.contended, "nobody else is at work here"

        due = [
            job for job in self.model.hot()
            if job.status == PENDING and job.queue in set(queues) - self.model.paused and job.run_at <= now
        ]  # fmt: skip
        due.sort(key=lambda job: (queues.index(job.queue) if strict else 0, -job.priority, job.run_at, job.id))
        expected: list[Modelled] = []
        free = {queue: max(0, CAP - self.model.live(queue)) if start else 0 for queue in capped}
        for job in due:
            may_be_leased = job.type != blocked or job.late  # what will not run needs no leave to run
            if may_be_leased and len(expected) < limit and free.get(job.queue, 1):
                expected.append(job)
                if job.queue in free:
                    free[job.queue] -= 1
        got = [job.id for job in claim.jobs]
        wanted = [job.id for job in expected]
        if claim.deferred:  # what it met first was in the way: it may bring less, never out of order
            assert blocked
            assert got == wanted[: len(got)]
        else:
            assert got == wanted
        assert claim.next_due is None or claim.next_due > 0
        for claimed in claim.jobs:
            job = self.model.jobs[claimed.id]
            job.status = PROCESSING if start and not job.late and not job.crash_count else FETCHED
            job.worker, job.claim_number, job.settled = worker, job.claim_number + 1, None
            if job.status == PROCESSING:
                job.attempt += 1
                job.executions += 1
            assert (claimed.status, claimed.expired) == (job.status, job.late)
            assert (claimed.claim_number, claimed.attempt) == (job.claim_number, job.attempt)
            self.model.leases.append((worker, claimed.lease))

    @rule(picks=few, worker=st.sampled_from([None, None, None, *WORKERS]))
    @only_if(lambda self: self.model.leases)
    def start(self, picks: list[int], worker: str | None) -> None:
        for holder, leases in self._by_worker(picks, worker).items():
            reply = self.storages[holder].start(holder, leases)
            started, expired, released = set(), set(), set()
            for lease in leases:
                job = self.model.leased(holder, lease, FETCHED)
                if job is None:
                    continue
                if job.queue in self.model.paused:
                    released.add(job.id)
                    job.back()
                elif job.late:
                    expired.add(job.id)
                else:
                    started.add(job.id)
                    job.status = PROCESSING
                    job.attempt += 1
                    job.executions += 1
            own = self._still_running(holder, leases)
            assert started <= set(reply.started) <= started | own
            # A late job of a paused queue may be told either way, as long as nothing starts.
            both = {job_id for job_id in released if self.model.jobs[job_id].late}
            assert (reply.expired - both, reply.released - both) == (expired, released - both)
            for job_id in both & reply.expired:
                self.model.jobs[job_id].status, self.model.jobs[job_id].worker = FETCHED, holder

    def _still_running(self, worker: str, leases: list[Lease]) -> set[str]:
        """What a repeated start may find as its own work."""
        return {lease.id for lease in leases if self.model.leased(worker, lease, PROCESSING)}

    @rule(picks=few, worker=st.sampled_from([None, None, None, *WORKERS]), delay=st.sampled_from([0.0, 3600.0]))
    @only_if(lambda self: self.model.leases)
    def release(self, picks: list[int], worker: str | None, delay: float) -> None:
        for holder, leases in self._by_worker(picks, worker).items():
            applied = self.storages[holder].release(holder, leases, delay)
            expected, unsure = set(), set()
            for lease in leases:
                job = self.model.leased(holder, lease, FETCHED)
                if job is not None:
                    expected.add(job.id)
                    job.back()
                elif self._is_pending_of(lease):
                    unsure.add(lease.id)  # given back before, by this lease or otherwise: nothing changes
            assert expected <= applied <= expected | unsure

    def _is_pending_of(self, lease: Lease) -> bool:
        job = self.model.jobs[lease.id]
        return job.place == "hot" and job.status == PENDING and job.claim_number == lease.claim_number

    @rule(
        picks=few, kinds=st.lists(st.sampled_from(OutcomeKind), min_size=4, max_size=4),
        worker=st.sampled_from([None, None, None, None, *WORKERS]), delay=st.sampled_from([0.0, 3600.0]),
        again=st.booleans(), stranger=st.booleans(),
    )  # fmt: skip
    @only_if(lambda self: self.model.leases)
    def settle(
        self, picks: list[int], kinds: list[OutcomeKind], worker: str | None, delay: float, again: bool, stranger: bool
    ) -> None:  # fmt: skip
        for holder, leases in self._by_worker(picks, worker).items():
            outcomes = [self._outcome(lease, kind, delay) for lease, kind in zip(leases, kinds, strict=False)]
            if stranger:
                outcomes.append(self._outcome(Lease(NOBODY, 1), OutcomeKind.SUCCEEDED, 0.0))
            for _ in range(2 if again else 1):
                applied = self.storages[holder].settle(holder, outcomes)
                sure, unsure = set(), set()
                for made in outcomes:
                    verdict = self._settle(holder, made)
                    if verdict:
                        sure.add(made.id)
                    elif verdict is None:
                        unsure.add(made.id)
                assert sure <= applied <= sure | unsure

    @rule(kind=st.sampled_from([OutcomeKind.SUCCEEDED, OutcomeKind.DEAD]))
    @only_if(lambda self: any(job.status == PROCESSING for job in self.model.hot()))
    def what_runs_ends(self, kind: OutcomeKind) -> None:
        """All of it: histories are made, which random leases seldom bring about."""
        for worker in WORKERS:
            running = [job for job in self.model.hot() if (job.status, job.worker) == (PROCESSING, worker)]
            outcomes = [self._outcome(Lease(job.id, job.claim_number), kind, 0.0) for job in running]
            assert self.storages[worker].settle(worker, outcomes) == {job.id for job in running}
            assert all(self._settle(worker, made) for made in outcomes)

    def _outcome(self, lease: Lease, kind: OutcomeKind, delay: float) -> Outcome:
        job = self.model.jobs.get(lease.id)
        reasons = {OutcomeKind.DEAD: FailureReason.FATAL_ERROR, OutcomeKind.UNSTARTED_DEAD: FailureReason.UNKNOWN_TYPE,
                   OutcomeKind.EXPIRED: FailureReason.EXPIRED}  # fmt: skip
        return Outcome(lease.id, lease.claim_number, kind, job.queue if job else "a", job.type if job else "x.v1", LOG,
                       duration_ms=5, wait_ms=3, delay=delay, reason=reasons.get(kind))  # fmt: skip

    def _settle(self, worker: str, made: Outcome) -> bool | None:
        """Settles in the model. True: it applies, or has applied before; False: a conflict; None: it changes nothing,
        and the contract leaves open whether a row that is where it wanted it counts as its own work."""
        job = self.model.jobs.get(made.id)
        if job is None:
            return False
        kind, number = made.kind, made.claim_number
        status = FETCHED if kind in UNSTARTED else PROCESSING
        if self.model.leased(worker, Lease(made.id, number), status) is None:
            if job.settled == (number, kind, worker):
                return True
            place = "archive" if kind is OutcomeKind.SUCCEEDED else "hot" if kind in BACK else "dlq"
            there = job.place == place and (place != "hot" or job.status == PENDING)
            there = there or (kind in BACK and job.reason == FailureReason.CANCELLED)
            return None if there and job.claim_number == number else False
        if kind is OutcomeKind.SUCCEEDED:
            job.end("archive")
            self.model.counts[BucketOutcome.SUCCEEDED, -1] += 1
        elif kind in BACK:
            job.back()
            if kind is OutcomeKind.RETRY:
                self.model.counts[BucketOutcome.RETRIED, -1] += 1
            else:
                job.attempt -= 1
                job.snooze_count += kind is OutcomeKind.SNOOZED
            if job.cancel_by:  # asked for too late for its worker: honoured when it would wait again
                self.model.bury(job, FailureReason.CANCELLED)
                return True
        else:
            assert made.reason is not None
            self.model.bury(job, made.reason)
        job.settled = (number, kind, worker)
        return True

    @rule(picks=few, worker=st.sampled_from([None, None, *WORKERS]))
    @only_if(lambda self: self.model.leases)
    def heartbeat(self, picks: list[int], worker: str | None) -> None:
        for holder, leases in self._by_worker(picks, worker).items():
            reply = self.storages[holder].heartbeat(holder, leases)
            alive = [job for lease in leases if (job := self.model.leased(holder, lease, PROCESSING))]
            assert reply.lost == {lease.id for lease in leases} - {job.id for job in alive}
            assert reply.cancels == {job.id: job.cancel_by for job in alive if job.cancel_by}

    def _by_worker(self, picks: list[int], impostor: str | None) -> dict[str, list[Lease]]:
        """Leases to use, by who uses them: their holders, or an impostor who uses them all."""
        by_worker: dict[str, list[Lease]] = {}
        for holder, lease in self.pick_leases(picks):
            by_worker.setdefault(impostor or holder, []).append(lease)
        return by_worker

    # -- operators -----------------------------------------------------------------------------------------------------

    @rule(picks=few, by=st.sampled_from(["ada", "grace"]))
    @only_if(lambda self: self.model.jobs)
    def cancel(self, picks: list[int], by: str) -> None:
        jobs = self.pick_jobs(picks)
        result = self.storages[WORKERS[1]].cancel([job.id for job in jobs], by)
        applied, requested, refused = [], [], []
        for job in jobs:
            if job.place != "hot":
                refused.append(job.id)
            elif job.status == PROCESSING:
                requested.append(job.id)
                job.cancel_by = by
            else:
                applied.append(job.id)
                self.model.bury(job, FailureReason.CANCELLED)
        assert sorted(result.applied) == sorted(applied)
        assert sorted(result.requested) == sorted(requested)
        assert sorted(conflict.id for conflict in result.refused) == sorted(refused)

    @rule(picks=few, policy=st.sampled_from(["skip", "drop"]), priority=st.sampled_from([None, 1]))
    @only_if(lambda self: self.model.jobs)
    def resurrect(self, picks: list[int], policy: str, priority: int | None) -> None:
        jobs = self.pick_jobs(picks)
        storage = self.storages[WORKERS[1]]
        result = storage.resurrect([job.id for job in jobs], "ada", priority=priority, on_key_conflict=policy)
        answered = set(result.applied)
        assert answered | {conflict.id for conflict in result.refused} == {job.id for job in jobs}
        assert len(result.applied) + len(result.refused) == len(jobs)
        # Of several dead jobs of one key, which one gets it is open; that exactly one does is not.
        dead = [job for job in jobs if job.place == "dlq"]
        held = {job.key for job in dead if self.model.holder(job.key)}
        kept = dict(JobHot.objects.filter(pk__in=[job.id for job in dead]).values_list("pk", "idempotency_key"))
        for job in dead:
            if policy == "skip" and job.key in held:
                assert job.id not in answered
            elif job.key is None or policy == "drop":
                assert job.id in answered
            if job.id in answered:
                if kept[job.id] != job.key:
                    assert policy == "drop"
                    assert kept[job.id] is None
                job.key = kept[job.id]
                job.place, job.status, job.worker, job.reason = "hot", PENDING, None, None
                job.settled, job.cancel_by, job.late = None, None, False
                job.attempt, job.executions, job.crash_count, job.snooze_count = 0, 0, 0, 0
                job.generation += 1
                if priority is not None:
                    job.priority = priority
                    job.revision += 1
        for key in {job.key for job in dead} - {None}:
            assert self.model.holder(key), "somebody holds the key now"
        assert answered <= {job.id for job in dead}

    @rule(picks=few, ttl=st.sampled_from([None, 3600.0]))
    @only_if(lambda self: self.model.jobs)
    def remove(self, picks: list[int], ttl: float | None) -> None:
        jobs = self.pick_of(picks, "hot")
        rows = self._rows(jobs)
        result = self.storages[WORKERS[1]].remove([job.id for job in jobs], "ada", ttl)
        expected = [job for job in jobs if job.place == "hot" and job.status != PROCESSING]
        assert sorted(result.applied) == sorted(job.id for job in expected)
        assert sorted(each.id for each in result.refused) == sorted(job.id for job in jobs if job not in expected)
        for job in expected:
            job.kept = rows[job.id]
            if job.status == FETCHED:
                job.kept |= {"status": PENDING, "worker_id": None}
                job.back()
            job.came_from, job.place, job.settled = "hot", "trash", None

    @rule(picks=few, ttl=st.sampled_from([None, 3600.0]))
    @only_if(lambda self: self.model.jobs)
    def purge(self, picks: list[int], ttl: float | None) -> None:
        jobs = self.pick_of(picks, "archive", "dlq")
        rows = self._rows(jobs)
        result = self.storages[WORKERS[1]].purge([job.id for job in jobs], "ada", ttl)
        expected = [job for job in jobs if job.place in ("archive", "dlq")]
        assert sorted(result.applied) == sorted(job.id for job in expected)
        assert sorted(each.id for each in result.refused) == sorted(job.id for job in jobs if job not in expected)
        for job in expected:
            job.kept, job.came_from, job.place, job.settled = rows[job.id], job.place, "trash", None

    @rule(picks=few, policy=st.sampled_from(["skip", "drop"]))
    @only_if(lambda self: any(job.place == "trash" for job in self.model.jobs.values()))
    def restore(self, picks: list[int], policy: str) -> None:
        """What comes back is as it went, to the last column."""
        every = [job for job in self.model.jobs.values() if job.place == "trash"]
        jobs = list({every[pick % len(every)].id: every[pick % len(every)] for pick in picks}.values())
        held = {job.key for job in jobs if self.model.holder(job.key)}
        result = self.storages[WORKERS[1]].restore([job.id for job in jobs], on_key_conflict=policy)
        answered = set(result.applied)
        assert answered | {each.id for each in result.refused} == {job.id for job in jobs}
        assert len(result.applied) + len(result.refused) == len(jobs)
        for job in jobs:
            if job.came_from != "hot" or job.key is None or policy == "drop":
                assert job.id in answered
            elif job.key in held:
                assert job.id not in answered
            if job.id not in answered:
                continue
            assert job.came_from is not None
            job.place, job.came_from, job.expired = job.came_from, None, False
            now = self._rows([job])[job.id]
            if job.place == "hot" and now["idempotency_key"] != job.key:
                assert policy == "drop"
                assert now["idempotency_key"] is None
                job.key = job.kept["idempotency_key"] = None
            assert now == job.kept
        for key in {job.key for job in jobs if job.kept and job.place == "hot"} - {None}:
            assert self.model.holder(key), "somebody holds the key now"

    def _rows(self, jobs: list[Modelled]) -> dict[str, dict[str, Any]]:
        """All columns of jobs, where the model has them."""
        return {
            job.id: TABLES[job.place]._default_manager.filter(pk=job.id).values().get()
            for job in jobs
            if job.id not in self.model.gone
        }

    @rule(picks=few, behind=st.sampled_from([None, 0, 0, 1]), payload=st.booleans(), priority=st.integers(-1, 1),
          queue=st.sampled_from([None, *QUEUES]), type_=st.sampled_from([None, *TYPES]))  # fmt: skip
    @only_if(lambda self: self.model.jobs)
    def edit(
        self, picks: list[int], behind: int | None, payload: bool, priority: int, queue: str | None, type_: str | None
    ) -> None:  # fmt: skip
        """With the revision of now, with an older one, or with none."""
        jobs = self.pick_of(picks, "hot", "dlq")
        self.made += 1
        changes = JobEdit(payload=f'"{self.made}"' if payload else None, priority=priority, queue=queue, type=type_)
        seen = {job.id: None if behind is None else job.revision - behind for job in jobs}
        result = self.storages[WORKERS[1]].edit(seen, "ada", changes)
        expected = []
        for job in jobs:
            editable = job.place == "dlq" or (job.place == "hot" and job.status == PENDING)
            changed = payload or job.priority != priority or queue not in (None, job.queue)
            changed = changed or type_ not in (None, job.type)
            if not editable or behind == 1 or not changed:
                continue
            expected.append(job.id)
            assert result.before[job.id] == {
                "revision": job.revision, "queue": job.queue, "type": job.type, "priority": job.priority,
                "tags": "[]", "schema_version": 1,
            }  # fmt: skip
            if changes.payload is not None:
                job.versions.append(job.payload)
                job.payload = changes.payload
            job.priority, job.queue, job.type = priority, queue or job.queue, type_ or job.type
            job.revision += 1
        assert sorted(result.applied) == sorted(expected)
        assert sorted(each.id for each in result.refused) == sorted({job.id for job in jobs} - set(expected))

    @rule(picks=few, policy=st.sampled_from(["skip", "drop"]))
    @only_if(lambda self: any(job.place == "archive" for job in self.model.jobs.values()))
    def run_again(self, picks: list[int], policy: str) -> None:
        jobs = sorted(self.pick_of(picks, "archive"), key=lambda job: job.id)
        result = self.storages[WORKERS[1]].run_again([job.id for job in jobs], "ada", on_key_conflict=policy)
        for job in jobs:
            new = result.new_ids.get(job.id)
            free = self.model.holder(job.key) is None
            assert (new is not None) == (job.place == "archive" and (free or policy == "drop"))
            if new is not None:
                self.model.jobs[new] = Modelled(
                    new, job.queue, job.type, job.priority, job.key if free else None, payload=job.payload
                )
                self.model.jobs[new].late = False
        assert sorted(result.applied) == sorted(result.new_ids)
        assert {each.id for each in result.refused} == {job.id for job in jobs} - set(result.applied)

    @rule(limit=st.integers(1, 5))
    def fold_groups(self, limit: int) -> None:
        self.storages[WORKERS[0]].fold_groups(limit)

    @rule(limit=st.integers(1, 5))
    def roll_up(self, limit: int) -> None:
        """The buckets of just now too."""
        self.storages[WORKERS[0]].roll_up(-60.0, limit)

    @rule(place=st.sampled_from(["archive", "dlq"]), queue=st.sampled_from(QUEUES), keep=st.booleans())
    def retention(self, place: str, queue: str, keep: bool) -> None:
        """A pass of one queue's rule, by which everything is old, beside none or one of a type."""
        kept = TYPES[:1] if keep else ()
        over = {
            job.id for job in self.model.jobs.values()
            if job.place == place and job.queue == queue and job.type not in kept
        }  # fmt: skip
        assert trim(self.storages[WORKERS[0]], trim_rule(place, -5.0, "queue", queue, type=kept), 2) == len(over)
        for job_id in over:
            job = self.model.jobs[job_id]
            job.end("gone")
            job.versions = []
        self.model.gone |= over

    @rule(limit=st.integers(1, 3))
    def expire_trash(self, limit: int) -> None:
        over = {job.id for job in self.model.jobs.values() if job.place == "trash" and job.expired}
        assert self.storages[WORKERS[0]].expire_trash(limit) == min(limit, len(over))
        gone = over - set(JobTrash.objects.filter(pk__in=over).values_list("pk", flat=True))
        assert len(gone) == min(limit, len(over))
        for job_id in gone:
            job = self.model.jobs[job_id]
            job.place, job.versions = "gone", []
        self.model.gone |= gone

    @rule(picks=few)
    @only_if(lambda self: any(job.place == "trash" for job in self.model.jobs.values()))
    def days_pass_in_the_trash(self, picks: list[int]) -> None:
        now = self.storages[WORKERS[1]].now()
        for job in self.pick_of(picks, "trash"):
            if JobTrash.objects.filter(pk=job.id, expires_at__isnull=False).update(
                expires_at=now - dt.timedelta(seconds=1)
            ):
                job.expired = True

    @rule(queue=st.sampled_from(QUEUES))
    def pause_or_resume(self, queue: str) -> None:
        self.model.paused ^= {queue}
        now = self.storages[WORKERS[1]].now()
        switch = {"is_paused": queue in self.model.paused, "updated_at": now}
        Queue.objects.filter(name=queue).update(**switch)

    # -- crashes, recovery and time ------------------------------------------------------------------------------------

    @rule()
    def look_at_live_rows(self) -> None:
        """A rescuer looks; it acts on what it saw at any later step."""
        self.views += self.storages[WORKERS[0]].live_rows()
        del self.views[:-8]
        live = {job.id: job for job in self.model.hot() if job.status in (FETCHED, PROCESSING)}
        found = {row.id: row for row in self.storages[WORKERS[1]].live_rows()}
        assert found.keys() == live.keys()
        for row in found.values():
            job = live[row.id]
            assert (row.status, row.worker_id, row.claim_number) == (job.status, job.worker, job.claim_number)

    @rule(picks=few, to=st.sampled_from(["pending", "dlq"]))
    @only_if(lambda self: self.views)
    def rescue(self, picks: list[int], to: str) -> None:
        views = list({view.id: view for view in (self.views[pick % len(self.views)] for pick in picks)}.values())
        current = {row.id: row for row in self.storages[WORKERS[0]].live_rows()}
        expected = set()
        for view in views:
            row = current.get(view.id)
            if row and (row.claim_number, row.status, row.seen) == (view.claim_number, view.status, view.seen):
                expected.add(view.id)
        actions = [
            RescueAction(view, "pending" if view.status == FETCHED else to, LOG, crashed=view.status == PROCESSING,
                         reason=FailureReason.ZOMBIE)
            for view in views
        ]  # fmt: skip
        assert self.storages[WORKERS[0]].rescue(actions) == expected
        for action in actions:
            if action.row.id not in expected:
                continue
            job = self.model.jobs[action.row.id]
            job.crash_count += action.crashed
            if job.cancel_by:
                self.model.bury(job, FailureReason.CANCELLED)
            elif action.to == "dlq":
                self.model.bury(job, FailureReason.ZOMBIE)
            else:
                job.back()

    @rule(limit=st.integers(1, 3))
    def expire(self, limit: int) -> None:
        late = {job.id for job in self.model.hot() if job.status == PENDING and job.late}
        assert self.storages[WORKERS[0]].expire(limit) == min(limit, len(late))
        gone = late - set(JobHot.objects.filter(pk__in=late).values_list("pk", flat=True))
        assert len(gone) == min(limit, len(late))
        for job_id in gone:
            self.model.bury(self.model.jobs[job_id], FailureReason.EXPIRED)

    @rule()
    def delays_pass(self) -> None:
        now = self.storages[WORKERS[1]].now()
        JobHot.objects.filter(status=PENDING, run_at__gt=now).update(run_at=now - dt.timedelta(seconds=1))

    @rule(picks=few)
    @only_if(lambda self: self.model.jobs)
    def deadlines_pass(self, picks: list[int]) -> None:
        now = self.storages[WORKERS[1]].now()
        for job in self.pick_jobs(picks):
            if JobHot.objects.filter(pk=job.id).update(deadline_at=now - dt.timedelta(seconds=1)):
                job.late = True

    # -- what must hold after every step -------------------------------------------------------------------------------

    @invariant()
    def tables_are_what_the_model_says(self) -> None:
        common = (
            "pk", "claim_number", "attempt", "generation", "crash_count", "snooze_count", "idempotency_key", "revision",
            "payload", "priority", "queue", "type",
        )  # fmt: skip
        found: dict[str, tuple[Any, ...]] = {}
        for place, model, own in (
            ("hot", JobHot, ("status", "worker_id", "cancel_requested_by")),
            ("archive", JobArchive, ()),
            ("dlq", JobDLQ, ("failure_reason",)),
            ("trash", JobTrash, ("came_from",)),
        ):
            for values in model._default_manager.values_list(*common, *own):
                assert values[0] not in found, f"{values[0]} is in two tables"
                found[values[0]] = (place, *values[1:])
        expected = {}
        for job in self.model.jobs.values():
            if job.place == "gone":
                continue
            own_values: tuple[Any, ...] = {
                "hot": (job.status, job.worker, job.cancel_by), "archive": (), "dlq": (job.reason,),
                "trash": (job.came_from,),
            }[job.place]  # fmt: skip
            expected[job.id] = (
                job.place, job.claim_number, job.attempt, job.generation, job.crash_count, job.snooze_count, job.key,
                job.revision, job.payload, job.priority, job.queue, job.type, *own_values,
            )  # fmt: skip
            assert job.attempt <= job.executions
        assert found == expected

    @invariant()
    def times_are_copied(self) -> None:
        for job_id, run_at in JobHot.objects.values_list("pk", "run_at"):
            self.model.jobs[job_id].run_at = run_at

    @invariant()
    def nothing_is_lost_and_keys_are_single(self) -> None:
        assert_one_place(len(self.model.jobs) - len(self.model.gone))
        keys = [job.key for job in self.model.hot() if job.key is not None]
        assert len(keys) == len(set(keys))
        assert not JobHot.objects.filter(status=AWAITING).exists()

    @invariant()
    def replaced_payloads_are_kept_as_long_as_their_jobs(self) -> None:
        found: dict[str, list[str]] = {}
        for job_id, payload in PayloadVersion.objects.order_by("revision").values_list("job_id", "payload"):
            found.setdefault(job_id, []).append(payload)
        assert found == {job.id: job.versions for job in self.model.jobs.values() if job.versions}

    @invariant()
    def metrics_count_what_was_settled(self) -> None:
        sums: Counter[tuple[int, int]] = Counter()
        for table in (MetricBucket, LifetimeCounter):
            for outcome, reason, count in table._default_manager.values_list("outcome", "reason", "count"):
                sums[outcome, reason] += count
        assert sums == self.model.counts

    @invariant()
    def groups_count_every_death(self) -> None:
        """What they count of the DLQ, nothing_is_lost looks at."""
        sums: Counter[int] = Counter()
        for reason, total in FailureGroup.objects.values_list("reason", "total"):
            sums[reason] += total
        dead = {
            reason: count for (outcome, reason), count in self.model.counts.items() if outcome == BucketOutcome.DEAD
        }
        assert +sums == dead


@committed
@pytest.mark.slow
def test_the_storage_does_what_the_model_does() -> None:
    run_state_machine_as_test(
        StorageMachine,
        settings=settings(
            max_examples=40,
            stateful_step_count=60,
            deadline=None,
            database=None,
            print_blob=True,
            suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large],
        ),
    )
