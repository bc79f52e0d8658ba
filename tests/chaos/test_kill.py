"""kill -9 under load: nothing lost, started jobs end by their crash policy, atomic effects exactly once."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from django.db.models import Count

from chokaq_django import FailureReason, enqueue_many
from chokaq_django.models import JobArchive, JobDLQ, Worker
from tests.jobs import AtomicJob, NoteJob, SleepJob
from tests.models import Effect

from ..helpers import WorkerProcess, wait_until
from ..ledger import Ledger
from ..storage.invariants import Sampler, assert_one_place
from .support import nothing_active

KILLS = 20
OPTIONS = {
    "RECOVERY": {"WORKER_TIMEOUT": 2, "SCAN_INTERVAL": 0.3, "CRASH_LIMIT": 1_000},
    "EXECUTION": {"HEARTBEAT_MIN": 0.2, "HEARTBEAT_MAX": 0.4},
    # Every kill is a failure of the types that ran: their circuits would open and the next worker would have no work.
    "CIRCUIT": {"FAILURES": 10_000},
}


def is_up(worker: WorkerProcess) -> bool:
    """Whether the process that the command supervises has registered itself."""
    children = Path(f"/proc/{worker.pid}/task/{worker.pid}/children")
    pids = [int(pid) for pid in children.read_text().split()] if children.exists() else []
    return Worker.objects.filter(pid__in=pids).exists()


def load(name: str) -> int:
    """A mix of jobs of both crash policies; how many."""
    jobs = [
        job
        for index in range(30)
        for job in (NoteJob(), SleepJob(seconds=0.02), AtomicJob(name=f"{name} {index}", seconds=0.01))
    ]
    enqueue_many(jobs)
    return len(jobs)


def test_killed_workers_lose_nothing(worker_process: Callable[..., WorkerProcess], ledger: Ledger) -> None:
    pick = random.Random(11)
    total = 0
    steady = worker_process("--concurrency=1", options=OPTIONS)
    with Sampler() as sampler:
        for kill in range(KILLS):
            known = {entry.pid for entry in ledger.entries()}
            worker = worker_process("--concurrency=6", options=OPTIONS)
            # The worker that is to die is new here: it is killed in the middle of its own jobs, never before them.
            wait_until(lambda worker=worker: is_up(worker), 30, what=f"worker {kill} is up")
            total += load(f"kill {kill}")
            more = pick.randint(1, 40)
            wait_until(
                lambda known=known, more=more: sum(entry.pid not in known for entry in ledger.entries()) >= more,
                30,
                what=f"worker {kill} is at work",
                interval=0.001,
            )
            worker.kill()
        wait_until(nothing_active, 90, what="every job settled", interval=0.1)
        assert steady.stop() == 0
    sampler.check()
    assert_one_place(total)

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
