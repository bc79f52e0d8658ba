"""``chokaq status``."""

from __future__ import annotations

from typing import Any

from ..health import check
from ..models import JobDLQ
from ..reading.documents import circuit_document, queue_document
from ..reading.fleet import Rates, read_rates
from ..reading.queues import MOST_COUNTED
from .circuits import open_circuits
from .console import OK, UNABLE
from .health import health_line
from .program import typed
from .queues import queue_table
from .subcommand import Call, Subcommand
from .text import at_least, instant, moment, percent

__all__ = ["STATUS"]

QUEUES_SHOWN = 15
MINUTE, FIVE, HOUR = 60, 300, 3_600


def _status(call: Call) -> int:
    report = check()
    console, now = call.console, report.as_of
    if now is None:
        console.document(
            {"status": report.state.label, "findings": [finding.document() for finding in report.findings]}
        )
        if not console.json:
            health_line(console, report)
        return UNABLE
    rates = [read_rates(call.alias, now, seconds) for seconds in (MINUTE, FIVE, HOUR)]
    dead = JobDLQ.objects.using(call.alias).values("pk")[: MOST_COUNTED + 1].count()
    capped = any(figures.capped for figures in report.queues)
    due, scheduled, fetched, running = (
        sum(getattr(figures, name) for figures in report.queues)
        for name in ("due", "scheduled", "fetched", "processing")
    )
    alive = [worker for worker in report.workers if worker.is_alive]
    console.document(
        {
            "as_of": instant(now),
            "status": report.state.label,
            "findings": [finding.document() for finding in report.findings],
            "jobs": {
                "due": due, "scheduled": scheduled, "fetched": fetched, "processing": running,
                "dead": min(dead, MOST_COUNTED), "counts_capped": capped or dead > MOST_COUNTED,
            },
            "rates": [_rate(rate) for rate in rates],
            "workers": {
                "alive": len(alive), "silent": len(report.workers) - len(alive),
                "busy": sum(worker.row.busy for worker in alive),
                "slots": sum(worker.row.concurrency for worker in alive),
            },
            "queues": [queue_document(figures, now) for figures in report.queues],
            "circuits": [circuit_document(row, now) for row in open_circuits(call.alias)],
        }
    )  # fmt: skip
    if console.json:
        return OK
    health_line(console, report)
    console.line()
    hour = rates[2]
    in_dlq = at_least(min(dead, MOST_COUNTED), dead > MOST_COUNTED)
    busy, slots = sum(w.row.busy for w in alive), sum(w.row.concurrency for w in alive)
    console.pairs(
        [
            (
                "jobs",
                f"{at_least(due, capped)} due, {at_least(scheduled, capped)} later, {fetched + running:,} at work",
            ),
            ("dead", f"{in_dlq} in the DLQ, {hour.dead:,} died within an hour"),
            ("done", ", ".join(f"{rate.succeeded:,} in {_span(rate)} ({rate.per_second:,.1f}/s)" for rate in rates)),
            (
                "failing",
                f"{hour.retried:,} retried within an hour, {percent(hour.dead, hour.dead + hour.succeeded)} dead",
            ),
            (
                "workers",
                f"{len(alive):,} alive, {busy:,} of {slots:,} threads busy",
            ),
            ("as of", moment(now, now).partition(" (")[0]),
        ]
    )
    if report.queues:
        console.line()
        shown = sorted(report.queues, key=lambda figures: (-figures.lag(now), -figures.due, figures.name))[
            :QUEUES_SHOWN
        ]
        queue_table(call, shown, now)
        if len(report.queues) > len(shown):
            console.line(f"... and {len(report.queues) - len(shown):,} more: `{typed('queues')}`.")
    return OK


def _span(rate: Rates) -> str:
    return {MINUTE: "1 min", FIVE: "5 min", HOUR: "1 h"}[rate.seconds]


def _rate(rate: Rates) -> dict[str, Any]:
    return {
        "seconds": rate.seconds, "succeeded": rate.succeeded, "retried": rate.retried, "dead": rate.dead,
        "succeeded_per_second": round(rate.per_second, 3),
    }  # fmt: skip


STATUS = Subcommand(
    "status",
    "How things are, on one screen: health, counts, rates, workers, queues.",
    _status,
    description="Counts stop at 10,000 a queue (shown as 10,000+). Rates are what workers count every ten seconds.",
    examples=[("status", "look"), ("status --json", "the same for a script")],
    exits="0 it could be looked at, however it is (ask `health` for that)   3 it could not",
)
