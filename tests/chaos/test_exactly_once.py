"""Four worker processes and many jobs: each settled exactly once, in order, within its queue's cap."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Callable

from chokaq_django import enqueue_many
from chokaq_django.models import JobArchive, JobDLQ, JobHot
from chokaq_django.producer import Request
from tests.jobs import NoteJob, SleepJob

from ..helpers import WorkerProcess, wait_until
from ..ledger import Ledger
from ..storage.invariants import Sampler
from .support import assert_no_errors, feed_until_all_worked, nothing_active

JOBS = 20_000


def test_every_job_of_many_is_settled_exactly_once(
    worker_process: Callable[..., WorkerProcess], ledger: Ledger, sampler: Sampler
) -> None:
    pick = random.Random(7)
    with sampler.accepting(JOBS):
        enqueue_many(
            Request(
                NoteJob(),
                queue=pick.choice(["mail", "reports", "imports"]),
                priority=pick.choice([1, 10, 10, 10, 30]),
                delay=pick.choice([None, None, None, 0.5, 2.0]),
            )
            for _ in range(JOBS)
        )
    workers = [worker_process("--processes=2") for _ in range(2)]
    wait_until(nothing_active, 120, what="every job settled", interval=0.2)
    accepted = JOBS + feed_until_all_worked(ledger, sampler, NoteJob(), processes=4, queue="mail", word="ran")
    assert [worker.stop() for worker in workers] == [0, 0]
    assert JobArchive.objects.count() == accepted
    assert JobArchive.objects.exclude(attempt=1).count() == 0
    runs = ledger.per_job()
    assert len(runs) == accepted
    assert set(runs.values()) == {1}
    assert_no_errors(workers)


def test_one_queue_is_claimed_by_priority_and_due_order(
    worker_process: Callable[..., WorkerProcess], ledger: Ledger, sampler: Sampler
) -> None:
    """With one thread and nothing claimed ahead, the order of the runs is the order of the claims."""
    pick = random.Random(3)
    number = 400
    with sampler.accepting(number):
        enqueue_many(Request(NoteJob(), queue="ordered", priority=pick.choice([1, 10, 30])) for _ in range(number))
    expected = list(
        JobHot.objects.filter(queue="ordered").order_by("-priority", "run_at", "id").values_list("id", flat=True)
    )
    worker = worker_process("--queues=ordered", "--concurrency=1", options={"WORKER": {"PREFETCH": 0}})
    wait_until(nothing_active, 60, what="every job settled")
    worker.stop()
    assert [entry.job for entry in ledger.entries("ran")] == expected
    assert_no_errors([worker])


def test_several_workers_keep_the_order_of_a_queue(
    worker_process: Callable[..., WorkerProcess], ledger: Ledger, sampler: Sampler
) -> None:
    """Four claimers share one queue: whoever claims takes the head, so that no higher priority starts after a lower
    one was claimed, but for what is in flight in the four processes at once."""
    number = 4_000
    with sampler.accepting(number):
        enqueue_many(Request(NoteJob(), queue="ordered", priority=30 if index % 2 else 10) for index in range(number))
    workers = [worker_process("--queues=ordered", "--processes=2") for _ in range(2)]
    wait_until(nothing_active, 60, what="every job settled")
    for worker in workers:
        worker.stop()
    started = list(JobArchive.objects.order_by("started_at").values_list("priority", "started_at"))
    first_low = min(at for priority, at in started if priority == 10)
    # started_at is the claim's own instant: a lower priority is claimed only when no higher one is left to claim. What
    # was in other hands then, a batch in each at most, may start later.
    late = sum(1 for priority, at in started if priority == 30 and at > first_low)
    assert late <= 4 * 200, f"{late} high jobs were claimed after the first low one"
    by_instant = defaultdict(list)
    for priority, at in started:
        by_instant[at].append(priority)
    assert len(by_instant) > 4
    assert_no_errors(workers)


def test_a_queues_cap_holds_over_all_processes(
    worker_process: Callable[..., WorkerProcess], ledger: Ledger, sampler: Sampler
) -> None:
    number = 150
    options = {"QUEUES": {"narrow": {"MAX_WORKERS": 3}}}
    workers = [worker_process("--processes=2", "--concurrency=10", options=options) for _ in range(2)]
    with sampler.accepting(number):
        enqueue_many((SleepJob(seconds=0.02) for _ in range(number)), queue="narrow")
    wait_until(nothing_active, 60, what="every job settled")
    number += feed_until_all_worked(ledger, sampler, SleepJob(seconds=0.02), processes=2, queue="narrow", word="enter")
    for worker in workers:
        worker.stop()
    assert ledger.count("leave") == number
    most = ledger.most_at_once()
    assert most <= 3, f"{most} ran at once"
    assert most == 3, "the cap was never used up: the test shows nothing"
    assert JobDLQ.objects.count() == 0
    assert_no_errors(workers)
