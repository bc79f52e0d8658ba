"""What all verbs have in common, whatever they act on: arguments, audit, log."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import pytest

from chokaq_django import EnvelopeError, control
from chokaq_django.models import AuditEntry, JobDLQ
from tests import factories as make

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize("verb", ["resurrect", "run_again", "restore", "bulk_resurrect", "bulk_restore"])
def test_the_policy_for_keys_is_named_when_it_is_bad(verb: str) -> None:
    with pytest.raises(EnvelopeError, match="on_key_conflict must be 'skip' or 'drop', got 'steal'") as bad:
        getattr(control, verb)([make.dead().pk], by="ada", on_key_conflict="steal")
    assert bad.value.field == "on_key_conflict"


@pytest.mark.parametrize(
    ("make_one", "verb"), [(make.dead, "resurrect"), (make.archived, "run_again"), (make.purged, "restore")]
)
def test_the_audit_tells_what_becomes_of_keys(make_one: Callable[[], Any], verb: str) -> None:
    for policy, told in (("skip", False), ("drop", True)):
        job = make_one()
        assert getattr(control, verb)(job.pk, by="ada", on_key_conflict=policy).applied == [job.pk]
        assert ('"on_key_conflict": "drop"' in AuditEntry.objects.get(target=job.pk).details) is told


def _operation() -> str:
    return control.bulk_purge([make.dead().pk], by="ada").id


ACTS: dict[str, Callable[[], Any]] = {
    "bulk_pause": lambda: control.bulk_pause(_operation(), by="ada"),
    "bulk_set_rate": lambda: control.bulk_set_rate(_operation(), 3, by="ada"),
    "bulk_abort": lambda: control.bulk_abort(_operation(), by="ada"),
    "reveal": lambda: control.reveal(make.dead().pk, by="ada"),
    "recount_groups": lambda: (make.dead(), control.recount_groups(by="ada")),
    "cancel": lambda: control.cancel(make.hot().pk, by="ada"),
    "pause_queue": lambda: control.pause_queue("mail", by="ada"),
}


@pytest.mark.parametrize("act", ACTS)
def test_every_act_is_logged_as_it_is_audited(act: str, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "chokaq.control"):
        ACTS[act]()
    assert AuditEntry.objects.filter(action=act).exists()
    assert [record for record in caplog.records if record.getMessage().startswith(act)]


def test_whoever_acts_forges_no_record(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "chokaq.control"):
        control.pause_queue("mail", by="ada\nERROR chokaq.worker gave up\x1b[2J")
    (record,) = caplog.records
    assert record.getMessage().startswith(r"pause_queue by ada\nERROR chokaq.worker gave up\x1b[2J: ")


@pytest.mark.parametrize("limit", [0, -1, 1_001, True, "5"])
def test_lists_of_operations_and_of_their_jobs_have_one_rule_for_how_many(limit: Any) -> None:
    operation = _operation()
    for look in (
        lambda: control.bulk_list(limit=limit),
        lambda: control.bulk_items(operation, limit=limit),
        lambda: control.bulk_reasons(operation, limit),
        lambda: control.list_jobs(limit=limit),
    ):
        with pytest.raises(EnvelopeError, match="limit must be from 1 to 1,000, got"):
            look()


def test_where_a_page_begins_must_be_an_id() -> None:
    operation = _operation()
    with pytest.raises(EnvelopeError, match="before must be the id"):
        control.bulk_list(before="yesterday")
    with pytest.raises(EnvelopeError, match="after must be the id"):
        control.bulk_items(operation, after="me")
    [item] = control.bulk_items(operation).items
    assert item.job_id == JobDLQ.objects.get().pk


def test_what_is_no_id_is_refused_whatever_it_is() -> None:
    answer = control.edit([{}, 7, "x"], by="ada", queue="other")  # type: ignore[list-item]
    assert [refused.id for refused in answer.refused] == ["{}", "7", "x"]
