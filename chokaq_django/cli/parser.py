"""Reads what was typed, and says what is wrong with it: in one sentence, with the nearest name that there is, and as
JSON where JSON was asked for."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from typing import Any, NoReturn, cast

from django.core.management.base import CommandParser

from .console import USAGE, Error, columns_of, error_document, meant
from .table import wrap
from .text import one_line

__all__ = ["Parser"]


class Parser(CommandParser):
    """argparse's, with sentences for errors. Names may stand before and behind options, where there may be several."""

    @classmethod
    def over(cls, parser: argparse.ArgumentParser) -> Parser:
        """``parser``, which Django has made itself, as one of these; so are the parsers of its subcommands then."""
        parser.__class__ = cls
        return cast(Parser, parser)

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> tuple[argparse.Namespace, list[str]]:  # type: ignore[override]
        found, unknown = super().parse_known_args(args, namespace)
        for word in unknown:
            if word == "--":
                continue
            if word.startswith("-") or (names := self._names()) is None:
                self.error(self._unknown(word))
            setattr(found, names, [*getattr(found, names), word])
        return found, []

    def _names(self) -> str | None:
        """Where names go of which there may be several."""
        several = (each for each in self._actions if not each.option_strings and each.nargs in ("*", "+"))
        return next((each.dest for each in several), None)

    def _unknown(self, word: str) -> str:
        if not word.startswith("-"):
            return f"{one_line(word, 60)!r} is one argument too many."
        option = word.partition("=")[0]
        for below in self._below():
            if any(option in child._option_string_actions for child in below.choices.values()):
                return f"{option} goes behind the {str(below.metavar).lower()}."
        shown = [name for each in self._actions if each.help != argparse.SUPPRESS for name in each.option_strings]
        return f"There is no option {one_line(option, 60)}.{meant(option, shown)}"

    def _below(self) -> Iterator[argparse._SubParsersAction[argparse.ArgumentParser]]:
        for action in self._actions:
            if isinstance(action, argparse._SubParsersAction):
                yield action

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        choices = action.choices
        if choices is None or value in choices:
            return
        names = [str(each) for each in choices]
        what = "value of " + "/".join(action.option_strings) if action.option_strings else str(action.metavar).lower()
        near = meant(value, names)
        listed = "" if near and isinstance(action, argparse._SubParsersAction) else f" There are {', '.join(names)}."
        raise argparse.ArgumentError(None, f"{one_line(value, 60)!r} is no {what}.{near}{listed}")

    def error(self, message: str) -> NoReturn:
        """End with exit code 2; a call from code gets a ``CommandError`` instead."""
        said = _sentence(message)
        if not self.called_from_command_line:
            raise Error(said, returncode=USAGE)
        if "--json" in sys.argv:
            sys.stdout.write(json.dumps(error_document(USAGE, said)) + "\n")
        wide = columns_of(sys.stderr)
        lines = [*wrap(f"Error: {said}", wide), *wrap(f"See `{self.prog} --help`.", wide)]
        self.exit(USAGE, "\n".join(lines) + "\n")


def _sentence(message: str) -> str:
    """What argparse says, as a sentence."""
    names = message.removeprefix("the following arguments are required: ")
    if names != message:
        return f"{names} {'are' if ',' in names else 'is'} missing."
    said = message.removeprefix("argument ").replace(": must be ", " must be ", 1)
    return said.replace(": expected one argument", " needs a value", 1)
