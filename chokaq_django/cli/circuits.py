"""``chokaq circuits``, and opening, closing and resetting them by hand."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from functools import partial

from .. import control
from ..models import Circuit
from ..reading.documents import CIRCUIT_STATES, circuit_document, until_probe
from ..storage import BulkResult
from .changes import change, changed_codes, names_arguments
from .console import OK
from .names import type_or_refused
from .subcommand import Call, Subcommand
from .table import Column
from .text import brief_age, duration, instant

__all__ = ["CIRCUITS", "open_circuits"]

MOST = 500
COLUMNS = (
    Column("TYPE", flexible=True), Column("STATE"), Column("FAILURES", right=True), Column("OPENED", right=True),
    Column("PROBED IN", right=True), Column("CHANGED BY", flexible=True),
)  # fmt: skip
TONES = {Circuit.OPEN: "bad", Circuit.HALF_OPEN: "warn"}


def open_circuits(alias: str) -> list[Circuit]:
    """Circuits that hold jobs back, at most :data:`MOST`."""
    return list(Circuit.objects.using(alias).exclude(state=Circuit.CLOSED).order_by("type")[:MOST])


def state_of(row: Circuit) -> str:
    return CIRCUIT_STATES.get(row.state, str(row.state)) + (" (forced)" if row.forced else "")


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
        seconds = until_probe(row, now)
        table.append(
            (
                row.type,
                state_of(row),
                row.failures,
                brief_age(row.opened_at, now),
                "-" if seconds is None else duration(seconds) if seconds else "next job",
                row.updated_by or "-",
            )
        )
    call.console.table(COLUMNS, table, [TONES.get(row.state, "") for row in rows])
    return OK


def _change(verb: Callable[..., BulkResult], done: str) -> Callable[[Call], int]:
    return change(verb, type_or_refused, thing="type", done=done)


_change_arguments = partial(
    names_arguments, metavar="TYPE", what="Type keys, such as email.send.v1.",
    new="Accept a type that the code here does not know.",
)  # fmt: skip
CHANGED = changed_codes("unknown type")


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--all", action="store_true", help="Closed ones with a history too.")


CIRCUITS = Subcommand(
    "circuits",
    "Circuit breakers that hold a job type back; open, close and reset them.",
    _circuits,
    description="A type that fails too often is not started for a while; then single jobs probe whether it works "
    "again. Held-back jobs keep their place and use no attempt.",
    examples=[("circuits", "what is held back now"), ("circuits --all --json", "every circuit, for a script")],
    adds=_arguments,
    exits="0 they could be looked at, whether one is open or not",
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
