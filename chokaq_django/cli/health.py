"""``chokaq health``."""

from __future__ import annotations

import argparse

from ..health import Report, State, check
from .console import FINDINGS, OK, Console
from .program import as_typed
from .subcommand import Call, Subcommand
from .text import instant

__all__ = ["HEALTH", "health_line"]

TONES = {State.HEALTHY: "good", State.DEGRADED: "warn", State.UNHEALTHY: "bad"}
MARKS = {State.DEGRADED: "!", State.UNHEALTHY: "x"}


def health_line(console: Console, report: Report) -> None:
    """The state, then every finding with what to do."""
    console.line(f"Health: {report.state.label}", TONES[report.state])
    hint = ""
    for finding in report.findings:
        first, *more = as_typed(finding.message).splitlines() or [""]
        console.paragraph(first, TONES[finding.state], "  ", f"{MARKS[finding.state]} ")
        for line in more:  # each thing that is wrong with the settings
            console.paragraph(line, TONES[finding.state], "    ")
        if finding.hint and finding.hint != hint:  # several of one kind need it once
            console.paragraph(as_typed(finding.hint), indent="    ")
        hint = finding.hint


def _health(call: Call) -> int:
    report = check()
    call.console.document(
        {
            "status": report.state.label,
            "as_of": instant(report.as_of),
            "checks": report.checks(),
            "findings": [finding.document() for finding in report.findings],
        }
    )
    if not call.console.json:
        health_line(call.console, report)
    least = State.DEGRADED if call.options["fail_on"] == "degraded" else State.UNHEALTHY
    return FINDINGS if report.state >= least else OK


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--fail-on", choices=["degraded", "unhealthy"], default="unhealthy",
        help="The state from which the exit code is 1 (default: unhealthy).",
    )  # fmt: skip


HEALTH = Subcommand(
    "health",
    "Do jobs get done? With an exit code for scripts.",
    _health,
    description="Looks at the database, the workers, the lag of open queues, deaths and circuits. A database that does "
    "not answer is a finding too. For settings, indexes and the engine ask `doctor`.",
    examples=[
        ("health", "what is wrong, and what to do"),
        ("health --fail-on degraded --json", "for a monitoring script"),
    ],
    adds=_arguments,
    exits="0 healthy, or degraded   1 unhealthy (with --fail-on degraded: degraded too)",
)
