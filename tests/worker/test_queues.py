"""Queues: pause and resume, windows, caps, order. Workers run inside the test's process."""

from __future__ import annotations

import datetime as dt

import pytest

from chokaq_django import Request, control, enqueue, enqueue_many
from chokaq_django.models import JobHot, JobStatus, Queue
from chokaq_django.storage import Lease, get_storage
from chokaq_django.worker.settle import Settler

from .. import jobs
from ..helpers import wait_until
from ..ledger import Ledger
from .conftest import StartWorker
from .support import all_settled, committed, job, settled

pytestmark = committed


def test_a_paused_queue_keeps_its_jobs_until_it_is_resumed(start_worker: StartWorker, ledger: Ledger) -> None:
    start_worker()
    control.pause_queue("mail", by="grace")
    ids = [answer.id for answer in enqueue_many([jobs.NoteJob(name="mail")] * 3, queue="mail")]
    settled(enqueue(jobs.NoteJob(name="other")).id)
    assert ledger.names() == ["other"]
    assert {job(job_id).attempt for job_id in ids} == {0}
    control.resume_queue("mail", by="grace")
    all_settled(ids)
    assert ledger.names().count("mail") == 3


def test_pausing_gives_the_buffer_back_and_lets_running_jobs_finish(start_worker: StartWorker, ledger: Ledger) -> None:
    start_worker(concurrency=1, WORKER={"PREFETCH": 5})
    running = enqueue(jobs.GateJob(gate="go on"), queue="mail").id
    wait_until(lambda: ledger.count("enter") == 1)
    buffered = [answer.id for answer in enqueue_many([jobs.NoteJob(name="mail")] * 3, queue="mail")]
    wait_until(lambda: JobHot.objects.filter(status=JobStatus.FETCHED).count() == 3)
    control.pause_queue("mail", by="grace")
    ledger.open_gate("go on")
    assert settled(running).status == JobStatus.SUCCEEDED
    wait_until(lambda: {job(job_id).status for job_id in buffered} == {JobStatus.PENDING})
    assert ledger.names() == []
    assert {job(job_id).attempt for job_id in buffered} == {0}


def test_a_hidden_queue_is_not_worked_on(start_worker: StartWorker, ledger: Ledger) -> None:
    control.set_queue("mail", by="grace", max_workers=5)
    Queue.objects.filter(pk="mail").update(is_active=False)
    start_worker()
    hidden = enqueue(jobs.NoteJob(name="mail"), queue="mail").id
    settled(enqueue(jobs.NoteJob(name="other")).id)
    assert job(hidden).status == JobStatus.PENDING
    assert ledger.names() == ["other"]


def test_a_queue_runs_in_its_window_only(start_worker: StartWorker, ledger: Ledger) -> None:
    now = get_storage().now().astimezone(dt.UTC)

    def window(begins: int, ends: int) -> str:
        return f"{now + dt.timedelta(hours=begins):%H:%M}-{now + dt.timedelta(hours=ends):%H:%M} UTC"

    start_worker(QUEUES={"night": {"WINDOW": window(3, 5)}, "day": {"WINDOW": window(-2, 2)}})
    night = enqueue(jobs.NoteJob(name="night"), queue="night").id
    settled(enqueue(jobs.NoteJob(name="day"), queue="day").id)
    settled(enqueue(jobs.NoteJob(name="other")).id)
    assert ledger.names() == ["day", "other"]
    assert job(night).status == JobStatus.PENDING
    Queue.objects.filter(pk="night").update(window_start=None, window_end=None, window_zone=None)
    settled(night)


@pytest.mark.parametrize("workers", [1, 2])
def test_a_cap_holds_over_all_workers(start_worker: StartWorker, ledger: Ledger, workers: int) -> None:
    for _ in range(workers):
        start_worker(concurrency=6, QUEUES={"narrow": {"MAX_WORKERS": 2}})
    narrow = [answer.id for answer in enqueue_many([jobs.SleepJob(seconds=0.03)] * 30, queue="narrow")]
    all_settled(narrow, 30)
    assert ledger.most_at_once() == 2
    assert ledger.count("enter") == 30


def test_a_capped_queue_does_not_hold_up_the_others(start_worker: StartWorker, ledger: Ledger) -> None:
    start_worker(concurrency=4, QUEUES={"narrow": {"MAX_WORKERS": 1}})
    narrow = [answer.id for answer in enqueue_many([jobs.GateJob(gate="go on")] * 3, queue="narrow", priority=90)]
    wait_until(lambda: ledger.count("enter") == 1)
    all_settled(answer.id for answer in enqueue_many([jobs.NoteJob()] * 20))
    assert ledger.count("enter") == 1
    assert sorted(job(job_id).status for job_id in narrow) == [JobStatus.PENDING] * 2 + [JobStatus.PROCESSING]
    ledger.open_gate("go on")
    all_settled(narrow)


def test_a_worker_with_named_queues_leaves_the_others_alone(start_worker: StartWorker, ledger: Ledger) -> None:
    start_worker("mail", "reports")
    other = enqueue(jobs.NoteJob(name="other")).id
    all_settled([enqueue(jobs.NoteJob(name=queue), queue=queue).id for queue in ("mail", "reports")])
    assert sorted(ledger.names()) == ["mail", "reports"]
    assert job(other).status == JobStatus.PENDING


def test_a_busy_worker_leaves_long_jobs_to_idle_ones(start_worker: StartWorker, ledger: Ledger) -> None:
    for _ in range(3):
        start_worker(concurrency=1)
    ids = [answer.id for answer in enqueue_many([jobs.GateJob(gate="go on")] * 9)]
    wait_until(lambda: ledger.count("enter") == 3, what="all three work")
    fetched = JobHot.objects.filter(status=JobStatus.FETCHED)
    wait_until(lambda: not fetched.exists(), what="nobody holds what another could run")
    ledger.open_gate("go on")
    all_settled(ids)


def test_async_jobs_behind_plain_ones_of_their_queue_do_not_wait_for_threads(
    start_worker: StartWorker, ledger: Ledger
) -> None:
    start_worker(concurrency=1)
    settled(enqueue(jobs.NoteJob()).id)
    settled(enqueue(jobs.AsyncSleepJob()).id)
    plain = [answer.id for answer in enqueue_many([jobs.GateJob(gate="go on")] * 5)]
    wait_until(lambda: [entry.job for entry in ledger.entries("enter") if entry.job in plain])
    assert settled(enqueue(jobs.AsyncSleepJob()).id).status == JobStatus.SUCCEEDED
    ledger.open_gate("go on")
    all_settled(plain)


@pytest.mark.parametrize("burst", [False, True])
def test_a_full_worker_goes_on_at_once_though_another_queue_is_empty(
    start_worker: StartWorker, ledger: Ledger, burst: bool
) -> None:
    """Of the empty queue nobody knows what kinds of jobs it has: it is asked while the threads are full, alone, and
    what it answers says nothing of the other."""
    ids = [answer.id for answer in enqueue_many([jobs.SleepJob(seconds=0.12)] * 12, queue="busy")]
    start_worker("busy", "empty", concurrency=2, burst=burst, WORKER={"POLL_INTERVAL": 60, "IDLE_POLL_INTERVAL": 60})
    all_settled(ids, 20)
    assert ledger.most_at_once() <= 2


def hold_the_thread(ledger: Ledger, *queues: str) -> str:
    """Keeps the worker's only thread busy once it knows these queues, so that what is enqueued now waits together."""
    for queue in queues:
        settled(enqueue(jobs.SleepJob(seconds=0), queue=queue).id)
    before = ledger.count("enter")
    held = enqueue(jobs.GateJob(gate="go on"), queue=queues[0]).id
    wait_until(lambda: ledger.count("enter") > before)
    return held


def test_priority_comes_before_age_and_age_before_chance(start_worker: StartWorker, ledger: Ledger) -> None:
    start_worker(concurrency=1, WORKER={"PREFETCH": 0})  # nothing is started ahead of what comes later
    hold_the_thread(ledger, "a", "b")
    ids = [
        enqueue(jobs.NoteJob(name=f"{priority}.{number}"), priority=priority, queue="ab"[number % 2]).id
        for number, priority in enumerate((5, 10, 90, 10, 5, 90))
    ]
    ledger.open_gate("go on")
    all_settled(ids)
    assert ledger.names() == ["90.2", "90.5", "10.1", "10.3", "5.0", "5.4"]


def test_what_a_look_passes_goes_back_before_the_next_claim(
    start_worker: StartWorker, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker with room in its event loop looks past jobs of a new queue that need a thread. The slow batches of the
    settle loop have no part in giving them back: the next claim would take what comes behind them."""
    late: list[Lease] = []
    monkeypatch.setattr(Settler, "release", lambda self, lease, delay=0.0: late.append(lease))
    made = [jobs.GateJob(gate="open"), *[jobs.NoteJob(name=f"{number:02}") for number in range(40)]]
    enqueue_many(Request(job, queue="ordered", priority=90 - number) for number, job in enumerate(made))
    start_worker("ordered", concurrency=1, WORKER={"PREFETCH": 0})
    wait_until(lambda: JobHot.objects.filter(claim_number__gt=0).count() > 1, what="it has looked past the first")
    ledger.open_gate("open")
    wait_until(lambda: ledger.count() == 40)
    assert ledger.names() == sorted(ledger.names())
    assert late == []


def test_strict_order_comes_before_priority(start_worker: StartWorker, ledger: Ledger) -> None:
    start_worker("high", "low", concurrency=1, strict=True, WORKER={"PREFETCH": 0})
    hold_the_thread(ledger, "high", "low")
    ids = [
        enqueue(jobs.NoteJob(name=f"{queue}.{number}"), queue=queue, priority=90 if queue == "low" else 1).id
        for number, queue in enumerate(("low", "high", "low", "high"))
    ]
    ledger.open_gate("go on")
    all_settled(ids)
    assert ledger.names() == ["high.1", "high.3", "low.0", "low.2"]


def test_a_queue_that_is_met_for_the_first_time_is_worked_on_at_once(start_worker: StartWorker) -> None:
    """No list of queues: a name that no table knew a moment ago does not wait for the next poll."""
    start_worker(WORKER={"POLL_INTERVAL": 60, "IDLE_POLL_INTERVAL": 60})
    settled(enqueue(jobs.NoteJob(), queue="first").id)
    for number in range(3):
        settled(enqueue(jobs.NoteJob(), queue=f"new.{number}").id)


def test_resuming_wakes_a_worker_at_once(start_worker: StartWorker) -> None:
    start_worker(WORKER={"POLL_INTERVAL": 60, "IDLE_POLL_INTERVAL": 60})
    control.pause_queue("mail", by="grace")
    settled(enqueue(jobs.NoteJob()).id)
    waiting = enqueue(jobs.NoteJob(), queue="mail").id
    settled(enqueue(jobs.NoteJob()).id)
    assert job(waiting).status == JobStatus.PENDING
    control.resume_queue("mail", by="grace")
    settled(waiting)


def test_resurrecting_wakes_a_worker_at_once(start_worker: StartWorker, ledger: Ledger) -> None:
    start_worker(WORKER={"POLL_INTERVAL": 60, "IDLE_POLL_INTERVAL": 60})
    dead = settled(enqueue(jobs.FatalJob()).id)
    assert control.resurrect(dead.id, by="grace").applied == [dead.id]
    wait_until(lambda: ledger.count() == 2)
    view = settled(dead.id)
    assert view.generation == 1
    assert view.attempt == 1
