"""Work is picked up at once although every poll is a minute away: the worker is woken across processes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.db import connection, transaction

from chokaq_django import control, enqueue, enqueue_many
from chokaq_django.models import JobStatus
from chokaq_django.models import Worker as WorkerRecord
from chokaq_django.observability.events import Event

from .. import jobs
from ..helpers import WorkerProcess, wait_until
from ..ledger import Ledger
from .conftest import StartWorker
from .support import all_settled, committed, job, only_on, settled

pytestmark = committed

StartProcess = Callable[..., WorkerProcess]
FAR = {"WORKER": {"POLL_INTERVAL": 60, "IDLE_POLL_INTERVAL": 60}}
SOON = 10.0
"""Seconds: far less than the poll, more than any machine needs that is not standing still."""


def waiting(worker: WorkerProcess) -> WorkerProcess:
    """The worker once it waits for its first notice; without one it would look again only after a minute."""
    wait_until(WorkerRecord.objects.exists, 30)
    settled(enqueue(jobs.NoteJob(name="first")).id, 30)
    return worker


@pytest.fixture
def asleep(worker_process: StartProcess, ledger: Ledger, engine: str, request: pytest.FixtureRequest) -> WorkerProcess:
    """A worker process that waits, with its polls far off. Engines that give no notice need a channel layer."""
    env = {} if engine in ("postgresql", "sqlite") else {"REDIS_URL": request.getfixturevalue("redis_url")}
    return waiting(worker_process(options=FAR, env=env))


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


def test_under_traffic_polling_alone_does_not_wait_for_the_poll(worker_process: StartProcess, ledger: Ledger) -> None:
    first = enqueue(jobs.NoteJob()).id  # found by the look at the start; the next would come after a minute
    worker_process(options={"WORKER": {**FAR["WORKER"], "WAKE_UP": "poll"}})
    settled(first, 30)
    for _ in range(20):
        settled(enqueue(jobs.NoteJob()).id, SOON)


def test_a_channel_layer_wakes_where_the_database_does_not(
    worker_process: StartProcess, ledger: Ledger, engine: str, redis_url: str, settings: Any
) -> None:
    if engine == "sqlite":
        pytest.skip("SQLite tells by itself, and has no pooler")
    options = {"WORKER": {**FAR["WORKER"], "WAKE_UP": "poll"}}
    settings.CHOKAQ = {**settings.CHOKAQ, "WORKER": {**settings.CHOKAQ["WORKER"], "WAKE_UP": "poll"}}
    waiting(worker_process(options=options, env={"REDIS_URL": redis_url}))
    for number in range(5):
        settled(enqueue(jobs.NoteJob(), queue=f"q.{number}").id, SOON)
    with transaction.atomic():
        held = enqueue_many([jobs.NoteJob()] * 3)
    all_settled((answer.id for answer in held), SOON)


def test_a_layer_that_is_down_stops_nobody(
    start_worker: StartWorker, ledger: Ledger, engine: str, settings: Any, caplog: pytest.LogCaptureFixture
) -> None:
    if engine == "sqlite":
        pytest.skip("SQLite uses no channel layer")
    backend = "channels_redis.pubsub.RedisPubSubChannelLayer"
    settings.CHANNEL_LAYERS = {"default": {"BACKEND": backend, "CONFIG": {"hosts": ["redis://127.0.0.1:1"]}}}
    settings.CHOKAQ = {**settings.CHOKAQ, "WORKER": {**settings.CHOKAQ["WORKER"], "WAKE_UP": "poll"}}
    start_worker()
    all_settled([enqueue(jobs.NoteJob()).id for _ in range(20)])

    def told() -> str:
        return " ".join(r.getMessage() for r in caplog.records if getattr(r, "event_id", 0) == Event.WAKE_UP_TROUBLE)

    wait_until(lambda: "gives no messages" in told() and "does not take messages" in told())


@only_on("postgresql", "no other engine has a connection that listens")
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
