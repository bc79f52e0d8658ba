"""States that chaos tests wait for, what must never be in a worker's output, and commands on other databases."""

from __future__ import annotations

import os
import re
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import psutil
from django.db import DatabaseError, connection, transaction

from chokaq_django import Job, enqueue_many
from chokaq_django.models import JobArchive, JobDLQ, JobHot, LeaderLease, Queue, Worker

from ..helpers import ROOT, WorkerProcess, wait_until
from ..ledger import Ledger
from ..storage.invariants import Sampler

ERROR_LINE = re.compile(r"^\S+ \S+ (ERROR|CRITICAL) chokaq\.", re.MULTILINE)
# Deaths that the tests cause themselves: the supervisor is right to report them.
CAUSED = re.compile(r"was killed by signal 9")


def nothing_active() -> bool:
    return not JobHot.objects.exists()


def nothing_leased() -> bool:
    return not JobHot.objects.filter(status__in=[1, 2]).exists()


def settled() -> int:
    return JobArchive.objects.count() + JobDLQ.objects.count()


def workers_there(number: int) -> bool:
    return Worker.objects.count() >= number


def family(worker: WorkerProcess) -> list[int]:
    """The supervisor and its children."""
    return [worker.pid, *(child.pid for child in psutil.Process(worker.pid).children(recursive=True))]


def stop_between_writes(pids: list[int]) -> None:
    """SIGSTOP, at a moment at which these processes hold no lock that others need. Standing still with one, they would
    keep everybody else from what the test is about: from any write, on SQLite."""

    def stopped() -> bool:
        for pid in pids:
            os.kill(pid, signal.SIGSTOP)
        wait_until(lambda: all(map(_stands_still, pids)), what="every thread stands still", interval=0.001)
        if _all_is_free():
            return True
        for pid in pids:
            os.kill(pid, signal.SIGCONT)
        return False

    wait_until(stopped, 30, what="the processes stop without a lock")


def _stands_still(pid: int) -> bool:
    """Whether SIGSTOP has arrived. Linux tells it of each thread, and of a process as soon as its first one stands."""
    if psutil.LINUX:
        tasks = Path(f"/proc/{pid}/task").iterdir()
        return all("State:\tT" in (task / "status").read_text() for task in tasks)
    return bool(psutil.Process(pid).status() == psutil.STATUS_STOPPED)


def _all_is_free() -> bool:
    """Whether nobody has locked the database, on SQLite, or a row that workers write."""
    try:
        if connection.vendor == "sqlite":
            with closing(sqlite3.connect(connection.settings_dict["NAME"], timeout=0)) as own:
                own.execute("BEGIN IMMEDIATE")
            return True
        with transaction.atomic():
            for model in (JobHot, Worker, LeaderLease, Queue):
                list(model._default_manager.select_for_update(nowait=True))
    except (DatabaseError, sqlite3.OperationalError):
        return False
    return True


def feed_until_all_worked(ledger: Ledger, sampler: Sampler, job: Job, *, processes: int, queue: str, word: str) -> int:
    """Which process gets which job is left to chance: enqueue more, again and again, until ``processes`` of them have
    written ``word``. How many more jobs were settled."""
    more = 0
    deadline = time.monotonic() + 60
    while len({entry.pid for entry in ledger.entries(word)}) < processes:
        assert time.monotonic() < deadline, f"fewer than {processes} processes worked"
        with sampler.accepting(50):
            more += len(enqueue_many([job] * 50, queue=queue))
        wait_until(nothing_active, 60, what="every job settled")
    return more


def assert_no_errors(workers: list[WorkerProcess]) -> None:
    """No ERROR record of ours in any worker's output, apart from deaths that the test caused."""
    for worker in workers:
        lines = [line for line in worker.output.splitlines() if ERROR_LINE.match(line) and not CAUSED.search(line)]
        assert not lines, "\n".join(lines[:20])
        assert "Traceback" not in worker.output, worker.output[-4000:]


def manage(url: str, *arguments: str) -> str:
    """What ``manage.py`` says, in a process that is connected to the database at ``url``."""
    done = subprocess.run(
        [sys.executable, str(ROOT / "manage.py"), *arguments],
        cwd=ROOT, check=True, timeout=120, stdout=subprocess.PIPE, text=True,
        env={**os.environ, "DJANGO_SETTINGS_MODULE": "tests.settings", "DATABASE_URL": url},
    )  # fmt: skip
    return done.stdout


def enqueue_at(url: str, sampler: Sampler, number: int, code: str) -> None:
    """Run producer code, which makes so many jobs in the database at ``url``, in a process of its own."""
    with sampler.accepting(number):
        manage(url, "shell", "--verbosity=0", "-c", f"from chokaq_django import *; from tests.jobs import *; {code}")
