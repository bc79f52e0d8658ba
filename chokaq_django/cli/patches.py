"""Changes of payloads on the command line, and what a dry run says of them."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ..control import PatchPreview
from ..control.payloads import clean_patch
from ..job.envelope import EnvelopeError
from ..job.patch import Change, PayloadPatch, pointer_of
from ..job.verbatim import read, scalar
from ..reading.masks import mask_text
from .console import EMPTY, FINDINGS, OK, usage
from .subcommand import Call
from .text import one_line

__all__ = ["MOST_TRIED", "patch_arguments", "patch_of", "tell_trial", "trial_code"]

MOST_TRIED = 10_000
SHOWN = 5
WIDTH = 300
SET, REMOVE, VALUE, MISSING = "--set", "--remove", "--where-value", "--where-missing"


class _InOrder(argparse.Action):
    """Keeps what is said by several options in the order in which it is said."""

    def __call__(self, parser: object, namespace: argparse.Namespace, values: Any, option: str | None = None) -> None:
        setattr(namespace, self.dest, [*(getattr(namespace, self.dest) or ()), (option, values)])


def patch_arguments(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group(
        "fields of the payload",
        "Each job keeps the rest of its own payload, which is checked by its type; one that would not fit stays as it "
        "is. FIELD is currency, lines[0].sku, or a JSON Pointer such as /lines/0/sku. Values are JSON: a text is in "
        "quotes. Every condition must hold.",
    )
    for option, metavar, told in (
        (SET, "FIELD=JSON", "The field becomes this; may be said several times, as the others may."),
        (REMOVE, "FIELD", "The field is taken out."),
        (VALUE, "FIELD=JSON", "Only where the field is this now."),
        (MISSING, "FIELD", "Only where there is no such field."),
    ):
        group.add_argument(option, metavar=metavar, help=told, action=_InOrder, dest="changes")
    group.add_argument(
        "--patch", metavar="JSON", help="The same as a JSON Patch (RFC 6902): JSON, @file, or - for standard input."
    )


def patch_of(options: Mapping[str, Any]) -> PayloadPatch | None:
    """The patch that the options ask for; None where they ask for none."""
    said: Sequence[tuple[str, str]] = options["changes"] or ()
    if options["patch"] is not None:
        if said:
            usage("Say --patch, or fields by --set, --remove and conditions.")
        return _clean(_text(options["patch"]))
    if not said:
        return None
    tests = [_test(option, text) for option, text in said if option in (VALUE, MISSING)]
    changes = [_change(option, text) for option, text in said if option in (SET, REMOVE)]
    if not changes:
        usage("These are conditions: say what is to change too, by --set or --remove.")
    return _clean(PayloadPatch((*tests, *changes)).text())


def _clean(text: str) -> PayloadPatch:
    try:
        return clean_patch(text)
    except EnvelopeError as error:
        usage(f"The patch {error.message}.")


def _test(option: str, text: str) -> Change:
    if option == MISSING:
        return Change("test", _pointer(option, text), absent=True)
    path, value = _pair(option, text)
    return Change("test", path, value)


def _change(option: str, text: str) -> Change:
    if option == REMOVE:
        return Change("remove", _pointer(option, text))
    path, value = _pair(option, text)
    last = path.rpartition("/")[2]
    # An item of a list is put in the place of the one there; to add would put it before.
    return Change("replace" if last.isdecimal() else "add", path, value)


def _pair(option: str, text: str) -> tuple[str, Any]:
    name, equals, value = text.partition("=")
    if not equals:
        usage(f"{option} {one_line(text, 80)}: say FIELD=JSON, as in currency='\"EUR\"'.")
    try:
        return _pointer(option, name), read(value)
    except ValueError:
        quoted = f"; a text is in quotes: {name}='{scalar(value[:60])}'" if value else ""
        usage(f"{option} {one_line(name, 80)}: {one_line(value, 60) or 'nothing'} is no JSON{one_line(quoted, 200)}.")


def _pointer(option: str, text: str) -> str:
    try:
        return pointer_of(text)
    except EnvelopeError as error:
        usage(f"{option}: the field {error.message}.")


def _text(given: str) -> str:
    """JSON itself, in a file (``@path``), or on standard input (``-``)."""
    if given == "-":
        return sys.stdin.read()
    if not given.startswith("@"):
        return given
    try:
        return Path(given[1:]).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        usage(f"--patch {one_line(given, 200)}: {error}")


def tell_trial(call: Call, seen: PatchPreview) -> None:
    """What a patch would do, in a few lines."""
    console = call.console
    of = "all of them" if seen.complete else f"the oldest {seen.looked:,}"
    console.line(f"Tried on {of}: {seen.changed:,} would change.", "good" if seen.changed else "warn")
    for count, words in (
        (seen.tested_out, "stay as they are: a condition does not hold."),
        (seen.unchanged, "are so already."),
        (seen.elsewhere, "are neither waiting nor dead."),
    ):
        if count:
            console.line(f"  {count:,} {words}")
    if seen.unfit:
        console.line(f"  {seen.unfit:,} would be refused:", "bad")
        for refusal in seen.refusals[:SHOWN]:
            console.paragraph(refusal.reason, indent="    ", mark=f"{refusal.id}  ")
    for example in seen.examples[:1]:
        console.line(f"  {example.id}:")
        for sign, text in (("-", example.before), ("+", example.after)):
            console.paragraph(one_line(mask_text(text).text, WIDTH), indent="    ", mark=f"{sign} ")


def trial_code(seen: PatchPreview) -> int:
    """The exit code that the change would have, as far as it was tried."""
    if seen.unfit:
        return FINDINGS
    return OK if seen.changed else EMPTY
