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
from chokaq_django.models import Counter, FailureReason, JobArchive, JobDLQ, JobHot, MetricBucket
from chokaq_django.producer import Request
from chokaq_django.storage import get_storage, open_storage
from tests.jobs import NoteJob

from ..helpers import WorkerProcess, wait_until
from ..ledger import Ledger
from ..storage.invariants import Sampler
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
def test_no_lock_error_escapes(
    worker_process: Callable[..., WorkerProcess], ledger: Ledger, sampler: Sampler, engine: str
) -> None:
    if engine == "sqlite":
        pytest.skip("SQLite has one writer and no row locks")
    pick = random.Random(11)
    accepted: list[str] = []
    cancelled: list[str] = []
    asked: list[str] = []

    def produce(seed: int) -> Callable[[threading.Event], None]:
        """Bulk calls with the same few keys in any order, which workers free all the time."""
        own = random.Random(seed)

        def act(end: threading.Event) -> None:
            while not end.wait(0.02):
                keys = own.sample(range(KEYS), 10)
                rows = [new_job(type="test.note", payload='{"name":""}', queue="keyed", idempotency_key=f"key-{key}")
                        for key in keys]  # fmt: skip
                new: list[str] = []
                with sampler.accepting(len(rows), created=lambda new=new: len(new)):  # type: ignore[misc]
                    new += [answer.id for answer in get_storage().enqueue(rows) if answer.created]
                accepted.extend(new)

        return act

    def operate(end: threading.Event) -> None:
        """Cancels whatever waits, in no order. What began meanwhile is only asked to stop."""
        storage = open_storage()
        try:
            while not end.wait(0.05):
                waiting = list(JobHot.objects.filter(queue="mail", status=0).values_list("pk", flat=True)[:200])
                chosen = pick.sample(waiting, min(5, len(waiting)))
                answer = storage.cancel(chosen, "ada")
                cancelled.extend(answer.applied)
                asked.extend(answer.requested)
        finally:
            storage.close()

    with sampler.accepting(JOBS):
        enqueue_many(
            Request(NoteJob(), queue=pick.choice(["mail", "reports", "imports"]), priority=pick.choice([1, 10, 10, 30]))
            for _ in range(JOBS)
        )
    workers = [worker_process("--processes=4", "--concurrency=4") for _ in range(2)]
    with background(produce(1), produce(2), operate):
        wait_until(
            lambda: not JobHot.objects.exclude(queue="keyed").exists(), 180, what="every job settled", interval=0.2
        )
        wait_until(lambda: len({entry.pid for entry in ledger.entries("ran")}) == 8, 60, what="every process worked")
    wait_until(nothing_active, 60, what="every keyed job settled", interval=0.1)
    codes = [worker.stop(60) for worker in workers]
    assert codes == [0, 0]
    assert_no_errors(workers)
    tries = [int(number) for worker in workers for number in re.findall(r"\(attempt (\d) of", worker.output)]
    assert max(tries, default=0) <= 2, "somebody lost again and again"
    assert len(accepted) > KEYS, "no key was ever free again: the test shows nothing"
    assert len(set(accepted)) == len(accepted)
    assert set(JobDLQ.objects.values_list("failure_reason", flat=True)) <= {FailureReason.CANCELLED}
    # A job that was asked to stop may have ended before it saw that, or stopped.
    dead = set(JobDLQ.objects.values_list("pk", flat=True))
    assert len(set(cancelled)) == len(cancelled)
    assert set(cancelled) <= dead <= {*cancelled, *asked}
    done = set(JobArchive.objects.values_list("pk", flat=True))
    assert len(done) == JOBS + len(accepted) - len(dead)
    runs = ledger.per_job()
    assert set(runs.values()) == {1}
    assert done <= set(runs) <= done | set(asked)
    # The workers have stopped. What was counted over a minute ago they have moved from the buckets to the counters.
    counted = [*MetricBucket.objects.values_list("count", flat=True), *Counter.objects.values_list("count", flat=True)]
    assert sum(counted) == JOBS + len(accepted)
    assert control.get(accepted[0]) is not None
