"""kill -9 under load: nothing lost, started jobs end by their crash policy, atomic effects exactly once."""

from __future__ import annotations

import os
import random
import signal
from collections import Counter
from collections.abc import Callable

import psutil
from django.db.models import Count

from chokaq_django import FailureReason, enqueue_many
from chokaq_django.models import JobArchive, JobDLQ, Worker
from tests.jobs import AtomicJob, NoteJob, SleepJob
from tests.models import Effect

from ..helpers import WorkerProcess, wait_until
from ..ledger import Ledger
from ..storage.invariants import Sampler
from .support import nothing_active

ROUNDS, PROCESSES = 5, 4
OPTIONS = {
    "RECOVERY": {"WORKER_TIMEOUT": 2, "SCAN_INTERVAL": 0.3, "CRASH_LIMIT": 1_000},
    "EXECUTION": {"HEARTBEAT_MIN": 0.2, "HEARTBEAT_MAX": 0.4},
    # Every kill is a failure of the types that ran: their circuits would open and the next worker would have no work.
    "CIRCUIT": {"FAILURES": 10_000},
}


def up(worker: WorkerProcess) -> list[int]:
    """The processes of a worker that have registered themselves."""
    pids = [child.pid for child in psutil.Process(worker.pid).children()]
    return list(Worker.objects.filter(pid__in=pids).values_list("pid", flat=True))


def load(sampler: Sampler, name: str) -> None:
    """A mix of jobs of both crash policies."""
    jobs = [
        job
        for index in range(40)
        for job in (NoteJob(), SleepJob(seconds=0.02), AtomicJob(name=f"{name} {index}", seconds=0.01))
    ]
    with sampler.accepting(len(jobs)):
        enqueue_many(jobs)


def test_killed_workers_lose_nothing(
    worker_process: Callable[..., WorkerProcess], ledger: Ledger, sampler: Sampler
) -> None:
    """Twenty kills: of a process in the middle of its own jobs, whose supervisor makes another, and of all at once."""
    pick = random.Random(11)
    steady = worker_process("--concurrency=1", options=OPTIONS)

    def at_work(fresh: set[int], jobs: int) -> int | None:
        """One of these processes that has said so much."""
        said = Counter(entry.pid for entry in ledger.entries() if entry.pid in fresh)
        return next((pid for pid, count in said.items() if count >= jobs), None)

    for turn in range(ROUNDS):
        worker = worker_process(f"--processes={PROCESSES}", "--concurrency=4", options=OPTIONS)
        fresh = set(wait_until(lambda worker=worker: found if len(found := up(worker)) == PROCESSES else None, 30))
        for kill in range(PROCESSES):
            load(sampler, f"kill {turn}.{kill}")
            some = pick.randint(1, 25)
            victim = wait_until(
                lambda fresh=fresh, some=some: at_work(fresh, some),
                30, what=f"a process is at work before kill {turn}.{kill}", interval=0.001,
            )  # fmt: skip
            fresh.remove(victim)
            if fresh:
                os.kill(victim, signal.SIGKILL)
            else:
                worker.kill()
    wait_until(nothing_active, 90, what="every job settled", interval=0.1)
    assert steady.stop() == 0

    dead = Counter(JobDLQ.objects.values_list("type", "failure_reason"))
    reasons = {reason for _, reason in dead}
    assert reasons <= {FailureReason.ZOMBIE}, dead
    assert not JobDLQ.objects.filter(type="test.atomic").exists(), "their crash policy is to try again"
    # A dead job had started: its policy (dlq) keeps it for a person. One that waited in a buffer just runs.
    assert not JobDLQ.objects.filter(attempt=0).exists()
    for job in JobDLQ.objects.all():
        assert "crashed" in job.attempt_log

    assert JobDLQ.objects.exists(), "no job was running when its worker was killed: the test shows nothing"
    assert Effect.objects.filter(attempt__gt=1).exists(), "no atomic job was cut off: the test shows nothing"

    effects = Effect.objects.values("job").annotate(times=Count("id"))
    assert {row["times"] for row in effects} == {1}, "an atomic job's effect came more than once"
    assert effects.count() == JobArchive.objects.filter(type="test.atomic").count()
    runs = ledger.per_job("ran")
    assert set(JobArchive.objects.filter(type="test.note").values_list("id", flat=True)) <= set(runs)
    assert max(runs.values()) == 1, "a job of policy dlq ran twice"
