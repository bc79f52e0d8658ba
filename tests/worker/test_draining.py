"""What operators order of a worker while it runs: drain, and back to work."""

from __future__ import annotations

from chokaq_django import control, enqueue, enqueue_many
from chokaq_django.models import JobHot, JobStatus
from chokaq_django.models import Worker as WorkerRecord
from chokaq_django.storage import get_storage
from chokaq_django.worker.process import WorkerProcess as Worker

from .. import jobs
from ..helpers import wait_until
from ..ledger import Ledger
from .conftest import StartWorker
from .support import all_settled, committed, in_state, job, settled

pytestmark = committed


def test_a_drained_worker_finishes_what_runs_and_claims_nothing(start_worker: StartWorker, ledger: Ledger) -> None:
    worker = start_worker(concurrency=1, WORKER={"PREFETCH": 5})
    # Its row is written beside its first claims, which do not wait for it: without the row there is nothing to drain.
    wait_until(lambda: WorkerRecord.objects.filter(pk=worker.id).exists(), what="it has said that it is there")
    running = enqueue(jobs.GateJob(gate="go on"), queue="mail").id
    wait_until(lambda: ledger.count("enter") == 1)
    waiting = [answer.id for answer in enqueue_many([jobs.NoteJob(name="mail")] * 3, queue="mail")]
    wait_until(lambda: JobHot.objects.filter(status=JobStatus.FETCHED).count() == 3)
    assert control.drain_worker(worker.id, by="ada").requested == [worker.id]
    wait_until(lambda: WorkerRecord.objects.get(pk=worker.id).state == "draining", what="it says so itself")
    wait_until(lambda: {job(job_id).status for job_id in waiting} == {JobStatus.PENDING}, what="the buffer is back")
    ledger.open_gate("go on")
    assert settled(running).status == JobStatus.SUCCEEDED
    beat = WorkerRecord.objects.get(pk=worker.id).last_seen
    wait_until(lambda: WorkerRecord.objects.get(pk=worker.id).last_seen > beat, what="another beat: it lives on")
    assert {job(job_id).attempt for job_id in waiting} == {0}
    assert ledger.names() == []

    control.set_concurrency(worker.id, 2, by="ada")
    all_settled(waiting)
    wait_until(lambda: WorkerRecord.objects.get(pk=worker.id).state == "running")
    assert WorkerRecord.objects.get(pk=worker.id).concurrency == 2


def swept(worker: Worker) -> WorkerRecord:
    """Another worker has taken it for dead; its row when it has come back, and been written once more."""
    rows = WorkerRecord.objects.filter(pk=worker.id)
    before = rows.get()
    get_storage().sweep_workers([worker.id])

    def again() -> WorkerRecord | None:
        found = rows.first()
        return found if found is not None and found.last_seen > found.started_at > before.started_at else None

    return wait_until(again, what="its row is back")


def test_a_drained_worker_stays_on_hold_although_its_row_was_swept(start_worker: StartWorker, ledger: Ledger) -> None:
    """It was silent for so long: a machine that slept, a database out of reach."""
    worker = start_worker(concurrency=2)
    wait_until(lambda: WorkerRecord.objects.filter(pk=worker.id).exists(), what="it has said that it is there")
    control.drain_worker(worker.id, by="ada")
    wait_until(lambda: WorkerRecord.objects.get(pk=worker.id).state == "draining", what="it says so itself")
    row = swept(worker)
    assert (row.state, row.desired_concurrency) == ("draining", 0)
    waits = enqueue(jobs.NoteJob()).id
    for _ in range(2):
        swept(worker)
    assert worker._fetcher.on_hold
    assert (in_state(waits, JobStatus.PENDING).attempt, ledger.names()) == (0, [])
    assert control.set_concurrency(worker.id, 2, by="ada").requested == [worker.id], "as many as it has threads"
    assert settled(waits).status == JobStatus.SUCCEEDED


def test_the_concurrency_that_was_asked_for_outlives_the_row(start_worker: StartWorker) -> None:
    worker = start_worker(concurrency=1)
    wait_until(lambda: WorkerRecord.objects.filter(pk=worker.id).exists(), what="it has said that it is there")
    assert swept(worker).desired_concurrency is None
    control.set_concurrency(worker.id, 3, by="ada")
    wait_until(lambda: WorkerRecord.objects.get(pk=worker.id).concurrency == 3)
    row = swept(worker)
    assert (row.desired_concurrency, row.concurrency, row.state) == (3, 3, "running")
