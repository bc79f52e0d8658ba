"""Times are the server's: a worker whose clock is five minutes wrong changes nothing.

On SQLite the server is this process, and its clock the host's: those cases are skipped there by name.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import time_machine
from django.db import transaction

from chokaq_django.models import Circuit, JobArchive, JobDLQ, JobHot, LeaderLease, Worker
from chokaq_django.storage import OutcomeKind, Storage
from chokaq_django.storage.contract import CircuitPolicy, CircuitReport

from . import support
from .support import PENDING, WORKER, Jobs, committed, ids, row, rule, trim
from .test_fleet import worker

pytestmark = committed

FIVE_MINUTES = dt.timedelta(minutes=5)


def near(instant: dt.datetime | None, expected: dt.datetime, tolerance: float = 40.0) -> bool:
    """Whether it is the right clock's: the wrong one is five minutes away."""
    return support.near(instant, expected, tolerance)


@pytest.fixture(params=[-FIVE_MINUTES, FIVE_MINUTES], ids=["five minutes behind", "five minutes ahead"])
def wrong_clock(request: pytest.FixtureRequest, engine: str, storage: Storage) -> Iterator[dt.datetime]:
    """This process's clock is wrong while the test runs; the value is the server's now before it went wrong."""
    if engine == "sqlite":
        pytest.skip("SQLite has no clock but the host's own")
    right = storage.now()
    with time_machine.travel(dt.datetime.now(dt.UTC) + request.param, tick=True):
        assert not near(dt.datetime.now(dt.UTC), right, 200)
        yield right


def test_now_is_the_server_clock(wrong_clock: dt.datetime, storage: Storage) -> None:
    assert near(storage.now(), wrong_clock)


def test_a_new_job_gets_the_server_times(wrong_clock: dt.datetime, jobs: Jobs) -> None:
    stored = row(jobs.one())
    for name in ("created_at", "updated_at", "run_at", "due_at"):
        assert near(stored[name], wrong_clock), name
    stored = row(jobs.one(delay=100, deadline_after=50))
    assert near(stored["run_at"], wrong_clock + dt.timedelta(seconds=100))
    assert near(stored["deadline_at"], wrong_clock + dt.timedelta(seconds=50))


def test_what_is_due_is_the_server_decision(wrong_clock: dt.datetime, jobs: Jobs) -> None:
    due = jobs.one()
    later = jobs.one(delay=60)
    claim = jobs.claim()
    assert ids(claim.jobs) == [due]
    assert claim.next_due is not None
    assert 50 < claim.next_due <= 60
    jobs.shift(later, run_at=-0.001)
    assert ids(jobs.take()) == [later]


def test_what_is_expired_is_the_server_decision(wrong_clock: dt.datetime, jobs: Jobs, storage: Storage) -> None:
    alive, late = jobs.add(2, deadline_after=60)
    jobs.shift(late, deadline_at=-1)
    assert {job.id: job.expired for job in jobs.take(start=False)} == {alive: False, late: True}
    expiring = jobs.add(2, deadline_after=60)
    jobs.shift(expiring[0], deadline_at=-1)
    assert storage.expire(10) == 1
    assert row(expiring[0])["place"] == "dlq"
    assert near(row(expiring[0])["failed_at"], wrong_clock)


def test_the_times_of_an_execution_are_the_server_s(wrong_clock: dt.datetime, jobs: Jobs, storage: Storage) -> None:
    (started,), (fetched,) = jobs.running(), jobs.fetched()
    assert near(started.started_at, wrong_clock)
    assert near(storage.start(WORKER, [fetched.lease]).started[fetched.id][1], wrong_clock)
    jobs.shift(started.id, heartbeat_at=-60)
    storage.heartbeat(WORKER, [started.lease])
    assert near(row(started.id)["heartbeat_at"], wrong_clock)
    jobs.settle(started)
    assert near(JobArchive.objects.get().finished_at, wrong_clock)
    jobs.settle(fetched, OutcomeKind.DEAD)
    assert near(JobDLQ.objects.get().failed_at, wrong_clock)


@pytest.mark.parametrize("kind", [OutcomeKind.RETRY, OutcomeKind.SNOOZED])
def test_a_delay_counts_from_the_server_now(wrong_clock: dt.datetime, jobs: Jobs, kind: OutcomeKind) -> None:
    (job,) = jobs.running()
    jobs.settle(job, kind, delay=100.0)
    assert near(row(job.id)["run_at"], wrong_clock + dt.timedelta(seconds=100))


def test_release_deferral_and_resurrection_count_from_the_server_now(
    wrong_clock: dt.datetime, jobs: Jobs, storage: Storage
) -> None:
    (job,) = jobs.fetched()
    storage.release(WORKER, [job.lease], 100.0)
    assert near(row(job.id)["run_at"], wrong_clock + dt.timedelta(seconds=100))
    blocked = jobs.one(type="x.v1")
    jobs.take(blocked={"x.v1": 100.0})
    assert near(row(blocked)["run_at"], wrong_clock + dt.timedelta(seconds=100))
    (dead,) = jobs.dead(deadline_after=3600)
    jobs.shift(dead, JobDLQ, deadline_at=-1)
    storage.resurrect([dead], "ada")
    assert near(row(dead)["run_at"], wrong_clock)
    assert row(dead)["deadline_at"] is None


def test_leadership_is_the_server_decision(wrong_clock: dt.datetime, storage: Storage) -> None:
    assert storage.lead("rescue", "worker-1", 60)
    assert near(LeaderLease.objects.get().expires_at, wrong_clock + dt.timedelta(seconds=60))
    assert not storage.lead("rescue", "worker-2", 60)
    LeaderLease.objects.update(expires_at=storage.now() - dt.timedelta(seconds=1))
    assert storage.lead("rescue", "worker-2", 60)


def test_registration_circuits_buckets_and_retention_follow_the_server(
    wrong_clock: dt.datetime, jobs: Jobs, storage: Storage, buckets: Callable[[], Any]
) -> None:
    storage.register(worker())
    assert near(Worker.objects.get().last_seen, wrong_clock)
    offset = (dt.datetime.now(dt.UTC) - storage.now()).total_seconds()
    for _ in range(2):
        clock = storage.register(worker()).clock
        assert clock is not None
        assert abs(clock.offset - offset) < 1
    storage.report_circuits([CircuitReport("x.v1", CircuitPolicy(1, 60, 30, 1, 30), failures=1)])
    assert 25 < storage.circuits()[0].reopens_in <= 30
    assert near(Circuit.objects.get().updated_at, wrong_clock)
    (done,) = jobs.archived()
    (bucket,) = buckets()
    assert near(bucket.at, wrong_clock)
    jobs.shift(done, JobArchive, finished_at=-60)
    assert trim(storage, rule("archive", 70)) == 0
    assert trim(storage, rule("archive", 50)) == 1


def test_a_cancel_request_carries_the_server_time(wrong_clock: dt.datetime, jobs: Jobs, storage: Storage) -> None:
    (job,) = jobs.running()
    storage.cancel([job.id], "ada")
    assert near(row(job.id)["cancel_requested_at"], wrong_clock)


def test_all_engines_agree_with_this_host_within_a_minute(storage: Storage) -> None:
    """Not a rule of the storage: if this fails, the server's clock is wrong and instants given by callers mislead."""
    assert near(storage.now(), dt.datetime.now(dt.UTC), 60)


def test_statements_of_one_transaction_see_time_go_on(jobs: Jobs) -> None:
    """The time of a statement, not of its transaction: a long transaction does not enqueue into the past."""
    with transaction.atomic():
        first = jobs.one()
        for _ in range(50):
            JobHot.objects.filter(status=PENDING).count()
        second = jobs.one()
    assert row(second)["run_at"] > row(first)["run_at"]
