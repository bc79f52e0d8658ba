"""Notes on failure groups and on single dead jobs."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.core.exceptions import PermissionDenied

from chokaq_django import EnvelopeError, control
from chokaq_django.models import AuditEntry, FailureTriage, JobDLQ
from chokaq_django.storage import get_storage
from tests import factories as make

pytestmark = pytest.mark.django_db

KEY = "f" * 32


@pytest.fixture
def group() -> str:
    """One dead job, and its group."""
    job = make.dead(fingerprint=KEY)
    get_storage().recount_groups()
    return str(job.pk)


def noted() -> dict[str, Any]:
    row = FailureTriage.objects.get()
    return {"note": row.note, "assignee": row.assignee, "acknowledged": row.acknowledged_at is not None}


def audit() -> list[tuple[str, str, str, dict[str, Any]]]:
    entries = AuditEntry.objects.order_by("at", "id").values_list("action", "target", "by", "details")
    return [(action, target, by, json.loads(details)) for action, target, by, details in entries]


def test_a_group_keeps_what_is_noted_until_it_is_changed(group: str) -> None:
    assert control.triage(KEY, by="ada", note="partner is down\r\nagain", assignee="bob").applied == [KEY]
    assert noted() == {"note": "partner is down\nagain", "assignee": "bob", "acknowledged": False}
    control.triage(f" {KEY.upper()} ", by="cleo", acknowledged=True, reason="seen")
    row = FailureTriage.objects.get()
    assert (row.note, row.acknowledged_by, row.updated_by) == ("partner is down\nagain", "cleo", "cleo")
    at = row.acknowledged_at
    control.triage(KEY, by="dora", acknowledged=True, note="")
    row = FailureTriage.objects.get()
    assert (row.acknowledged_at, row.acknowledged_by, row.note) == (at, "cleo", ""), "known since then"
    control.triage(KEY, by="ada", assignee="", acknowledged=False)
    assert noted() == {"note": "", "assignee": None, "acknowledged": False}
    assert FailureTriage.objects.get().acknowledged_by is None
    assert audit()[:2] == [
        ("triage", KEY, "ada", {"note": {"from": "", "to": "partner is down\nagain"},
                                "assignee": {"from": None, "to": "bob"}}),
        ("triage", KEY, "cleo", {"acknowledged": {"from": False, "to": True}}),
    ]  # fmt: skip


def test_nothing_to_change_is_refused_and_leaves_no_trace(group: str) -> None:
    control.triage(KEY, by="ada", note="n", assignee="bob", acknowledged=True)
    again = control.triage(KEY, by="ada", note=" n ", assignee="bob", acknowledged=True)
    assert [conflict.reason for conflict in again.refused] == ["The group has these notes already."]
    assert len(audit()) == 1


def test_only_what_somebody_died_of_can_be_noted_on(group: str) -> None:
    answer = control.triage("0" * 32, by="ada", note="n")
    assert answer.refused[0].reason == "No job has died of this, as far as is known."
    assert not FailureTriage.objects.exists()
    control.triage(KEY, by="ada", note="n")
    control.resurrect(group, by="ada")
    assert control.triage(KEY, by="ada", note="it works again").applied == [KEY]


def test_a_job_that_no_group_counts_yet_can_be_noted_on() -> None:
    make.dead(fingerprint=KEY)
    assert control.triage(KEY, by="ada", acknowledged=True).applied == [KEY]


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({"note": "x" * 10_001}, "note"), ({"note": 7}, "note"), ({"assignee": "🐙" * 76}, "assignee"),
        ({"assignee": "x" * 151}, "assignee"), ({"acknowledged": "yes"}, "acknowledged"),
    ],
)  # fmt: skip
def test_bad_values_are_refused_by_name(group: str, given: dict[str, Any], field: str) -> None:
    for verb in (lambda: control.triage(KEY, by="ada", **given), lambda: control.annotate(group, by="ada", **given)):
        with pytest.raises(EnvelopeError) as error:
            verb()
        assert error.value.field == field
    assert not FailureTriage.objects.exists()


@pytest.mark.parametrize("key", ["", "f" * 31, "g" * 32, "../" + "f" * 29, None, 7])
def test_a_fingerprint_is_32_hex_digits(key: Any) -> None:
    with pytest.raises(EnvelopeError, match="32 hex digits"):
        control.triage(key, by="ada", note="n")


def test_something_must_be_noted(group: str) -> None:
    with pytest.raises(EnvelopeError, match="note is missing"):
        control.triage(KEY, by="ada")
    with pytest.raises(EnvelopeError, match="note is missing"):
        control.annotate(group, by="ada", reason="why")


def test_it_needs_the_permission_to_operate(group: str) -> None:
    viewer, operator = make.operator("view_deck", "view_payload"), make.operator("operate", username="bob")
    for verb, target in ((control.triage, KEY), (control.annotate, group)):
        with pytest.raises(PermissionDenied):
            verb(target, by=viewer, note="n")
        assert verb(target, by=operator, note="n").applied == [target]
    assert [entry[2] for entry in audit()] == ["bob", "bob"]


def test_text_that_no_database_stores_is_made_storable(group: str) -> None:
    control.triage(KEY, by="ada", note="a\x00b\ud800 🐙", assignee="<b>bob</b>")
    assert noted()["note"] == r"a\x00b\ud800 🐙"


# -- single jobs -------------------------------------------------------------------------------------------------------


def test_single_jobs_are_noted_on(group: str) -> None:
    other, active = make.dead().pk, make.hot().pk
    answer = control.annotate([group, other, active], by="ada", note="ask shop", assignee="bob", acknowledged=True)
    assert answer.applied == [group, other]
    assert [(conflict.id, conflict.reason) for conflict in answer.refused] == [(active, "The job is active.")]
    row = JobDLQ.objects.get(pk=group)
    assert (row.note, row.assignee) == ("ask shop", "bob")
    assert row.acknowledged_at is not None
    assert row.revision == 0, "it is still the same job"
    again = control.annotate(group, by="ada", acknowledged=True)
    assert again.refused[0].reason == "The job has these notes already."
    control.annotate(group, by="ada", note="", assignee="", acknowledged=False)
    row = JobDLQ.objects.get(pk=group)
    assert (row.note, row.assignee, row.acknowledged_at) == ("", None, None)
    assert audit()[-1] == ("annotate", group, "ada", {"note": "", "assignee": "", "acknowledged": False})


def test_who_acknowledges_later_changes_no_time(group: str) -> None:
    control.annotate(group, by="ada", acknowledged=True)
    at = JobDLQ.objects.get(pk=group).acknowledged_at
    control.annotate(group, by="bob", acknowledged=True, note="n")
    assert JobDLQ.objects.get(pk=group).acknowledged_at == at


def test_notes_go_to_the_trash_and_back(group: str) -> None:
    control.annotate(group, by="ada", note="n", assignee="bob", acknowledged=True)
    before = JobDLQ.objects.filter(pk=group).values().get()
    control.purge(group, by="ada")
    control.restore(group, by="ada")
    assert JobDLQ.objects.filter(pk=group).values().get() == before
