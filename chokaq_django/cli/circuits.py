"""``chokaq circuits``, and opening, closing and resetting them by hand."""

from __future__ import annotations

import argparse
import datetime as dt
from collections.abc import Callable
from typing import Any

from .. import control
from ..job.registry import registry
from ..models import Circuit
from ..storage import BulkResult
from .arguments import act_arguments, actor
from .console import FINDINGS, OK, meant, usage
from .subcommand import Call, Subcommand
from .table import Column
from .text import brief_age, duration, instant, one_line

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


def _change(verb: Callable[..., BulkResult], said: str) -> Callable[[Call], int]:
    def run(call: Call) -> int:
        keys = [_known_or_refused(call, key.strip()) for key in call.options["types"]]
        by = actor(call.options)
        answers = [verb(key, by=by, reason=call.options["reason"]) for key in dict.fromkeys(keys)]
        applied = [key for answer in answers for key in answer.applied]
        refused = [conflict for answer in answers for conflict in answer.refused]
        call.console.document(
            {
                "by": by,
                "applied": applied,
                "refused": [{"type": each.id, "reason": each.reason} for each in refused],
            }
        )
        for key in applied:
            call.console.line(f"{one_line(key)} {said}.", "good")
        for conflict in refused:
            call.console.line(f"{one_line(conflict.id)}: {conflict.reason}", "warn")
        return OK if applied else FINDINGS

    return run


def _known_or_refused(call: Call, key: str) -> str:
    """``key``, if code or a circuit knows it; else a usage error."""
    if call.options["new"] or registry.get(key) is not None:
        return key
    if Circuit.objects.using(call.alias).filter(pk=key).exists():
        return key
    known = [job_type.key for job_type in registry.types() if not job_type.wants_raw]
    return usage(
        f"The code here knows no type {one_line(key, 100)!r}.{meant(key, known)} --new accepts it all the same."
    )


def _change_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("types", nargs="+", metavar="TYPE", help="Type keys, such as email.send.v1.")
    parser.add_argument("--new", action="store_true", help="Accept a type that the code here does not know.")
    act_arguments(parser)


CHANGED = "0 at least one was changed   1 none had to be   2 unknown type"


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
    children=[
        Subcommand(
            "open",
            "Start no job of a type until somebody closes its circuit.",
            _change(control.open_circuit, "is held back until its circuit is closed"),
            examples=[("circuits open email.send.v1 --reason 'provider is down'", "hold a type back, in all queues")],
            adds=_change_arguments,
            exits=CHANGED,
        ),
        Subcommand(
            "close",
            "Let jobs of a type start again now, without a probe.",
            _change(control.close_circuit, "may run again"),
            examples=[("circuits close email.send.v1", "the provider is back")],
            adds=_change_arguments,
            exits=CHANGED,
        ),
        Subcommand(
            "reset",
            "Close a circuit and forget the failures counted so far.",
            _change(control.reset_circuit, "starts anew"),
            examples=[("circuits reset email.send.v1", "as if nothing had failed")],
            adds=_change_arguments,
            exits=CHANGED,
        ),
    ],
)
