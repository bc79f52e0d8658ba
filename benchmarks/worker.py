"""What one worker process does and what it costs: CPU and memory of a drain, I/O jobs side by side, rest in silence.

    DATABASE_URL=postgres://... python benchmarks/worker.py

The database must be one of its own: it is migrated, and its active jobs are deleted. Each part starts a worker of its
own (``runworker``, one process) after its jobs were enqueued. Figures are of the worker's processes together, that is
the supervisor and its child, and on PostgreSQL and MariaDB without the server. Linux only: it reads ``/proc``.
"""

# ruff: noqa: E402, T201 - a script: Django comes first, and it prints

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))
os.environ.setdefault("DJANGO_SETTINGS_MODULE", "benchmarks.worker_settings")
os.environ.setdefault("LOG_LEVEL", "WARNING")

import django

django.setup()

import psutil
from django.core.management import call_command
from django.db import connection

from benchmarks.worker_jobs.jobs import WAIT, Noop, Waits, WaitsAsync
from chokaq_django import Job, enqueue_many
from chokaq_django.doctor.engines import engine_name
from chokaq_django.models import JobHot

AT_ONCE = 50
IDEAL = AT_ONCE / WAIT
LIMIT = 300.0
"""Seconds after which a part gives up."""


class Worker:
    """A running ``runworker`` and its children."""

    def __init__(self, out: Path, at_once: int) -> None:
        command = [sys.executable, "-m", "django", "runworker", "--verbosity", "0", "--concurrency", str(at_once)]
        env = {
            **os.environ,
            "PYTHONPATH": str(ROOT),
            "BENCH_OUT": str(out),
            "CHOKAQ_WORKER_ASYNC_CONCURRENCY": str(at_once),
        }
        self._root = psutil.Popen(command, env=env)

    def processes(self) -> list[psutil.Process]:
        return [self._root, *self._root.children(recursive=True)]

    def cpu(self) -> float:
        """CPU seconds so far."""
        return sum(sum(process.cpu_times()[:2]) for process in self.processes())

    def pss(self) -> list[float]:
        """Megabytes of each process: its share of what it shares, and all that is its own."""
        return [process.memory_full_info().pss / 2**20 for process in self.processes()]

    def until(self, done: Callable[[], bool], pause: float) -> float:
        """When it was done, by the monotonic clock."""
        end = time.monotonic() + LIMIT
        while not done():
            if self._root.poll() is not None or time.monotonic() > end:
                raise SystemExit("the worker has ended" if self._root.poll() is not None else f"not after {LIMIT:g} s")
            time.sleep(pause)
        return time.monotonic()

    def stop(self) -> None:
        self._root.send_signal(signal.SIGTERM)
        self._root.wait()


@contextmanager
def working(job: type[Job], count: int, at_once: int) -> Iterator[tuple[Worker, Path]]:
    """A worker with so many jobs to run, and the file in which they count."""
    JobHot.objects.all().delete()
    enqueue_many(job() for _ in range(count))
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute("ANALYZE")  # as a database in use has it
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "out"
        out.touch()
        worker = Worker(out, at_once)
        try:
            yield worker, out
        finally:
            worker.stop()


def drain(count: int) -> dict[str, object]:
    """No-op jobs in ten threads, from the first one that runs until none is left in the database; then silence."""
    with working(Noop, count, 10) as (worker, out):
        began = worker.until(lambda: out.stat().st_size > 0, 0.002)
        cpu = worker.cpu()
        worker.until(lambda: out.stat().st_size >= count, 0.01)
        ended = worker.until(lambda: not JobHot.objects.exists(), 0.01)
        found: dict[str, object] = {
            "jobs": count,
            "per_second": round(count / (ended - began)),
            "cpu_seconds_per_1000": round((worker.cpu() - cpu) / count * 1000, 4),
        }
        supervisor, *children = worker.pss()
        found |= {"supervisor_pss_mb": round(supervisor, 1), "worker_pss_mb": [round(pss, 1) for pss in children]}
        if options.silence:
            time.sleep(options.silence)
            cpu, since = worker.cpu(), time.monotonic()
            time.sleep(options.seconds)
            idle = (worker.cpu() - cpu) / (time.monotonic() - since)
            found["idle_cpu_percent"] = round(100 * idle, 2)
        return found


def side_by_side(job: type[Job], count: int) -> dict[str, object]:
    """Jobs that wait, up to 50 at once, between the first that ends and the last."""
    with working(job, count, AT_ONCE) as (worker, out):
        began = worker.until(lambda: out.stat().st_size > 0, 0.001)
        first = out.stat().st_size
        ended = worker.until(lambda: out.stat().st_size >= count, 0.001)
    rate = (count - first) / (ended - began)
    return {"jobs": count, "per_second": round(rate), "percent_of_ideal": round(100 * rate / IDEAL, 1)}


def main() -> None:
    call_command("migrate", verbosity=0)
    document: dict[str, object] = {
        "engine": engine_name(connection.alias),
        "python": sys.version.split()[0],
        "load": round(os.getloadavg()[0], 1),
        "waiting_async": side_by_side(WaitsAsync, options.waiting),
        "waiting_threads": side_by_side(Waits, options.waiting),
        "drain": drain(options.jobs),
    }
    print(json.dumps(document, indent=2))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=20_000, help="no-op jobs")
    parser.add_argument("--waiting", type=int, default=5_000, help="jobs that wait 50 ms, of each kind")
    parser.add_argument("--silence", type=float, default=65.0, help="seconds before rest is measured; 0: not at all")
    parser.add_argument("--seconds", type=float, default=30.0, help="seconds for which it is measured")
    options = parser.parse_args()
    main()
