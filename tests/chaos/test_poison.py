"""A job that kills its process again and again is buried as poison, and the others go on."""

from __future__ import annotations

from collections.abc import Callable

from chokaq_django import FailureReason, enqueue, enqueue_many
from chokaq_django.models import JobArchive, JobDLQ
from tests.jobs import AtomicJob, DieAndRetryJob
from tests.models import Effect

from ..helpers import WorkerProcess, wait_until
from ..ledger import Ledger
from ..storage.invariants import Sampler
from .support import nothing_active

LIMIT = 2
OPTIONS = {
    "RECOVERY": {"WORKER_TIMEOUT": 1.5, "SCAN_INTERVAL": 0.3, "CRASH_LIMIT": LIMIT},
    "EXECUTION": {"HEARTBEAT_MIN": 0.2, "HEARTBEAT_MAX": 0.4},
}


def test_a_job_that_kills_its_process_is_buried_and_the_others_go_on(
    worker_process: Callable[..., WorkerProcess], ledger: Ledger, sampler: Sampler
) -> None:
    worker = worker_process("--processes=2", "--concurrency=2", options=OPTIONS)
    with sampler.accepting(1):
        poison = enqueue(DieAndRetryJob(name="poison"), max_attempts=50, priority=90)
    others = 0
    while not JobDLQ.objects.filter(pk=poison.id).exists():
        with sampler.accepting(10):
            enqueue_many(AtomicJob(name=f"other {others}") for _ in range(10))
        others += 10
        wait_until(lambda others=others: JobArchive.objects.count() == others, 30, what="the others go on")
    dead = JobDLQ.objects.get()
    assert dead.failure_reason == FailureReason.POISON
    assert (dead.pk, dead.crash_count, dead.attempt) == (poison.id, LIMIT + 1, LIMIT + 1)
    runs = [entry for entry in ledger.entries("ran") if entry.name == "poison"]
    assert len({entry.pid for entry in runs}) == len(runs) == LIMIT + 1, "each run killed a process of its own"
    wait_until(nothing_active, 30, what="all are settled")
    assert Effect.objects.count() == JobArchive.objects.count() == others
    assert worker.stop() == 0, worker.output


def test_the_company_of_a_poison_is_not_buried_with_it(
    worker_process: Callable[..., WorkerProcess], ledger: Ledger, sampler: Sampler
) -> None:
    """Both are due together, and there is one process: all its deaths but the last take both with them."""
    with sampler.accepting(2):
        company = enqueue(AtomicJob(name="company", seconds=0.5)).id
        poison = enqueue(DieAndRetryJob(name="poison"), max_attempts=50).id
    worker = worker_process("--processes=1", "--concurrency=2", options=OPTIONS)
    wait_until(lambda: JobDLQ.objects.filter(pk=poison).exists(), 60, what="the poison is buried")
    wait_until(lambda: JobArchive.objects.filter(pk=company).exists(), 60, what="its company succeeds")
    dead = JobDLQ.objects.get()
    assert (dead.failure_reason, dead.crash_count) == (FailureReason.POISON, LIMIT + 1)
    assert JobArchive.objects.get().crash_count == LIMIT
    assert [effect.name for effect in Effect.objects.all()] == ["company"]
    assert worker.stop() == 0, worker.output
