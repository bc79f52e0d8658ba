"""``chokaq bulk``: operations as the terminal shows them."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from typing import Any

from .. import control
from ..control import BulkAction, BulkOutcomes, BulkState, BulkView
from ..job.failures import FailureReason
from ..models import TOLD
from ..reading.bulk import OPEN
from ..reading.documents import bulk_document, outcomes_document
from .console import OK, usage
from .following import follow, items_of, tell
from .program import typed
from .subcommand import Call
from .table import Column
from .text import brief_age, instant, moment, one_line, percent

__all__ = ["known", "list_all", "show_one"]

COLUMNS = (
    Column("ID"), Column("ACTION"), Column("STATE"), Column("DONE", right=True), Column("OF", right=True),
    Column("BEGUN", right=True), Column("BY", flexible=True, least=3),
)  # fmt: skip
TONES = {
    BulkState.RUNNING: "warn", BulkState.PREPARING: "warn", BulkState.PAUSED: "warn", BulkState.STOPPED: "bad",
    BulkState.FAILED: "bad",
}  # fmt: skip


def list_all(call: Call) -> int:
    now, options = call.now(), call.options
    views = control.bulk_list(state=OPEN if options["open"] else None, limit=options["limit"])
    call.console.document({"as_of": instant(now), "operations": [bulk_document(view) for view in views]})
    if not views:
        call.console.line("No bulk operation is open." if options["open"] else "There was no bulk operation yet.")
        return OK
    rows = [
        (
            view.id, view.action.value, view.state.value, f"{view.done:,}", f"{view.total:,}",
            brief_age(view.created_at, now), view.by or "-",
        )
        for view in views
    ]  # fmt: skip
    call.console.table(COLUMNS, rows, [TONES.get(view.state, "") for view in views])
    return OK


def show_one(call: Call) -> int:
    view = known(call.options["id"])
    if call.options["follow"]:
        return follow(call, view)[1]
    now = call.now()
    became = control.bulk_outcomes(view.id) if view.action is BulkAction.RESURRECT and view.applied else None
    document: dict[str, Any] = {"as_of": instant(now), "operation": bulk_document(view)}
    document["outcomes"] = None if became is None else outcomes_document(became)
    named = [state for state in TOLD if call.options[state.name.lower()]]
    items = {s: [(item.job_id, item.why) for item in items_of(view.id, s)] for s in named}
    for state, found in items.items():
        document[f"all_{state.name.lower()}"] = [{"id": job_id, "reason": why} for job_id, why in found]
    call.console.document(document)
    if not call.console.json:
        tell(call, view)
        call.console.line()
        call.console.pairs([*_facts(view, now), ("became", became and _outcomes(became))])
        for state, found in items.items():
            if found:
                call.console.heading(str(state.label))
            for job_id, why in found:
                call.console.paragraph(why, mark=f"{job_id}  ")
    return OK


def _facts(view: BulkView, now: dt.datetime) -> list[tuple[str, object]]:
    watch = None
    if view.stop_share is not None:
        seen = f"; {view.recent_died} of the last {view.recent_ended} did" if view.recent_ended else ""
        watch = f"when more than {percent(view.stop_share, 1)} die{seen}"
    canary = None
    if view.canary is not None:
        canary = f"{view.canary:,} first, {view.canary_decision or 'not yet all brought back'}"
    return [
        ("jobs", "named by id" if view.where is None else _listed(_as_asked(view.where))),
        ("with", _listed({name: value for name, value in view.arguments.items() if name != "ttl"})),
        ("rate", None if view.rate is None else f"{view.rate:g} a second"),
        ("canary", canary),
        ("stops", watch),
        ("undoes", view.undo_of),
        ("begun", f"{moment(view.created_at, now)} by {view.by or '?'}"),
        ("reason", view.reason),
        ("frozen", view.started_at and moment(view.started_at, now)),
        ("ended", view.ended_at and moment(view.ended_at, now)),
        ("applied", f"{view.applied:,}"),
        ("requested", f"{view.requested:,} running jobs were asked to stop" if view.requested else None),
        ("left alone", f"{view.left_alone:,}" if view.left_alone else None),
        ("refused", f"{view.refused:,}"),
    ]


def _outcomes(found: BulkOutcomes) -> str:
    return f"{found.succeeded:,} succeeded, {found.died:,} died, {found.active:,} active, {found.gone:,} gone"


def _as_asked(where: Mapping[str, Any]) -> dict[str, Any]:
    """A filter with its reason as ``--failure`` takes it."""
    return {name: FailureReason.label_of(value) if name == "reason" else value for name, value in where.items()}


def _listed(values: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {value}" for name, value in values.items())


def known(text: str) -> BulkView:
    view = control.bulk_get(text)
    if view is None:
        usage(f"There is no bulk operation {one_line(text.strip(), 60)!r}; `{typed('bulk')}` lists them.")
    return view
