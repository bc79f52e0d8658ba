"""Django signals of a job's life, in the process where it happens."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest

from chokaq_django import (
    FailureReason,
    enqueue,
    job_buried,
    job_enqueued,
    job_retrying,
    job_started,
    job_succeeded,
)

from .. import jobs
from ..helpers import wait_until
from .conftest import StartWorker
from .support import committed, settled

pytestmark = committed

SIGNALS = {
    "enqueued": job_enqueued,
    "started": job_started,
    "succeeded": job_succeeded,
    "retrying": job_retrying,
    "buried": job_buried,
}


class Heard:
    def __init__(self) -> None:
        self.events: list[tuple[str, dict[str, Any]]] = []
        self.threads: set[str] = set()

    def names(self, job_id: str) -> list[str]:
        return [name for name, arguments in list(self.events) if arguments["job_id"] == job_id]

    def one(self, name: str, job_id: str) -> dict[str, Any]:
        (found,) = [a for n, a in self.events if n == name and a["job_id"] == job_id]
        return found


@pytest.fixture
def heard() -> Iterator[Heard]:
    heard = Heard()
    receivers = {}
    for name, signal in SIGNALS.items():

        def receive(name: str = name, **arguments: Any) -> None:
            heard.threads.add(threading.current_thread().name)
            heard.events.append((name, arguments))

        receivers[name] = receive
        signal.connect(receive, weak=False)
    yield heard
    for name, signal in SIGNALS.items():
        signal.disconnect(receivers[name])


def test_a_life_from_enqueue_to_success(start_worker: StartWorker, heard: Heard) -> None:
    start_worker()
    job_id = enqueue(jobs.FailJob(times=1), queue="mail").id
    settled(job_id)
    wait_until(lambda: "succeeded" in heard.names(job_id))
    # Who enqueues sends the first in his own thread, after the commit: the worker may be quicker.
    names = heard.names(job_id)
    assert names.count("enqueued") == 1
    assert [name for name in names if name != "enqueued"] == ["started", "retrying", "started", "succeeded"]
    retrying = heard.one("retrying", job_id)
    assert retrying["sender"] is jobs.FailJob
    assert (retrying["type"], retrying["queue"], retrying["attempt"]) == ("test.fail", "mail", 1)
    assert 0.1 <= retrying["delay"] <= 0.2
    assert "as asked (1)" in retrying["error"]
    assert heard.one("succeeded", job_id)["attempt"] == 2


def test_a_burial_tells_why(start_worker: StartWorker, heard: Heard) -> None:
    start_worker()
    job_id = enqueue(jobs.FatalJob()).id
    settled(job_id)
    wait_until(lambda: "buried" in heard.names(job_id))
    buried = heard.one("buried", job_id)
    assert buried["reason"] is FailureReason.FATAL_ERROR
    assert "another attempt cannot help" in buried["error"]


def test_a_receiver_that_fails_or_dawdles_holds_up_no_job(
    start_worker: StartWorker, heard: Heard, caplog: pytest.LogCaptureFixture
) -> None:
    gate = threading.Event()

    def dawdle(**arguments: Any) -> None:
        gate.wait(30)

    job_started.connect(dawdle, weak=False)
    try:
        start_worker(concurrency=1)
        for _ in range(3):
            settled(enqueue(jobs.NoteJob()).id)
    finally:
        gate.set()
        job_started.disconnect(dawdle)
    wait_until(lambda: [name for name, _ in heard.events].count("succeeded") == 3)
    assert not any(name.startswith("chokaq-s") and "slot" in name for name in heard.threads), "none runs in a slot"


def test_a_receiver_that_raises_is_logged_and_the_others_hear_all_the_same(
    start_worker: StartWorker, heard: Heard, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(**arguments: Any) -> None:
        raise ValueError("a receiver's own fault")

    job_succeeded.connect(fail, weak=False)
    try:
        start_worker()
        job_id = enqueue(jobs.NoteJob()).id
        settled(job_id)
        wait_until(lambda: "succeeded" in heard.names(job_id))
        # By logger: Django itself logs the same words a moment before.
        wait_until(lambda: [r for r in caplog.records if r.name == "chokaq.worker.signals"])
    finally:
        job_succeeded.disconnect(fail)
    (told,) = (r for r in caplog.records if r.name == "chokaq.worker.signals")
    assert "a receiver's own fault" in told.getMessage()
    caplog.clear()  # the error was asked for
