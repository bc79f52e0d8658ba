"""``chokaq doctor``."""

from __future__ import annotations

import argparse

from .. import control
from ..doctor import AREAS, Examination, Severity, examine
from ..storage import StorageError
from .arguments import act_arguments, actor
from .console import FINDINGS, OK, unable
from .program import as_typed
from .subcommand import Call, Subcommand
from .text import one_line, pad

__all__ = ["DOCTOR"]

TONES = {Severity.INFO: "", Severity.WARNING: "warn", Severity.ERROR: "bad"}
MARKS = {Severity.INFO: "i", Severity.WARNING: "!", Severity.ERROR: "x"}


def _doctor(call: Call) -> int:
    return _recount(call) if call.options["recount"] else _examine(call)


def _recount(call: Call) -> int:
    try:
        count = control.recount_groups(by=actor(call.options), reason=call.options["reason"])
    except StorageError as error:
        unable(str(error))
    call.console.document({"corrected": count})
    if count:
        call.console.line(f"{count:,} failure groups were set to what the DLQ holds.", "good")
    else:
        call.console.line("The failure groups count what the DLQ holds.", "good")
    return OK


def _examine(call: Call) -> int:
    progress = call.console.progress(len(AREAS), "examining")
    try:
        found = examine(lambda area: progress.show(AREAS.index(area)))
    finally:
        progress.close()
    call.console.document(
        {
            "engine": found.engine,
            "worst": None if found.worst is None else found.worst.label,
            "areas": found.seen,
            "findings": [finding.document() for finding in found.findings],
        }
    )
    if not call.console.json:
        _show(call, found)
    return FINDINGS if found.worst is Severity.ERROR else OK


def _show(call: Call, found: Examination) -> None:
    console = call.console
    if found.engine:
        console.line(f"Job database: {one_line(found.engine)}", "head")
    left = max(map(len, AREAS))
    for area in AREAS:
        counts = dict.fromkeys(sorted(Severity, reverse=True), 0)
        for finding in found.findings:
            if finding.area == area:
                counts[finding.severity] += 1
        said = [f"{count} {severity.label}{'s' if count > 1 else ''}" for severity, count in counts.items() if count]
        worst = next((severity for severity, count in counts.items() if count), None)
        if area not in found.seen:
            console.line(f"  {pad(area, left)}  not looked at")
        else:
            console.line(f"  {pad(area, left)}  {', '.join(said) or 'ok'}", "good" if worst is None else TONES[worst])
    for finding in found.findings:
        console.line()
        mark = f"{MARKS[finding.severity]} "
        console.paragraph(f"{as_typed(finding.message)} [{finding.code}]", TONES[finding.severity], mark=mark)
        if finding.remedy:
            console.paragraph(as_typed(finding.remedy), indent="  ", mark="-> ")
    if not found.findings:
        console.line()
        console.line("Nothing to repair.", "good")


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--recount", action="store_true", help="Set the failure groups to what the DLQ holds, and look at nothing else."
    )
    act_arguments(parser)


DOCTOR = Subcommand(
    "doctor",
    "What is wrong with settings, database, tables and fleet, and what to run.",
    _doctor,
    description="Reads only, but for --recount. It runs the system checks, asks the engine (vacuum, old transactions, "
    "connections, indexes, clock), tries the channel layer, and looks for jobs that are stuck, too long at work, of "
    "unknown types, or in no failure group.",
    examples=[
        ("doctor", "everything, with remedies"),
        ("doctor --json", "for a script"),
        ("doctor --recount", "after the finding groups_differ"),
    ],
    adds=_arguments,
    exits="0 no error, though there may be warnings   1 an error",
)
