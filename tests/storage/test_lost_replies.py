"""PostgreSQL commits, and the connection ends before it says so: claims and starts are heard of all the same."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.db import OperationalError, connection

from chokaq_django.storage import ClaimRequest, Storage

from .support import PROCESSING, WORKER, Jobs, row

pytestmark = [
    pytest.mark.usefixtures("transactional_db"),
    pytest.mark.skipif(
        connection.vendor != "postgresql",
        reason="loses answers of PostgreSQL's statements; those of MySQL: test_mysql_connections",
    ),
]


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


@pytest.mark.parametrize("count", [1, 5], ids=["retried", "given up"])
def test_jobs_of_a_lost_claim_come_with_the_next(
    jobs: Jobs, other: Storage, monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    worker = Jobs(other)
    (known,) = worker.running()
    ids = jobs.add(7)
    lose_replies(other, monkeypatch, "WITH RECURSIVE", count)
    if count > 1:
        with pytest.raises(OperationalError):
            other.claim(ClaimRequest(WORKER, ["mail"], 1))
    taken = other.claim(ClaimRequest(WORKER, ["mail"], 1)).jobs
    assert sorted(job.id for job in taken) == ids[: len(taken)]
    assert len(taken) == count + 1
    assert {(job.status, job.attempt) for job in taken} == {(PROCESSING, 1)}
    assert worker.take(1)[0].id == ids[len(taken)], "and only once"
    assert len(worker.settle([known, *taken])) == len(taken) + 1


@pytest.mark.parametrize("count", [1, 5], ids=["retried", "given up"])
def test_jobs_of_a_lost_start_are_started(
    jobs: Jobs, other: Storage, monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    worker = Jobs(other)
    fetched = worker.fetched(3)
    leases = [job.lease for job in fetched]
    lose_replies(other, monkeypatch, "UPDATE", count)
    if count > 1:
        with pytest.raises(OperationalError):
            other.start(WORKER, leases)
    reply = other.start(WORKER, leases)
    assert reply.started == {job.id: (1, row(job.id)["started_at"]) for job in fetched}
    assert worker.take(1) == [], "they are known"
