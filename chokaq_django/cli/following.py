"""A bulk operation that goes on elsewhere, followed: its progress, that nobody works on it, how it has ended."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Sequence

from .. import control
from ..control import BulkItemState, BulkState, BulkView
from ..models import BulkItem
from ..reading.documents import bulk_document
from ..reading.fleet import read_workers
from ..storage import Conflict
from .console import EMPTY, FINDINGS, OK
from .interrupts import patient_interrupts
from .program import manage, typed
from .subcommand import Call
from .text import one_line, percent

__all__ = ["ENDED", "code_of", "follow", "items_of", "nobody_works", "tell", "who_could_work"]

ENDED = (
    "0 done   1 it stopped, was paused, or refused some, or one stopped following   2 unknown operation   "
    "4 done, and there was nothing to change"
)
LOOK = 0.25
"""Seconds between two looks at the progress."""
STILL = 8
"""Looks without progress after which it is asked whether there is a worker at all."""
ITEMS = 1_000
"""Jobs that are read at a time."""


def follow(call: Call, view: BulkView) -> tuple[BulkView, int]:
    """Show the progress until the operation ends, stops or is paused; how it was then, and the exit code. Ctrl-C leaves
    it to the workers."""
    progress = call.console.progress(view.total, view.action.value)
    interrupted = told = False
    still = 0
    try:
        with patient_interrupts() as interrupts:
            while not (view.at_rest or view.state is BulkState.PAUSED) and not interrupts.asked:
                time.sleep(LOOK)
                before, view = view, control.bulk_get(view.id) or view
                still = 0 if (view.done, view.total) != (before.done, before.total) else still + 1
                if still and still % STILL == 0 and nobody_works(call, view) is not told:
                    told = not told
                    progress.close()
                    lines = who_could_work(view) if told else ["A worker is alive again."]
                    call.console.aside(*lines)
                progress.show(view.done, total=view.total, note=f"  {view.died:,} died" if view.died else "")
            interrupted = interrupts.asked
    finally:
        progress.close()
    call.console.document({"operation": bulk_document(view), "followed": not interrupted})
    tell(call, view)
    if interrupted:
        call.console.line("It is left to the workers. To look at it again:", "warn")
        call.console.line(f"  {typed(f'bulk show {view.id} --follow')}")
        return view, FINDINGS
    return view, code_of(view)


def code_of(view: BulkView) -> int:
    """The exit code of an operation that is followed no further."""
    if view.state is not BulkState.DONE or view.refused:
        return FINDINGS
    return OK if view.applied or view.requested else EMPTY


def items_of(operation_id: str, state: BulkItemState) -> Iterator[BulkItem]:
    """The jobs of an operation that are in this state."""
    page = control.bulk_items(operation_id, state=state, limit=ITEMS)
    yield from page.items
    while page.next is not None:
        page = control.bulk_items(operation_id, state=state, after=page.next, limit=ITEMS)
        yield from page.items


def nobody_works(call: Call, view: BulkView) -> bool:
    """Whether the operation waits for workers that there are not."""
    return not view.at_rest and not any(worker.is_alive for worker in read_workers(call.alias, call.now()))


def who_could_work(view: BulkView) -> list[str]:
    """What to do where :func:`nobody_works`."""
    return [
        "No worker is alive to work it off. Start one, or work it off yourself:",
        f"  {manage()} runworker",
        f"  {typed(f'bulk run {view.id}')}",
    ]


def tell(call: Call, view: BulkView) -> None:
    """How far an operation is, in a few lines."""
    console = call.console
    tone = {BulkState.DONE: "good", BulkState.STOPPED: "bad", BulkState.FAILED: "bad"}.get(view.state, "warn")
    console.line(f"{view.action.value} {view.id}: {view.state.value}, {view.done:,} of {view.total:,}.", tone)
    if view.message:
        console.paragraph(view.message, "bad", indent="  ")
    if view.left_alone:
        console.line(f"  {view.left_alone:,} left alone: the condition does not hold, or they are so already.")
    if view.refused:
        console.line(f"  {view.refused:,} refused:", "warn")
        for conflict in _various(view.refusals)[:3]:
            console.paragraph(conflict.reason, indent="    ", mark=f"{one_line(conflict.id)}  ")
        if view.refused > 3:
            console.line("    All of them:")
            console.line(f"    {typed(f'bulk show {view.id} --refused')}")
    if view.state in (BulkState.STOPPED, BulkState.FAILED, BulkState.PAUSED):
        console.line("  To go on all the same:")
        console.line(f"  {typed(f'bulk resume {view.id}')}")
    ended = view.succeeded + view.died
    if ended:
        console.line(f"  Of {ended:,} that have run since, {view.died:,} died ({percent(view.died, ended)}).")


def _various(refusals: Sequence[Conflict]) -> list[Conflict]:
    """One of each reason, before there is a second."""
    turns: Counter[str] = Counter()
    found: list[tuple[int, Conflict]] = []
    for conflict in refusals:
        found.append((turns[conflict.reason], conflict))
        turns[conflict.reason] += 1
    return [conflict for _, conflict in sorted(found, key=lambda each: each[0])]
