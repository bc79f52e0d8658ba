"""Times that no program can count, written by hand: they stop no queue."""

from __future__ import annotations

import logging

import pytest
from django.db import connection

from chokaq_django import enqueue
from chokaq_django.models import JobHot, JobStatus

from .. import factories as make
from .. import jobs
from ..helpers import wait_until
from .conftest import StartWorker
from .support import DYING, committed, settled

pytestmark = committed

TIMES = {
    "postgresql": ["infinity", "-infinity", "20000-01-01", "0044-03-15 BC"],
    "mysql": ["0000-00-00 00:00:00", "2026-00-00 00:00:00"],
    "sqlite": ["zzz", "", "2026-02-31 00:00:00.000000", "0001-01-01 00:00:00+05:00"],
    "microsoft": [],  # it holds no other times than Python
}[connection.vendor]
COLUMNS = ["run_at", "due_at", "created_at", "updated_at", "started_at", "heartbeat_at", "deadline_at"]
STATES = {"pending": 0, "buffered": 1, "running": 2}


def spoiled(value: str, column: str, status: int) -> str:
    lease = {"worker_id": "gone", "heartbeat_at": None, "claim_number": 1} if status else {}
    job_id = str(make.hot(queue="default", type="test.effect", payload="{}", priority=50, status=status, **lease).pk)
    with connection.cursor() as cursor:
        if connection.vendor == "mysql":
            cursor.execute("SET SESSION sql_mode = ''")  # of somebody who has turned the server's checks off
        cursor.execute(f"UPDATE chokaq_job_hot SET {column} = %s WHERE id = %s", [value, job_id])  # noqa: S608
    return job_id


@pytest.mark.skipif(not TIMES, reason="this engine holds no such times")
@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("capped", [False, True], ids=["", "capped"])
def test_such_rows_stop_nobody(
    start_worker: StartWorker, caplog: pytest.LogCaptureFixture, state: str, capped: bool
) -> None:
    if capped:
        make.queue(name="default", max_workers=3)
    ids = {spoiled(value, column, STATES[state]): (column, value) for column in COLUMNS for value in TIMES}
    connection.close()
    start_worker(RECOVERY=DYING)
    for _ in range(3):
        assert settled(enqueue(jobs.NoteJob()).id).status == JobStatus.SUCCEEDED
        assert settled(enqueue(jobs.AsyncSleepJob()).id).status == JobStatus.SUCCEEDED

    def left() -> list[tuple[str, str]]:
        found = (ids[pk] for pk in JobHot.objects.filter(pk__in=ids).values_list("pk", flat=True))
        return [(column, value) for column, value in found if column != "run_at"]  # some are never due

    wait_until(lambda: not left(), 20, what="all have ended")
    troubles = [r.getMessage() for r in caplog.records if r.levelno >= logging.WARNING and "failed" in r.getMessage()]
    assert not troubles
