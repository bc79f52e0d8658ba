"""``chokaq bulk``: operations on many jobs, which workers work off."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from functools import partial

from .. import control
from ..control import BulkRefusedError, BulkState, BulkView
from ..control.bulk_acts import undone_by
from ..reading.bulk import OPEN
from ..reading.documents import bulk_document
from .arguments import act_arguments, actor, limit_argument
from .background import number_of
from .bulk_shown import known, list_all, show_one
from .console import EMPTY, FINDINGS, OK, usage
from .following import ENDED, code_of, follow, tell
from .interrupts import patient_interrupts
from .program import typed
from .subcommand import Call, Subcommand

__all__ = ["BULK"]


# -- act ---------------------------------------------------------------------------------------------------------------


def _change(verb: Callable[..., BulkView], said: str, paused: str = "") -> Callable[[Call], int]:
    """A subcommand that changes named operations, or all that are open. ``said``: what is true of one then; ``paused``:
    where that is something else of one that is paused."""

    def run(call: Call) -> int:
        options, by = call.options, actor(call.options)
        ids = [known(text).id for text in options["ids"]]
        if options["all"]:
            if ids:
                usage("Name operations, or say --all; not both.")
            ids = [view.id for view in control.bulk_list(state=OPEN, limit=1_000)]
        elif not ids:
            usage(f"Name operations, as `{typed('bulk')}` lists them, or say --all.")
        more = {"rate": options["rate"]} if options.get("rate") is not None else {}
        changed: list[BulkView] = []
        refused: dict[str, str] = {}
        for operation_id in dict.fromkeys(ids):
            try:
                changed.append(verb(operation_id, by=by, reason=options["reason"], **more))
            except BulkRefusedError as error:
                refused[operation_id] = str(error)
        call.console.document(
            {
                "by": by,
                "operations": [bulk_document(view) for view in changed],
                "refused": [{"id": each, "reason": why} for each, why in refused.items()],
            }
        )
        for view in changed:
            now = paused if paused and view.state is BulkState.PAUSED else said
            call.console.line(f"{view.id} {now}, {view.done:,} of {view.total:,} done.", "good")
        for operation_id, why in refused.items():
            call.console.line(f"{operation_id}: {why}", "warn")
        if not ids:
            call.console.line("No bulk operation is open.", "warn")
        return FINDINGS if refused else OK if changed else EMPTY

    return run


def _set_rate(call: Call) -> int:
    if (call.options["rate"] is None) is not call.options["full_speed"]:
        usage("How fast? Say --rate, or --full-speed.")
    verb = partial(control.bulk_set_rate, rate=call.options["rate"])
    return _change(verb, "goes on at another rate", "is paused (the rate holds when it is resumed)")(call)


def _undo(call: Call) -> int:
    options = call.options
    view = known(options["id"])
    try:
        undone_by(view)
        if not options["yes"]:
            if not call.console.is_interactive:
                usage(f"This would undo {view.action.value} of {view.applied:,} jobs: say --yes to do it.")
            tell(call, view)
            if not call.console.confirm("Undo it?"):
                usage("Nothing was changed.")
        undone = control.bulk_undo(view.id, by=actor(options), reason=options["reason"], rate=options["rate"])
    except BulkRefusedError as error:
        call.console.document({"operation": None, "refused": str(error)})
        call.console.line(str(error), "warn")
        return FINDINGS
    return follow(call, undone)[1]


def _run(call: Call) -> int:
    """Work an operation off in this process. Ctrl-C ends it between two chunks; workers, or another run, go on."""
    view = known(call.options["id"])
    progress = call.console.progress(view.total, view.action.value)
    interrupted = False
    try:
        with patient_interrupts() as interrupts:

            def note(now: BulkView) -> None:
                progress.show(now.done, total=now.total, note=f"  {now.died:,} died" if now.died else "")
                interrupts.check()

            view = control.bulk_run(view.id, note=note)
    except KeyboardInterrupt:
        interrupted = True
        view = known(view.id)
    finally:
        progress.close()
    call.console.document({"operation": bulk_document(view), "interrupted": interrupted})
    tell(call, view)
    return code_of(view)


# -- arguments ---------------------------------------------------------------------------------------------------------


def _list_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--open", action="store_true", help="Only those that may go on.")
    limit_argument(parser, 20, "operations")


def _one(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("id", metavar="ID", help="The operation's id.")


def _show_arguments(parser: argparse.ArgumentParser) -> None:
    _one(parser)
    parser.add_argument("--follow", action="store_true", help="Follow its progress until it ends, stops or is paused.")
    parser.add_argument("--refused", action="store_true", help="Every job that was refused, and why.")
    parser.add_argument("--left-alone", action="store_true", help="Every job that was left alone, and why.")


def _change_arguments(
    parser: argparse.ArgumentParser, *, rate: bool = False, every: str = "All that may go on."
) -> None:  # fmt: skip
    parser.add_argument("ids", nargs="*", metavar="ID", help="Ids of operations.")
    parser.add_argument("--all", action="store_true", help=every)
    if rate:
        _rate_argument(parser, "Jobs a second from now on.")
    act_arguments(parser)


def _set_rate_arguments(parser: argparse.ArgumentParser) -> None:
    _change_arguments(parser, rate=True)
    parser.add_argument("--full-speed", action="store_true", help="No drip from now on.")


def _rate_argument(parser: argparse.ArgumentParser, help_: str) -> None:
    parser.add_argument("--rate", type=number_of, metavar="N", help=help_)


def _undo_arguments(parser: argparse.ArgumentParser) -> None:
    _one(parser)
    _rate_argument(parser, "Jobs that are given back a second (default: as fast as it goes).")
    parser.add_argument("--yes", action="store_true", help="Do not ask.")
    act_arguments(parser)


ID = "01J9Z6T0Q5W9X3V8R2K7M4N1PB"
LISTED = "0 they could be looked at, also when there is none"
CHANGED = "0 all were changed   1 one could not be   2 unknown operation   4 none is open"
BULK = Subcommand(
    "bulk",
    "Operations on many jobs: what is under way; pause, resume, abort, undo.",
    list_all,
    description="`resurrect`, `cancel`, `remove`, `purge` and `edit` start them with --background, --rate and others; "
    "the Deck does too. Workers work them off.",
    examples=[
        ("bulk", "the last ones"),
        (f"bulk show {ID} --follow", "watch one until it ends"),
        ("bulk pause --all --reason 'the partner is down again'", "stop, for now"),
    ],
    adds=_list_arguments,
    exits=LISTED,
    children=[
        Subcommand(
            "list",
            "Operations, the newest first.",
            list_all,
            examples=[("bulk list --open", "those that may go on")],
            adds=_list_arguments,
            exits=LISTED,
        ),
        Subcommand(
            "show",
            "One operation in full, or its progress.",
            show_one,
            examples=[(f"bulk show {ID}", "what, by whom, how far"), (f"bulk show {ID} --follow", "watch it")],
            adds=_show_arguments,
            exits=f"without --follow: 0   with it: {ENDED}",
        ),
        Subcommand(
            "pause",
            "Act on no further job until `bulk resume`.",
            _change(control.bulk_pause, "is paused"),
            examples=[(f"bulk pause {ID} --reason 'too fast'", "one of them")],
            adds=_change_arguments,
            exits=CHANGED,
        ),
        Subcommand(
            "resume",
            "Go on with operations that were paused, stopped or failed.",
            _change(control.bulk_resume, "goes on"),
            description="One that its canary or its failures stopped is overruled: it begins to count anew.",
            examples=[(f"bulk resume {ID} --rate 10", "slower than before")],
            adds=partial(_change_arguments, rate=True),
            exits=CHANGED,
        ),
        Subcommand(
            "rate",
            "Another drip rate for operations that go on or are paused.",
            _set_rate,
            examples=[
                (f"bulk rate {ID} --rate 10", "slower, without a pause"),
                (f"bulk rate {ID} --full-speed", "as fast as it goes"),
            ],
            adds=_set_rate_arguments,
            exits=CHANGED,
        ),
        Subcommand(
            "skip-canary",
            "Go on with the rest without waiting until the canary has ended.",
            _change(control.bulk_skip_canary, "does not wait for its canary"),
            examples=[(f"bulk skip-canary {ID}", "the first ones take an hour, and look well")],
            adds=partial(_change_arguments, every="All that are open; those that wait for no canary are refused."),
            exits=CHANGED,
        ),
        Subcommand(
            "abort",
            "Act on no further job, ever. What was done stays.",
            _change(control.bulk_abort, "is cancelled"),
            examples=[(f"bulk abort {ID}", "and perhaps `bulk undo` then")],
            adds=_change_arguments,
            exits=CHANGED,
        ),
        Subcommand(
            "undo",
            "Take back what a purge, removal or edit did, by another operation.",
            _undo,
            description="What was purged or removed is restored; what was edited gets its own payload, priority "
            "and queue again, unless somebody edited it since. It is followed until it ends.",
            examples=[(f"bulk undo {ID}", "after a slip")],
            adds=_undo_arguments,
            exits=ENDED,
        ),
        Subcommand(
            "run",
            "Work an operation off in this process, whether workers run or not.",
            _run,
            examples=[(f"bulk run {ID}", "where no worker is alive")],
            adds=_one,
            exits=ENDED,
        ),
    ],
)
