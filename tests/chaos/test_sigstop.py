"""A worker that stood still beyond every timeout cannot change what happened since."""

from __future__ import annotations

import signal
from collections.abc import Callable

from chokaq_django import FailureReason, control, enqueue
from chokaq_django.models import JobArchive, JobDLQ, JobHot
from tests.jobs import AtomicJob, GateJob
from tests.models import Effect

from ..helpers import WorkerProcess, wait_until
from ..ledger import Ledger
from ..storage.invariants import Sampler
from .support import family, stop_between_writes

OFTEN = {"HEARTBEAT_MIN": 0.2, "HEARTBEAT_MAX": 0.4}
OPTIONS = {
    "RECOVERY": {"WORKER_TIMEOUT": 1.5, "FETCHED_TIMEOUT": 2, "ZOMBIE_TIMEOUT": 2, "SCAN_INTERVAL": 0.3},
    "EXECUTION": OFTEN,
}
PATIENT = {"RECOVERY": {"WORKER_TIMEOUT": 300, "FETCHED_TIMEOUT": 300, "ZOMBIE_TIMEOUT": 300}, "EXECUTION": OFTEN}
"""Of the worker that stands still: back again, it calls nobody dead."""


def test_a_worker_that_was_stopped_changes_nothing_afterwards(
    worker_process: Callable[..., WorkerProcess], ledger: Ledger, sampler: Sampler
) -> None:
    with sampler.accepting(1):
        plain = enqueue(GateJob(gate="a"))
    stopped = worker_process("--concurrency=3", options=PATIENT)
    wait_until(lambda: ledger.count("enter") == 1, what="the job runs")
    first_claim = JobHot.objects.get(id=plain.id).claim_number
    stop_between_writes(family(stopped))
    other = worker_process("--concurrency=3", options=OPTIONS)
    wait_until(lambda: JobDLQ.objects.filter(id=plain.id).exists(), 60, what="the job is rescued")
    dead = JobDLQ.objects.get(id=plain.id)
    assert dead.failure_reason == FailureReason.ZOMBIE
    assert control.resurrect([plain.id], by="test").applied == [plain.id]
    wait_until(lambda: ledger.count("enter") == 2, what="the resurrected job runs elsewhere")
    live = JobHot.objects.get(id=plain.id)
    assert live.claim_number > first_claim

    stopped.signal_group(signal.SIGCONT)
    # It hears that its lease is gone and stops its copy; the gate is closed, so nothing else could have ended it.
    wait_until(lambda: ledger.entries("told to stop"), 20, what="the old execution is told")
    assert ledger.entries("told to stop")[0].more["reason"] == "lease_lost"
    live.refresh_from_db()
    assert (live.status, live.attempt, live.worker_id is not None) == (2, 1, True)

    ledger.open_gate("a")
    wait_until(lambda: JobArchive.objects.filter(id=plain.id).exists(), what="the newer execution settles")
    assert other.stop() == 0
    assert stopped.stop() == 0
    assert ledger.count("leave") == 1
    assert "taken over by somebody else" in stopped.output


def test_an_atomic_job_that_was_stopped_has_one_effect(
    worker_process: Callable[..., WorkerProcess], ledger: Ledger, sampler: Sampler, engine: str
) -> None:
    """On SQLite a stopped writer holds the only write lock, so that nobody can take its job over: it just goes on."""
    with sampler.accepting(1):
        job = enqueue(AtomicJob(name="once", gate="a"))
    stopped = worker_process("--concurrency=2", options=PATIENT)
    wait_until(lambda: ledger.count("enter") == 1, what="the job runs")
    if engine == "sqlite":
        stopped.signal_group(signal.SIGSTOP)
        ledger.open_gate("a")
        stopped.signal_group(signal.SIGCONT)
        wait_until(lambda: JobArchive.objects.filter(id=job.id).exists(), what="it settles")
    else:
        stop_between_writes(family(stopped))
        other = worker_process("--concurrency=2", options=OPTIONS)
        wait_until(lambda: ledger.count("enter") == 2, 60, what="another worker runs it")
        ledger.open_gate("a")
        wait_until(lambda: JobArchive.objects.filter(id=job.id).exists(), what="the newer execution settles")
        stopped.signal_group(signal.SIGCONT)
        wait_until(lambda: ledger.count("leave") == 2, 20, what="the old execution comes to its end")
        assert other.stop() == 0
    assert stopped.stop() == 0
    assert Effect.objects.filter(job=job.id).count() == 1
