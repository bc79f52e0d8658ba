"""Every operation at once from eight connections: no error, no job lost or doubled, every answer true."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, field

from chokaq_django.job.failures import FailureReason
from chokaq_django.models import BucketOutcome, JobArchive, JobDLQ, JobHot
from chokaq_django.storage import ClaimedJob, ClaimRequest, Outcome, OutcomeKind, Storage
from chokaq_django.storage.contract import QueueRow, RescueAction

from .invariants import Sampler, assert_one_place
from .support import FETCHED, LOG, PENDING, PROCESSING, Jobs, committed, ids, leases, new_job, outcome, together

pytestmark = committed

QUEUES = ["a", "b", "capped"]
ENDS = [OutcomeKind.SUCCEEDED, OutcomeKind.RETRY, OutcomeKind.DEAD, OutcomeKind.SNOOZED, OutcomeKind.INTERRUPTED]
TO = ["pending", "dlq"]
CAP = 4
STEPS = 120


@dataclass
class Account:
    """What one thread was answered."""

    created: set[str] = field(default_factory=set)
    executions: Counter[str] = field(default_factory=Counter)
    ends: list[tuple[str, int]] = field(default_factory=list)
    succeeded: list[str] = field(default_factory=list)
    retried: int = 0
    resurrected: list[str] = field(default_factory=list)


class Actor:
    """One thread: a worker that now and then produces, operates or rescues; seeded, so that it does the same again."""

    def __init__(self, number: int, storage: Storage) -> None:
        self.random = random.Random(number)
        self.worker = f"worker-{number}"
        self.storage = storage
        self.account = Account()
        self.fetched: list[ClaimedJob] = []
        self.running: list[ClaimedJob] = []

    def step(self) -> None:
        acts = [self.enqueue, self.claim, self.claim, self.start, self.settle, self.settle, self.beat, self.release,
                self.cancel, self.resurrect, self.rescue]  # fmt: skip
        self.random.choice(acts)()

    def enqueue(self) -> None:
        keys = [None, None, None, *(f"key-{number}" for number in range(6))]
        pick = self.random.choice
        rows = [
            new_job(queue=pick(QUEUES), priority=pick([0, 1, 2]), idempotency_key=pick(keys))
            for _ in range(self.random.randint(1, 6))
        ]
        self.account.created |= {answer.id for answer in self.storage.enqueue(rows) if answer.created}

    def claim(self) -> None:
        request = ClaimRequest(
            self.worker, QUEUES, self.random.randint(1, 8), start=self.random.random() < 0.5, capped={"capped": CAP}
        )
        for job in self.storage.claim(request).jobs:
            started = request.start and not job.crash_count
            assert job.status == (PROCESSING if started else FETCHED)
            (self.running if started else self.fetched).append(job)
            self.account.executions[job.id] += started

    def start(self) -> None:
        reply = self.storage.start(self.worker, leases(self.fetched))
        self.running += [job for job in self.fetched if job.id in reply.started]
        self.account.executions.update(reply.started.keys())
        self.fetched.clear()

    def settle(self) -> None:
        self.random.shuffle(self.running)
        some, self.running = self.running[:10], self.running[10:]
        # A job may have come to this worker twice; what is known to be stale is tried in a call of its own.
        newest = {job.id: max(other.claim_number for other in some if other.id == job.id) for job in some}
        for jobs in (
            [job for job in some if job.claim_number == newest[job.id]],
            [job for job in some if job.claim_number != newest[job.id]],
        ):
            self._settle([outcome(job, self.random.choice(ENDS), attempt_log=f'["{job.lease}"]') for job in jobs])

    def _settle(self, outcomes: list[Outcome]) -> None:
        applied = self.storage.settle(self.worker, outcomes)
        done = [made for made in outcomes if made.id in applied]
        self.account.ends += [(made.id, made.claim_number) for made in done]
        self.account.succeeded += [made.id for made in done if made.kind is OutcomeKind.SUCCEEDED]
        self.account.retried += sum(made.kind is OutcomeKind.RETRY for made in done)

    def beat(self) -> None:
        reply = self.storage.heartbeat(self.worker, leases(self.running))
        self.running = [job for job in self.running if job.id not in reply.lost]
        self.storage.progress(self.worker, {job.lease: (50, "half") for job in self.running[:5]})

    def release(self) -> None:
        self.storage.release(self.worker, leases(self.fetched))
        self.fetched.clear()

    def cancel(self) -> None:
        if self.random.random() < 0.3:
            chosen = [*self.account.created]
            self.storage.cancel(self.random.sample(chosen, min(3, len(chosen))), self.worker)

    def resurrect(self) -> None:
        dead = list(JobDLQ.objects.values_list("pk", flat=True)[:20])
        policy = self.random.choice(["skip", "drop"])
        self.account.resurrected += self.storage.resurrect(dead, self.worker, on_key_conflict=policy).applied

    def rescue(self) -> None:
        """Takes live rows for dead although their workers live: what a wrong rescuer would do."""
        if self.random.random() < 0.3:
            live = self.storage.live_rows()
            actions = [
                RescueAction(row, self.random.choice(TO), LOG, crashed=True, reason=FailureReason.ZOMBIE)
                for row in self.random.sample(live, min(3, len(live)))
            ]
            self.storage.rescue(actions)


def test_eight_connections_do_everything_at_once(storage: Storage, counts) -> None:  # type: ignore[no-untyped-def]
    storage.seed_queue(QueueRow("capped", False, True, CAP, None, None, None))
    over: list[int] = []

    def act(number: int, own: Storage) -> Account:
        actor = Actor(number, own)
        for _ in range(STEPS):
            actor.step()
            live = JobHot.objects.filter(queue="capped", status__in=(FETCHED, PROCESSING)).count()
            if live > CAP:
                over.append(live)
        return actor.account

    accounts: list[Account] = []
    with (
        Sampler(interval=0.02) as sampler,
        sampler.accepting(8 * STEPS * 10, lambda: sum(len(account.created) for account in accounts)),
    ):
        accounts += together(8, act, deadline=120)
    sampler.check()

    created = [job_id for account in accounts for job_id in account.created]
    assert len(created) == len(set(created))
    assert_one_place(len(created))
    assert not over, f"{max(over)} at once under a cap of {CAP}"

    ends = [end for account in accounts for end in account.ends]
    assert len(set(ends)) == len(ends), "each execution ended once"
    succeeded = sorted(job_id for account in accounts for job_id in account.succeeded)
    assert succeeded == sorted(JobArchive.objects.values_list("pk", flat=True))
    counted = counts()
    assert counted[BucketOutcome.SUCCEEDED, -1] == JobArchive.objects.count()
    assert counted[BucketOutcome.RETRIED, -1] == sum(account.retried for account in accounts)
    buried = sum(count for (kind, _), count in counted.items() if kind == BucketOutcome.DEAD)
    assert buried - sum(len(account.resurrected) for account in accounts) == JobDLQ.objects.count()

    executions: Counter[str] = Counter()
    for account in accounts:
        executions += account.executions
    for model in (JobHot, JobArchive, JobDLQ):
        for job_id, attempt, number in model._default_manager.values_list("pk", "attempt", "claim_number"):
            assert 0 <= attempt <= executions[job_id] <= number
    waiting = JobHot.objects.filter(status=PENDING)
    assert not waiting.exclude(worker_id=None).exists()
    left = sorted(waiting.filter(queue__in=["a", "b"]).values_list("pk", flat=True))
    assert sorted(ids(Jobs(storage).take(5_000, queues=["a", "b"]))) == left, "all that waits can be claimed"
