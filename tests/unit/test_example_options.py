"""Every option can be set from the environment of the example project, and every option is documented."""

from __future__ import annotations

import dataclasses
import re

import environ
import pytest

from chokaq_django.conf import Options, parse_options
from example_project.options import options_from_env

from ..helpers import ROOT

# A value that differs from the default, as the environment spells it; what is not listed here is a number.
TEXTS = {
    "DATABASE": "other",
    "PRESET": "nexjob",
    "MIDDLEWARE": "shop.middleware.tenant,shop.middleware.audit",
    "QUEUES": '{"reports": {"MAX_WORKERS": 2, "EXECUTION_TIMEOUT": 3600}}',
    "WAKE_UP": "poll",
    "LISTEN_DATABASE": "direct",
    "CANCEL_ON_HEARTBEAT_FAILURE": "true",
    "CRASH_POLICY": "retry",
    "ARCHIVE_BY_QUEUE": '{"mail": 60}',
    "ARCHIVE_BY_TYPE": '{"email.send.v1": 60}',
    "DLQ_BY_QUEUE": '{"mail": null}',
    "DLQ_BY_TYPE": '{"email.send.v1": 60}',
    "DLQ_BY_REASON": '{"Cancelled": 60}',
    # numbers that must fit each other
    "HEARTBEAT_MIN": "2",
    "HEARTBEAT_MAX": "3",
    "WORKER_TIMEOUT": "17",
    "MAX_DELAY": "9000",
    "LAG_UNHEALTHY": "40",
    "LAG_CRITICAL": "40",
    "READ_DATABASE": "replica",
    "MASK_FIELDS": "*pin*,*iban*",
}


def accepted() -> list[tuple[str, str]]:
    """Every option as (section, name); the section of a top-level option is empty."""
    found = []
    for field in dataclasses.fields(Options):
        value = getattr(Options(), field.name)
        if dataclasses.is_dataclass(value):
            names = [inner.name for inner in dataclasses.fields(value) if inner.name != "backoff"]
            found += [(field.name.upper(), name.rstrip("_").upper()) for name in names]
        else:
            found.append(("", field.name.upper()))
    return found


def variable(section: str, name: str) -> str:
    return "_".join(part for part in ("CHOKAQ", section, name) if part)


def test_nothing_in_the_environment_sets_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(environ.Env, "ENVIRON", {})
    assert options_from_env(environ.Env()) == {}


def test_every_option_comes_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = {variable(section, name): TEXTS.get(name, "17") for section, name in accepted()}
    monkeypatch.setattr(environ.Env, "ENVIRON", texts)
    raw = options_from_env(environ.Env())
    assert {
        (section, name) for section, name in accepted() if name not in (raw.get(section, {}) if section else raw)
    } == set()
    assert raw.pop("PRESET") == "nexjob"  # it contradicts some of the others, and is tried without them
    options, problems = parse_options(raw)
    assert problems == []
    assert options is not None
    unchanged = []
    for section, name in set(accepted()) - {("", "PRESET")}:
        attribute = "break_" if name == "BREAK" else name.lower()
        mine, default = (getattr(o, section.lower()) if section else o for o in (options, Options()))
        if getattr(mine, attribute) == getattr(default, attribute):
            unchanged.append(variable(section, name))
    assert unchanged == []


def test_an_empty_text_is_the_off_of_an_option(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(environ.Env, "ENVIRON", {"CHOKAQ_RETRY_MAX_AGE": "", "CHOKAQ_RETENTION_ARCHIVE": ""})
    assert options_from_env(environ.Env()) == {"RETRY": {"MAX_AGE": None}, "RETENTION": {"ARCHIVE": None}}


def test_every_option_is_documented() -> None:
    text = (ROOT / "docs" / "reference" / "options.md").read_text()
    sections = dict(re.findall(r"^## (\w[\w ]*)$(.*?)(?=^## |\Z)", text, flags=re.MULTILINE | re.DOTALL))
    missing = [
        (section, name)
        for section, name in accepted()
        if f"`{name}`" not in sections[section or "Top level"] and not (section == "" and name in sections)
    ]
    assert missing == []
