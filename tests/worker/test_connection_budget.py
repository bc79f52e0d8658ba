"""How many connections a worker process has: docs/reference/engines.md says so, and the server counts."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from django.db import connection
from django.db.models import F

from chokaq_django import enqueue
from chokaq_django.models import JobHot, JobStatus, LeaderLease
from chokaq_django.worker import operations, rescue

from .. import jobs
from ..helpers import WorkerProcess, wait_until
from ..ledger import Ledger
from .support import all_settled, committed, settled

pytestmark = [
    committed,
    pytest.mark.skipif(connection.vendor not in ("postgresql", "mysql"), reason="counted on two servers"),
]

SERVICES = {"postgresql": 6, "mysql": 5}
THREADS = 3
LATE = {
    "EXECUTION": {"HEARTBEAT_MIN": 3, "HEARTBEAT_MAX": 3},
    "RECOVERY": {"WORKER_TIMEOUT": 30, "ZOMBIE_TIMEOUT": 30},
}
"""The first heartbeat comes three seconds after the start."""
COUNT = {
    "postgresql": "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND "
    "pid <> pg_backend_pid()",
    "mysql": "SELECT COUNT(*) FROM information_schema.processlist WHERE db = DATABASE() AND id <> CONNECTION_ID()",
}  # fmt: skip


def opened() -> int:
    with connection.cursor() as cursor:
        cursor.execute(COUNT[connection.vendor])
        return int(cursor.fetchone()[0])


def test_a_worker_process_opens_what_the_budget_says(
    worker_process: Callable[..., WorkerProcess], ledger: Ledger
) -> None:
    wait_until(lambda: opened() == 0, what="earlier tests' connections are gone")
    first = enqueue(jobs.NoteJob()).id
    worker_process("--concurrency", str(THREADS), options=LATE)
    settled(first)
    wait_until(lambda: LeaderLease.objects.filter(name=rescue.LEASE).exists(), what="the last service has begun")
    services = SERVICES[connection.vendor]
    # There was nothing to send heartbeats for, unless the machine took three seconds for the first job.
    wait_until(lambda: opened() in {services - 1, services}, what="at rest")
    ids = [enqueue(jobs.AtomicJob(gate="g")).id for _ in range(THREADS + 2)]
    wait_until(lambda: ledger.count("enter") == THREADS, what="each thread has a job")
    beating = JobHot.objects.filter(status=JobStatus.PROCESSING, heartbeat_at__gt=F("started_at"))
    wait_until(lambda: beating.count() == THREADS, what="heartbeats")
    wait_until(lambda: opened() == services + THREADS, what="the last heartbeat's connection and those of all jobs")
    ledger.open_gate("g")
    all_settled(ids, 30)
    wait_until(lambda: opened() == services + THREADS, what="all kept, as long as CONN_MAX_AGE lets")
    assert not LeaderLease.objects.filter(name=operations.LEASE).exists()
