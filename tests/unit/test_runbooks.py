"""What the runbooks say to type is right: nobody tries it for the first time at three in the morning."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from chokaq_django.job.failures import FailureReason
from chokaq_django.management.commands.chokaq import Command

from ..helpers import ROOT

FOLDER = ROOT / "docs" / "how-to" / "runbooks"
BOOKS = sorted(FOLDER.glob("*.md"))
TYPED = re.compile(r"^\s*\$ python manage\.py chokaq (.*?)(?<!\\)$", re.MULTILINE | re.DOTALL)
PARTS = ("**Symptom.**", "## Check", "## Safe", "## Avoid", "## Confirm")


def commands() -> list[tuple[str, str]]:
    return [(book.stem, typed.replace("\\\n", " ")) for book in BOOKS for typed in TYPED.findall(book.read_text())]


@pytest.mark.parametrize(("book", "typed"), commands())
def test_every_command_is_right(book: str, typed: str) -> None:
    parsed = Command().create_parser("manage.py", "chokaq").parse_args(shlex.split(typed))
    assert callable(parsed.run)


@pytest.mark.parametrize("book", [book for book in BOOKS if book.stem != "README"], ids=lambda book: book.stem)
def test_each_says_what_a_runbook_says(book: Path) -> None:
    text = book.read_text()
    places = [text.index(part) for part in PARTS]
    assert places == sorted(places)
    assert f"]({book.name})" in (FOLDER / "README.md").read_text()


@pytest.mark.parametrize("book", BOOKS, ids=lambda book: book.stem)
def test_links_lead_somewhere(book: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", book.read_text()):
        assert (book.parent / target).exists(), target


def test_reasons_are_called_as_they_are() -> None:
    text = (FOLDER / "dlq-spike.md").read_text()
    named = re.findall(r"^\| (\w+)[,|]? ", text.partition("| reason |")[2], re.MULTILINE)
    assert {name for name in named if name[0].isupper()} <= {reason.label for reason in FailureReason}
