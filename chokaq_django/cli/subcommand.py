"""What a subcommand is, and how its help looks."""

from __future__ import annotations

import argparse
import datetime as dt
import re
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.core.management.base import DjangoHelpFormatter

from ..conf import get_options
from ..reading.settings import follow_settings
from ..storage import get_storage
from .console import Console
from .program import NAME, typed
from .table import GAP, wrap

__all__ = ["Call", "HelpFormatter", "Subcommand", "examples_text", "overview"]

INDENT = "  "
EXAMPLE = 80
"""Columns of an example, at most."""
_WORD = re.compile(r"(?:[^\s'\"]|'[^']*'|\"[^\"]*\")+")
MOST_NAMED = 12
"""Options, Django's own included, that a usage line names; below it the help has all of them."""


class HelpFormatter(DjangoHelpFormatter):
    """Django's, with examples that keep their lines."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        if "\n" in text:
            return "".join(indent * bool(line.strip()) + line for line in text.splitlines(keepends=True))
        return super()._fill_text(text, width, indent)


@dataclass(slots=True)
class Call:
    """One run of a subcommand. ``options`` are its arguments by name."""

    console: Console
    options: dict[str, Any]

    @property
    def alias(self) -> str:
        """The job database."""
        return get_options().database

    def now(self) -> dt.datetime:
        """The job database's clock, which every age is measured by; from then on, the options that hold now."""
        now = get_storage(self.alias).now()
        follow_settings()
        return now


@dataclass(frozen=True, slots=True)
class Subcommand:
    """``run`` answers with the exit code. ``examples``: what to type, and what that does.

    ``adds`` puts arguments on the parser; ``children`` are subcommands of this one, which runs itself without them.
    """

    name: str
    summary: str
    run: Callable[[Call], int]
    description: str = ""
    examples: Sequence[tuple[str, str]] = ()
    adds: Callable[[argparse.ArgumentParser], None] | None = None
    children: Sequence[Subcommand] = ()
    exits: str = ""

    def put(self, subparsers: Any, base: Callable[[argparse.ArgumentParser], None]) -> None:
        """Add this subcommand; ``base`` adds what all have."""
        ends = [examples_text(self.examples)] if self.examples else []
        if self.exits:
            ends.append("\n  ".join(["exit code:", *self.exits.split("   ")]))
        parser = subparsers.add_parser(
            self.name,
            help=self.summary,
            description=self.description or self.summary,
            epilog="\n\n".join(ends) or None,
            formatter_class=HelpFormatter,
        )
        if self.adds is not None:
            self.adds(parser)
        parser.add_argument(
            "--json", action="store_true", default=argparse.SUPPRESS, help="One JSON document instead of text."
        )
        base(parser)
        parser.set_defaults(run=self.run)
        if sum(bool(action.option_strings) for action in parser._actions) > MOST_NAMED:
            actions = " [ACTION ...]" if self.children else ""
            parser.usage = f"%(prog)s [options]{''.join(map(_positional, parser._actions))}{actions}"
        if self.children:
            nested = parser.add_subparsers(title="actions", metavar="ACTION", prog=parser.prog)
            for child in self.children:
                child.put(nested, base)


def _positional(action: argparse.Action) -> str:
    """An argument without a name, as a usage line has it."""
    if action.option_strings or isinstance(action, argparse._SubParsersAction):
        return ""
    ends = {"*": " [{} ...]", "+": " {} [{} ...]", "?": " [{}]"}.get(str(action.nargs or ""), " {}")
    return ends.replace("{}", str(action.metavar or action.dest))


def overview(parts: Mapping[str, Sequence[Subcommand]]) -> str:
    """The subcommands by part, each with its summary."""
    room = shutil.get_terminal_size().columns - len(INDENT) - 2
    names = max(len(subcommand.name) for part in parts.values() for subcommand in part)
    lines: list[str] = []
    for title, part in parts.items():
        lines += ["", f"{title}:"]
        for subcommand in part:
            first, *others = wrap(subcommand.summary, max(20, room - names - len(GAP)))
            lines.append(f"{INDENT}{subcommand.name:<{names}}{GAP}{first}")
            lines += [f"{INDENT}{'':<{names}}{GAP}{other}" for other in others]
    return "\n".join(lines[1:])


def examples_text(examples: Sequence[tuple[str, str]], command: str = NAME) -> str:
    """The examples of the help text of a command, each with what it does."""
    lines = ["examples:"]
    for example, does in examples:
        lines += [*_to_copy(typed(example, command)), f"      {does}"]
    return "\n".join(lines)


def _to_copy(text: str) -> list[str]:
    """A command in lines that a terminal of 80 columns shows whole, and that can be copied into a shell together."""
    lines = [INDENT]
    for word in _WORD.findall(text):
        line = f"{lines[-1]}{word}"
        if len(line) + len(" \\") > EXAMPLE and lines[-1].strip():
            lines[-1] += "\\"
            line = f"{INDENT * 2}{word}"
            lines.append(line)
        lines[-1] = f"{line} "
    return [line.rstrip() for line in lines]
