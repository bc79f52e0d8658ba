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
from ..storage.invariants import Sampler
from .support import assert_no_errors, nothing_leased

TURNS, PROCESSES = 5, 10
TALKATIVE = {"CHOKAQ_LOG_LEVEL": "INFO"}
OPTIONS = {"WORKER": {"SHUTDOWN_GRACE": 0.3, "CANCEL_GRACE": 60, "PREFETCH": 20}}


def test_stopped_workers_burn_no_attempt(
    worker_process: Callable[..., WorkerProcess], ledger: Ledger, sampler: Sampler
) -> None:
    """Short, longer and endless (but obedient) jobs; fifty processes are stopped wherever they happen to be."""
    pick = random.Random(5)
    workers: list[WorkerProcess] = []
    for _ in range(TURNS):
        jobs = [NoteJob(), NoteJob(), SleepJob(seconds=0.03), ObedientJob()] * 40
        with sampler.accepting(len(jobs)):
            enqueue_many(jobs)
        worker = worker_process(f"--processes={PROCESSES}", "--concurrency=3", options=OPTIONS, env=TALKATIVE)
        workers.append(worker)
        # At a time of its own after its start, from before the first claim to the middle of the load.
        wait_until(Worker.objects.exists, 30, what="a worker", interval=0.002)
        late = time.monotonic() + pick.random() * 0.3
        wait_until(lambda late=late: time.monotonic() >= late, 5, interval=0.001)
        worker.signal(signal.SIGTERM)
        assert worker.wait() == 0, worker.output
        assert nothing_leased(), f"{list(JobHot.objects.values('id', 'status', 'type'))[:5]}\n{worker.output}"
        assert not Worker.objects.exists()
    assert JobDLQ.objects.count() == 0
    assert not JobHot.objects.exclude(attempt=0).exists(), "an attempt was burnt"
    assert not JobArchive.objects.exclude(attempt=1).exists(), "an attempt was burnt"
    runs = ledger.per_job("ran")
    done = set(JobArchive.objects.filter(type="test.note").values_list("id", flat=True))
    assert done == set(runs), "a job ran and was handed back, or was archived without having run"
    assert set(runs.values()) <= {1}
    stopped_at_work = sum(worker.output.count("jobs are running") for worker in workers)
    most = TURNS * PROCESSES
    assert stopped_at_work > most // 2, f"only {stopped_at_work} of {most} were stopped after their start"
    assert_no_errors(workers)
