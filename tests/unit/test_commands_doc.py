"""``docs/reference/commands.md`` names every subcommand and every option of it."""

from __future__ import annotations

import argparse
import re

import pytest

from chokaq_django.cli import SUBCOMMANDS
from chokaq_django.doctor import engines, fleet, schema, wake, work

from ..helpers import ROOT

TEXT = (ROOT / "docs" / "reference" / "commands.md").read_text()
MONITOR = (ROOT / "docs" / "how-to" / "monitor.md").read_text()
SECTIONS = dict(re.findall(r"^### `chokaq ([\w ]+)`\n(.*?)(?=^##|\Z)", TEXT, flags=re.MULTILINE | re.DOTALL))
ALL = [(subcommand.name, subcommand) for subcommand in SUBCOMMANDS] + [
    (f"{subcommand.name} {child.name}", child) for subcommand in SUBCOMMANDS for child in subcommand.children
]
SHARED = {
    "--queue", "--type", "--status", "--failure", "--fingerprint", "--tag", "--since", "--limit", "--by", "--reason",
    "--json", "--help",
}  # fmt: skip
"""Options of many, which have a section of their own."""


@pytest.mark.parametrize(("name", "subcommand"), ALL, ids=[name for name, _ in ALL])
def test_every_subcommand_and_option_is_documented(name: str, subcommand: object) -> None:
    parser = argparse.ArgumentParser(add_help=False)
    if subcommand.adds is not None:  # type: ignore[attr-defined]
        subcommand.adds(parser)  # type: ignore[attr-defined]
    options = {
        option
        for action in parser._actions
        if action.help != argparse.SUPPRESS
        for option in action.option_strings
        if option.startswith("--")
    }
    assert name in SECTIONS
    missing = [option for option in sorted(options - SHARED) if f"`{option}" not in SECTIONS[name]]
    assert missing == []


def test_shared_options_are_documented() -> None:
    before = TEXT.partition("### `chokaq ")[0]
    assert [option for option in sorted(SHARED - {"--help"}) if f"`{option}" not in before] == []


def test_no_subcommand_is_documented_that_is_none() -> None:
    assert set(SECTIONS) == {name for name, _ in ALL}


def test_every_finding_is_documented() -> None:
    sources = [(ROOT / "chokaq_django" / "health.py").read_text()]
    sources += [(ROOT / "chokaq_django" / "doctor" / f"{module.__name__.rpartition('.')[2]}.py").read_text()
                for module in (engines, fleet, schema, wake, work)]  # fmt: skip
    codes = set(re.findall(r'Diagnosis\(\s*"(\w+)"', "".join(sources)))
    codes |= set(re.findall(r'(?:WORKER|SATURATION|STORAGE),\s*"(\w+)"', sources[0]))
    codes |= set(re.findall(r'_unusable\(\s*"(\w+)"', sources[0]))
    assert len(codes) > 25
    assert [code for code in sorted(codes) if f"`{code}`" not in TEXT + MONITOR] == []
