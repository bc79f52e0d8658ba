"""Somebody else's transaction holds the row of a running job: a worker's other jobs must not suffer for it."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest
from django.db import DatabaseError, OperationalError, connection, transaction

from chokaq_django.models import JobHot
from chokaq_django.storage import Lease, OutcomeKind, Storage
from chokaq_django.storage.contract import RescueAction
from chokaq_django.storage.engine import Engine
from chokaq_django.storage.mysql.session import LOCK_LIMIT
from chokaq_django.storage.postgres.errors import StatementTimeoutError

from .support import LOG, NOBODY, WORKER, Jobs, committed, ids, leases, near, outcome, place, row

pytestmark = [
    committed,
    pytest.mark.skipif(
        connection.vendor not in ("postgresql", "mysql"), reason="on SQLite one writes at a time; others are not asked"
    ),
]

HOLDS: dict[str, Callable[[Storage, str], object]] = {
    "looks": lambda storage, job_id: JobHot.objects.select_for_update().get(pk=job_id),
    "writes": lambda storage, job_id: JobHot.objects.filter(pk=job_id).update(modified_by="eve"),
    "cancels": lambda storage, job_id: storage.cancel([job_id], "ada"),
}
"""What somebody does in a transaction that goes on."""
HELD_BY = pytest.mark.parametrize("hold", HOLDS)


@HELD_BY
def test_a_heartbeat_passes_over_the_row(jobs: Jobs, storage: Storage, other: Storage, hold: str) -> None:
    held, *free = jobs.running(3)
    jobs.shift([held.id, *ids(free)], heartbeat_at=-500)
    with transaction.atomic():
        HOLDS[hold](storage, held.id)
        reply = other.heartbeat(WORKER, leases([held, *free]))
    assert (reply.lost, reply.cancels, reply.busy) == (set(), {}, {held.id})
    now = jobs.now()
    assert [near(row(job.id)["heartbeat_at"], now) for job in (held, *free)] == [False, True, True]
    reply = other.heartbeat(WORKER, leases([held, *free]))
    assert (reply.lost, reply.busy) == (set(), set())
    assert reply.cancels == ({held.id: "ada"} if hold == "cancels" else {}), "once it is committed"
    assert near(row(held.id)["heartbeat_at"], jobs.now())
    assert other.errors == 0


def test_a_request_that_was_committed_before_reaches_the_worker_all_the_same(
    jobs: Jobs, storage: Storage, other: Storage
) -> None:
    (job,) = jobs.running()
    storage.cancel([job.id], "ada")
    with transaction.atomic():
        HOLDS["writes"](storage, job.id)
        reply = other.heartbeat(WORKER, [job.lease])
    assert (reply.lost, reply.cancels, reply.busy) == (set(), {job.id: "ada"}, {job.id})


@HELD_BY
def test_a_lease_that_is_gone_is_lost_though_somebody_holds_the_row(
    jobs: Jobs, storage: Storage, other: Storage, hold: str
) -> None:
    """So are those of another worker, and those that only wait to be started."""
    running, foreign = jobs.running(), jobs.running(worker="worker-2")
    fetched = jobs.fetched()
    held = [*running, *foreign, *fetched]
    given = [Lease(running[0].id, running[0].claim_number - 1), foreign[0].lease, fetched[0].lease, Lease(NOBODY, 1)]
    with transaction.atomic():
        for job in held:
            HOLDS["looks" if job in fetched else hold](storage, job.id)
        reply = other.heartbeat(WORKER, given)
    assert (reply.lost, reply.busy) == ({lease.id for lease in given}, set())


@HELD_BY
def test_progress_passes_over_the_row(jobs: Jobs, storage: Storage, other: Storage, hold: str) -> None:
    """The settle loop writes it before the outcomes."""
    held, free = jobs.running(2)
    notes = {job.lease: (50, "half") for job in (held, free)}
    with transaction.atomic():
        HOLDS[hold](storage, held.id)
        assert other.progress(WORKER, notes) == {free.id}
    assert [row(job.id)["progress"] for job in (held, free)] == [None, 50]
    assert other.progress(WORKER, notes) == {held.id, free.id}
    assert other.errors == 0


def test_a_rescuer_passes_over_what_a_heartbeat_has_passed_over(jobs: Jobs, storage: Storage, other: Storage) -> None:
    (job,) = jobs.running()
    (seen,) = storage.live_rows()
    with transaction.atomic():
        HOLDS["writes"](storage, job.id)
        assert other.heartbeat(WORKER, [job.lease]).busy == {job.id}
        assert other.rescue([RescueAction(seen, "dlq", LOG, crashed=True)]) == set()
    assert place(job.id) == "hot"


def test_only_a_row_that_was_not_written_costs_a_heartbeat_one_statement_more(
    jobs: Jobs, storage: Storage, other: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    claimed = jobs.running(20)
    sent: list[str] = []
    for name in ("_query", "_execute"):
        run = getattr(other, name)

        def noted(sql: str, *args: Any, run: Callable[..., Any] = run) -> Any:
            sent.append(sql)
            return run(sql, *args)

        monkeypatch.setattr(other, name, noted)
    usual = 1 if connection.vendor == "postgresql" else 2
    other.heartbeat(WORKER, leases(claimed))
    assert len(sent) == usual
    sent.clear()
    with transaction.atomic():
        HOLDS["writes"](storage, claimed[3].id)
        other.heartbeat(WORKER, leases(claimed))
    assert len(sent) == usual + 1


def impatient(storage: Storage) -> None:
    """Its statements wait for a lock for a second at the most, and are sent once."""
    assert isinstance(storage, Engine)
    limit = {"postgresql": "statement_timeout = '1s'", "mysql": "SESSION innodb_lock_wait_timeout = 1"}
    storage._query(f"SET {limit[connection.vendor]}")
    storage._retrier.attempts = 1


KINDS = [OutcomeKind.SUCCEEDED, OutcomeKind.RETRY, OutcomeKind.DEAD]


@pytest.mark.parametrize("kinds", [[KINDS[0]], [KINDS[1]], [KINDS[2]], KINDS], ids=["good", "again", "bad", "mixed"])
def test_a_settle_that_waits_in_vain_says_that_parts_of_it_may_go_through(
    jobs: Jobs, storage: Storage, other: Storage, kinds: list[OutcomeKind]
) -> None:
    held, *free = jobs.running(4)
    ends = [outcome(job, kinds[number % len(kinds)]) for number, job in enumerate((held, *free))]
    impatient(other)
    with transaction.atomic():
        HOLDS["writes"](storage, held.id)
        with pytest.raises(DatabaseError) as raised:
            other.settle(WORKER, ends)
        assert other.is_partial(raised.value)
        assert other.heartbeat(WORKER, leases([held, *free])).busy == {held.id}, "which says what to leave out"
        assert other.settle(WORKER, ends[1:]) == set(ids(free))
    assert other.settle(WORKER, ends) == {held.id, *ids(free)}


def test_an_outage_says_nothing_of_parts(other: Storage) -> None:
    number = {"postgresql": 57, "mysql": 2013}[connection.vendor]
    assert not other.is_partial(OperationalError(number, "Lost connection to server during query"))
    assert not other.is_partial(OperationalError("server closed the connection unexpectedly"))
    assert not other.is_partial(ConnectionError("the database is away"))


@pytest.mark.skipif(connection.vendor != "postgresql", reason="elsewhere a pooler is told a worker's limits")
def test_behind_a_pooler_a_lock_may_be_what_a_statement_waited_for(
    other: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its server is not told how long a statement may take; the worker's own limit is all that ends it."""
    assert isinstance(other, Engine)
    error = StatementTimeoutError("PostgreSQL did not answer within 35 s")
    assert not other.is_partial(error)
    monkeypatch.setitem(other.connection.settings_dict, "DISABLE_SERVER_SIDE_CURSORS", True)
    assert other.is_partial(error)


LOCKED_OUT: dict[str, Callable[[Storage, Lease, Any], object]] = {
    "settle": lambda storage, lease, job: storage.settle(WORKER, [outcome(job)]),
    "start": lambda storage, lease, job: storage.start(WORKER, [lease]),
    "release": lambda storage, lease, job: storage.release(WORKER, [lease]),
}


@pytest.mark.parametrize("act", LOCKED_OUT)
def test_a_call_waits_for_a_lock_as_long_as_it_was_told(jobs: Jobs, other: Any, act: str) -> None:
    """And then it says that a part of it might go through."""
    other.limit_lock_waits(1.0)
    other._retrier.attempts = 1
    (job,) = jobs.running() if act == "settle" else jobs.fetched()
    with transaction.atomic():
        JobHot.objects.select_for_update().get(pk=job.id)
        began = time.monotonic()
        with pytest.raises(DatabaseError) as refused:
            LOCKED_OUT[act](other, job.lease, job)
        assert time.monotonic() - began < LOCK_LIMIT, "it waited for as long as workers' other services"
    assert other.is_partial(refused.value)
    assert LOCKED_OUT[act](other, job.lease, job)
