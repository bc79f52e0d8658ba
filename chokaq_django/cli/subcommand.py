"""What a subcommand is, and how its help looks."""

from __future__ import annotations

import argparse
import datetime as dt
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from django.core.management.base import DjangoHelpFormatter

from ..conf import get_options
from ..storage import get_storage
from .console import Console

__all__ = ["Call", "HelpFormatter", "Subcommand", "examples_text"]


class HelpFormatter(DjangoHelpFormatter):
    """Django's, with examples that keep their lines."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        if "\n" in text:
            return "".join(indent + line for line in text.splitlines(keepends=True))
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
        """The job database's clock, which every age is measured by."""
        return get_storage(self.alias).now()


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
        if self.children:
            nested = parser.add_subparsers(title="actions", metavar="ACTION")
            for child in self.children:
                child.put(nested, base)


def examples_text(examples: Sequence[tuple[str, str]]) -> str:
    """The examples of a help text, each with what it does."""
    lines = ["examples:"]
    for typed, does in examples:
        lines += [f"  manage.py chokaq {typed}", f"      {does}"]
    return "\n".join(lines)
