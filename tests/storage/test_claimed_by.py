"""What a worker holds by the database's account: it is asked after a claim or a start that may have been lost."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from django.db import OperationalError, connection

from chokaq_django.storage import ClaimRequest, Storage

from .support import FETCHED, PROCESSING, WORKER, Jobs, row

on_postgresql = pytest.mark.skipif(
    connection.vendor != "postgresql",
    reason="loses answers of PostgreSQL's statements; those of MySQL: test_mysql_connections",
)
committed = pytest.mark.usefixtures("transactional_db")


@committed
def test_it_is_what_the_claims_have_answered(jobs: Jobs) -> None:
    started, leased = jobs.running(2, priority=30), jobs.fetched(2, priority=20)
    jobs.running(1, worker="worker-2")
    jobs.add(1)
    assert jobs.storage.claimed_by(WORKER) == [*started, *leased]
    assert jobs.storage.claimed_by("nobody") == []


@committed
def test_it_comes_in_the_order_of_a_claim_across_queues(jobs: Jobs) -> None:
    low = jobs.fetched(2, priority=1, queue="first")
    high = jobs.fetched(2, priority=9, queue="second")
    assert jobs.storage.claimed_by(WORKER) == [*high, *low]


@committed
def test_what_was_settled_or_given_back_is_not_in_it(jobs: Jobs) -> None:
    (done, running), (back, leased) = jobs.running(2), jobs.fetched(2)
    jobs.settle([done])
    jobs.storage.release(WORKER, [back.lease])
    assert jobs.storage.claimed_by(WORKER) == [running, leased]


@committed
def test_a_deadline_that_passes_makes_late_what_has_not_started(jobs: Jobs) -> None:
    (running,), (leased,) = jobs.running(1, deadline_after=3600), jobs.fetched(1, deadline_after=3600)
    for job in (running, leased):
        jobs.shift(job.id, deadline_at=-0.001)
    now = {job.id: job for job in jobs.storage.claimed_by(WORKER)}
    assert not now[running.id].expired
    assert now[leased.id] == replace(leased, expired=True, deadline_at=now[leased.id].deadline_at)


def lose_replies(storage: Any, monkeypatch: pytest.MonkeyPatch, statement: str, count: int = 1) -> None:
    """The next ``count`` times, the answer of a statement that begins like this gets lost."""
    query: Callable[..., Any] = storage._query
    left = [None] * count

    def losing(sql: str, params: Any = ()) -> Any:
        rows = query(sql, params)
        if left and sql.startswith(statement):
            left.pop()
            raise OperationalError("server closed the connection unexpectedly")
        return rows

    monkeypatch.setattr(storage, "_query", losing)
    monkeypatch.setattr(storage._retrier, "sleep", lambda pause: None)


@committed
@on_postgresql
@pytest.mark.parametrize("start", [True, False], ids=["started", "leased"])
@pytest.mark.parametrize("count", [1, 5], ids=["retried", "given up"])
def test_a_lost_claim_shows_in_it(
    jobs: Jobs, other: Storage, monkeypatch: pytest.MonkeyPatch, count: int, start: bool
) -> None:
    ids = jobs.add(7)
    lose_replies(other, monkeypatch, "WITH RECURSIVE", count)
    request = ClaimRequest(WORKER, ["mail"], 1, start=start)
    taken = []
    if count > 1:
        with pytest.raises(OperationalError):
            other.claim(request)
    else:
        taken = [job.id for job in other.claim(request).jobs]
        assert taken == [ids[1]], "the first went unheard"
    assert other.errors == count
    held = other.claimed_by(WORKER)
    assert [job.id for job in held] == ids[: count + len(taken)]
    assert {job.status for job in held} == {PROCESSING if start else FETCHED}


@committed
@on_postgresql
def test_a_lost_start_shows_in_it(jobs: Jobs, other: Storage, monkeypatch: pytest.MonkeyPatch) -> None:
    fetched = Jobs(other).fetched(3)
    lose_replies(other, monkeypatch, "UPDATE")
    reply = other.start(WORKER, [job.lease for job in fetched])
    assert (reply.started, other.errors) == ({}, 1)
    assert [(job.lease, job.status, job.attempt, job.started_at) for job in other.claimed_by(WORKER)] == [
        (job.lease, PROCESSING, 1, row(job.id)["started_at"]) for job in fetched
    ]
