"""The run of a benchmark: enqueue, drain with a worker of its own, time single jobs."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from django.conf import settings
from django.db.models import Max, Min

from ..conf import get_options
from ..conf.options import RetentionOptions
from ..models import JobArchive, JobDLQ, JobHot
from ..producer import enqueue, enqueue_many
from ..worker.plan import WorkerPlan
from ..worker.supervisor import Supervisor
from .console import unable
from .subcommand import Call

__all__ = ["Figures", "measure", "work"]

ONE_BY_ONE = 500
START, STALL = 60.0, 60.0
"""Seconds that the worker has to start, and that the drain may stand still."""
LOOK, CLOSE_LOOK = 0.1, 0.002
"""Seconds between looks at the drain, and at a single job."""
CHUNK = 5_000
"""Jobs that are enqueued in one call."""
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


def measure(call: Call, queue: str, figures: Figures, check: Callable[[], None]) -> None:
    """``check()`` ends it where it may end."""
    from .bench_job import BenchJob

    filling, total = "x" * figures.payload_bytes, figures.jobs
    single = max(1, min(ONE_BY_ONE, total // 10))
    call.console.step(f"Enqueueing {total:,} jobs into the queue {queue} ...")
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
        call.console.step("Draining them with a worker ...")
        _drain(call, queue, total, output, check)
        times = JobArchive.objects.using(call.alias).filter(queue=queue)
        span = times.aggregate(first=Min("started_at"), last=Max("finished_at"))
        first, last = span["first"], span["last"]
        seconds = (last - first).total_seconds() if first is not None and last is not None else 0.0
        figures.drain = total / seconds if seconds else 0.0
        samples = call.options["samples"]
        call.console.step(f"Enqueueing {samples:,} more, one at a time, to see how fast each starts ...")
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


def work(options: dict[str, Any]) -> int:
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
