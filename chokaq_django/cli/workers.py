"""``chokaq workers`` and ``chokaq workers stop``."""

from __future__ import annotations

import argparse
import time
from typing import Any

from .. import control
from ..reading.fleet import WorkerView, read_workers
from .arguments import act_arguments, actor, positive
from .console import FINDINGS, OK, meant, usage
from .subcommand import Call, Subcommand
from .table import Column
from .text import brief, instant, moment, number, one_line

__all__ = ["WORKERS", "worker_document"]

COLUMNS = (
    Column("WORKER", flexible=True), Column("STATE"), Column("BUSY", right=True), Column("QUEUES", flexible=True),
    Column("DONE", right=True), Column("MB", right=True), Column("UP", right=True), Column("SEEN", right=True),
)  # fmt: skip
TONES = {"silent": "bad", "stopping": "warn", "draining": "warn"}
LOOK = 0.5
"""Seconds between looks while waiting for workers to go."""


def worker_document(worker: WorkerView) -> dict[str, Any]:
    row = worker.row
    return {
        "id": row.pk, "host": row.host, "pid": row.pid, "version": row.version, "state": worker.state,
        "alive": worker.is_alive, "queues": list(worker.queues), "concurrency": row.concurrency,
        "async_concurrency": row.async_concurrency, "busy": row.busy, "buffered": row.buffered,
        "succeeded": row.succeeded, "failed": row.failed, "retried": row.retried, "conflicts": row.conflicts,
        "rss_mb": None if row.rss_mb is None else round(row.rss_mb, 1), "stop_requested": row.stop_requested,
        "started_at": instant(row.started_at), "last_seen": instant(row.last_seen),
        "silent_seconds": round(worker.silent, 3),
    }  # fmt: skip


def _workers(call: Call) -> int:
    now = call.now()
    workers = read_workers(call.alias, now)
    call.console.document({"as_of": instant(now), "workers": [worker_document(worker) for worker in workers]})
    if not workers:
        call.console.line("No worker is registered. Start one: `manage.py runworker`.", "warn")
        return OK
    if call.options.get("verbosity", 1) > 1:
        _in_full(call, workers, now)
        return OK
    call.console.table(
        COLUMNS,
        [
            (
                worker.row.pk,
                worker.state,
                f"{worker.row.busy}/{worker.row.concurrency}",
                ",".join(worker.queues) or "all",
                number(worker.row.succeeded),
                number(worker.row.rss_mb),
                brief((now - worker.row.started_at).total_seconds()),
                f"{brief(worker.silent)} ago",
            )
            for worker in workers
        ],
        [TONES.get(worker.state, "") for worker in workers],
    )
    return OK


def _in_full(call: Call, workers: list[WorkerView], now: Any) -> None:
    for worker in workers:
        row = worker.row
        call.console.heading(row.pk)
        call.console.pairs(
            [
                ("state", worker.state),
                ("host, process", f"{row.host}, {row.pid}"),
                ("version", row.version),
                ("queues", ", ".join(worker.queues) or "all active"),
                (
                    "busy",
                    f"{row.busy}, with {row.concurrency} threads and {row.async_concurrency} async",
                ),
                (
                    "done",
                    f"{row.succeeded:,}, {row.retried:,} retried, {row.failed:,} dead, {row.conflicts:,} conflicts",
                ),
                ("memory", None if row.rss_mb is None else f"{row.rss_mb:,.0f} MB"),
                ("started", moment(row.started_at, now)),
                ("last seen", moment(row.last_seen, now)),
            ]
        )


def _stop(call: Call) -> int:
    now = call.now()
    workers = {worker.row.pk: worker for worker in read_workers(call.alias, now)}
    ids = list(dict.fromkeys(text.strip() for text in call.options["ids"]))
    if call.options["all"]:
        if ids:
            usage("Name workers, or say --all; not both.")
        ids = [worker_id for worker_id, worker in workers.items() if worker.is_alive]
    elif not ids:
        usage("Name the workers to stop, as `chokaq workers --json` lists them, or say --all.")
    for worker_id in ids:
        if worker_id not in workers:
            usage(f"There is no worker {one_line(worker_id, 120)!r}.{meant(worker_id, workers)}")
    by = actor(call.options)
    answers = [control.stop_worker(worker_id, by=by, reason=call.options["reason"]) for worker_id in ids]
    asked = [worker_id for answer in answers for worker_id in answer.requested]
    refused = [conflict for answer in answers for conflict in answer.refused]
    for worker_id in asked:
        call.console.line(f"Asked {one_line(worker_id)} to stop: it finishes its running jobs and exits.", "good")
    for conflict in refused:
        call.console.line(f"{one_line(conflict.id)}: {conflict.reason}", "warn")
    if not ids:
        call.console.line("No worker is alive.", "warn")
    left = _wait(call, asked) if call.options["wait"] else []
    call.console.document(
        {
            "by": by,
            "requested": asked,
            "refused": [{"id": each.id, "reason": each.reason} for each in refused],
            "still_there": left,
        }
    )
    return OK if asked and not left else FINDINGS


def _wait(call: Call, ids: list[str]) -> list[str]:
    """Wait for these workers to be gone; the ids of those that are not."""
    end = time.monotonic() + call.options["timeout"]
    progress = call.console.progress(len(ids), "stopping")
    try:
        while True:
            left = [worker.row.pk for worker in read_workers(call.alias, call.now()) if worker.row.pk in ids]
            progress.show(len(ids) - len(left))
            if not left or time.monotonic() >= end:
                break
            time.sleep(LOOK)
    finally:
        progress.close()
    if left:
        call.console.line(f"Still there after {call.options['timeout']} s: {', '.join(map(one_line, left))}", "bad")
    else:
        call.console.line("All of them are gone.", "good")
    return left


def _stop_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("ids", nargs="*", metavar="WORKER", help="Ids of workers.")
    parser.add_argument("--all", action="store_true", help="All that are alive.")
    parser.add_argument("--wait", action="store_true", help="Wait until they are gone.")
    parser.add_argument(
        "--timeout", type=positive, default=120, metavar="S", help="Wait so many seconds at most (default: 120)."
    )
    act_arguments(parser)


WORKERS = Subcommand(
    "workers",
    "Worker processes: what they do and when they were last seen; stop them.",
    _workers,
    description="BUSY is running jobs of threads. A silent worker was not seen for RECOVERY.WORKER_TIMEOUT: others "
    "take over what it had. `-v 2` shows each in full.",
    examples=[
        ("workers", "all of them"),
        ("workers -v 2", "each in full, its whole id included"),
        ("workers stop --all --wait --reason deploy", "drain the fleet and wait for it"),
    ],
    children=[
        Subcommand(
            "stop",
            "Ask workers to finish their running jobs and exit.",
            _stop,
            description="A worker reads the request within seconds. Its supervisor does not start it again; your init "
            "system may.",
            examples=[
                ("workers stop web-1-4711-9f3a22c1", "one of them"),
                ("workers stop --all --wait", "all, and wait"),
            ],
            adds=_stop_arguments,
            exits="0 asked (and gone, with --wait)   1 nothing to stop, or still there   2 unknown worker",
        )
    ],
)
