"""PostgreSQL: times that nobody can read, written by hand, stop no queue."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import connection

from chokaq_django.storage import Storage
from chokaq_django.storage.contract import RescueAction

from .support import WORKER, Jobs, committed, leases, place

pytestmark = [committed, pytest.mark.skipif(connection.vendor != "postgresql", reason="others have no such times")]


@pytest.mark.parametrize("value", ["infinity", "-infinity", "20000-01-01", "0044-03-15 BC"])
@pytest.mark.parametrize("column", ["created_at", "run_at", "due_at", "deadline_at", "started_at"])
def test_a_job_with_such_a_time_and_those_behind_it(
    jobs: Jobs, storage: Storage, other: Storage, column: str, value: str
) -> None:
    odd, even = jobs.one(), jobs.one()
    with connection.cursor() as cursor:
        cursor.execute(f"UPDATE chokaq_job_hot SET {column} = %s WHERE id = %s", [value, odd])  # noqa: S608 - names of ours
    mine: Any = Jobs(other)
    taken = mine.take(10)
    assert even in [job.id for job in taken]
    other.start(WORKER, leases(job for job in taken if job.status == 1))
    mine.settle([job for job in taken if not job.expired])
    assert place(even) == "archive"
    assert len(other.live_rows()) < 2
    other.expire(10)
    assert jobs.archived(1)


def test_one_that_runs(jobs: Jobs, other: Storage) -> None:
    (job,) = Jobs(other).running(1)
    with connection.cursor() as cursor:
        cursor.execute("UPDATE chokaq_job_hot SET heartbeat_at = 'infinity', started_at = '-infinity'")
    (row,) = other.live_rows()
    assert row.id == job.id
    assert other.rescue([RescueAction(row, "dlq", "[]")])
    assert place(job.id) == "dlq"
