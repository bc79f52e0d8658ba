"""What the acts on queues, types and options share: several names, one verb, a line for each and one document."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable

from ..storage import BulkResult
from .arguments import act_arguments, actor
from .console import EMPTY, OK
from .subcommand import Call
from .text import one_line

__all__ = ["change", "changed_codes", "names_arguments", "tell"]


def change(
    verb: Callable[..., BulkResult], clean: Callable[..., str], *, thing: str, done: str, applied: str = "applied"
) -> Callable[[Call], int]:
    """A subcommand that does ``verb`` to every name, if ``clean`` accepts all of them. ``thing``, ``done`` and
    ``applied`` as of :func:`tell`."""

    def run(call: Call) -> int:
        names = [clean(name, new=call.options["new"]) for name in call.options["names"]]
        by, reason = actor(call.options), call.options["reason"]
        answers = [verb(name, by=by, reason=reason) for name in dict.fromkeys(names)]
        return tell(call, by, answers, thing=thing, done=done, applied=applied)

    return run


def tell(
    call: Call, by: str, answers: Iterable[BulkResult], *, thing: str, done: str, applied: str = "applied"
) -> int:  # fmt: skip
    """What was changed and what was refused, and the exit code. ``done``: what is true then of a name; ``applied``:
    where JSON lists the names that were changed; ``thing``: what a name is called in a refusal."""
    answers = list(answers)
    names = [name for answer in answers for name in answer.applied]
    refused = [conflict for answer in answers for conflict in answer.refused]
    told = [{thing: each.id, "reason": each.reason} for each in refused]
    call.console.document({"by": by, applied: names, "refused": told})
    for name in names:
        call.console.line(f"{one_line(name)} {done}.", "good")
    for conflict in refused:
        call.console.paragraph(f"{one_line(conflict.id)}: {conflict.reason}", "warn")
    return OK if names else EMPTY


def names_arguments(parser: argparse.ArgumentParser, metavar: str, what: str, new: str) -> None:
    """``what`` the names are, and ``new``: what ``--new`` accepts."""
    parser.add_argument("names", nargs="+", metavar=metavar, help=what)
    parser.add_argument("--new", action="store_true", help=new)
    act_arguments(parser)


def changed_codes(wrong: str) -> str:
    return f"0 at least one was changed   2 {wrong}   4 none had to be"
