"""``chokaq failures``: groups, one of them, notes; and the doctor's recount."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest
from django.utils import timezone

from chokaq_django.models import AuditEntry, FailureGroup, FailureReason, FailureTriage
from chokaq_django.storage import get_storage
from tests import factories as make

from .conftest import Run

pytestmark = pytest.mark.django_db

ONE, OTHER = "1a" * 16, "2b" * 16
NASTY = "\x1b[31mred\x1b[0m\u202e"


def dead(count: int = 1, group: str = ONE, **columns: Any) -> list[str]:
    columns.setdefault("failed_at", timezone.now() - dt.timedelta(minutes=5))
    made = [make.dead(fingerprint=group, **columns).pk for _ in range(count)]
    get_storage().recount_groups()
    return made


def test_nothing_is_dead(chokaq: Run) -> None:
    answer = chokaq("failures")
    assert (answer.code, answer.out.strip()) == (4, "No dead job: nothing needs you.")
    assert chokaq("failures", "--json").json["groups"] == []


def test_groups_fit_the_terminal_the_largest_first(chokaq: Run) -> None:
    dead(3, queue="a-queue-with-a-long-name", error_type="shop.partner." + "Very" * 10 + "LongError")
    dead(1, OTHER, failure_reason=FailureReason.ZOMBIE, error_type=None, failed_at=timezone.now())
    answer = chokaq("failures")
    assert answer.code == 0
    assert max(map(len, answer.lines)) <= 80
    assert [line.split()[:3] for line in answer.lines[1:3]] == [[ONE[:12], "3", "3"], [OTHER[:12], "1", "1"]]
    assert f"chokaq failures show {ONE[:12]}" in answer.out
    latest = chokaq("failures", "--latest").lines
    assert latest[1].startswith(OTHER[:12])


def test_filters_and_limit(chokaq: Run) -> None:
    dead(2, queue="mail", type="test.note")
    dead(1, OTHER, queue="reports", type="test.add", failure_reason=FailureReason.ZOMBIE)
    for arguments, found in (
        (["--queue", "mail"], [ONE]), (["--type", "test.note"], [ONE]), (["--failure", "zombie"], [OTHER]),
        (["--known", "no"], [ONE, OTHER]), (["--known", "yes"], []), (["--limit", "1"], [ONE]),
    ):  # fmt: skip
        groups = chokaq("failures", "--json", *arguments).json["groups"]
        assert [group["fingerprint"] for group in groups] == found, arguments
    assert "1 more groups" in chokaq("failures", "--limit", "1").out
    assert "No dead job that fits." in chokaq("failures", "--queue", "other").out
    slip = chokaq("failures", "--failure", "Zombi")
    assert (slip.code, "Did you mean 'Zombie'?" in slip.error, "Timeout" in slip.error) == (2, True, True)
    for reserved in ("Rejected", "Transient", "CircuitBreakerOpen"):  # no job dies of these
        assert reserved not in slip.error
    assert chokaq("failures", "--limit", "501").code == 2
    for option in ("--queue", "--type"):
        for name in ("\udcff", "\x00", " "):  # a byte that is no UTF-8, as Python reads it from a shell
            assert chokaq("failures", option, name).code == 2


def test_one_group(chokaq: Run) -> None:
    ids = dead(2, queue="mail", failure_reason=FailureReason.TIMEOUT, error_details="Ran longer than 30 s")
    answer = chokaq("failures", "show", ONE[:8].upper())
    assert answer.code == 0
    for shown in (ONE, "Ran longer than 30 s", "2 now, 2 ever", "Timeout", "mail (2)", "look before you run", ids[0],
                  f"chokaq resurrect --fingerprint {ONE[:12]}"):  # fmt: skip
        assert shown in answer.out
    document = chokaq("failures", "show", ONE, "--json").json
    assert (document["group"]["count"], sorted(document["newest"])) == (2, sorted(ids))
    assert document["group"]["replay_risk"] == "likely"


def test_cancelled_jobs_are_not_said_to_have_raised_an_error(chokaq: Run) -> None:
    dead(failure_reason=FailureReason.CANCELLED, error_type=None)
    assert chokaq("failures", "show", ONE, "--json").json["group"]["replay_risk"] == "if_started"
    out = chokaq("failures", "show", ONE).out
    assert "nothing is done of those that waited" in out
    assert "their error" not in out


@pytest.mark.parametrize("text", ["1a", "xyz45678", "1a" * 17, "", "../1a1a1a1a"])
def test_a_fingerprint_is_named_by_eight_digits_or_more(chokaq: Run, text: str) -> None:
    dead()
    for action in (["show", text], ["triage", text, "--note", "n"]):
        assert chokaq("failures", *action).code == 2


def test_digits_that_name_none_or_several(chokaq: Run) -> None:
    dead()
    dead(1, ONE[:20] + "0" * 12)
    assert chokaq("failures", "show", "0" * 8).code == 4
    document = chokaq("failures", "show", "0" * 8, "--json").json
    assert {**document, "as_of": ""} == {"as_of": "", "group": None, "newest": []}
    several = chokaq("failures", "show", ONE[:10])
    assert (several.code, "give more digits" in several.error) == (3, True)


def test_notes(chokaq: Run) -> None:
    dead()
    answer = chokaq("failures", "triage", ONE[:8], "--note", "partner is down", "--assignee", "ada", "--acknowledge",
                    "--by", "bob", "--reason", "on call")  # fmt: skip
    assert answer.code == 0
    row = FailureTriage.objects.get()
    assert (row.note, row.assignee, row.acknowledged_by) == ("partner is down", "ada", "bob")
    assert AuditEntry.objects.get().reason == "on call"
    shown = chokaq("failures", "show", ONE).out
    for text in ("partner is down", "ada", "by bob"):
        assert text in shown
    again = chokaq("failures", "triage", ONE, "--acknowledge", "--json")
    assert (again.code, again.json["refused"]) == (4, ["The group has these notes already."])
    assert chokaq("failures", "triage", ONE, "--unacknowledge", "--note", "").code == 0
    assert chokaq("failures", "triage", ONE).code == 2
    assert chokaq("failures", "triage", ONE, "--note", "x" * 10_001).code == 2
    assert chokaq("failures", "triage", OTHER, "--note", "n").code == 4


def test_what_came_again_shows(chokaq: Run) -> None:
    dead()
    chokaq("failures", "triage", ONE, "--acknowledge")
    assert chokaq("failures").lines[1].split()[-1] == "yes"
    FailureGroup.objects.update(last_seen=timezone.now() + dt.timedelta(minutes=1))
    assert chokaq("failures").lines[1].split()[-1] == "again"
    assert "jobs died of it since" in chokaq("failures", "show", ONE).out


def test_texts_of_jobs_harm_no_terminal(chokaq: Run) -> None:
    dead(queue=NASTY, type=NASTY, error_type=NASTY, error_details=NASTY)
    chokaq("failures", "triage", ONE, "--note", NASTY, "--assignee", NASTY)
    for action in ([], ["show", ONE]):
        out = chokaq("failures", *action).out
        assert "\x1b" not in out
        assert "\u202e" not in out


def test_the_doctor_finds_what_is_not_counted_and_counts_it(chokaq: Run) -> None:
    def codes() -> dict[str, str]:
        return {each["code"]: each["message"] for each in chokaq("doctor", "--json").json["findings"]}

    dead(2)
    assert "groups_differ" not in codes()
    make.dead(fingerprint=None)
    make.dead(fingerprint=OTHER)
    assert "2 dead jobs are not counted" in codes()["groups_differ"]
    answer = chokaq("doctor", "--recount", "--by", "ada")
    assert (answer.code, answer.out.strip()) == (0, "2 failure groups were set to what the DLQ holds.")
    assert "groups_differ" not in codes()
    assert AuditEntry.objects.filter(action="recount_groups", by="ada").count() == 1
    assert chokaq("doctor", "--recount", "--json").json == {"corrected": 0}
    assert AuditEntry.objects.filter(action="recount_groups").count() == 1
    FailureGroup.objects.filter(fingerprint=ONE).update(queue="elsewhere")
    assert "2 dead jobs are not counted, 2 too many are" in codes()["groups_differ"]


def test_only_one_counts_at_a_time(chokaq: Run) -> None:
    get_storage().lead("recount", "somebody", 60.0)
    answer = chokaq("doctor", "--recount")
    assert (answer.code, "already" in answer.error) == (3, True)
