"""Runs ``manage.py chokaq`` in this process, and reads what it said."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError


@dataclass(frozen=True)
class Answer:
    """What a run said, and its exit code."""

    code: int
    out: str
    error: str = ""
    aside: str = ""
    """What it said on standard error while it worked."""

    @property
    def json(self) -> dict[str, Any]:
        document: dict[str, Any] = json.loads(self.out)
        return document

    @property
    def lines(self) -> list[str]:
        return self.out.splitlines()


Run = Callable[..., Answer]


@pytest.fixture(autouse=True)
def patient(patience: None) -> None:
    """What workers' rows say holds for a whole test."""


@pytest.fixture
def chokaq(monkeypatch: pytest.MonkeyPatch) -> Run:
    """``chokaq("jobs", "--queue", "mail")``, on a terminal of 80 columns that shows no colours."""
    monkeypatch.setenv("COLUMNS", "80")

    def run(*arguments: str) -> Answer:
        out, aside, code, error = io.StringIO(), io.StringIO(), 0, ""
        try:
            call_command("chokaq", *arguments, "--no-color", stdout=out, stderr=aside)
        except CommandError as refused:
            code, error = refused.returncode, str(refused)
        except SystemExit as end:
            code = int(end.code or 0)
        return Answer(code, out.getvalue(), error, aside.getvalue())

    return run
