"""SIGTERM at random points: no attempt burnt, nothing left leased."""

from __future__ import annotations

import random
import signal
import time
from collections.abc import Callable

from chokaq_django import enqueue_many
from chokaq_django.models import JobArchive, JobDLQ, JobHot, Worker
from tests.jobs import NoteJob, ObedientJob, SleepJob

from ..helpers import WorkerProcess, wait_until
from ..ledger import Ledger
from ..storage.invariants import assert_one_place
from .support import assert_no_errors, nothing_leased

STOPS, AT_ONCE = 50, 5
TALKATIVE = {"CHOKAQ_LOG_LEVEL": "INFO"}
OPTIONS = {"WORKER": {"SHUTDOWN_GRACE": 0.3, "CANCEL_GRACE": 2, "PREFETCH": 20}}


def test_stopped_workers_burn_no_attempt(worker_process: Callable[..., WorkerProcess], ledger: Ledger) -> None:
    """Short, longer and endless (but obedient) jobs; the workers are stopped wherever they happen to be."""
    pick = random.Random(5)
    total = 0
    workers: list[WorkerProcess] = []
    for _ in range(STOPS // AT_ONCE):
        jobs = [NoteJob(), NoteJob(), SleepJob(seconds=0.03), ObedientJob()] * 20
        enqueue_many(jobs)
        total += len(jobs)
        batch = [worker_process("--concurrency=3", options=OPTIONS, env=TALKATIVE) for _ in range(AT_ONCE)]
        workers += batch
        # Each is stopped at a time of its own after its start, from before its first claim to the middle of the load.
        wait_until(Worker.objects.exists, 30, what="a worker", interval=0.002)
        for worker in batch:
            late = time.monotonic() + pick.random() * 0.3
            wait_until(lambda late=late: time.monotonic() >= late, 5, interval=0.001)
            worker.signal(signal.SIGTERM)
        for worker in batch:
            assert worker.wait() in (0, -signal.SIGTERM), worker.output  # the latter: before it could listen
        assert nothing_leased(), f"{list(JobHot.objects.values('id', 'status', 'type'))[:5]}\n{batch[0].output}"
        assert not Worker.objects.exists()
    assert_one_place(total)
    assert JobDLQ.objects.count() == 0
    assert not JobHot.objects.exclude(attempt=0).exists(), "an attempt was burnt"
    assert not JobArchive.objects.exclude(attempt=1).exists(), "an attempt was burnt"
    runs = ledger.per_job("ran")
    done = set(JobArchive.objects.filter(type="test.note").values_list("id", flat=True))
    assert done == set(runs), "a job ran and was handed back, or was archived without having run"
    assert set(runs.values()) <= {1}
    stopped_at_work = sum("jobs are running" in worker.output for worker in workers)
    assert stopped_at_work > STOPS // 2, f"only {stopped_at_work} workers were stopped after their start"
    assert_no_errors(workers)
