"""A full disk below SQLite: nothing is lost, nothing half done, and work goes on when there is room again."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import cast

import pytest
from django.db import connection
from django.db.utils import ConnectionHandler

from example_project.databases import database_from_url

from ..helpers import WorkerProcess, wait_until
from ..ledger import Ledger
from ..storage.invariants import Sampler
from .support import enqueue_at, manage

DISK = 96
"""Megabytes of the disk: three times what the results of the jobs need."""
JOBS, RESULT = 600, 50_000
THREADS = 2
OPTIONS = {
    "WORKER": {"CONCURRENCY": THREADS},
    "RECOVERY": {"WORKER_TIMEOUT": 2, "SCAN_INTERVAL": 0.3, "ZOMBIE_TIMEOUT": 3},
}


@pytest.fixture
def disk(tmp_path: Path, engine: str) -> Iterator[Path]:
    """A small file system of its own, in memory."""
    if engine != "sqlite":
        pytest.skip("the test fills the disk of a SQLite file; other engines are asked by their own means")
    folder = tmp_path / "disk"
    folder.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={DISK}m", "tmpfs", folder], capture_output=True)
    if mounted.returncode:
        assert os.environ.get("CI") != "true", mounted.stderr
        pytest.skip("this user may not mount a file system")
    yield folder
    subprocess.run(["umount", "--lazy", folder], check=True)


@pytest.fixture
def url(transactional_db: None, disk: Path) -> str:
    """An empty database there, made as the one of the other tests is."""
    with connection.cursor() as cursor:
        cursor.execute("VACUUM INTO %s", [str(disk / "jobs.sqlite3")])
    return f"sqlite:///{disk / 'jobs.sqlite3'}"


@pytest.fixture
def sampler(url: str) -> Iterator[Sampler]:
    """It looks at that database, where the jobs are."""
    config = database_from_url(url)
    with Sampler(connect=lambda: ConnectionHandler({"default": config})["default"]) as sampler:
        yield sampler
    sampler.check()


def fill(disk: Path) -> Path:
    """Take all the room that is left."""
    filler = disk / "filler"
    with filler.open("ab", buffering=0) as file:
        for size in (1_000_000, 4_096, 1):
            try:
                while True:
                    file.write(b"\0" * size)
            except OSError:
                continue
    return filler


def test_nothing_is_lost_on_a_full_disk(
    disk: Path, url: str, worker_process: Callable[..., WorkerProcess], ledger: Ledger, sampler: Sampler
) -> None:
    code = (
        f"enqueue_many([*[BulkyJob(size={RESULT})] * 20, *[GateJob(gate='full')] * {THREADS}, "
        f"*[BulkyJob(size={RESULT})] * {JOBS - 20}])"
    )
    enqueue_at(url, sampler, JOBS + THREADS, code)
    worker = worker_process(options=OPTIONS, env={"DATABASE_URL": url})
    wait_until(lambda: ledger.count("enter") == THREADS, 30, what="some work is done, the rest waits for the disk")
    filler = fill(disk)
    ledger.open_gate("full")
    wait_until(lambda: "database or disk is full" in worker.output, 30, what="the worker meets the full disk")
    ask = ConnectionHandler({"default": database_from_url(url)})["default"]

    def one(sql: str) -> object:
        with ask.cursor() as cursor:
            cursor.execute(sql)
            return cursor.fetchone()[0]

    def left() -> int:
        """Jobs that have no outcome. (They may all have run: what a worker cannot settle it keeps.)"""
        return cast("int", one("SELECT COUNT(*) FROM chokaq_job_hot"))

    before = left()
    assert before, "all was done before: the test shows nothing"
    # A producer is told, and what it was refused is not there.
    said = manage(
        url, "shell", "--verbosity=0", "-c",
        "from django.db import OperationalError\nfrom chokaq_django import *\nfrom tests.jobs import *\n"
        "try:\n    enqueue_many(NoteJob(name='x' * 100_000) for _ in range(200))\n"
        "except OperationalError as error:\n    print(error)",
    )  # fmt: skip
    assert "database or disk is full" in said
    filler.unlink()
    wait_until(lambda: left() < before, 60, what="work goes on by itself")
    wait_until(lambda: left() == 0, 60, what="every job settled", interval=0.1)
    assert one("SELECT COUNT(*) FROM chokaq_job_archive") == JOBS + THREADS, "the full disk buried jobs"
    short = f"SELECT COUNT(*) FROM chokaq_job_archive WHERE LENGTH(result) < {RESULT}"  # noqa: S608 - a number
    assert one(short) == THREADS
    assert one("PRAGMA integrity_check") == "ok"
    ask.close()
    assert set(ledger.per_job().values()) == {1}, "a job ran twice"
    assert worker.stop() == 0, worker.output
    assert " ERROR chokaq." not in worker.output, worker.output[-4000:]
