"""Eight worker processes, producers and an operator want the same rows at once: whoever loses a lock tries again, and
nobody hears of it."""

from __future__ import annotations

import random
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from django.db import connections

from chokaq_django import control, enqueue_many
from chokaq_django.models import FailureReason, JobArchive, JobDLQ, JobHot, MetricBucket
from chokaq_django.producer import Request
from chokaq_django.storage import get_storage, open_storage
from tests.jobs import NoteJob

from ..helpers import WorkerProcess, wait_until
from ..ledger import Ledger
from ..storage.invariants import Sampler, assert_one_place
from ..storage.support import new_job
from .support import assert_no_errors, nothing_active

JOBS = 20_000
KEYS = 50


@contextmanager
def background(*acts: Callable[[threading.Event], None]) -> Iterator[None]:
    """Runs each in a thread until the end; its error is raised then."""
    end = threading.Event()
    errors: list[BaseException] = []

    def run(act: Callable[[threading.Event], None]) -> None:
        try:
            act(end)
        except BaseException as error:  # noqa: BLE001 - raised again below
            errors.append(error)
        finally:
            connections.close_all()

    threads = [threading.Thread(target=run, args=(act,), daemon=True) for act in acts]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        end.set()
        for thread in threads:
            thread.join(60)
    if errors:
        raise errors[0]


@pytest.mark.slow
def test_no_lock_error_escapes(worker_process: Callable[..., WorkerProcess], ledger: Ledger, engine: str) -> None:
    if engine == "sqlite":
        pytest.skip("SQLite has one writer and no row locks")
    pick = random.Random(11)
    accepted: list[str] = []
    cancelled: list[str] = []

    def produce(seed: int) -> Callable[[threading.Event], None]:
        """Bulk calls with the same few keys in any order, which workers free all the time."""
        own = random.Random(seed)

        def act(end: threading.Event) -> None:
            while not end.wait(0.02):
                keys = own.sample(range(KEYS), 10)
                rows = [new_job(type="test.note", payload='{"name":""}', queue="keyed", idempotency_key=f"key-{key}")
                        for key in keys]  # fmt: skip
                accepted.extend(answer.id for answer in get_storage().enqueue(rows) if answer.created)

        return act

    def operate(end: threading.Event) -> None:
        """Cancels whatever waits, in no order."""
        storage = open_storage()
        try:
            while not end.wait(0.05):
                waiting = list(JobHot.objects.filter(queue="mail", status=0).values_list("pk", flat=True)[:200])
                chosen = pick.sample(waiting, min(5, len(waiting)))
                cancelled.extend(storage.cancel(chosen, "ada").applied)
        finally:
            storage.close()

    enqueue_many(
        Request(NoteJob(), queue=pick.choice(["mail", "reports", "imports"]), priority=pick.choice([1, 10, 10, 30]))
        for _ in range(JOBS)
    )
    with Sampler(interval=0.2) as sampler:
        workers = [worker_process("--processes=4", "--concurrency=4") for _ in range(2)]
        with background(produce(1), produce(2), operate):
            wait_until(
                lambda: not JobHot.objects.exclude(queue="keyed").exists(), 180, what="every job settled", interval=0.2
            )
        wait_until(nothing_active, 60, what="every keyed job settled", interval=0.1)
        codes = [worker.stop(60) for worker in workers]
    sampler.check()
    assert codes == [0, 0]
    assert_no_errors(workers)
    tries = [int(number) for worker in workers for number in re.findall(r"\(attempt (\d) of", worker.output)]
    assert max(tries, default=0) <= 2, "somebody lost again and again"
    assert len(accepted) > KEYS, "no key was ever free again: the test shows nothing"
    assert len(set(accepted)) == len(accepted)
    assert_one_place(JOBS + len(accepted))
    assert set(JobDLQ.objects.values_list("failure_reason", flat=True)) <= {FailureReason.CANCELLED}
    assert JobDLQ.objects.count() == len(cancelled)
    assert JobArchive.objects.count() == JOBS + len(accepted) - len(cancelled)
    runs = ledger.per_job()
    assert set(runs.values()) == {1}
    assert len(runs) == JobArchive.objects.count()
    assert sum(MetricBucket.objects.values_list("count", flat=True)) == JOBS + len(accepted)
    assert len({entry.pid for entry in ledger.entries("ran")}) == 8, "not every process worked"
    assert control.get(accepted[0]) is not None
