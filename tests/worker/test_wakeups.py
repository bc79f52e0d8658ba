"""Work is picked up at once although every poll is a minute away: the worker is woken across processes."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from django.db import connection, transaction

from chokaq_django import control, enqueue
from chokaq_django.models import JobStatus
from chokaq_django.models import Worker as WorkerRecord

from .. import jobs
from ..helpers import WorkerProcess, wait_until
from ..ledger import Ledger
from .conftest import StartWorker
from .support import committed, job, only_on, settled

pytestmark = committed

StartProcess = Callable[..., WorkerProcess]
FAR = {"WORKER": {"POLL_INTERVAL": 60, "IDLE_POLL_INTERVAL": 60}}
SOON = 10.0
"""Seconds: far less than the poll, more than any machine needs that is not standing still."""


@pytest.fixture
def asleep(worker_process: StartProcess, ledger: Ledger) -> WorkerProcess:
    """A worker process that waits, with its polls far off."""
    worker = worker_process(options=FAR)
    wait_until(WorkerRecord.objects.exists, 30)
    settled(enqueue(jobs.NoteJob(name="first")).id, 30)
    return worker


def test_an_enqueue_in_another_process_wakes_it(asleep: WorkerProcess, ledger: Ledger) -> None:
    for number in range(5):
        assert settled(enqueue(jobs.NoteJob(name=str(number))).id, SOON).status == JobStatus.SUCCEEDED


def test_so_does_the_end_of_the_transaction_that_enqueued(asleep: WorkerProcess, ledger: Ledger) -> None:
    with transaction.atomic():
        held = enqueue(jobs.NoteJob(name="held")).id
        with transaction.atomic():
            pass
    assert settled(held, SOON).status == JobStatus.SUCCEEDED


def test_and_a_queue_that_nobody_has_heard_of(asleep: WorkerProcess) -> None:
    for number in range(3):
        settled(enqueue(jobs.NoteJob(), queue=f"new.{number}").id, SOON)


def test_a_job_that_is_due_before_the_next_poll_is_not_late(asleep: WorkerProcess) -> None:
    view = settled(enqueue(jobs.NoteJob(), delay=1.5).id, SOON + 1.5)
    assert view.started_at is not None
    assert view.started_at >= view.due_at


def test_a_retry_is_not_late_either(asleep: WorkerProcess, ledger: Ledger) -> None:
    assert settled(enqueue(jobs.FailJob(times=2)).id, SOON).attempt == 3


def test_a_resurrection_wakes_it(asleep: WorkerProcess, ledger: Ledger) -> None:
    dead = settled(enqueue(jobs.FatalJob(), queue="default").id, SOON).id
    assert control.resurrect(dead, by="grace").applied == [dead]
    wait_until(lambda: job(dead).generation == 1 and job(dead).status == JobStatus.FAILED, SOON)


def test_an_enqueue_in_its_own_process_wakes_it(start_worker: StartWorker, ledger: Ledger) -> None:
    start_worker(**FAR)
    for number in range(5):
        settled(enqueue(jobs.NoteJob(name=str(number)), queue=f"q.{number}").id, SOON)


def test_polling_alone_finds_work_too(worker_process: StartProcess, ledger: Ledger) -> None:
    worker_process(options={"WORKER": {"WAKE_UP": "poll"}})
    wait_until(WorkerRecord.objects.exists, 30)
    for _ in range(3):
        settled(enqueue(jobs.NoteJob()).id, SOON)


@only_on("postgresql", "SQLite has no connection that listens")
def test_a_lost_listening_connection_is_made_anew(asleep: WorkerProcess, ledger: Ledger) -> None:
    listening = "FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'chokaq listen'"

    def pids() -> set[int]:
        with connection.cursor() as cursor:
            cursor.execute(f"SELECT pid {listening}")
            return {pid for (pid,) in cursor.fetchall()}

    before = pids()
    assert len(before) == 1
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT pg_terminate_backend(pid) {listening}")
    wait_until(lambda: pids() - before, 20, what="it listens again")
    assert settled(enqueue(jobs.NoteJob()).id, SOON).status == JobStatus.SUCCEEDED
    assert " ERROR " not in asleep.output
