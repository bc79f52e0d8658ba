"""``chokaq circuits``."""

from __future__ import annotations

import argparse
import datetime as dt
from typing import Any

from ..models import Circuit
from .console import OK
from .subcommand import Call, Subcommand
from .table import Column
from .text import brief_age, duration, instant

__all__ = ["CIRCUITS", "circuit_document", "open_circuits"]

MOST = 500
COLUMNS = (
    Column("TYPE", flexible=True), Column("STATE"), Column("FAILURES", right=True), Column("OPENED", right=True),
    Column("PROBED IN", right=True), Column("CHANGED BY", flexible=True),
)  # fmt: skip
STATES = {Circuit.CLOSED: "closed", Circuit.OPEN: "open", Circuit.HALF_OPEN: "half open"}
TONES = {Circuit.OPEN: "bad", Circuit.HALF_OPEN: "warn"}


def open_circuits(alias: str) -> list[Circuit]:
    """Circuits that hold jobs back, at most :data:`MOST`."""
    return list(Circuit.objects.using(alias).exclude(state=Circuit.CLOSED).order_by("type")[:MOST])


def state_of(row: Circuit) -> str:
    return STATES.get(row.state, str(row.state)) + (" (forced)" if row.forced else "")


def reopens(row: Circuit, now: dt.datetime) -> float | None:
    """Seconds until an open circuit lets a probe through; None when only an operator closes it, or it is not open."""
    if row.state != Circuit.OPEN or row.forced or row.open_until is None:
        return None
    return max(0.0, float((row.open_until - now).total_seconds()))


def circuit_document(row: Circuit, now: dt.datetime) -> dict[str, Any]:
    seconds = reopens(row, now)
    return {
        "type": row.type, "state": STATES.get(row.state, row.state), "forced": row.forced, "failures": row.failures,
        "opened_at": instant(row.opened_at), "open_until": instant(row.open_until),
        "probed_in_seconds": None if seconds is None else round(seconds, 3), "updated_at": instant(row.updated_at),
        "updated_by": row.updated_by,
    }  # fmt: skip


def _circuits(call: Call) -> int:
    now = call.now()
    if call.options["all"]:
        rows = list(Circuit.objects.using(call.alias).order_by("type")[:MOST])
    else:
        rows = open_circuits(call.alias)
    call.console.document({"as_of": instant(now), "circuits": [circuit_document(row, now) for row in rows]})
    if not rows:
        call.console.line("No circuit is open: no job type is held back.", "good")
        return OK
    table = []
    for row in rows:
        seconds = reopens(row, now)
        table.append(
            (
                row.type,
                state_of(row),
                row.failures,
                brief_age(row.opened_at, now),
                "-" if seconds is None else duration(seconds),
                row.updated_by or "-",
            )
        )
    call.console.table(COLUMNS, table, [TONES.get(row.state, "") for row in rows])
    return OK


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--all", action="store_true", help="Closed ones with a history too.")


CIRCUITS = Subcommand(
    "circuits",
    "Circuit breakers that hold a job type back.",
    _circuits,
    description="A type that fails too often is not started for a while; then single jobs probe whether it works "
    "again. Held-back jobs keep their place and use no attempt.",
    examples=[("circuits", "what is held back now"), ("circuits --all --json", "every circuit, for a script")],
    adds=_arguments,
)
