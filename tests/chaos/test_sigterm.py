"""SIGTERM at random points: no attempt burnt, nothing left leased."""

from __future__ import annotations

import random
import time
from collections.abc import Callable

from chokaq_django import enqueue_many
from chokaq_django.models import JobArchive, JobDLQ, JobHot, Worker
from tests.jobs import NoteJob, ObedientJob, SleepJob

from ..helpers import WorkerProcess, wait_until
from ..ledger import Ledger
from ..storage.invariants import assert_one_place
from .support import assert_no_errors, nothing_leased

STOPS = 50
OPTIONS = {"WORKER": {"SHUTDOWN_GRACE": 0.3, "CANCEL_GRACE": 2, "PREFETCH": 20}}


def test_stopped_workers_burn_no_attempt(worker_process: Callable[..., WorkerProcess], ledger: Ledger) -> None:
    """Short, longer and endless (but obedient) jobs; the workers are stopped wherever they happen to be."""
    pick = random.Random(5)
    total = 0
    workers = []
    for stop in range(STOPS):
        jobs = [NoteJob(), NoteJob(), SleepJob(seconds=0.03), ObedientJob()] * 5
        enqueue_many(jobs)
        total += len(jobs)
        worker = worker_process("--concurrency=3", options=OPTIONS)
        workers.append(worker)
        # From before the first claim to the middle of the load: the seen state differs from stop to stop.
        wait_until(Worker.objects.exists, 20, what="a worker", interval=0.002)
        late = time.monotonic() + pick.random() * 0.15
        wait_until(lambda late=late: time.monotonic() >= late, 5, interval=0.001)
        assert worker.stop() == 0, worker.output
        assert nothing_leased(), (
            f"stop {stop}: {list(JobHot.objects.values('id', 'status', 'type'))[:5]}\n{worker.output}"
        )
        assert not Worker.objects.exists()
    assert_one_place(total)
    assert JobDLQ.objects.count() == 0
    assert not JobHot.objects.exclude(attempt=0).exists(), "an attempt was burnt"
    assert not JobArchive.objects.exclude(attempt=1).exists(), "an attempt was burnt"
    assert not JobHot.objects.filter(type="test.note", status=0, claim_number__gt=STOPS).exists()
    runs = ledger.per_job("ran")
    done = set(JobArchive.objects.filter(type="test.note").values_list("id", flat=True))
    assert done == set(runs), "a job ran and was handed back, or was archived without having run"
    assert set(runs.values()) <= {1}
    assert_no_errors(workers)
