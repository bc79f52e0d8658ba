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
from .servers import PRIVATE_SERVERS, PrivateMariaDB, PrivateServer

WORKER_TIMEOUT = 2.0
OPTIONS = {
    "RECOVERY": {"WORKER_TIMEOUT": WORKER_TIMEOUT, "SCAN_INTERVAL": 0.3, "ZOMBIE_TIMEOUT": 3},
    "EXECUTION": {"HEARTBEAT_MIN": 0.2, "HEARTBEAT_MAX": 0.4},
    "WORKER": {"SHUTDOWN_GRACE": 10},
}
RESUMED_WITHIN = 10.0


@pytest.fixture
def server(engine: str) -> Iterator[PrivateServer]:
    kind = PRIVATE_SERVERS.get(engine)
    if kind is None:
        pytest.skip("the test starts and stops a server of its own, which it can on PostgreSQL and MariaDB")
    if not kind.installed():
        pytest.skip(f"no server programs of {engine} on this machine")
    with kind() as private:
        manage(private, "migrate", "--run-syncdb", "--verbosity=0")
        yield private


def manage(server: PrivateServer, *arguments: str) -> None:
    subprocess.run(
        [sys.executable, str(ROOT / "manage.py"), *arguments],
        cwd=ROOT, check=True, timeout=120,
        env={**os.environ, "DJANGO_SETTINGS_MODULE": "tests.settings", "DATABASE_URL": server.url},
    )  # fmt: skip


def enqueue(server: PrivateServer, code: str) -> None:
    """Run producer code in a process that is connected to the private server."""
    manage(server, "shell", "--verbosity=0", "-c", f"from chokaq_django import *; from tests.jobs import *; {code}")


def count(server: PrivateServer, table: str) -> int:
    sql = f"SELECT count(*) FROM chokaq_job_{table}"  # noqa: S608 - names of ours
    if isinstance(server, PrivateMariaDB):
        with server.connect() as connection, connection.cursor() as cursor:
            cursor.execute(sql.replace("chokaq", "jobs.chokaq"))
            return int(cursor.fetchone()[0])
    with psycopg.connect(f"postgresql://postgres@127.0.0.1:{server.port}/postgres", connect_timeout=5) as own:
        row = own.execute(sql.encode()).fetchone()
    assert row is not None
    return int(row[0])


def kill_connections(server: PrivateServer) -> int:
    """End the connections of all workers on the server's side; how many."""
    if isinstance(server, PrivateMariaDB):
        with server.connect() as connection, connection.cursor() as cursor:
            cursor.execute("SELECT id FROM information_schema.processlist WHERE id <> CONNECTION_ID() AND db = 'jobs'")
            ids = [row[0] for row in cursor.fetchall()]
            for number in ids:
                try:
                    cursor.execute("KILL %s", [number])
                except connection.OperationalError:  # it has ended by itself
                    continue
        return len(ids)
    with psycopg.connect(f"postgresql://postgres@127.0.0.1:{server.port}/postgres", connect_timeout=5) as own:
        row = own.execute(
            "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE pid <> pg_backend_pid() "
            "AND backend_type = 'client backend'"
        ).fetchone()
    assert row is not None
    return int(row[0])


def start(worker_process: Callable[..., WorkerProcess], server: PrivateServer) -> WorkerProcess:
    return worker_process("--processes=2", "--concurrency=4", options=OPTIONS, env={"DATABASE_URL": server.url})


def outlast(seconds: float) -> None:
    """Until so much time has passed: an outage is a time, there is no event to wait for."""
    end = time.monotonic() + seconds
    wait_until(lambda: time.monotonic() >= end, seconds + 5)


@pytest.mark.parametrize("kind", ["stopped", "stalled"])
def test_an_outage_longer_than_the_worker_timeout_buries_nothing(
    server: PrivateServer, worker_process: Callable[..., WorkerProcess], ledger: Ledger, kind: str
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
    wait_until(lambda: count(server, "hot") == 0, 60, what="every job settled", interval=0.1)
    assert count(server, "dlq") == 0, "the outage buried jobs"
    assert count(server, "archive") == 304
    assert set(ledger.per_job("enter").values()) == {1}, "a job ran twice"
    assert worker.stop() == 0
    assert_no_errors_but_trouble(worker)


def test_killed_connections_cost_nothing(
    server: PrivateServer, worker_process: Callable[..., WorkerProcess], ledger: Ledger
) -> None:
    total = 3_000
    enqueue(server, f"enqueue_many(NoteJob() for _ in range({total}))")
    worker = start(worker_process, server)
    kills = 0
    end = time.monotonic() + 60
    while (left := count(server, "hot")) and time.monotonic() < end:
        kills += kill_connections(server)
        if isinstance(server, PrivateMariaDB):
            # It kills faster than anybody can connect: between two kills the workers must have come some way again.
            wait_until(lambda left=left: count(server, "hot") < left, 30, what="work goes on", interval=0.002)
    assert kills > 5, "too few connections were killed to show anything"
    assert count(server, "hot") == 0
    assert (count(server, "archive"), count(server, "dlq")) == (total, 0)
    assert set(ledger.per_job("ran").values()) == {1}
    assert worker.stop() == 0
    assert_no_errors_but_trouble(worker)


def assert_no_errors_but_trouble(worker: WorkerProcess) -> None:
    """Losing the database is a warning, with a traceback of the first failure; nothing of it is an error of ours."""
    assert " ERROR chokaq." not in worker.output, worker.output[-4000:]
