"""``chokaq bench``: how fast this database, this machine and these settings are, on no-op jobs.

The jobs go into a queue of their own, whose name is new at each run, and are of a type that no other worker knows. A
real worker process runs them. Whatever was made is deleted at the end, also after Ctrl-C.
"""

from __future__ import annotations

import argparse
import secrets
import time
from typing import Any

from django.db import DatabaseError

from ..conf import get_options
from ..doctor.durability import durability
from ..doctor.engines import engine_name
from ..models import Queue
from ..reading.fleet import read_workers
from ..storage import get_storage
from .arguments import positive
from .bench_run import Figures, measure, work
from .console import OK, Console, usage
from .interrupts import patient_interrupts
from .program import typed
from .subcommand import Call, Subcommand
from .text import number, one_line

__all__ = ["BENCH"]

PREFIX = "chokaq-bench-"
CHUNK = 500
"""Rows that are erased in one transaction."""


# -- the run -----------------------------------------------------------------------------------------------------------


def _bench(call: Call) -> int:
    from . import bench_job  # noqa: F401 - the type is registered by whoever measures, and by nobody else

    options = call.options
    if options["work_on"] is not None:
        return work(options)
    if options["clean_up"]:
        return _clean_up(call)
    others = [worker for worker in read_workers(call.alias, call.now()) if worker.is_alive and not worker.queues]
    if others:
        usage(
            f"Live workers that take jobs from all queues would get in the way: {len(others)}. Stop them first "
            f"(`{typed('workers stop --all --wait')}`), or measure on a copy."
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
            measure(call, queue, figures, interrupts.check)
        finally:
            call.console.step("Cleaning up ...")
            _delete(call.alias, queue)
    call.console.document(_document(figures))
    if not call.console.json:
        _show(call.console, figures)
    return OK


# -- the end -----------------------------------------------------------------------------------------------------------


def _delete(alias: str, queue: str) -> None:
    """Its jobs, what counts them, and its row."""
    storage = get_storage(alias)
    while storage.erase_queue(queue, CHUNK):
        time.sleep(storage.sweep_pause)


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
