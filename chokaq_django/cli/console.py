"""What a subcommand writes on: tables and lines for people, one JSON document for programs, progress for neither."""

from __future__ import annotations

import json
import os
import shutil
import sys
import time
from collections.abc import Iterable, Sequence
from typing import Any, NoReturn

from django.core.management.base import CommandError
from django.core.management.color import Style

from ..reading import names
from .table import Column, pairs, render, wrap
from .text import one_line

__all__ = [
    "EMPTY", "FINDINGS", "OK", "UNABLE", "USAGE", "Console", "Error", "columns_of", "error_document", "is_terminal",
    "meant", "unable", "usage",
]  # fmt: skip

OK, FINDINGS, USAGE, UNABLE, EMPTY = range(5)
"""Exit codes: done; not all of it, or something is wrong; asked wrongly, or not agreed to; the database or the settings
did not allow it; nothing was found, or had to be changed, which only the caller can tell whether it is well."""


def meant(name: object, valid: Iterable[str]) -> str:
    """`` Did you mean 'x'?``, where something like ``name`` is valid."""
    return one_line(names.meant(name, valid))


class Error(CommandError):
    """What ends a command; Django shows the name of the class before the message."""


def error_document(code: int, message: str) -> dict[str, Any]:
    """What ``--json`` says of an error."""
    return {"error": {"exit_code": code, "message": message}}


def columns_of(stream: Any) -> int | None:
    """The width to keep to on ``stream``; None where it is no terminal and nobody said: a pipe gets everything."""
    said = os.environ.get("COLUMNS", "")
    if said.isdecimal() and int(said) > 0:
        return max(40, int(said))
    return max(40, shutil.get_terminal_size().columns) if is_terminal(stream) else None


def is_terminal(stream: Any) -> bool:
    return bool(getattr(stream, "isatty", lambda: False)())


def usage(message: str) -> NoReturn:
    """End with a message that says what to ask for instead."""
    raise Error(message, returncode=USAGE)


def unable(message: str) -> NoReturn:
    """End with a message that says what to repair."""
    raise Error(message, returncode=UNABLE)


class Console:
    """``json``: nothing is written but the document. ``stream`` and ``errors`` are Django's output wrappers."""

    def __init__(self, stream: Any, errors: Any, style: Style, *, json: bool = False) -> None:
        self.stream, self.errors, self.style, self.json = stream, errors, style, json
        self.columns = columns_of(stream)

    @property
    def is_interactive(self) -> bool:
        """Whether somebody can answer a question."""
        return not self.json and is_terminal(sys.stdin) and is_terminal(self.stream)

    # -- for people ---------------------------------------------------------------------------------------------------

    def line(self, text: str = "", tone: str = "") -> None:
        """One line as it is: callers make harmless what they did not write themselves. ``tone``: good, warn, bad,
        head."""
        if self.json:
            return
        encoding = getattr(self.stream, "encoding", None) or "utf-8"
        self.stream.write(self._toned(text.encode(encoding, "backslashreplace").decode(encoding), tone))

    def step(self, text: str) -> None:
        """What is done next, seen before it is done, through a pipe too."""
        self.line(text)
        self.stream.flush()

    def aside(self, *lines: str) -> None:
        """Lines for whoever waits, on standard error: with ``--json`` too, and in no pipe."""
        for text in lines:
            self.errors.write(text, style_func=str)
        self.errors.flush()

    def _toned(self, text: str, tone: str) -> str:
        style: Any = self.style
        paint = {"good": style.SUCCESS, "warn": style.WARNING, "bad": style.ERROR, "head": style.MIGRATE_HEADING}
        return str(paint[tone](text)) if tone and text else text

    def paragraph(self, text: str, tone: str = "", indent: str = "", mark: str = "") -> None:
        """Wrapped text, made harmless; ``mark`` stands before its first line."""
        room = None if self.columns is None else self.columns - len(indent) - len(mark)
        for place, part in enumerate(wrap(one_line(text, 10_000), room)):
            self.line(f"{indent}{' ' * len(mark) if place else mark}{part}", tone)

    def heading(self, text: str) -> None:
        """A line that begins a part, made harmless."""
        self.line()
        self.paragraph(text, "head")

    def table(
        self, columns: Sequence[Column], rows: Iterable[Sequence[object]], tones: Sequence[str] | None = None
    ) -> None:
        """A table; ``tones``: one for each row."""
        if self.json:
            return
        heading, *lines = render(columns, rows, self.columns)
        self.line(heading, "head")
        for place, text in enumerate(lines):
            self.line(text, tones[place] if tones else "")

    def goes_on(self, cursor: str | None, more: str) -> None:
        """How to see the next page, where there is one; ``more`` says that there is."""
        if cursor is not None:
            self.line()
            self.line(f"{more}; narrow it, or go on:")
            self.line(f"  --after {cursor}")

    def pairs(self, entries: Iterable[tuple[str, object]]) -> None:
        if not self.json:
            for text in pairs(entries, self.columns):
                self.line(text)

    # -- for programs -------------------------------------------------------------------------------------------------

    def document(self, value: dict[str, Any]) -> None:
        """The one JSON document of a subcommand; nothing without ``--json``. ASCII only: no terminal is harmed."""
        if self.json:
            self.stream.write(json.dumps(value, indent=2, ensure_ascii=True))

    # -- questions and progress ---------------------------------------------------------------------------------------

    def confirm(self, question: str) -> bool:
        self.stream.write(f"{question} [y/N] ", ending="")
        self.stream.flush()
        try:
            return input().strip().lower() in ("y", "yes")
        except (EOFError, KeyboardInterrupt) as end:
            self.stream.write("")  # what comes next begins on a line of its own
            if isinstance(end, KeyboardInterrupt):
                raise
            return False

    def progress(self, total: int, what: str) -> Progress:
        self.stream.flush()  # what was said before the work is read before it, through a pipe too
        return Progress(self.errors if is_terminal(self.errors) and not self.json else None, total, what)


class Progress:
    """A bar on standard error that leaves nothing behind; silent where that is no terminal."""

    WIDTH = 30
    GAP = 0.1

    def __init__(self, stream: Any, total: int, what: str) -> None:
        self._stream, self._total, self._what = stream, max(total, 1), what
        self._drawn_at = 0.0
        self._drawn = False

    def show(self, done: int, *, total: int | None = None, note: str = "") -> None:
        """``total``: a new one, where it was not known at the beginning; ``note`` stands behind the figures."""
        now = time.monotonic()
        self._total = self._total if total is None else max(total, 1)
        if self._stream is None or (now - self._drawn_at < self.GAP and done < self._total):
            return
        self._drawn_at, self._drawn = now, True
        filled = self.WIDTH * min(done, self._total) // self._total
        bar = "#" * filled + "." * (self.WIDTH - filled)
        self._stream.write(
            f"\r{self._what} [{bar}] {done:,} of {self._total:,}{note}\x1b[K ", style_func=str, ending=""
        )
        self._stream.flush()

    def close(self) -> None:
        if self._drawn:
            self._stream.write("\r\x1b[K", style_func=str, ending="")
            self._stream.flush()
