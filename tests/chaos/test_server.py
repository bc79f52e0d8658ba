"""The database goes away: nothing is buried by the outage, everything goes on without a hand."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest
from django.db import connection
from django.db.utils import ConnectionHandler

from example_project.databases import database_from_url

from ..helpers import WorkerProcess, wait_until
from ..ledger import Ledger
from ..storage.invariants import Sampler
from .servers import PrivateMariaDB, PrivateServer, private_server
from .support import enqueue_at, manage

WORKER_TIMEOUT = 6.0
OPTIONS = {
    "RECOVERY": {"WORKER_TIMEOUT": WORKER_TIMEOUT, "SCAN_INTERVAL": 0.3, "ZOMBIE_TIMEOUT": 9},
    "EXECUTION": {"HEARTBEAT_MIN": 0.2, "HEARTBEAT_MAX": 0.4},
    "WORKER": {"SHUTDOWN_GRACE": 10},
}
RESUMED_WITHIN = 10.0
LEFT_BY_A_TEST = (
    "job_hot", "job_archive", "job_dlq", "failure_group", "failure_total", "worker", "leader_lease", "circuit",
)  # fmt: skip
SHORT_JOBS = 1_500
"""Some seconds of work for eight threads."""


@pytest.fixture(scope="module")
def one_server(django_db_setup: None, django_db_blocker: Any) -> Iterator[PrivateServer]:
    with django_db_blocker.unblock():
        kind = private_server(connection)
    if kind is None:
        pytest.skip("the test starts and stops a server of its own, which it can on PostgreSQL, MariaDB and MySQL")
    if not kind.installed():
        pytest.skip(f"not on this machine: {', '.join(kind.programs)}")
    with kind() as private:
        manage(private.url, "migrate", "--run-syncdb", "--verbosity=0")
        yield private


@pytest.fixture
def server(one_server: PrivateServer) -> Iterator[PrivateServer]:
    """The same server for all tests here, without jobs."""
    yield one_server
    for table in LEFT_BY_A_TEST:
        ask(one_server, f"DELETE FROM chokaq_{table}")  # noqa: S608 - names of ours


@pytest.fixture
def sampler(transactional_db: None, server: PrivateServer) -> Iterator[Sampler]:
    """It looks at the private server, where the jobs are."""
    config = database_from_url(server.url)
    with Sampler(connect=lambda: ConnectionHandler({"default": config})["default"]) as sampler:
        yield sampler
    sampler.check()


def ask(server: PrivateServer, sql: str) -> Any:
    """The first value of the answer, if there is one."""
    if isinstance(server, PrivateMariaDB):
        with server.connect() as own, own.cursor() as cursor:
            cursor.execute(sql.replace("chokaq", "jobs.chokaq"))
            return cursor.fetchone()[0] if cursor.description else None
    url = f"postgresql://postgres@127.0.0.1:{server.port}/postgres"
    with psycopg.connect(url, connect_timeout=5, autocommit=True) as own:
        answer = own.execute(sql.encode())
        row = answer.fetchone() if answer.description else None
        return row[0] if row else None


def count(server: PrivateServer, table: str) -> int:
    return int(ask(server, f"SELECT count(*) FROM chokaq_job_{table}"))  # noqa: S608 - names of ours


def deaths(server: PrivateServer) -> str | None:
    """What stands in the DLQ, and why."""
    aggregate = "group_concat({})" if isinstance(server, PrivateMariaDB) else "string_agg({}, ' | ')"
    each = "concat(type, ': ', failure_reason, ', ', error_details)"
    return ask(server, f"SELECT {aggregate.format(each)} FROM chokaq_job_dlq")  # type: ignore[no-any-return] # noqa: S608


def kill_connections(server: PrivateServer) -> int:
    """End the connections of all workers on the server's side; how many."""
    if isinstance(server, PrivateMariaDB):
        with server.connect() as own, own.cursor() as cursor:
            cursor.execute("SELECT id FROM information_schema.processlist WHERE id <> CONNECTION_ID() AND db = 'jobs'")
            ids = [row[0] for row in cursor.fetchall()]
            for number in ids:
                try:
                    cursor.execute("KILL %s", [number])
                except own.OperationalError:  # it has ended by itself
                    continue
        return len(ids)
    with psycopg.connect(f"postgresql://postgres@127.0.0.1:{server.port}/postgres", connect_timeout=5) as own:
        row = own.execute(
            "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE pid <> pg_backend_pid() "
            "AND backend_type = 'client backend'"
        ).fetchone()
    assert row is not None
    return int(row[0])


def start(worker_process: Callable[..., WorkerProcess], server: PrivateServer, **recovery: float) -> WorkerProcess:
    options = {**OPTIONS, "RECOVERY": {**OPTIONS["RECOVERY"], **recovery}}
    return worker_process("--processes=2", "--concurrency=4", options=options, env={"DATABASE_URL": server.url})


def outlast(seconds: float) -> None:
    """Until so much time has passed: an outage is a time, there is no event to wait for."""
    end = time.monotonic() + seconds
    wait_until(lambda: time.monotonic() >= end, seconds + 5)


@pytest.mark.parametrize("kind", ["stopped", "stalled"])
def test_an_outage_longer_than_the_worker_timeout_buries_nothing(
    server: PrivateServer, worker_process: Callable[..., WorkerProcess], ledger: Ledger, sampler: Sampler, kind: str
) -> None:
    code = f"enqueue_many([GateJob(gate='a') for _ in range(4)] + [SleepJob(seconds=0.02)] * {SHORT_JOBS})"
    enqueue_at(server.url, sampler, SHORT_JOBS + 4, code)
    worker = start(worker_process, server)
    wait_until(lambda: ledger.count("leave") >= 20, 30, what="work under way")
    if kind == "stopped":
        server.stop()
        outlast(WORKER_TIMEOUT + 1)
        server.start()
    else:
        server.stall()
        outlast(WORKER_TIMEOUT + 1)
        server.resume()
    before = ledger.count("leave")
    assert before < SHORT_JOBS, "all was done before the outage: the test shows nothing"
    wait_until(lambda: ledger.count("leave") > before, RESUMED_WITHIN, what="work goes on by itself")
    ledger.open_gate("a")
    wait_until(lambda: count(server, "hot") == 0, 60, what="every job settled", interval=0.1)
    assert deaths(server) is None, f"the outage buried jobs\n{worker.output[-4000:]}"
    assert count(server, "archive") == SHORT_JOBS + 4
    assert set(ledger.per_job("enter").values()) == {1}, "a job ran twice"
    assert worker.stop() == 0
    assert_no_errors_but_trouble(worker)


@pytest.mark.parametrize(
    ("made", "total"), [("NoteJob()", 3_000), ("SleepJob(seconds=0.02)", 500)], ids=["short", "of medium length"]
)
def test_killed_connections_cost_nothing(
    server: PrivateServer, worker_process: Callable[..., WorkerProcess], ledger: Ledger, sampler: Sampler,
    made: str, total: int,
) -> None:  # fmt: skip
    """Short jobs are started ahead, those of medium length leased ahead: of either the answers get lost.

    Nobody is rescued: what a worker does not find again by itself stays for ever.
    """
    enqueue_at(server.url, sampler, total, f"enqueue_many({made} for _ in range({total}))")
    worker = start(worker_process, server, WORKER_TIMEOUT=300, ZOMBIE_TIMEOUT=300, FETCHED_TIMEOUT=300)
    kills = 0
    end = time.monotonic() + 120
    while (left := count(server, "hot")) and time.monotonic() < end:
        kills += kill_connections(server)
        # It kills faster than anybody can connect: between two kills the workers must have come some way again.
        wait_until(lambda left=left: count(server, "hot") < left, 30, what="work goes on", interval=0.002)
    assert kills > 5, "too few connections were killed to show anything"
    assert count(server, "hot") == 0
    assert (count(server, "archive"), count(server, "dlq")) == (total, 0)
    runs = ledger.per_job("ran") or ledger.per_job("enter")
    assert (len(runs), set(runs.values())) == (total, {1})
    assert worker.stop() == 0
    assert_no_errors_but_trouble(worker)


def assert_no_errors_but_trouble(worker: WorkerProcess) -> None:
    """Losing the database is a warning, with a traceback of the first failure; nothing of it is an error of ours."""
    assert " ERROR chokaq." not in worker.output, worker.output[-4000:]
