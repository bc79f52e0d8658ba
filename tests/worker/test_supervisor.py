"""The supervisor and its children: real processes that are killed and told to stop."""

from __future__ import annotations

import ctypes
import signal
from collections.abc import Callable

import psutil
import pytest

from chokaq_django import control, enqueue, enqueue_many
from chokaq_django.models import JobHot, JobStatus, Queue
from chokaq_django.models import Worker as WorkerRecord

from .. import jobs
from ..helpers import WorkerProcess, wait_until
from ..ledger import Ledger
from .support import committed, job, not_on, settled

pytestmark = committed

StartProcess = Callable[..., WorkerProcess]


def children(worker: WorkerProcess) -> list[psutil.Process]:
    try:
        return psutil.Process(worker.pid).children()
    except psutil.NoSuchProcess:
        return []


def alive(process: psutil.Process) -> bool:
    return process.is_running() and process.status() != psutil.STATUS_ZOMBIE


def registered(number: int) -> None:
    wait_until(lambda: WorkerRecord.objects.count() >= number, 30, what=f"{number} processes are there")


def draining() -> None:
    wait_until(lambda: WorkerRecord.objects.filter(state="draining").exists(), what="the process drains")


def test_a_killed_child_is_replaced_and_the_other_goes_on(worker_process: StartProcess, ledger: Ledger) -> None:
    worker = worker_process("--processes=2", "--concurrency=1")
    registered(2)
    first, second = children(worker)
    first.kill()
    wait_until(lambda: len([child for child in children(worker) if alive(child) and child.pid != first.pid]) == 2, 30)
    assert alive(second)
    wait_until(lambda: f"Worker process {first.pid} was killed by signal 9" in worker.output)
    ids = [answer.id for answer in enqueue_many([jobs.GateJob(gate="both")] * 2)]
    wait_until(lambda: len({entry.pid for entry in ledger.entries("enter")}) == 2, 30, what="both processes work")
    ledger.open_gate("both")
    for job_id in ids:
        assert settled(job_id).status == JobStatus.SUCCEEDED
    assert worker.stop() == 0, worker.output


def test_a_process_that_takes_anothers_place_leaves_the_limits_of_queues_to_newer_workers(
    worker_process: StartProcess, ledger: Ledger
) -> None:
    worker = worker_process("--processes=1")
    settled(enqueue(jobs.NoteJob(), queue="mail").id)
    Queue.objects.filter(name="mail").update(max_workers=5)  # as a worker with newer settings would
    (first,) = children(worker)
    first.kill()
    settled(enqueue(jobs.NoteJob(), queue="mail").id)
    assert len({entry.pid for entry in ledger.entries()}) == 2
    assert Queue.objects.get(name="mail").max_workers == 5
    assert worker.stop() == 0, worker.output


@not_on("sqlite", "no process has a connection")
def test_no_two_processes_share_a_connection(worker_process: StartProcess) -> None:
    """The supervisor has asked the database before it forks; what a pool of the driver's keeps would be inherited."""
    worker = worker_process("--processes=2", "--concurrency=1")
    registered(2)
    supervisor = psutil.Process(worker.pid)
    first, second = (
        {connection.laddr for connection in process.net_connections("tcp")} for process in supervisor.children()
    )
    assert first, "nothing is known of its connections: the test shows nothing"
    assert not first & second
    assert not supervisor.net_connections("tcp")


@pytest.mark.any_engine
@pytest.mark.slow
def test_it_gives_up_on_a_child_that_dies_at_once_again_and_again(worker_process: StartProcess) -> None:
    worker = worker_process(env={"CHOKAQ_TEST_DOOMED": "1"})
    assert worker.wait(60) == 1
    assert worker.output.count("exited with 3") == 5
    assert "giving up" in worker.output


def test_children_end_when_the_supervisor_is_killed(worker_process: StartProcess, ledger: Ledger) -> None:
    worker = worker_process("--processes=2", options={"WORKER": {"SHUTDOWN_GRACE": 0.2, "CANCEL_GRACE": 20}})
    registered(2)
    job_id = enqueue(jobs.GateJob(gate="never")).id
    wait_until(lambda: ledger.count("enter") == 1)
    family = children(worker)
    worker.signal(signal.SIGKILL)
    wait_until(lambda: not any(alive(child) for child in family), what="its children have ended")
    view = job(job_id)
    assert (view.status, view.attempt) == (JobStatus.PENDING, 0), "and have handed back what they ran"


def test_a_second_signal_ends_it_at_once(worker_process: StartProcess, ledger: Ledger) -> None:
    worker = worker_process(options={"WORKER": {"SHUTDOWN_GRACE": 600, "CANCEL_GRACE": 600}})
    enqueue(jobs.DeafForLongJob(gate="never"))
    wait_until(lambda: ledger.count("enter") == 1, 30)
    family = children(worker)
    worker.signal(signal.SIGTERM)
    draining()
    worker.signal(signal.SIGTERM)
    worker.wait(20)
    assert not any(alive(child) for child in family)


def test_a_signal_to_the_whole_group_is_one_request_not_two(worker_process: StartProcess, ledger: Ledger) -> None:
    """What systemd sends by default: to the supervisor and to each child, while the supervisor passes it on."""
    worker = worker_process(options={"WORKER": {"SHUTDOWN_GRACE": 60}})
    job_id = enqueue(jobs.GateJob(gate="end")).id
    wait_until(lambda: ledger.count("enter") == 1, 30)
    worker.signal_group(signal.SIGTERM)
    draining()
    first = job(job_id).heartbeat_at
    wait_until(lambda: (beat := job(job_id).heartbeat_at) and first and beat > first, what="it runs on, in peace")
    ledger.open_gate("end")
    assert worker.wait() == 0, worker.output
    assert (job(job_id).status, job(job_id).attempt) == (JobStatus.SUCCEEDED, 1)
    assert ledger.count("told to stop") == 0


@pytest.mark.any_engine
@pytest.mark.slow
def test_a_signal_while_a_child_is_being_made_is_not_lost(worker_process: StartProcess) -> None:
    for _ in range(5):
        worker = worker_process()
        wait_until(lambda worker=worker: children(worker), 30, interval=0.001, what="the fork")  # type: ignore[misc]
        assert worker.stop(20) == 0, worker.output
    assert not WorkerRecord.objects.exists()


def test_an_operator_reaches_a_job_in_another_process_without_waiting_for_its_heartbeat(
    worker_process: StartProcess, ledger: Ledger
) -> None:
    # Heartbeats bring requests too, but only later than anybody waits here.
    late = {
        "EXECUTION": {"HEARTBEAT_MIN": 60, "HEARTBEAT_MAX": 60},
        "RECOVERY": {"WORKER_TIMEOUT": 150, "ZOMBIE_TIMEOUT": 150},
    }
    worker = worker_process(options=late)
    ids = [enqueue(jobs.ObedientJob()).id, enqueue(jobs.AsyncSlowJob(deaf=False), queue="async").id]
    thread, task = ids
    wait_until(lambda: ledger.count("enter") == 2, 30)
    assert control.cancel(thread, by="grace").requested == [thread]
    wait_until(lambda: ledger.count("told to stop") == 1)
    assert settled(thread).status == JobStatus.CANCELLED
    settled(task)
    assert worker.stop() == 0


@pytest.mark.skipif(not psutil.LINUX, reason="signals go to threads by Linux's call")
def test_a_signal_that_comes_to_another_thread_is_heard(worker_process: StartProcess) -> None:
    """The main thread handles a signal, and is not woken by it: as when one comes right before it begins to wait."""
    worker = worker_process("--processes=1", "--concurrency=1")
    registered(1)
    (child,) = children(worker)
    other = next(thread.id for thread in child.threads() if thread.id != child.pid)
    assert ctypes.CDLL(None, use_errno=True).tgkill(child.pid, other, signal.SIGTERM) == 0
    assert worker.wait() == 0


def test_sigterm_leaves_nothing_leased_and_burns_no_attempt(worker_process: StartProcess, ledger: Ledger) -> None:
    options = {"WORKER": {"SHUTDOWN_GRACE": 0.2, "CANCEL_GRACE": 20}}
    worker = worker_process("--processes=2", "--concurrency=2", options=options)
    registered(2)
    enqueue_many([jobs.GateJob(gate="never")] * 40)
    wait_until(lambda: ledger.count("enter") == 4)
    assert worker.stop() == 0, worker.output
    assert set(JobHot.objects.values_list("status", "attempt", "crash_count")) == {(JobStatus.PENDING, 0, 0)}
    assert JobHot.objects.count() == 40
