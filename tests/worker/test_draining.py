"""What operators order of a worker while it runs: drain, and back to work."""

from __future__ import annotations

from chokaq_django import control, enqueue, enqueue_many
from chokaq_django.models import JobHot, JobStatus
from chokaq_django.models import Worker as WorkerRecord

from .. import jobs
from ..helpers import wait_until
from ..ledger import Ledger
from .conftest import StartWorker
from .support import all_settled, committed, job, settled

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
