"""Capped queues: a fleet-wide limit that is strict at every instant, derived from live leases alone."""

from __future__ import annotations

import itertools
import threading
import time
from typing import Any

import pytest
from django.db import connection

from chokaq_django.models import JobHot, Queue
from chokaq_django.storage import ClaimRequest, OutcomeKind, Storage
from chokaq_django.storage.contract import QueueRow, RescueAction
from chokaq_django.storage.mysql.session import LOCK_LIMIT
from tests.helpers import wait_until

from .invariants import assert_one_place
from .support import FETCHED, LOG, PENDING, PROCESSING, WORKER, Jobs, committed, ids, outcome, together

pytestmark = committed

CAP = 3


def seed(storage: Storage, name: str = "mail", limit: int | None = CAP) -> None:
    storage.seed_queue(QueueRow(name, False, True, limit, None, None, None))


def live(queue: str = "mail") -> int:
    return JobHot.objects.filter(queue=queue, status__in=(FETCHED, PROCESSING)).count()


def test_a_capped_queue_never_goes_into_the_buffer(jobs: Jobs, storage: Storage) -> None:
    seed(storage)
    jobs.add(5)
    (other,) = jobs.add(1, queue="plain")
    assert jobs.take(start=False, capped={"mail": CAP}) == []
    assert ids(jobs.take(queues=["mail", "plain"], start=False, capped={"mail": CAP})) == [other]
    assert JobHot.objects.filter(queue="mail", status=PENDING).count() == 5


def test_no_more_than_the_cap_at_once(jobs: Jobs, storage: Storage) -> None:
    seed(storage)
    given = jobs.add(5)
    first = jobs.take(10, capped={"mail": CAP})
    assert ids(first) == given[:CAP]
    assert jobs.take(10, worker="worker-2", capped={"mail": CAP}) == []
    assert jobs.settle(first[0])
    assert ids(jobs.take(10, worker="worker-2", capped={"mail": CAP})) == [given[CAP]]
    assert live() == CAP


@pytest.mark.parametrize("end", [OutcomeKind.RETRY, OutcomeKind.DEAD, OutcomeKind.SNOOZED, OutcomeKind.INTERRUPTED])
def test_every_end_frees_a_place(jobs: Jobs, storage: Storage, end: OutcomeKind) -> None:
    seed(storage, limit=1)
    jobs.add(2)
    (first,) = jobs.take(capped={"mail": 1})
    assert jobs.take(capped={"mail": 1}) == []
    assert jobs.settle(first, end, delay=60.0)
    if end is OutcomeKind.INTERRUPTED:
        jobs.shift(first.id, run_at=60)
    (second,) = jobs.take(capped={"mail": 1})
    assert second.id != first.id


def test_leases_in_a_buffer_count(jobs: Jobs, storage: Storage) -> None:
    """A worker of older settings may have fetched rows before the cap was set."""
    seed(storage)
    jobs.add(6)
    assert len(jobs.take(2, start=False)) == 2
    assert len(jobs.take(10, worker="worker-2", capped={"mail": CAP})) == CAP - 2


def test_a_cap_below_what_already_runs_lets_nothing_in(jobs: Jobs, storage: Storage) -> None:
    seed(storage, limit=None)
    jobs.running(3)
    jobs.add(2)
    assert jobs.take(capped={"mail": 2}) == []
    assert jobs.take(capped={"mail": 3}) == []
    assert len(jobs.take(capped={"mail": 4})) == 1


def test_a_crash_leaks_no_place(jobs: Jobs, storage: Storage) -> None:
    seed(storage, limit=1)
    jobs.add(2)
    (lost,) = jobs.take(capped={"mail": 1})
    (seen,) = storage.live_rows()
    assert storage.rescue([RescueAction(seen, "pending", LOG, crashed=True, delay=60.0)]) == {lost.id}
    assert len(jobs.take(worker="worker-2", capped={"mail": 1})) == 1


def test_capped_and_plain_queues_in_one_claim(jobs: Jobs, storage: Storage) -> None:
    seed(storage, "a")
    seed(storage, "b", 2)
    for queue in ("a", "b", "plain"):
        jobs.add(6, queue=queue)
    jobs.take(1, queues=["b"], worker="worker-2", capped={"b": 2})
    claimed = jobs.take(30, queues=["a", "plain", "b"], capped={"a": 3, "b": 2})
    by_queue = {queue: sum(job.queue == queue for job in claimed) for queue in ("a", "b", "plain")}
    assert by_queue == {"a": 3, "b": 1, "plain": 6}


def test_order_holds_across_capped_and_plain_queues(jobs: Jobs, storage: Storage) -> None:
    seed(storage, "a")
    low, mid, high = (jobs.one(queue="a", priority=1), jobs.one(queue="plain", priority=5),
                      jobs.one(queue="a", priority=9))  # fmt: skip
    assert ids(jobs.take(queues=["plain", "a"], capped={"a": 3})) == [high, mid, low]


def test_strict_order_holds_across_capped_and_plain_queues(jobs: Jobs, storage: Storage) -> None:
    seed(storage, "a")
    plain, capped = jobs.one(queue="plain", priority=99), jobs.one(queue="a", priority=1)
    assert ids(jobs.take(queues=["a", "plain"], capped={"a": 3}, strict=True)) == [capped, plain]


def test_places_go_to_the_first_in_order(jobs: Jobs, storage: Storage) -> None:
    seed(storage)
    jobs.add(2, priority=1)
    high = jobs.add(2, priority=9)
    (middle,) = jobs.add(1, priority=5)
    assert ids(jobs.take(10, capped={"mail": CAP})) == [*high, middle]


@pytest.mark.parametrize("seeded", [True, False], ids=["with a control row", "without a control row"])
def test_eight_claimers_never_exceed_the_cap(jobs: Jobs, storage: Storage, seeded: bool) -> None:
    if seeded:
        seed(storage)
    total = 48
    given = jobs.add(total)
    most: list[int] = []
    done = threading.Event()

    def work(number: int, own: Storage) -> int:
        worker, ended = f"worker-{number}", 0
        for turn in itertools.count():
            claim = own.claim(ClaimRequest(worker, ["mail"], 2, capped={"mail": CAP}))
            most.append(live())
            if claim.jobs:
                assert own.settle(worker, [outcome(job) for job in claim.jobs]) == set(ids(claim.jobs))
                ended += len(claim.jobs)
            elif done.wait(0.002) or (turn % 20 == 0 and not JobHot.objects.exists()):
                done.set()
                return ended
        raise AssertionError

    ended = together(8, work)
    assert sum(ended) == total
    assert max(most) <= CAP, f"{max(most)} at once under a cap of {CAP}"
    assert len(given) == total
    assert_one_place(total)


def test_a_held_cap_row_is_told_and_costs_no_waiting(jobs: Jobs, storage: Storage) -> None:
    """Eight claimers of one place: whoever finds it held is told so at once, and all work is done all the same."""
    seed(storage, limit=1)
    given = jobs.add(24)
    answers: list[tuple[int, bool]] = []

    def work(number: int, own: Storage) -> None:
        worker = f"worker-{number}"

        def finished() -> bool:
            claim = own.claim(ClaimRequest(worker, ["mail"], 5, capped={"mail": 1}))
            answers.append((len(claim.jobs), claim.contended))
            own.settle(worker, [outcome(job) for job in claim.jobs])
            return not JobHot.objects.exists()

        wait_until(finished, 40, interval=0.002, what="all jobs of the capped queue done")

    together(8, work)
    assert sum(claimed for claimed, _ in answers) == len(given)
    assert all(claimed <= 1 for claimed, _ in answers)
    assert not any(claimed and contended for claimed, contended in answers)


def test_an_uncontended_claim_says_so(jobs: Jobs, storage: Storage) -> None:
    seed(storage)
    jobs.add(1)
    for _ in range(2):
        assert storage.claim(ClaimRequest(WORKER, ["mail"], 10, capped={"mail": CAP})).contended is False


def test_a_claim_never_overwrites_the_control_row(jobs: Jobs, storage: Storage) -> None:
    seed(storage, limit=7)
    Queue.objects.filter(name="mail").update(updated_by="ada")
    before = Queue.objects.filter(name="mail").values().get()
    jobs.add(2)
    jobs.take(capped={"mail": 1}, worker=WORKER)
    assert Queue.objects.filter(name="mail").values().get() == before


@pytest.mark.skipif(connection.vendor == "sqlite", reason="one writer at a time: no row is locked by itself")
def test_a_cap_row_that_is_held_is_not_waited_for(jobs: Jobs, storage: Storage, other: Any) -> None:
    seed(storage)
    jobs.add(1)
    request = ClaimRequest(WORKER, ["mail"], 1, capped={"mail": CAP})
    with other._transaction():
        assert other._lock_caps(request) == ({"mail": CAP}, False)
        began = time.monotonic()
        claim = storage.claim(request)
        assert (claim.jobs, claim.contended) == ([], True)
        assert time.monotonic() - began < LOCK_LIMIT, "it waited for the row"
    assert len(storage.claim(request).jobs) == 1
