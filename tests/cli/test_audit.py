"""``audit``: which acts it finds, how far back it looks, page by page."""

from __future__ import annotations

import datetime as dt

import pytest
from django.utils import timezone

from tests import factories as make

from .conftest import Run

pytestmark = pytest.mark.django_db


def ago(**span: float) -> dt.datetime:
    return timezone.now() - dt.timedelta(**span)


def ids(chokaq: Run, *arguments: str) -> list[str]:
    return [entry["id"] for entry in chokaq("audit", *arguments, "--json").json["entries"]]


def test_by_target_and_time(chokaq: Run) -> None:
    make.audit_entry(
        action="pause_queue", target="mail", by="bob", details='{"is_paused":{"to":true}}', at=ago(days=90)
    )
    make.audit_entry(at=ago(days=3))
    (entry,) = chokaq("audit", "--target", "mail", "--json").json["entries"]
    assert (entry["by"], entry["details"]) == ("bob", {"is_paused": {"to": True}})
    assert len(ids(chokaq, "--since", "7d")) == 1
    assert len(ids(chokaq, "--until", "7d")) == 1
    assert len(ids(chokaq, "--since", "1d")) == 0
    assert len(ids(chokaq)) == 2


def test_what_has_no_index_is_looked_for_in_seven_days_and_that_is_said(chokaq: Run) -> None:
    new, old, older = (make.audit_entry(by="bob", at=ago(days=days)).pk for days in (1, 8, 20))
    assert ids(chokaq, "--by", "bob") == [new]
    assert ids(chokaq, "--action", "cancel", "--until", "7d") == [old]
    assert ids(chokaq, "--by", "bob", "--since", "21d", "--until", "15d") == [older]
    assert ids(chokaq, "--by", "bob", "--since", "7d") == [new]  # though a moment has passed since it was typed
    answer = chokaq("audit", "--by", "bob")
    assert "Looked at 7 days, to " in answer.out
    assert "--until" in answer.out
    assert "Looked at" not in chokaq("audit").out
    document = chokaq("audit", "--by", "bob", "--json").json["filter"]
    since, until = (dt.datetime.fromisoformat(document[name]) for name in ("since", "until"))
    assert until - since == dt.timedelta(days=7)
    refused = chokaq("audit", "--by", "bob", "--since", "30d")
    assert (refused.code, refused.error.startswith("--since must be at most seven days")) == (2, True)


def test_page_by_page(chokaq: Run) -> None:
    made = [make.audit_entry(at=ago(hours=hours)).pk for hours in range(5)]
    found, after = list[str](), None
    while True:
        page = chokaq("audit", "--limit", "2", "--json", *(["--after", after] if after else [])).json
        found += [entry["id"] for entry in page["entries"]]
        after = page["next"]
        assert page["more"] == (after is not None)
        if after is None:
            break
    assert found == made
    text = chokaq("audit", "--limit", "2").out
    assert "There are more than these 2; narrow it, or go on:\n  --after " in text


def test_nothing_is_found(chokaq: Run) -> None:
    assert "No act is recorded yet." in chokaq("audit").out
    assert "No act is recorded that fits." in chokaq("audit", "--target", "mail").out
    answer = chokaq("audit", "--action", "canel")
    assert (answer.code, "Did you mean 'cancel'?" in answer.out) == (4, True)
    document = chokaq("audit", "--json").json
    assert set(document) == {"as_of", "filter", "more", "next", "entries"}


@pytest.mark.parametrize("typed", [("--by", ""), ("--target", "a\x00b"), ("--since", "yesterday"), ("--after", "x")])
def test_bad_values_are_usage_errors(chokaq: Run, typed: tuple[str, str]) -> None:
    answer = chokaq("audit", *typed)
    assert (answer.code, answer.error.startswith(typed[0])) == (2, True), answer


def test_a_range_that_can_hold_nothing(chokaq: Run) -> None:
    for name in ("audit", "jobs"):
        answer = chokaq(name, "--since", "1h", "--until", "2h")
        assert (answer.code, "--since 1h is not before --until 2h" in answer.error) == (2, True)
