"""What claims cost while a million archived jobs are deleted.

    DATABASE_URL=postgres://... python benchmarks/retention.py --archived 1000000

The database must be one of its own: it is migrated, and filled if it is empty. This process drains jobs as a worker
does, claim and settle, as fast as it can: first alone, then while a second process deletes the archived jobs by
RETENTION, in the steps and with the pauses of a worker's retention loop, then alone again. Reported are how long the
claims took in each phase, and how fast jobs were deleted. The goal is a p95 within twice that of the phases alone.
"""

# ruff: noqa: E402, T201 - a script: Django comes first, and it prints

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
os.environ.setdefault("DJANGO_SETTINGS_MODULE", "example_project.settings")
os.environ.setdefault("LOG_LEVEL", "WARNING")

import django

django.setup()

from django.core.management import call_command
from django.db import connection

from benchmarks.deck_rows import load_archived
from chokaq_django.conf.options import RetentionOptions
from chokaq_django.doctor.engines import engine_name
from chokaq_django.job.ids import new_id
from chokaq_django.models import JobArchive
from chokaq_django.storage import ClaimRequest, NewJob, Outcome, OutcomeKind, Storage, open_storage
from chokaq_django.worker.retention import Retention

QUEUE, TYPE, WORKER = "bench-drain", "bench.drain.v1", "bench-drain-worker"
BATCH = 50
AHEAD = 2_000
"""Jobs enqueued at a time."""
AGE = 600.0
"""Seconds: archived jobs older than that are deleted, what is drained here is not."""
GOAL = 2.0


@dataclass
class Phase:
    """Claims of one phase: how long each took, in milliseconds."""

    name: str
    claims: list[float] = field(default_factory=list)
    jobs: int = 0
    seconds: float = 0.0

    def share(self, share: float) -> float:
        ordered = sorted(self.claims)
        return ordered[min(len(ordered) - 1, int(share * len(ordered)))]

    def document(self) -> dict[str, object]:
        found = {f"p{round(100 * share)}_ms": round(self.share(share), 2) for share in (0.5, 0.95, 0.99)}
        return {
            "phase": self.name,
            "claims": len(self.claims),
            **found,
            "jobs_per_second": round(self.jobs / self.seconds),
        }


class Drain:
    """Jobs that come and go through one storage, as in a worker."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._waiting = 0

    def turn(self, phase: Phase) -> None:
        """Claim and settle one batch."""
        if self._waiting < BATCH:
            rows = [NewJob(new_id(), QUEUE, TYPE, '{"number":1}') for _ in range(AHEAD)]
            self._storage.enqueue(rows)
            self._waiting += AHEAD
        began = time.perf_counter()
        jobs = self._storage.claim(ClaimRequest(WORKER, [QUEUE], BATCH)).jobs
        phase.claims.append(1_000 * (time.perf_counter() - began))
        self._storage.settle(
            WORKER,
            [Outcome(job.id, job.claim_number, OutcomeKind.SUCCEEDED, job.queue, job.type, "[]", 1, 1) for job in jobs],
        )
        self._waiting -= len(jobs)
        phase.jobs += len(jobs)


def alone(name: str, drain: Drain, seconds: float) -> Phase:
    """A phase without retention."""
    phase, began = Phase(name), time.monotonic()
    while time.monotonic() < began + seconds:
        drain.turn(phase)
    phase.seconds = time.monotonic() - began
    return phase


def beside(drain: Drain, most: float) -> tuple[Phase, float]:
    """The phase in which another process deletes; how long that took, or ``most`` if it had to be ended."""
    phase, began = Phase("while jobs are deleted"), time.monotonic()
    with subprocess.Popen([sys.executable, __file__, "--delete"], env={**os.environ}) as other:
        while other.poll() is None and time.monotonic() < began + most:
            drain.turn(phase)
        other.terminate()
    phase.seconds = time.monotonic() - began
    return phase, phase.seconds


def delete() -> None:
    """What a worker's retention loop does, now."""
    storage = open_storage()
    Retention("bench-retention", open_storage).trim(storage, RetentionOptions(archive=AGE))
    storage.close()


def old() -> int:
    """Archived jobs that are to be deleted. It reads them all, which only a benchmark may."""
    return JobArchive.objects.exclude(queue=QUEUE).count()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--archived", type=int, default=1_000_000, help="Archived jobs to delete (default: a million).")
    parser.add_argument("--seconds", type=float, default=20.0, help="Length of each phase alone (default: 20).")
    parser.add_argument("--most", type=float, default=1_800.0, help="End the deleting after so many seconds.")
    parser.add_argument("--json", action="store_true", help="One JSON document instead of text.")
    parser.add_argument("--delete", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.delete:
        delete()
        return

    def say(text: str) -> None:
        if not options.json:
            print(text, flush=True)

    call_command("migrate", verbosity=0)
    if not old():
        load_archived(options.archived, say)
    before = old()
    drain = Drain(open_storage())
    alone("warming up", drain, 3.0)
    load_before = os.getloadavg()[0]
    phases = [alone("before", drain, options.seconds)]
    during, took = beside(drain, options.most)
    deleted = before - old()
    phases += [during, alone("after", drain, options.seconds)]
    base = statistics.mean((phases[0].share(0.95), phases[2].share(0.95)))
    ratio = during.share(0.95) / base
    document = {
        "engine": engine_name(connection.alias),
        "deleted": deleted,
        "deleted_per_second": round(deleted / took),
        "seconds": round(took, 1),
        "phases": [phase.document() for phase in phases],
        "p95_ratio": round(ratio, 2),
        "load": round(load_before, 1),
    }
    if options.json:
        print(json.dumps(document, indent=2))
        return
    say(f"{document['engine']}; load of the machine before: {load_before:.1f}")
    for phase in phases:
        said = phase.document()
        say(
            f"{phase.name:<24} claims of {BATCH}: p50 {said['p50_ms']:>7} ms, p95 {said['p95_ms']:>7} ms, "
            f"p99 {said['p99_ms']:>7} ms; {said['jobs_per_second']:>6,} jobs/s"
        )
    say(f"{deleted:,} deleted in {took:.0f} s, {deleted / took:,.0f} a second")
    say(f"p95 beside deleting: {ratio:.2f} times that without ({'within' if ratio <= GOAL else 'beyond'} {GOAL:g})")


if __name__ == "__main__":
    main()
