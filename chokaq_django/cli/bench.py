"""``chokaq bench``: how fast this database, this machine and these settings are, on no-op jobs.

The jobs go into a queue of their own, whose name is new at each run, and are of a type that no other worker knows. A
real worker process runs them. Whatever was made is deleted at the end, also after Ctrl-C.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import secrets
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from django.conf import settings
from django.db import DatabaseError
from django.db.models import Max, Min, Model, QuerySet

from ..conf import get_options
from ..doctor.durability import durability
from ..doctor.engines import engine_name
from ..models import JobArchive, JobDLQ, JobHot, JobTrash, MetricBucket, Queue
from ..options import RetentionOptions
from ..producer import enqueue, enqueue_many
from ..reading.fleet import read_workers
from ..worker.process import WorkerPlan
from ..worker.supervisor import Supervisor
from .arguments import positive
from .console import OK, Console, unable, usage
from .interrupts import patient_interrupts
from .subcommand import Call, Subcommand
from .text import number, one_line

__all__ = ["BENCH"]

PREFIX = "chokaq-bench-"
ONE_BY_ONE = 500
START, STALL = 60.0, 60.0
"""Seconds that the worker has to start, and that the drain may stand still."""
LOOK, CLOSE_LOOK = 0.1, 0.002
"""Seconds between looks at the drain, and at a single job."""
CHUNK = 5_000
NEVER = 7 * 86_400.0


@dataclass(slots=True)
class Figures:
    """What was measured. Rates are jobs a second, times milliseconds."""

    engine: str = ""
    durability: dict[str, str] = field(default_factory=dict)
    jobs: int = 0
    payload_bytes: int = 0
    processes: int = 0
    concurrency: int = 0
    enqueue: float = 0.0
    bulk: float = 0.0
    drain: float = 0.0
    pickups: list[float] = field(default_factory=list)

    def pickup(self, share: float) -> float | None:
        """The pickup time that ``share`` of the samples do not exceed."""
        if not self.pickups:
            return None
        return sorted(self.pickups)[min(len(self.pickups) - 1, int(share * len(self.pickups)))]


# -- the run -----------------------------------------------------------------------------------------------------------


def _bench(call: Call) -> int:
    from . import bench_job  # noqa: F401 - the type is registered by whoever measures, and by nobody else

    options = call.options
    if options["work_on"] is not None:
        return _work(options)
    if options["clean_up"]:
        return _clean_up(call)
    others = [worker for worker in read_workers(call.alias, call.now()) if worker.is_alive and not worker.queues]
    if others:
        usage(
            f"Live workers that take jobs from all queues would get in the way: {len(others)}. Stop them first "
            "(`chokaq workers stop --all --wait`), or measure on a copy."
        )
    chokaq = get_options()
    figures = Figures(
        engine_name(call.alias),
        durability(call.alias),
        options["jobs"],
        options["payload_bytes"],
        options["processes"] or 1,
        options["concurrency"] or chokaq.worker.concurrency,
    )
    queue = f"{PREFIX}{secrets.token_hex(4)}"
    with patient_interrupts() as interrupts:
        try:
            _measure(call, queue, figures, interrupts.check)
        finally:
            call.console.line("Cleaning up ...")
            _delete(call.alias, queue)
    call.console.document(_document(figures))
    if not call.console.json:
        _show(call.console, figures)
    return OK


def _measure(call: Call, queue: str, figures: Figures, check: Callable[[], None]) -> None:
    """``check()`` ends it where it may end."""
    from .bench_job import BenchJob

    filling, total = "x" * figures.payload_bytes, figures.jobs
    single = max(1, min(ONE_BY_ONE, total // 10))
    call.console.line(f"Enqueueing {total:,} jobs into the queue {queue} ...")
    began = time.perf_counter()
    for _ in range(single):
        enqueue(BenchJob(filling=filling), queue=queue)
        check()
    figures.enqueue = single / (time.perf_counter() - began)
    if total > single:
        began = time.perf_counter()
        for start in range(single, total, CHUNK):
            enqueue_many([BenchJob(filling=filling)] * min(CHUNK, total - start), queue=queue)
            check()
        figures.bulk = (total - single) / (time.perf_counter() - began)
    with _worker(queue, figures) as output:
        call.console.line("Draining them with a worker ...")
        _drain(call, queue, total, output, check)
        times = JobArchive.objects.using(call.alias).filter(queue=queue)
        span = times.aggregate(first=Min("started_at"), last=Max("finished_at"))
        first, last = span["first"], span["last"]
        seconds = (last - first).total_seconds() if first is not None and last is not None else 0.0
        figures.drain = total / seconds if seconds else 0.0
        samples = call.options["samples"]
        call.console.line(f"Enqueueing {samples:,} more, one at a time, to see how fast each starts ...")
        for _ in range(samples):
            job_id = enqueue(BenchJob(filling=filling), queue=queue).id
            figures.pickups.append(_pickup(call.alias, job_id, output))
            check()


def _drain(call: Call, queue: str, total: int, output: Callable[[], str], check: Callable[[], None]) -> None:
    left = JobHot.objects.using(call.alias).filter(queue=queue)
    progress = call.console.progress(total, "draining")
    seen, moved_at, patience = total, time.monotonic(), START
    try:
        while left.exists():
            count = left.count()
            if count != seen:
                seen, moved_at, patience = count, time.monotonic(), STALL
            progress.show(total - count)
            check()
            if time.monotonic() - moved_at > patience:
                unable(f"Nothing has moved for {patience:.0f} s. The worker said:\n{output()}")
            time.sleep(LOOK)
    finally:
        progress.close()
    dead = JobDLQ.objects.using(call.alias).filter(queue=queue).count()
    if dead:
        unable(f"{dead:,} jobs of the benchmark failed. The worker said:\n{output()}")


def _pickup(alias: str, job_id: str, output: Callable[[], str]) -> float:
    """Milliseconds from the insert of a job to its start, both by the database's clock."""
    end = time.monotonic() + STALL
    rows = JobArchive.objects.using(alias).filter(pk=job_id).values_list("created_at", "started_at")
    while time.monotonic() < end:
        found = rows.first()
        if found is not None and found[1] is not None:
            created_at, started_at = found[0], found[1]
            return float((started_at - created_at).total_seconds() * 1000)
        time.sleep(CLOSE_LOOK)
    return unable(f"A job did not run within {STALL:.0f} s. The worker said:\n{output()}")


# -- the worker --------------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def _worker(queue: str, figures: Figures) -> Iterator[Callable[[], str]]:
    """A worker of that queue alone, in processes of its own; gives a function that reads the end of its output."""
    command = [
        sys.executable, "-m", "django", "chokaq", "bench", "--work-on", queue, "--processes", str(figures.processes),
        "--concurrency", str(figures.concurrency),
    ]  # fmt: skip
    environment = {
        **os.environ,
        "DJANGO_SETTINGS_MODULE": str(settings.SETTINGS_MODULE),
        "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
    }
    with tempfile.TemporaryFile() as file:
        process = subprocess.Popen(
            command, env=environment, stdin=subprocess.DEVNULL, stdout=file, stderr=file, start_new_session=True
        )

        def output() -> str:
            file.seek(0)
            return file.read().decode(errors="replace")[-4_000:].strip() or "nothing"

        try:
            yield output
        finally:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(get_options().worker.shutdown_grace + 30)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()


def _work(options: dict[str, Any]) -> int:
    """The other side: the worker process itself."""
    plan = WorkerPlan(queues=[options["work_on"]], concurrency=options["concurrency"])
    chokaq = get_options()
    # It neither rescues, expires nor trims: nobody else's jobs are its business.
    measured = replace(
        chokaq,
        recovery=replace(chokaq.recovery, scan_interval=NEVER),
        retention=RetentionOptions(archive=None, dlq=None, dlq_by_reason={}, buckets=None),
    )
    return Supervisor(measured, plan, options["processes"] or 1).run()


# -- the end -----------------------------------------------------------------------------------------------------------


def _delete(alias: str, queue: str) -> None:
    """Everything of the queue, as if it had never been."""
    for model in (JobHot, JobArchive, JobDLQ, JobTrash):
        _delete_rows(model._default_manager.using(alias).filter(queue=queue))
    buckets = MetricBucket.objects.using(alias).filter(queue=queue)
    buckets._raw_delete(alias)
    Queue.objects.using(alias).filter(pk=queue).delete()


def _delete_rows(rows: QuerySet[Model]) -> None:
    """In chunks, so that no transaction is long."""
    while ids := list(rows.values_list("pk", flat=True)[:CHUNK]):
        for start in range(0, len(ids), 500):
            rows.filter(pk__in=ids[start : start + 500])._raw_delete(rows.db)


def _clean_up(call: Call) -> int:
    """What killed runs have left."""
    names = list(Queue.objects.using(call.alias).filter(name__startswith=PREFIX).values_list("name", flat=True))
    names += [name for name in _waiting(call.alias) if name.startswith(PREFIX) and name not in names]
    for name in names:
        _delete(call.alias, name)
        call.console.line(f"Deleted what was left of {one_line(name)}.")
    call.console.document({"deleted": names})
    if not names:
        call.console.line("Nothing was left.", "good")
    return OK


def _waiting(alias: str) -> list[str]:
    from ..storage import get_storage

    try:
        return get_storage(alias).pending_queues()
    except DatabaseError:
        return []


def _document(figures: Figures) -> dict[str, Any]:
    def rounded(value: float | None) -> float | None:
        return None if value is None else round(value, 2)

    return {
        "engine": figures.engine,
        "durability": figures.durability,
        "jobs": figures.jobs,
        "payload_bytes": figures.payload_bytes,
        "processes": figures.processes,
        "concurrency": figures.concurrency,
        "enqueue_per_second": rounded(figures.enqueue),
        "bulk_enqueue_per_second": rounded(figures.bulk or None),
        "drain_per_second": rounded(figures.drain),
        "pickup_ms": {
            "samples": len(figures.pickups), "p50": rounded(figures.pickup(0.5)), "p95": rounded(figures.pickup(0.95)),
            "max": rounded(max(figures.pickups, default=None)),
        },
    }  # fmt: skip


def _show(console: Console, figures: Figures) -> None:
    console.line()
    console.line(figures.engine, "head")
    settings_said = ", ".join(f"{name} = {value}" for name, value in figures.durability.items())
    p50, p95, worst = figures.pickup(0.5), figures.pickup(0.95), max(figures.pickups, default=None)
    console.pairs(
        [
            ("durability", settings_said or "not known"),
            ("worker", f"{figures.processes} x {figures.concurrency} threads"),
            ("enqueue", f"{number(figures.enqueue)} jobs/s, one by one, each committed"),
            ("enqueue_many", f"{number(figures.bulk)} jobs/s" if figures.bulk else None),
            ("drain", f"{number(figures.drain)} jobs/s, {figures.jobs:,} no-op jobs to the archive"),
            (
                "pickup",
                None if p50 is None else f"p50 {p50:.1f} ms, p95 {p95:.1f} ms, max {worst:.1f} ms, insert to start",
            ),
        ]
    )


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--jobs", type=positive, default=10_000, metavar="N", help="Jobs to drain (default: 10,000).")
    parser.add_argument(
        "--samples", type=positive, default=100, metavar="N", help="Jobs to time one by one (default: 100)."
    )
    parser.add_argument("--payload-bytes", type=_size, default=0, metavar="N", help="Fill each payload (default: 0).")
    parser.add_argument("--processes", type=positive, metavar="N", help="Worker processes (default: 1).")
    parser.add_argument("--concurrency", type=positive, metavar="N", help="Threads of each (default: the setting).")
    parser.add_argument("--clean-up", action="store_true", help="Delete what a killed run has left, measure nothing.")
    parser.add_argument("--work-on", help=argparse.SUPPRESS)


def _size(text: str) -> int:
    value = int(text)
    if not 0 <= value <= get_options().max_payload_bytes - 100:
        raise argparse.ArgumentTypeError("must be 0 or more, and fit MAX_PAYLOAD_BYTES")
    return value


BENCH = Subcommand(
    "bench",
    "Measure this database and machine with no-op jobs.",
    _bench,
    description="Enqueues jobs into a queue of its own, drains them with a real worker process, times single jobs, and "
    "deletes all of it again. It needs a fleet that does not serve all queues: such workers would meet the jobs. "
    "Compare figures of one machine only, and look at the durability beside them.",
    examples=[
        ("bench", "10,000 jobs, one process"),
        ("bench --jobs 50000 --processes 2 --json", "more, for a file"),
        ("bench --clean-up", "after a run was killed"),
    ],
    adds=_arguments,
    exits="0 measured   2 other workers are in the way   3 it could not be measured",
)
