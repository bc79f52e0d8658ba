"""``chokaq workers``, and what one asks of them: ``stop``, ``drain``, ``concurrency``."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Mapping
from typing import Any

from .. import control
from ..reading.documents import worker_document
from ..reading.fleet import WorkerView, read_workers
from ..storage import BulkResult
from .arguments import act_arguments, actor, positive
from .console import EMPTY, FINDINGS, OK, meant, usage
from .names import known
from .program import manage, typed
from .subcommand import Call, Subcommand
from .table import Column
from .text import NOTHING, brief, instant, moment, number, one_line

__all__ = ["WORKERS"]

Verb = Callable[[Mapping[str, Any], str, str], BulkResult]
COLUMNS = (
    Column("WORKER", flexible=True), Column("STATE"), Column("BUSY", right=True), Column("QUEUES", flexible=True),
    Column("DONE", right=True), Column("MB", right=True), Column("CLOCK", right=True), Column("UP", right=True),
    Column("SEEN", right=True),
)  # fmt: skip
TONES = {"silent": "bad", "stopping": "warn", "draining": "warn"}
LOOK = 0.5
"""Seconds between looks while waiting for workers to go."""


def _workers(call: Call) -> int:
    now = call.now()
    workers = read_workers(call.alias, now)
    call.console.document({"as_of": instant(now), "workers": [worker_document(worker) for worker in workers]})
    if not workers:
        call.console.line(f"No worker is registered. Start one: `{manage()} runworker`.", "warn")
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
                NOTHING if worker.row.clock_offset is None else f"{worker.row.clock_offset:+,.1f} s",
                brief((now - worker.row.started_at).total_seconds()),
                f"{brief(worker.silent)} ago",
            )
            for worker in workers
        ],
        [TONES.get(worker.state, "") for worker in workers],
    )
    return OK


def _clock(worker: WorkerView) -> str | None:
    offset = worker.row.clock_offset
    if offset is None:
        return None
    side = "ahead of" if offset > 0 else "behind"
    return f"{abs(offset):,.3f} s {side} the database's, give or take {worker.row.clock_doubt or 0.0:,.3f} s"


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
                ("clock", _clock(worker)),
                ("started", moment(row.started_at, now)),
                ("last seen", moment(row.last_seen, now)),
            ]
        )


def _order(verb: Verb, said: str) -> Callable[[Call], int]:
    """A subcommand that asks named workers, or all that are alive, for something; ``said`` may name its options."""

    def run(call: Call) -> int:
        ids = _named(call)
        by = actor(call.options)
        answers = [verb(call.options, worker_id, by) for worker_id in ids]
        asked = [worker_id for answer in answers for worker_id in answer.requested]
        refused = [conflict for answer in answers for conflict in answer.refused]
        for worker_id in asked:
            call.console.line(f"Asked {one_line(worker_id)} {said.format_map(call.options)}.", "good")
        for conflict in refused:
            call.console.line(f"{one_line(conflict.id)}: {conflict.reason}", "warn")
        if not ids:
            call.console.line("No worker is alive.", "warn")
        document: dict[str, Any] = {
            "by": by,
            "requested": asked,
            "refused": [{"id": each.id, "reason": each.reason} for each in refused],
        }
        left: list[str] = []
        if "wait" in call.options:
            left = document["still_there"] = _wait(call, asked) if call.options["wait"] else []
        call.console.document(document)
        return FINDINGS if left else OK if asked else EMPTY

    return run


def _named(call: Call) -> list[str]:
    """The workers that were named, all of which there are, or all that are alive."""
    workers = {worker.row.pk: worker for worker in read_workers(call.alias, call.now())}
    ids = list(dict.fromkeys(text.strip() for text in call.options["ids"]))
    if call.options["all"]:
        if ids:
            usage("Name workers, or say --all; not both.")
        return [worker_id for worker_id, worker in workers.items() if worker.is_alive]
    if not ids:
        usage(f"Name workers, as `{typed('workers -v 2')}` lists them, or say --all.")
    for worker_id in ids:
        if worker_id not in workers:
            near = meant(worker_id, workers) or known("Workers", workers)
            usage(f"There is no worker {one_line(worker_id, 120)!r}.{near}")
    return ids


def _stop_one(options: Mapping[str, Any], worker_id: str, by: str) -> BulkResult:
    return control.stop_worker(worker_id, by=by, reason=options["reason"])


def _drain_one(options: Mapping[str, Any], worker_id: str, by: str) -> BulkResult:
    return control.drain_worker(worker_id, by=by, reason=options["reason"])


def _resize_one(options: Mapping[str, Any], worker_id: str, by: str) -> BulkResult:
    return control.set_concurrency(worker_id, options["threads"], by=by, reason=options["reason"])


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


def _name_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("ids", nargs="*", metavar="WORKER", help="Ids of workers.")
    parser.add_argument("--all", action="store_true", help="All that are alive.")
    act_arguments(parser)


def _stop_arguments(parser: argparse.ArgumentParser) -> None:
    _name_arguments(parser)
    parser.add_argument("--wait", action="store_true", help="Wait until they are gone.")
    parser.add_argument(
        "--timeout", type=positive, default=120, metavar="S", help="Wait so many seconds at most (default: 120)."
    )


def _resize_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("threads", type=positive, metavar="N", help="Threads of each process.")
    _name_arguments(parser)


WORKERS = Subcommand(
    "workers",
    "Worker processes: what they do and when they were last seen; stop them.",
    _workers,
    description="BUSY is running jobs of threads. A silent worker was not seen for RECOVERY.WORKER_TIMEOUT: others "
    "take over what it had. `-v 2` shows each in full.",
    examples=[
        ("workers", "all of them"),
        ("workers -v 2", "each in full, its whole id included"),
        ("workers stop --all --wait --reason deploy", "end the fleet gracefully and wait for it"),
    ],
    exits="0 they could be looked at, also when there is none",
    children=[
        Subcommand(
            "stop",
            "Ask workers to finish their running jobs and exit.",
            _order(_stop_one, "to finish its running jobs and exit"),
            description="A worker reads the request within seconds. Its supervisor does not start it again; your init "
            "system may.",
            examples=[
                ("workers stop web-1-4711-9f3a22c1", "one of them"),
                ("workers stop --all --wait", "all, and wait"),
            ],
            adds=_stop_arguments,
            exits="0 asked (and gone, with --wait)   1 still there   2 unknown worker   4 nothing to stop",
        ),
        Subcommand(
            "drain",
            "Ask workers to claim nothing more, and stay.",
            _order(_drain_one, "to claim nothing more"),
            description="What runs ends in its own time. `workers concurrency` takes them back to work.",
            examples=[("workers drain web-1-4711-9f3a22c1", "one of them"), ("workers drain --all", "the whole fleet")],
            adds=_name_arguments,
            exits="0 asked   2 unknown worker   4 nothing to ask",
        ),
        Subcommand(
            "concurrency",
            "Change how many threads workers have, until they end.",
            _order(_resize_one, "to have {threads} threads"),
            examples=[
                ("workers concurrency 20 --all", "20 threads in each process"),
                ("workers concurrency 5 web-1-4711-9f3a22c1", "fewer in one of them"),
            ],
            adds=_resize_arguments,
            exits="0 asked   2 unknown worker, or a bad number   4 nothing to ask",
        ),
    ],
)
