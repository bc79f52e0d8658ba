"""``docs/reference/commands.md`` names every subcommand, option and field, and no other; the other pages name every
public name, verb, finding, check and log event, and what they tell to type can be typed."""

from __future__ import annotations

import argparse
import re
import shlex
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
from django.utils import timezone

import chokaq_django
from chokaq_django import control
from chokaq_django.management.commands.chokaq import Command as Chokaq
from chokaq_django.management.commands.runworker import Command as RunWorker
from chokaq_django.observability.events import Event
from chokaq_django.storage import get_storage

from .. import factories as make
from ..helpers import ROOT
from .conftest import Run

pytestmark = pytest.mark.any_engine

PAGE = (ROOT / "docs" / "reference" / "commands.md").read_text()
HEADING = re.compile(r"^(#{2,3}) (.*)$", re.MULTILINE)
OPTION = re.compile(r"--[a-z][a-z-]+")
SHARED = {
    "--json": "What all subcommands share", "--dry-run": "Acts", "--yes": "Acts", "--reason": "Acts", "--by": "Acts",
    "--all": "Acts", "--limit": "Filters", "--after": "Filters",
}  # fmt: skip
"""Options that one part of the page describes for every subcommand that has them."""
GROUPS = {"filter": "Filters", "in the background": "In the background"}
"""The groups of the help that a part describes."""


def parts() -> dict[str, str]:
    """The text below each heading."""
    found = list(HEADING.finditer(PAGE))
    ends = [*(match.start() for match in found[1:]), len(PAGE)]
    return {match[2].replace("`", ""): PAGE[match.end() : end] for match, end in zip(found, ends, strict=True)}


def subcommands() -> Iterator[tuple[str, argparse.ArgumentParser]]:
    def below(parser: argparse.ArgumentParser, name: str) -> Iterator[tuple[str, argparse.ArgumentParser]]:
        for action in parser._actions:
            if isinstance(action, argparse._SubParsersAction):
                for word, child in action.choices.items():
                    yield f"{name} {word}", child
                    yield from below(child, f"{name} {word}")

    yield from below(Chokaq().create_parser("manage.py", "chokaq"), "chokaq")


PARTS, SUBCOMMANDS = parts(), dict(subcommands())


def options(parser: argparse.ArgumentParser) -> dict[str, str]:
    """The options that the help shows, each with the group it stands in."""
    return {
        name: str(group.title)
        for group in parser._action_groups
        for action in group._group_actions
        if action.help != argparse.SUPPRESS
        for name in action.option_strings
        if name.startswith("--") and name != "--help"
    }


@pytest.mark.parametrize("name", SUBCOMMANDS)
def test_every_subcommand_and_option_is_described(name: str) -> None:
    assert name in PARTS
    for option, group in options(SUBCOMMANDS[name]).items():
        where = [PARTS[name], PARTS.get(GROUPS.get(group, ""), ""), PARTS.get(SHARED.get(option, ""), "")]
        assert any(option in OPTION.findall(text) for text in where), f"{name}: {option} is not described"


@pytest.mark.parametrize("name", SUBCOMMANDS)
def test_no_other_option_is_described(name: str) -> None:
    every = {option for parser in SUBCOMMANDS.values() for option in options(parser)}
    described = re.findall(r"^\| (.*?) \|", PARTS[name], re.MULTILINE)  # the first column of its tables
    for option in OPTION.findall(" ".join(described)):
        assert option in options(SUBCOMMANDS[name]), f"{name} has no {option}"
    assert set(OPTION.findall(PARTS[name])) <= every


def test_no_other_subcommand_is_described() -> None:
    assert {name for name in PARTS if name.startswith("chokaq ")} == set(SUBCOMMANDS)


def test_every_option_of_the_worker_is_described() -> None:
    parser = RunWorker().create_parser("manage.py", "runworker")
    djangos = {"--version", "--verbosity", "--settings", "--pythonpath", "--traceback", "--no-color", "--force-color"}
    ours = set(options(parser)) - djangos - {"--skip-checks"}
    assert set(OPTION.findall(PARTS["runworker"])) == ours


def test_every_finding_is_described() -> None:
    health, doctor = (
        "".join(path.read_text() for path in sorted((ROOT / "chokaq_django" / package).glob("*.py")))
        for package in ("health", "doctor")
    )
    codes = set(re.findall(r'Diagnosis\(\s*"(\w+)"', health + doctor))
    codes |= set(re.findall(r'(?:WORKER|SATURATION|STORAGE),\s*"(\w+)"', health))
    codes |= set(re.findall(r'_unusable\(\s*"(\w+)"', health))
    assert len(codes) > 25
    described = PAGE + (ROOT / "docs" / "how-to" / "monitor.md").read_text()
    assert [code for code in sorted(codes) if f"`{code}`" not in described] == []


AS_OF = {"chokaq dlq list": "chokaq jobs", "chokaq bulk list": "chokaq bulk", "chokaq queue": "chokaq queues",
         "chokaq failures show": "chokaq failures"}  # fmt: skip
"""Documents that the page describes elsewhere."""
SHARED_PARTS = ("Acts", "In the background", "chokaq health", "chokaq queues", "chokaq circuits")
BY_NAME = {"queues", "types", "details", "where", "arguments", "checks", "filter", "headers", "job", "new_ids"}
"""What these hold has names of its own, or is described on another page."""
READ = (
    "status", "health", "queues", "workers", "jobs", "jobs --status succeeded", "jobs --status dead",
    "jobs --status purged", "job {dead}", "dlq", "dlq list", "failures", "failures show {fingerprint}",
    "failures triage {fingerprint} --note x", "circuits --all", "audit", "doctor", "bulk", "bulk show {bulk} --refused",
    "bulk pause {bulk}", "bulk run {bulk}", "queue", "settings", "settings set DECK.LAG_WARNING 4s",
    "settings set DECK.LAG_WARNING 3s --dry-run", "settings reset DECK.LAG_WARNING", "pause mail", "resume mail",
    "queue set mail --max-workers 3", "queue hide mail", "queue show mail", "workers stop --all",
    "workers drain --all", "workers concurrency 5 --all", "circuits open test.note", "circuits close test.note",
    "circuits reset test.note", "cancel {hot} --dry-run", "cancel {hot}", "run-again {archived}",
    "purge {dead} --dry-run",
    "purge --all --detach --dry-run", "edit {other} --set text='\"b\"' --dry-run", "restore {purged}",
    "resurrect {dead}", "remove {other}", "token ada", "bench --clean-up", "doctor --recount",
)  # fmt: skip


def keys(value: object) -> Iterator[str]:
    if isinstance(value, list):
        for each in value[:1]:
            yield from keys(each)
    if isinstance(value, dict):
        for name, held in value.items():
            yield name
            if name not in BY_NAME or isinstance(held, list):
                yield from keys(held)


@pytest.mark.django_db
@pytest.mark.parametrize("typed", READ)
def test_every_field_of_a_document_is_described(chokaq: Run, typed: str) -> None:
    dead = make.dead(queue="mail", fingerprint="1a" * 16)
    names = {
        "dead": dead.pk, "hot": make.hot(queue="mail").pk, "other": make.hot(queue="mail").pk,
        "archived": make.archived().pk, "purged": make.purged().pk, "fingerprint": dead.fingerprint,
        "bulk": control.bulk_cancel([dead.pk], by="ada").id,
    }  # fmt: skip
    get_storage().recount_groups()
    make.queue("mail")
    make.worker()
    make.circuit("test.note", state=1, opened_at=timezone.now())
    make.operator("view_deck", username="ada")
    make.audit_entry()
    words = shlex.split(typed.format_map(names))
    document = chokaq(*words, "--json").json
    assert "error" not in document, document
    name = next(each for each in (f"chokaq {' '.join(words[:2])}", f"chokaq {words[0]}") if each in PARTS)
    described = "".join(PARTS[each] for each in (name, AS_OF.get(name, name), *SHARED_PARTS))
    missing = [key for key in keys(document) if not re.search(rf"`{key}`|\"{key}\"", described)]
    assert missing == [], typed


# -- the other pages ---------------------------------------------------------------------------------------------------

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
TYPED = re.compile(r"^\s*\$ (.*?)(?<!\\)$", re.MULTILINE | re.DOTALL)


def typed_in(page: Path) -> list[str]:
    return [" ".join(typed.replace("\\\n", " ").split()) for typed in TYPED.findall(page.read_text())]


def anchors(page: Path) -> set[str]:
    """What a link may lead to, as GitHub makes it of the headings."""
    text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_links_lead_somewhere(page: Path) -> None:
    for link in re.findall(r"\]\(([^)\s]+)\)", page.read_text()):
        if link.startswith("https://"):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), link
        assert not anchor or target.suffix != ".md" or anchor in anchors(target), link


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_what_is_to_be_typed_can_be_typed(page: Path) -> None:
    parsers = {"chokaq": Chokaq, "runworker": RunWorker}
    for typed in typed_in(page):
        assert not typed.startswith(("manage.py", "./manage.py", "chokaq")), typed
        words = shlex.split(re.split(r" (?:\|\| |> )", typed)[0], comments=True)
        if words[:2] == ["python", "manage.py"] and words[2] in parsers:
            given = ["0" if word.startswith("...") else word for word in words[3:]]
            parsers[words[2]]().create_parser("manage.py", words[2]).parse_args(given)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_page_is_found(page: Path) -> None:
    links = "".join(each.read_text() for each in PAGES if each != page)
    assert page.name == "README.md" or f"{page.name})" in links or f"{page.name}#" in links


def test_every_public_name_is_described() -> None:
    text = (ROOT / "docs" / "reference" / "jobs.md").read_text() + PAGE
    names = [name for name in chokaq_django.__all__ if name not in ("__version__",)]
    assert [name for name in names if not re.search(rf"`[^`]*\b{name}\b", text)] == []


def test_every_verb_is_described() -> None:
    text = (ROOT / "docs" / "reference" / "control.md").read_text()
    verbs = [name for name in control.__all__ if name.islower() and not name.startswith("clean_")]
    assert len(verbs) > 30
    assert [name for name in verbs if not re.search(rf"`{name}\(|`control.{name}|`{name}`", text)] == []


def test_every_log_event_is_described_once() -> None:
    text = (ROOT / "docs" / "reference" / "log-events.md").read_text()
    rows = re.findall(r"^\| `(\w+)` \| (\d+) \|", text, re.MULTILINE)
    assert rows == [(event.name, str(int(event))) for event in Event]


def test_every_check_is_described() -> None:
    text = (ROOT / "docs" / "reference" / "checks.md").read_text()
    code = "".join(path.read_text() for path in (ROOT / "chokaq_django").rglob("*.py"))
    described = set(re.findall(r"^\| `(chokaq\.[EWI]\d+)`", text, re.MULTILINE))
    assert described == set(re.findall(r"chokaq\.[EWI]\d{3}", code))


def test_every_package_that_is_needed_has_its_reason() -> None:
    text = (ROOT / "docs" / "explanation" / "decisions.md").read_text().lower()
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    needed = [
        *project["dependencies"],
        *(each for extra in project["optional-dependencies"].values() for each in extra),
    ]
    names = {re.split(r"[\[<>=~ ]", each)[0].lower() for each in needed} - {"chokaq-django"}
    assert [name for name in names if name.replace("-binary", "") not in text and not name.startswith("types-")] == []


def test_every_subcommand_that_takes_a_reason_is_an_act() -> None:
    said = PARTS["Acts"].partition("change something")[0]
    acts = {f"chokaq {name.strip()}" for each in re.findall(r"`(.*?)`", said) for name in spelled_out(each)}
    takes = {name for name, parser in SUBCOMMANDS.items() if {"--reason", "--by"} <= set(options(parser))}
    assert acts == {name.replace("chokaq doctor", "chokaq doctor --recount") for name in takes}


def spelled_out(short: str) -> list[str]:
    """``queue set|hide`` as ``queue set`` and ``queue hide``."""
    head, _, last = short.rpartition(" ")
    return [f"{head} {each}" for each in last.split("|")]
