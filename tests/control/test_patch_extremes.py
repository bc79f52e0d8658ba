"""Patches that nobody would send by hand."""

from __future__ import annotations

import datetime as dt
import json
from typing import Any

import pytest

from chokaq_django import Job, control
from chokaq_django.control import BulkState, JobFilter, patches
from chokaq_django.control.edits import NO_TIME
from chokaq_django.deck.patch_form import patch_words
from chokaq_django.job.patch import PayloadPatch
from chokaq_django.models import AuditEntry, BulkOperation, JobDLQ
from chokaq_django.storage import bulk, bulk_rules, get_storage
from tests import factories as make

from .test_patches import EURO, charge, run

pytestmark = pytest.mark.django_db

SET = [{"op": "add", "path": "/currency", "value": "GBP"}]


class SpareJob(Job, type="control.spare", schema_version=2):
    order: int
    currency: str


@pytest.mark.parametrize("name", ["a\x00b", "a\ud800b", "a" * 5_000], ids=["NUL", "lone surrogate", "long"])
def test_a_path_that_no_engine_takes_is_told_so_that_all_do(name: str) -> None:
    row = make.dead(type="legacy.raw", payload='{"a": 1}')
    gone, added = [{"op": "remove", "path": f"/{name}"}], [{"op": "add", "path": f"/{name}", "value": 1}]
    view = run(ids=[row.pk], patch=gone)
    assert (view.state, view.refused) == (BulkState.DONE, 1), view.message
    [refused] = control.edit(row.pk, by="ada", patch=gone).refused
    assert len(refused.reason) < 300
    assert control.preview_patch(gone, [row.pk], by="ada").refusals[0].reason == refused.reason
    view = run(ids=[row.pk], patch=added)
    assert view.applied == 1
    assert json.loads(JobDLQ.objects.get().payload)[name] == 1, "the path itself stays as it is"
    told = [
        refused,
        json.loads(AuditEntry.objects.latest("id").details)["patch"],
        patch_words(PayloadPatch.of(added)),
    ]
    assert "\x00" not in str(told)
    str(told).encode()


@pytest.mark.parametrize("number", ["1e400", "-1e999999"])
def test_a_number_beyond_every_float_is_one_where_a_decimal_holds_it(number: str) -> None:
    row = charge(1, "EUR")
    patch = f'[{{"op":"add","path":"/amount","value":{number}}}]'
    assert control.preview_patch(patch, [row.pk], by="ada").changed == 1
    assert run(ids=[row.pk], patch=patch).applied == 1
    other = f'[{{"op":"add","path":"/nothing","value":{number}}}]'
    [refused] = control.edit(row.pk, by="ada", patch=other).refused
    assert refused.reason == "The payload would not fit: $.nothing: ChargeJob has no such field"


def test_a_payload_does_not_grow_deeper_than_one_can_be() -> None:
    """Each value is fine by itself; one in the other they would be more than the next reader takes."""
    deep = json.loads("[" * 100 + "]" * 100)
    patch = [{"op": "add", "path": path, "value": deep} for path in ("/token", "/token" + "/0" * 99)]
    rows = [make.dead(type="legacy.raw", payload='{"token":1}'), charge(1)]
    view = run(ids=[row.pk for row in rows], patch=patch)
    assert (view.state, view.refused) == (BulkState.DONE, 2), view.message
    [trouble, _] = control.edit([row.pk for row in rows], by="ada", patch=patch).refused
    assert trouble.reason.startswith("The payload would not fit: $: nested more than 100 levels deep")


@pytest.mark.parametrize("given", ["a patch", "another type"])
def test_a_call_ends_in_time(given: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """One job is always looked at; what it has not come to is refused, and stays as it is."""
    monkeypatch.setattr("chokaq_django.control.edits.LONGEST", 0.0)
    monkeypatch.setattr("chokaq_django.control.acts.CHUNK", 2)
    rows = [charge(number, "EUR", schema_version=2) for number in range(4)]
    changes: dict[str, Any] = {"type": "control.spare"} if given == "another type" else {"patch": SET}
    answer = control.edit([row.pk for row in rows], by="ada", **changes)
    assert answer.applied == [rows[0].pk]
    assert [each.id for each in answer.refused] == [row.pk for row in rows[1:]]
    assert {each.reason for each in answer.refused} == {str(NO_TIME)}
    assert [row.revision for row in JobDLQ.objects.order_by("pk")] == [1, 0, 0, 0]


def test_a_given_payload_is_not_read_when_it_is_much_too_large() -> None:
    row = charge(1)
    text = f'{{"order":1,"currency":"EUR","token":"{"x" * 2_000_000}"}}'
    for answer in (
        control.edit(row.pk, by="ada", payload=text + "no JSON"),
        control.edit(row.pk, by="ada", payload=json.loads(text)),
        control.resurrect(row.pk, by="ada", payload=text),
    ):
        assert "more than" in answer.refused[0].reason
    blanks = '{"order":1,"currency":"EUR"' + " " * 1_500_000 + "}"
    assert control.edit(row.pk, by="ada", payload=blanks).applied == [row.pk]


def test_a_step_ends_before_large_payloads_have_kept_others_waiting_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bulk, "LONG", 0.0)  # every part of a step lasts longer
    rows = [charge(number) for number in range(2 * bulk.FIRST_PAYLOADS + 1)]
    view = control.bulk_edit(ids=[row.pk for row in rows], by="ada", patch=EURO)
    storage = get_storage()
    storage.bulk_step(view.id)
    done = [storage.bulk_step(view.id).done for _ in range(3)]
    assert done == [bulk.FIRST_PAYLOADS, 2 * bulk.FIRST_PAYLOADS, len(rows)]
    after = control.bulk_get(view.id)
    assert after is not None
    assert (after.state, after.applied) == (BulkState.DONE, len(rows))
    undone = control.bulk_run(control.bulk_undo(view.id, by="ada").id)
    assert undone.applied == len(rows)
    assert {row.payload for row in rows} == set(JobDLQ.objects.values_list("payload", flat=True))


def test_a_step_that_ended_early_leaves_the_rest_due(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bulk, "LONG", 0.0)
    monkeypatch.setattr(bulk_rules, "MOST_SAVED", 60.0)  # what is due is not cut, however long the machine takes
    rows = [charge(number) for number in range(20)]
    view = control.bulk_edit(ids=[row.pk for row in rows], by="ada", patch=EURO, rate=10)
    storage = get_storage()
    storage.bulk_step(view.id)
    paid = storage.now() - dt.timedelta(seconds=0.95)  # nine are due, or more
    BulkOperation.objects.update(paid_at=paid)
    assert storage.bulk_step(view.id).done == bulk.FIRST_PAYLOADS
    kept = BulkOperation.objects.get().paid_at - paid
    assert kept == dt.timedelta(seconds=bulk.FIRST_PAYLOADS / 10)


def test_a_preview_of_large_payloads_ends_and_says_how_far_it_came(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patches, "LONGEST", 0.0)
    for number in range(3):
        charge(number)
    seen = control.preview_patch(EURO, where=JobFilter(status="dead"), by="ada")
    assert (seen.looked, seen.complete, seen.changed) == (1, False, 1)


class BookJob(Job, type="control.book"):
    by_mail: dict[str, int]
    currency: str = ""


def test_keys_of_mappings_are_data() -> None:
    row = make.dead(type="control.book", payload='{"by_mail":{"ada@example.com":"x"}}')
    patch = [{"op": "add", "path": "/currency", "value": "EUR"}]
    blind = make.operator("edit_payload", username="blind")
    other = make.dead(type="no.such", payload=row.payload)
    told = [
        *control.edit(row.pk, by=blind, patch=patch).refused,
        *control.edit(other.pk, by=blind, type="control.book").refused,
        *control.preview_patch(patch, [row.pk], by=blind).refusals,
        *run(ids=[row.pk], by="ada", patch=patch).refusals,
        *control.edit(row.pk, by=blind, patch=[{"op": "add", "path": "/by_mail", "value": {"ada@": "x"}}]).refused,
    ]
    assert len(told) == 5
    assert "by_mail" not in str(told[:4])
    assert told[4].reason == "The payload would not fit: $.by_mail[...]"
    assert "ada@" not in str(told)
    [seen] = control.edit(row.pk, by="ada", patch=patch).refused
    assert '$.by_mail["ada@example.com"]' in seen.reason


def test_a_broken_payload_cannot_be_guessed_by_which_of_two_refusals_it_gets() -> None:
    row = charge(1, payload='{"order":"x","currency":"GBP"}')
    blind = make.operator("edit_payload", username="blind")
    for currency in ("GBP", "USD"):
        patch = [{"op": "add", "path": "/currency", "value": currency}]
        seen = control.preview_patch(patch, [row.pk], by=blind)
        assert (seen.changed, seen.unfit) == (0, 1)
        for answer in (control.edit(row.pk, by=blind, patch=patch), run(ids=[row.pk], by=blind, patch=patch)):
            refusals = answer.refusals if isinstance(answer, control.BulkView) else answer.refused
            assert [each.reason.partition(", ")[0] for each in refusals] == ["The payload would not fit"]
