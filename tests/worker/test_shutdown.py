"""How a worker process stops: nothing new, the buffer given back, running jobs left alone for a while, then told."""

from __future__ import annotations

import threading

from chokaq_django import enqueue, enqueue_many
from chokaq_django.models import JobHot, JobStatus
from chokaq_django.models import Worker as WorkerRecord
from chokaq_django.worker.process import WorkerProcess as Worker

from .. import jobs
from ..helpers import wait_until
from ..ledger import Ledger
from .conftest import StartWorker
from .support import DYING, committed, in_state, job, settled

pytestmark = committed


class Stop(threading.Thread):
    """Shuts a worker down while the test looks on."""

    def __init__(self, worker: Worker) -> None:
        super().__init__(daemon=True)
        self.worker = worker
        self.complete: bool | None = None
        self.start()

    def run(self) -> None:
        self.complete = self.worker.shutdown()

    def wait(self, timeout: float = 15.0) -> bool | None:
        self.join(timeout)
        assert not self.is_alive()
        return self.complete


def test_running_jobs_may_finish_with_their_heartbeats_on(start_worker: StartWorker, ledger: Ledger) -> None:
    worker = start_worker(concurrency=2, WORKER={"SHUTDOWN_GRACE": 30})
    running = [enqueue(jobs.GateJob(gate="end")).id for _ in range(2)]
    wait_until(lambda: ledger.count("enter") == 2)
    stop = Stop(worker)
    wait_until(lambda: WorkerRecord.objects.filter(pk=worker.id, state="draining").exists())
    waiting = enqueue(jobs.NoteJob()).id
    first = job(running[0]).heartbeat_at
    wait_until(lambda: (beat := job(running[0]).heartbeat_at) and first and beat > first, what="heartbeats go on")
    assert {job(job_id).status for job_id in running} == {JobStatus.PROCESSING}
    assert ledger.count("told to stop") == 0
    ledger.open_gate("end")
    assert stop.wait()
    assert {job(job_id).status for job_id in running} == {JobStatus.SUCCEEDED}
    assert job(waiting).status == JobStatus.PENDING
    assert not WorkerRecord.objects.filter(pk=worker.id).exists()


def test_after_the_grace_they_are_told_and_handed_back_unconsumed(start_worker: StartWorker, ledger: Ledger) -> None:
    worker = start_worker(WORKER={"SHUTDOWN_GRACE": 0.3, "CANCEL_GRACE": 10})
    running = [enqueue(jobs.GateJob(gate="never")).id, enqueue(jobs.AsyncSleepJob(seconds=60)).id]
    wait_until(lambda: ledger.count("enter") == 2)
    assert worker.shutdown()
    for job_id in running:
        view = job(job_id)
        assert (view.status, view.attempt, view.crash_count) == (JobStatus.PENDING, 0, 0)
        assert [entry["outcome"] for entry in view.attempts] == ["interrupted"]
    assert [entry.more["reason"] for entry in ledger.entries("told to stop")] == ["shutdown"]


def test_a_job_that_does_not_stop_is_left_to_its_crash_policy(start_worker: StartWorker, ledger: Ledger) -> None:
    worker = start_worker(WORKER={"SHUTDOWN_GRACE": 0.2, "CANCEL_GRACE": 0.2})
    deaf = enqueue(jobs.DeafForLongJob(gate="end")).id
    wait_until(lambda: ledger.count("enter") == 1)
    assert not worker.shutdown()
    assert job(deaf).status == JobStatus.PROCESSING
    ledger.open_gate("end")
    start_worker(RECOVERY=DYING)
    assert settled(deaf).status == JobStatus.ZOMBIE


def test_the_buffer_and_what_waits_for_a_slot_go_back_at_once(start_worker: StartWorker, ledger: Ledger) -> None:
    worker = start_worker(concurrency=1, WORKER={"PREFETCH": 20, "SHUTDOWN_GRACE": 30})
    running = enqueue(jobs.GateJob(gate="end")).id
    wait_until(lambda: ledger.count("enter") == 1)
    others = [answer.id for answer in enqueue_many([jobs.NoteJob()] * 10)]
    wait_until(lambda: JobHot.objects.filter(status=JobStatus.FETCHED).count() == 10)
    stop = Stop(worker)
    wait_until(lambda: {job(job_id).status for job_id in others} == {JobStatus.PENDING})
    assert {job(job_id).attempt for job_id in others} == {0}
    assert in_state(running, JobStatus.PROCESSING)
    ledger.open_gate("end")
    assert stop.wait()
    assert ledger.count() == 0


def test_jobs_started_ahead_of_a_slot_are_handed_back_unconsumed(start_worker: StartWorker, ledger: Ledger) -> None:
    """Short jobs make the worker start more than it has slots; then one turns out to be long."""
    worker = start_worker(concurrency=1, WORKER={"SHUTDOWN_GRACE": 30})
    enqueue_many([jobs.NoteJob()] * 400)
    gated = enqueue(jobs.GateJob(gate="end")).id
    later = [answer.id for answer in enqueue_many([jobs.NoteJob(name="later")] * 50)]
    wait_until(lambda: ledger.count("enter") == 1, 30)
    stop = Stop(worker)
    wait_until(
        lambda: {job(job_id).status for job_id in later} == {JobStatus.PENDING},
        what=f"they are handed back; they are {[job(job_id).status for job_id in later]}",
    )
    assert {(job(job_id).attempt, job(job_id).crash_count) for job_id in later} == {(0, 0)}
    ledger.open_gate("end")
    assert stop.wait()
    assert job(gated).status == JobStatus.SUCCEEDED
    assert "later" not in ledger.names()


def test_a_hurry_ends_the_waiting(start_worker: StartWorker, ledger: Ledger) -> None:
    worker = start_worker(WORKER={"SHUTDOWN_GRACE": 60, "CANCEL_GRACE": 60})
    enqueue(jobs.DeafForLongJob(gate="end"))
    wait_until(lambda: ledger.count("enter") == 1)
    hurry = threading.Event()
    ended = threading.Event()

    def shut_down() -> None:
        worker.shutdown(hurry=hurry.is_set)
        ended.set()

    threading.Thread(target=shut_down, daemon=True).start()
    wait_until(lambda: WorkerRecord.objects.filter(pk=worker.id, state="draining").exists())
    assert not ended.is_set()
    hurry.set()
    assert ended.wait(10)
    ledger.open_gate("end")


def test_an_operator_stops_a_worker(start_worker: StartWorker) -> None:
    from chokaq_django import control

    worker = start_worker()
    wait_until(lambda: WorkerRecord.objects.filter(pk=worker.id).exists())
    assert control.stop_worker(worker.id, by="grace").requested == [worker.id]
    wait_until(lambda: worker.stop_requested)
    assert not worker.recycle


def test_an_operator_changes_the_concurrency_of_a_running_worker(start_worker: StartWorker, ledger: Ledger) -> None:
    worker = start_worker(concurrency=1)
    ids = [answer.id for answer in enqueue_many([jobs.GateJob(gate="end")] * 3)]
    wait_until(lambda: ledger.count("enter") == 1)
    wait_until(lambda: WorkerRecord.objects.filter(pk=worker.id).update(desired_concurrency=3))  # once it has said so
    wait_until(lambda: ledger.count("enter") == 3)
    ledger.open_gate("end")
    for job_id in ids:
        settled(job_id)


def test_max_jobs_makes_the_process_ask_for_its_replacement(start_worker: StartWorker, ledger: Ledger) -> None:
    worker = start_worker(max_jobs=5)
    enqueue_many([jobs.NoteJob()] * 5)
    wait_until(lambda: worker.stop_requested)
    assert worker.recycle
    assert ledger.count() == 5


def test_too_much_memory_makes_the_process_ask_for_its_replacement(start_worker: StartWorker) -> None:
    worker = start_worker(WORKER={"MAX_RSS_MB": 1})
    wait_until(lambda: worker.stop_requested)
    assert worker.recycle


def test_burst_stops_once_nothing_is_due_and_leaves_what_is_not(start_worker: StartWorker, ledger: Ledger) -> None:
    enqueue_many([jobs.NoteJob()] * 50)
    later = enqueue(jobs.NoteJob(name="later"), delay=3_600).id
    worker = start_worker(burst=True)
    wait_until(lambda: worker.stop_requested)
    assert not worker.recycle
    assert ledger.count() == 50
    assert job(later).status == JobStatus.PENDING


def test_nothing_of_a_stopped_worker_is_left_in_the_process(start_worker: StartWorker) -> None:
    before = set(threading.enumerate())
    worker = start_worker()
    settled(enqueue(jobs.AsyncSleepJob()).id)
    settled(enqueue(jobs.EffectJob()).id)
    assert worker.shutdown()
    wait_until(
        lambda: not [t for t in set(threading.enumerate()) - before if t.name.startswith("chokaq")],
        what="its threads have ended",
    )
