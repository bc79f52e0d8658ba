"""``settings``, ``settings set`` and ``settings reset``."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest
from django.utils import timezone

from chokaq_django import control
from chokaq_django.cli import console
from chokaq_django.cli.settings import SETTINGS
from chokaq_django.models import AuditEntry, Setting
from tests import factories as make

from .conftest import Run

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def plain(settings: Any) -> None:
    settings.CHOKAQ = {"WORKER": {"CONCURRENCY": 7}}


def stored() -> dict[str, str]:
    return dict(Setting.objects.values_list("name", "value"))


def test_an_edited_queue_that_settings_do_not_reach(settings: Any, chokaq: Run) -> None:
    settings.CHOKAQ = {"QUEUES": {"mail": {"MAX_WORKERS": 2}, "reports": {"MAX_WORKERS": 3}}}
    control.set_queue("mail", by="ada", max_workers=9)
    answer = chokaq("settings")
    (line, *_) = (line for line in answer.lines if line.startswith("QUEUES.mail.MAX_WORKERS "))
    assert line.split()[:5] == ["QUEUES.mail.MAX_WORKERS", "9", "operator", "2", "ada"]
    assert "ada has set limits of the queue" in " ".join(answer.out.split())
    assert "chokaq queue set mail`" in " ".join(answer.out.split())
    assert "chokaq queue reset mail`." in " ".join(answer.out.split())
    assert "QUEUES.reports" not in answer.out
    control.pause_queue("reports", by="ada")
    assert chokaq("queue", "reset", "mail").code == 0
    assert "QUEUES." not in chokaq("settings").out


def test_what_can_be_changed_and_who_has(chokaq: Run) -> None:
    control.set_setting("DECK.LAG_WARNING", 8, by="grace")
    answer = chokaq("settings")
    assert answer.code == 0
    lines = {line.split()[0]: line.split()[1:] for line in answer.lines}
    assert lines["DECK.LAG_WARNING"][:6] == ["8", "s", "operator", "5", "s", "grace"]
    assert lines["RETENTION.ARCHIVE"] == ["30", "d", "default", "-", "-", "-"]
    assert lines["RETENTION.DLQ_BY_REASON.Expired"][:3] == ["7", "d", "default"]
    assert "WORKER.CONCURRENCY" not in lines
    assert max(map(len, answer.lines)) <= 80
    everything = chokaq("settings", "--all").out
    assert "WORKER.CONCURRENCY" in everything
    assert all(line.startswith(("OPTION", "RETENTION")) for line in chokaq("settings", "--section", "retention").lines)


def test_a_document_for_programs(chokaq: Run) -> None:
    control.set_setting("RETENTION.DLQ_BY_TYPE.a.v1", None, by="ada")
    listed = {each["name"]: each for each in chokaq("settings", "--all", "--json").json["settings"]}
    assert listed["RETENTION.DLQ_BY_TYPE.a.v1"]["value"] is None
    assert (listed["RETENTION.DLQ_BY_TYPE.a.v1"]["source"], listed["RETENTION.DLQ_BY_TYPE.a.v1"]["set_by"]) == (
        "operator", "ada",
    )  # fmt: skip
    assert listed["WORKER.CONCURRENCY"]["value"] == 7
    assert "restart" in listed["RECOVERY.WORKER_TIMEOUT"]["fixed"]


def test_an_option_is_set_and_reset(chokaq: Run) -> None:
    answer = chokaq("settings", "set", "DECK.LAG_WARNING", "7s", "--by", "ada", "--reason", "noisy")
    assert (answer.code, stored()) == (0, {"DECK.LAG_WARNING": "7.0"})
    assert "DECK.LAG_WARNING is 7 s from now on" in answer.out
    entry = AuditEntry.objects.get()
    assert (entry.by, entry.reason, entry.target) == ("ada", "noisy", "DECK.LAG_WARNING")
    again = chokaq("settings", "set", "DECK.LAG_WARNING", "7 s")
    assert (again.code, "It is set to this already." in again.out) == (4, True)
    document = chokaq("settings", "reset", "DECK.LAG_WARNING", "--json", "--by", "ada").json
    assert document == {"by": "ada", "applied": ["DECK.LAG_WARNING"], "refused": []}
    assert stored() == {}
    assert chokaq("settings", "reset", "DECK.LAG_WARNING").code == 4


@pytest.mark.parametrize(("arguments", "said"), [
    (("set", "DECK.LAG_WARNING", "soon"), "DECK.LAG_WARNING must be a time such as 30 d, 12 h, 90 min or 2.5 s"),
    (("set", "DECK.LAG_WARNIN", "7s"), "DECK.LAG_WARNIN is not an option; did you mean 'DECK.LAG_WARNING'?"),
    (("set", "WORKER.CONCURRENCY", "7"), "another number from `python manage.py chokaq workers concurrency`."),
    (("set", "DECK.LAG_WARNING", "20s"), "DECK.LAG_WARNING (20 s) must be below DECK.LAG_CRITICAL (10 s)"),
    (("reset", "DECK.LAG"), "is not an option"),
    (("--section", "DECKS"), "There is no such section"),
])  # fmt: skip
def test_what_is_wrong_is_said(chokaq: Run, arguments: tuple[str, ...], said: str) -> None:
    answer = chokaq("settings", *arguments)
    assert answer.code == 2
    assert said.lower() in answer.error.lower()
    assert stored() == {}


def test_what_would_delete_is_said_and_asked_about(chokaq: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    for _ in range(3):
        make.archived(finished_at=timezone.now() - dt.timedelta(days=20))
    shorter = ("settings", "set", "RETENTION.ARCHIVE", "10d")
    dry = chokaq(*shorter, "--dry-run")
    assert (dry.code, stored()) == (0, {})
    assert "would delete 3 jobs" in " ".join(dry.out.split())
    assert chokaq(*shorter, "--dry-run", "--json").json == {"dry_run": True, "would_delete": 3, "more": False}
    refused = chokaq(*shorter)
    assert (refused.code, stored()) == (2, {})
    assert "Say --yes if that is meant." in refused.error
    monkeypatch.setattr(console.Console, "is_interactive", True)
    answers = iter(["n", "y"])
    monkeypatch.setattr("builtins.input", lambda: next(answers))
    assert (chokaq(*shorter).code, stored()) == (2, {})
    assert (chokaq(*shorter).code, stored()) == (0, {"RETENTION.ARCHIVE": "864000.0"})
    assert chokaq("settings", "set", "RETENTION.ARCHIVE", "5d", "--yes").code == 0
    assert chokaq("settings", "set", "RETENTION.ARCHIVE", "none").code == 0


def test_what_is_not_followed_is_said(chokaq: Run) -> None:
    Setting.objects.create(name="OLD.OPTION\x1b[31m", value="1", updated_at=timezone.now(), updated_by="ada")
    out = chokaq("settings").out
    assert "is not followed: is not an option" in " ".join(out.split())
    assert "\x1b" not in out


def test_the_examples_of_the_help_can_be_typed(chokaq: Run) -> None:
    for child in SETTINGS.children:
        for typed, _ in child.examples:
            answer = chokaq(*typed.split())
            assert answer.code == 0, (typed, answer)


def test_an_option_that_there_is_not_says_where_they_are(chokaq: Run) -> None:
    answer = chokaq("settings", "set", "SECRET", "3")
    assert answer.code == 2
    assert answer.error == "SECRET is not an option. What can be set: `python manage.py chokaq settings`."


@pytest.mark.parametrize("how", [(), ("--dry-run",)])
def test_one_that_there_is_not_cannot_be_reset_either(chokaq: Run, how: tuple[str, ...]) -> None:
    answer = chokaq("settings", "reset", "NOPE.X", *how)
    assert answer.error == "NOPE.X is not an option. What can be set: `python manage.py chokaq settings`."
    answer = chokaq("settings", "reset", "deck.lag_warning", *how)
    assert (answer.code, "did you mean 'DECK.LAG_WARNING'?" in answer.error) == (2, True), answer
    Setting.objects.create(name="OLD.OPTION", value="1", updated_at=timezone.now(), updated_by="ada")
    assert chokaq("settings", "reset", "OLD.OPTION", *how).code == 0, "an earlier version had it, and it is set"
