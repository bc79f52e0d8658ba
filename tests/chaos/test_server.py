"""The database goes away: nothing is buried by the outage, everything goes on without a hand."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator

import psycopg
import pytest

from ..helpers import ROOT, WorkerProcess, wait_until
from ..ledger import Ledger
from .servers import PrivatePostgres, postgres_programs

WORKER_TIMEOUT = 2.0
OPTIONS = {
    "RECOVERY": {"WORKER_TIMEOUT": WORKER_TIMEOUT, "SCAN_INTERVAL": 0.3, "ZOMBIE_TIMEOUT": 3},
    "EXECUTION": {"HEARTBEAT_MIN": 0.2, "HEARTBEAT_MAX": 0.4},
    "WORKER": {"SHUTDOWN_GRACE": 10},
}
RESUMED_WITHIN = 10.0

pytestmark = pytest.mark.skipif(postgres_programs() is None, reason="no PostgreSQL server programs on this machine")


@pytest.fixture
def server(engine: str) -> Iterator[PrivatePostgres]:
    if engine != "postgresql":
        pytest.skip("PostgreSQL only: the test stops a server")
    programs = postgres_programs()
    assert programs is not None
    with PrivatePostgres(programs) as private:
        manage(private, "migrate", "--run-syncdb", "--verbosity=0")
        yield private


def manage(server: PrivatePostgres, *arguments: str) -> None:
    subprocess.run(
        [sys.executable, str(ROOT / "manage.py"), *arguments],
        cwd=ROOT, check=True, timeout=120,
        env={**os.environ, "DJANGO_SETTINGS_MODULE": "tests.settings", "DATABASE_URL": server.url},
    )  # fmt: skip


def enqueue(server: PrivatePostgres, code: str) -> None:
    """Run producer code in a process that is connected to the private server."""
    manage(server, "shell", "--verbosity=0", "-c", f"from chokaq_django import *; from tests.jobs import *; {code}")


def count(server: PrivatePostgres, sql: str) -> int:
    with psycopg.connect(f"postgresql://postgres@127.0.0.1:{server.port}/postgres", connect_timeout=5) as connection:
        row = connection.execute(sql.encode()).fetchone()
    assert row is not None
    return int(row[0])


HOT = "SELECT count(*) FROM chokaq_job_hot"
ARCHIVE = "SELECT count(*) FROM chokaq_job_archive"
DEAD = "SELECT count(*) FROM chokaq_job_dlq"


def start(worker_process: Callable[..., WorkerProcess], server: PrivatePostgres) -> WorkerProcess:
    return worker_process("--processes=2", "--concurrency=4", options=OPTIONS, env={"DATABASE_URL": server.url})


def outlast(seconds: float) -> None:
    """Until so much time has passed: an outage is a time, there is no event to wait for."""
    end = time.monotonic() + seconds
    wait_until(lambda: time.monotonic() >= end, seconds + 5)


@pytest.mark.parametrize("kind", ["stopped", "stalled"])
def test_an_outage_longer_than_the_worker_timeout_buries_nothing(
    server: PrivatePostgres, worker_process: Callable[..., WorkerProcess], ledger: Ledger, kind: str
) -> None:
    enqueue(server, "enqueue_many([GateJob(gate='a') for _ in range(4)] + [SleepJob(seconds=0.02)] * 300)")
    worker = start(worker_process, server)
    wait_until(lambda: ledger.count("leave") >= 20, 30, what="work under way")
    if kind == "stopped":
        server.stop()
        outlast(WORKER_TIMEOUT * 2)
        server.start()
    else:
        server.stall()
        outlast(WORKER_TIMEOUT * 2)
        server.resume()
    back = time.monotonic()
    before = ledger.count("leave")
    wait_until(lambda: ledger.count("leave") > before, RESUMED_WITHIN, what="work goes on by itself")
    assert time.monotonic() - back < RESUMED_WITHIN
    ledger.open_gate("a")
    wait_until(lambda: count(server, HOT) == 0, 60, what="every job settled", interval=0.1)
    assert count(server, DEAD) == 0, "the outage buried jobs"
    assert count(server, ARCHIVE) == 304
    assert set(ledger.per_job("enter").values()) == {1}, "a job ran twice"
    assert worker.stop() == 0
    assert_no_errors_but_trouble(worker)


def test_killed_backends_cost_nothing(
    server: PrivatePostgres, worker_process: Callable[..., WorkerProcess], ledger: Ledger
) -> None:
    total = 3_000
    enqueue(server, f"enqueue_many(NoteJob() for _ in range({total}))")
    worker = start(worker_process, server)
    kills = 0
    end = time.monotonic() + 60
    while count(server, HOT) and time.monotonic() < end:
        kills += count(
            server,
            "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE pid <> pg_backend_pid() "
            "AND backend_type = 'client backend'",
        )
    assert kills > 5, "too few backends were killed to show anything"
    assert count(server, HOT) == 0
    assert (count(server, ARCHIVE), count(server, DEAD)) == (total, 0)
    assert set(ledger.per_job("ran").values()) == {1}
    assert worker.stop() == 0
    assert_no_errors_but_trouble(worker)


def assert_no_errors_but_trouble(worker: WorkerProcess) -> None:
    """Losing the database is a warning, with a traceback of the first failure; nothing of it is an error of ours."""
    assert " ERROR chokaq." not in worker.output, worker.output[-4000:]
