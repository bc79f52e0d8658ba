"""kill -9 under load: nothing lost, started jobs end by their crash policy, atomic effects exactly once."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable

from django.db.models import Count

from chokaq_django import FailureReason, enqueue_many
from chokaq_django.models import JobArchive, JobDLQ
from tests.jobs import AtomicJob, NoteJob, SleepJob
from tests.models import Effect

from ..helpers import WorkerProcess, wait_until
from ..ledger import Ledger
from ..storage.invariants import Sampler, assert_one_place
from .support import nothing_active, settled

KILLS = 20
OPTIONS = {
    "RECOVERY": {"WORKER_TIMEOUT": 2, "SCAN_INTERVAL": 0.3, "CRASH_LIMIT": 1_000},
    "EXECUTION": {"HEARTBEAT_MIN": 0.2, "HEARTBEAT_MAX": 0.4},
}


def test_killed_workers_lose_nothing(worker_process: Callable[..., WorkerProcess], ledger: Ledger) -> None:
    pick = random.Random(11)
    per_kind = 400
    enqueue_many(
        job
        for index in range(per_kind)
        for job in (NoteJob(name=str(index)), SleepJob(seconds=0.01), AtomicJob(name=str(index), seconds=0.005))
    )
    total = 3 * per_kind
    steady = worker_process("--concurrency=2", options=OPTIONS)
    with Sampler(total) as sampler:
        for kill in range(KILLS):
            worker = worker_process("--concurrency=4", options=OPTIONS)
            before = settled()
            more = pick.randint(1, 12)
            wait_until(
                lambda before=before, more=more: settled() >= before + more or nothing_active(),
                30,
                what=f"load before kill {kill}",
            )
            worker.kill()
            if nothing_active():
                enqueue_many(AtomicJob(name=f"more {kill} {index}", seconds=0.005) for index in range(100))
                total += 100
                sampler.expected_total = None
        wait_until(nothing_active, 90, what="every job settled")
        steady.stop()
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

    effects = Effect.objects.values("job").annotate(times=Count("id"))
    assert {row["times"] for row in effects} == {1}, "an atomic job's effect came more than once"
    assert effects.count() == JobArchive.objects.filter(type="test.atomic").count()
    runs = ledger.per_job("ran")
    assert set(JobArchive.objects.filter(type="test.note").values_list("id", flat=True)) <= set(runs)
    assert max(runs.values()) == 1, "a job of policy dlq ran twice"
