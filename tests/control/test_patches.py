"""Payloads of many jobs repaired at once: set this field where it is that."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import pytest
from django.core.exceptions import PermissionDenied
from django.utils import translation

from chokaq_django import EnvelopeError, Job, control
from chokaq_django.control import BulkState, JobFilter
from chokaq_django.control.payloads import may_quote
from chokaq_django.deck.bulk_words import given_words
from chokaq_django.job.ids import new_id
from chokaq_django.job.schema import migrates
from chokaq_django.models import AuditEntry, BulkItemState, BulkOperation, JobDLQ, JobHot, PayloadVersion
from chokaq_django.reading.masks import MASK
from chokaq_django.sentence import in_words
from chokaq_django.storage import bulk_sets, edits, get_storage
from tests import factories as make

pytestmark = pytest.mark.django_db

DEAD = JobFilter(status="dead")
EURO = [
    {"op": "test", "path": "/currency", "value": "EURO"},
    {"op": "replace", "path": "/currency", "value": "EUR"},
]


NOT_MEANT = "Not for this job: a condition of the patch does not hold."
ELSEWHERE = "The payload would not fit, elsewhere than where the patch writes."


class ChargeJob(Job, type="control.charge", schema_version=2):
    order: int
    currency: str
    amount: Decimal = Decimal("1.10")
    token: str = ""

    def __post_init__(self) -> None:
        if len(self.currency) != 3:
            raise ValueError(f"{self.currency!r} is no currency")


@migrates(ChargeJob, from_version=1)
def _with_order(raw: dict[str, Any]) -> dict[str, Any]:
    return {"order": raw["nr"], "currency": raw["currency"]}


def payload(order: int, currency: object = "EURO", **more: object) -> str:
    return json.dumps({"order": order, "currency": currency, **more})


def charge(order: int, currency: object = "EURO", *, hot: bool = False, **columns: Any) -> Any:
    columns = {"payload": payload(order, currency), "schema_version": 2, **columns}
    return (make.hot if hot else make.dead)(type="control.charge", **columns)


def stored(job: Any) -> str:
    return str((JobDLQ.objects.filter(pk=job.pk).first() or JobHot.objects.get(pk=job.pk)).payload)


def run(**given: Any) -> control.BulkView:
    return control.bulk_run(control.bulk_edit(**{"by": "ada", "patch": EURO, **given}).id)


# -- some --------------------------------------------------------------------------------------------------------------


def test_each_job_keeps_the_rest_of_its_own_payload() -> None:
    exact = f'{{"amount":12345678901234567890.10,"currency":"EURO","order":{2**63 - 1},"token":"ü"}}'
    rows = [charge(1), charge(2, hot=True), charge(3, payload=exact)]
    answer = control.edit([row.pk for row in rows], by="ada", patch=EURO, reason="mended")
    assert (sorted(answer.applied), answer.refused) == (sorted(row.pk for row in rows), [])
    assert [json.loads(stored(row))["order"] for row in rows] == [1, 2, 2**63 - 1]
    assert '"amount":"12345678901234567890.10"' in stored(rows[2]), "as the codec writes a Decimal, digit by digit"
    assert {json.loads(stored(row))["currency"] for row in rows} == {"EUR"}
    kept = {version.job_id: version.payload for version in PayloadVersion.objects.all()}
    assert kept == {row.pk: row.payload for row in rows}
    entry = AuditEntry.objects.get(target=rows[0].pk)
    assert json.loads(entry.details) == {"revision": 1, "patch": ["replace /currency"]}, "the audit holds no values"


def test_why_a_job_stays_as_it_is() -> None:
    good, bad, broken = charge(1, "USD"), charge(2, 7), make.dead(type="control.charge", payload="{")
    unknown, running = make.dead(type="no.such", payload=payload(4)), charge(5, hot=True, status=2)
    patch = [*EURO, {"op": "remove", "path": "/token"}]
    half, gone = charge(6), new_id()
    answer = control.edit(
        [good.pk, bad.pk, broken.pk, unknown.pk, running.pk, half.pk, gone], by="ada", patch=patch, priority=3
    )
    reasons = {each.id: each.reason for each in answer.refused}
    assert answer.applied == []
    assert reasons[good.pk] == reasons[bad.pk] == "Not for this job: /currency has another value."
    assert reasons[broken.pk].startswith("The payload would not fit: $: not valid JSON")
    assert "no code here knows the type 'no.such'" in reasons[unknown.pk]
    assert "not waiting" in reasons[running.pk]
    assert reasons[half.pk] == "The patch cannot be made: /token is not there."
    assert reasons[gone] == "There is no such job."
    assert set(JobDLQ.objects.values_list("revision", "priority")) == {(0, good.priority)}
    assert not PayloadVersion.objects.exists()


def test_why_is_said_in_the_reader_s_language() -> None:
    """Of what a worker has stored, too."""
    tests: list[dict[str, Any]] = [{"path": "/currency", "absent": True}, {"path": "/x", "value": 1}, EURO[0]]
    rest = {"op": "add", "path": "/token", "value": "x"}
    patches = [*([{**test, "op": "test"}, rest] for test in tests), [{"op": "remove", "path": "/x"}]]
    ids = [charge(1, "USD").pk]
    told = [control.edit(ids, by="ada", patch=patch).refused[0].reason for patch in patches]
    kept = [control.bulk_items(run(ids=ids, patch=patch).id).items[0].note or "" for patch in patches[2:]]
    with translation.override("de"):
        assert [in_words(note) for note in kept] == [
            "Nicht für diesen Job: Eine Bedingung des Patches trifft nicht zu.",
            "Der Patch lässt sich auf diese Payload nicht anwenden.",
        ]
        assert [in_words(note) for note in told] == [
            "Nicht für diesen Job: /currency ist vorhanden.",
            "Nicht für diesen Job: /x ist nicht vorhanden.",
            "Nicht für diesen Job: /currency hat einen anderen Wert.",
            "Der Patch lässt sich nicht anwenden: /x ist nicht vorhanden.",
        ]
        with pytest.raises(EnvelopeError) as bad:
            control.edit(ids, by="ada", patch=[{"op": "add", "path": "/token"}])
        assert in_words(bad.value.message) == "Operation 1 (/token): add braucht einen Wert"


def test_what_would_not_fit_is_named_by_its_path_and_quoted_to_who_may_see_it() -> None:
    row = charge(1, payload='{"order":"S3CRET","currency":"EURO"}')
    patch = [{"op": "add", "path": "/currency", "value": "EUR"}]
    editor, seer = make.operator("edit_payload"), make.operator("edit_payload", "view_payload", username="seer")
    [refused] = control.edit(row.pk, by=editor, patch=patch).refused
    assert refused.reason == ELSEWHERE
    [refused] = control.edit(row.pk, by=seer, patch=patch).refused
    assert refused.reason == "The payload would not fit: $.order: Expected `int`, got `str`"
    view = run(ids=[row.pk], by=seer, patch=patch)
    assert [each.reason for each in view.refusals] == [ELSEWHERE], "whoever may look at the operation reads it"


def test_where_the_patch_writes_is_told_to_everybody() -> None:
    row = charge(1)
    patch = [{"op": "add", "path": "/order", "value": "x"}]
    editor, told = make.operator("edit_payload"), "The payload would not fit: $.order"
    assert [each.reason for each in control.edit(row.pk, by=editor, patch=patch).refused] == [told]
    assert [each.reason for each in run(ids=[row.pk], by=editor, patch=patch).refusals] == [told]
    [seen] = control.preview_patch(patch, [row.pk], by=editor).refusals
    assert (seen.path, seen.reason) == ("$.order", told)


def test_an_older_payload_is_lifted_first_or_patched_as_it_is_stored() -> None:
    old = charge(1, payload='{"nr":1,"currency":"EURO"}', schema_version=1)
    without = charge(2, payload='{"currency":"EUR"}', schema_version=1)
    assert control.edit(old.pk, by="ada", patch=EURO).applied == [old.pk]
    assert control.edit(without.pk, by="ada", patch=[{"op": "add", "path": "/nr", "value": 2}]).applied == [without.pk]
    for row, order in ((old, 1), (without, 2)):
        after = JobDLQ.objects.get(pk=row.pk)
        assert (json.loads(after.payload)["order"], after.schema_version) == (order, 2)


def test_a_missing_field_is_added_only_where_it_is_missing() -> None:
    without, with_it = charge(1, payload='{"order":1}'), charge(2, "USD")
    patch = [{"op": "test", "path": "/currency", "absent": True}, {"op": "add", "path": "/currency", "value": "EUR"}]
    answer = control.edit([without.pk, with_it.pk], by="ada", patch=patch)
    assert answer.applied == [without.pk]
    assert answer.refused[0].reason == "Not for this job: /currency is there."


def test_a_patch_that_changes_nothing_counts_no_revision() -> None:
    row = charge(1, "USD")
    [refused] = control.edit(row.pk, by="ada", patch=[{"op": "add", "path": "/currency", "value": "USD"}]).refused
    assert refused.reason == "The patch changes nothing in its payload."
    assert JobDLQ.objects.get().revision == 0


def test_with_another_type_and_for_the_seen_revision() -> None:
    row = make.dead(type="test.note", payload='{"name":"x"}', schema_version=2)
    patch = [
        {"op": "remove", "path": "/name"},
        {"op": "add", "path": "/order", "value": 1},
        {"op": "add", "path": "/currency", "value": "EUR"},
    ]
    assert control.edit(row.pk, by="ada", patch=patch, type="control.charge", revision=3).applied == []
    answer = control.edit(row.pk, by="ada", patch=patch, type="control.charge", revision=0)
    assert answer.applied == [row.pk]
    assert JobDLQ.objects.values("type", "schema_version").get() == {"type": "control.charge", "schema_version": 2}


def test_a_raw_payload_is_patched_where_it_is_json() -> None:
    rows = [make.dead(type="legacy.raw", payload=text) for text in ('{"a": 1.50, "b":[1]}', "plain text")]
    answer = control.edit([row.pk for row in rows], by="ada", patch=[{"op": "replace", "path": "/b/0", "value": 2}])
    assert answer.applied == [rows[0].pk]
    assert stored(rows[0]) == '{"a":1.50,"b":[2]}'
    assert "not valid JSON" in answer.refused[0].reason


# -- many --------------------------------------------------------------------------------------------------------------


def test_one_operation_repairs_those_that_need_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(edits, "RENEWED", 3)
    broken = [charge(number) for number in range(8)] + [charge(8, hot=True)]
    fine = [charge(number, "USD") for number in range(20, 23)]
    view = run(ids=[row.pk for row in (*broken, *fine)], reason="EURO is no currency", priority=7)
    assert (view.state, view.total, view.applied, view.left_alone, view.refused) == (BulkState.DONE, 12, 9, 3, 0)
    assert {item.note for item in control.bulk_items(view.id, state=BulkItemState.LEFT_ALONE).items} == {NOT_MEANT}
    for number, row in enumerate(broken):
        assert json.loads(stored(row)) == {"order": number, "currency": "EUR"}
    assert [stored(row) for row in fine] == [row.payload for row in fine]
    assert set(JobDLQ.objects.filter(revision=1).values_list("priority", "modified_by")) == {(7, "ada")}
    assert PayloadVersion.objects.count() == 9
    details = json.loads(AuditEntry.objects.get(action="bulk_edit").details)
    assert details["patch"] == ["replace /currency"]


def test_undo_gives_the_old_payload_back_to_what_nobody_edited_since(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("chokaq_django.storage.bulk_verbs.RENEWED", 2)
    rows = [charge(number, priority=number) for number in range(4)]
    old = charge(9, payload='{"nr":9,"currency":"EURO"}', schema_version=1)
    view = run(where=DEAD, priority=50)
    assert view.applied == 5
    control.edit(rows[0].pk, by="eve", patch=[{"op": "replace", "path": "/currency", "value": "GBP"}])
    control.resurrect(rows[1].pk, by="eve")
    undone = control.bulk_run(control.bulk_undo(view.id, by="bob").id)
    assert (undone.applied, undone.refused) == (4, 1)
    assert "changed meanwhile by eve" in undone.refusals[0].reason
    assert [stored(row) for row in (*rows[1:], old)] == [row.payload for row in (*rows[1:], old)]
    assert json.loads(stored(rows[0]))["currency"] == "GBP"
    assert JobDLQ.objects.get(pk=old.pk).schema_version == 1
    assert set(JobDLQ.objects.values_list("priority", flat=True)) == {50, 2, 3, old.priority}


def test_the_many_that_are_not_meant_are_not_refused() -> None:
    for number in range(30):
        charge(number, "USD")
    unfit = charge(30, payload='{"order":"x","currency":"EURO"}')
    view = run(where=DEAD)
    assert (view.left_alone, view.refused) == (30, 1)
    assert [each.id for each in view.refusals] == [unfit.pk]
    assert control.bulk_reasons(view.id) == [(ELSEWHERE, 1)]
    assert control.bulk_reasons(view.id, left_alone=True) == [(NOT_MEANT, 30)]


def test_the_second_of_two_editors_is_told_of_a_patch() -> None:
    row = charge(1)
    control.edit(row.pk, by="ada", patch=EURO)
    [refused] = control.edit(row.pk, by="bob", revision=0, priority=3).refused
    assert "ada: payload: replace /currency." in refused.reason


def test_undo_of_what_is_not_kept_any_more() -> None:
    row = charge(1)
    view = run(ids=[row.pk])
    PayloadVersion.objects.all().delete()
    undone = control.bulk_run(control.bulk_undo(view.id, by="bob").id)
    assert [each.reason for each in undone.refusals] == ["The payload that was replaced is not kept any more."]
    assert json.loads(stored(row))["currency"] == "EUR"


def test_a_step_that_is_lost_is_made_once_more_and_each_job_is_patched_once() -> None:
    rows = [charge(number, payload=payload(number, "EUR")) for number in range(6)]
    patch = [{"op": "add", "path": "/token", "value": "x"}]
    view = control.bulk_edit(ids=[row.pk for row in rows], by="ada", patch=patch)
    storage = get_storage()
    for _ in range(3):
        storage.bulk_step(view.id, 2)
    state = BulkOperation.objects.get(pk=view.id)
    assert (state.done, PayloadVersion.objects.count()) == (4, 4)
    control.bulk_pause(view.id, by="ada")
    control.bulk_resume(view.id, by="ada", rate=1_000)
    assert control.bulk_run(view.id).applied == 6
    assert set(JobDLQ.objects.values_list("revision", flat=True)) == {1}


def test_what_was_repaired_is_resurrected_as_a_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bulk_sets, "FREEZE_CHUNK", 2)
    broken = [charge(number) for number in range(5)]
    charge(7, "USD")
    view = run(where=DEAD)
    control.purge(broken[0].pk, by="eve")
    back = control.bulk_run(control.bulk_resurrect(of=view.id, by="ada").id)
    assert (back.total, back.applied, back.where) == (4, 4, {"operation": view.id})
    assert set(JobHot.objects.values_list("pk", flat=True)) == {row.pk for row in broken[1:]}
    again = control.bulk_run(control.bulk_resurrect(of=view.id, by="ada").id)
    assert (again.state, again.total) == (BulkState.DONE, 0)


def test_a_set_of_another_operation_is_of_one_that_has_ended() -> None:
    view = control.bulk_edit(where=DEAD, by="ada", patch=EURO)
    for of, words in ((view.id, "the operation has not ended"), (new_id(), "must be the id"), ("x", "must be the id")):
        with pytest.raises(EnvelopeError, match=words):
            control.bulk_resurrect(of=of, by="ada")
    with pytest.raises(EnvelopeError, match="not both"):
        control.bulk_resurrect(["x"], of=view.id, by="ada")


# -- who may, and what is seen -----------------------------------------------------------------------------------------


def test_who_may_patch() -> None:
    row = charge(1)
    anybody, editor = make.operator("cancel"), make.operator("edit_payload", username="editor")
    blind = [{"op": "add", "path": "/currency", "value": "EUR"}]
    for who, patch in ((anybody, blind), (editor, EURO)):
        with pytest.raises(PermissionDenied):
            control.edit(row.pk, by=who, patch=patch)
        with pytest.raises(PermissionDenied):
            control.bulk_edit([row.pk], by=who, patch=patch)
        with pytest.raises(PermissionDenied):
            control.preview_patch(patch, [row.pk], by=who)
    assert control.preview_patch(blind, [row.pk], by=editor).changed == 1
    assert control.edit(row.pk, by=editor, patch=blind).applied == [row.pk]


@pytest.mark.parametrize(
    "asks",
    [
        {"op": "test", "path": "/currency", "value": "EUR"},
        {"op": "test", "path": "/currency", "absent": True},
        {"op": "remove", "path": "/currency"},
        {"op": "replace", "path": "/currency", "value": "EUR"},
        {"op": "add", "path": "/currency/name", "value": "EUR"},
        {"op": "add", "path": "/0", "value": "EUR"},
        {"op": "add", "path": "/-", "value": "EUR"},
    ],
    ids=lambda change: f"{change['op']} {change['path']}",
)
def test_who_may_not_see_payloads_does_not_learn_what_is_there(asks: dict[str, Any]) -> None:
    """Whether such an operation can be made says whether something is there."""
    row, patch = charge(1), [asks, {"op": "add", "path": "/order", "value": 2}]
    editor, before = make.operator("edit_payload"), charge(2).payload
    for act in (
        lambda: control.preview_patch(patch, [row.pk], by=editor),
        lambda: control.edit(row.pk, by=editor, patch=patch),
        lambda: control.bulk_edit([row.pk], by=editor, patch=patch),
    ):
        with pytest.raises(PermissionDenied, match="view_payload"):
            act()
    assert control.preview_patch(patch, [row.pk], by=make.operator("edit_payload", "view_payload", username="seer"))
    assert not BulkOperation.objects.exists()
    assert stored(row) == row.payload != before


def test_who_may_not_see_payloads_cannot_guess_them() -> None:
    """What is so already is not told apart from what is changed."""
    right, wrong = charge(1, "GBP"), charge(2, "USD")
    blind = make.operator("edit_payload", username="blind")
    guess = [{"op": "add", "path": "/currency", "value": "GBP"}]
    seen = control.preview_patch(guess, where=DEAD, by=blind)
    assert (seen.changed, seen.unchanged) == (2, 0)
    assert sorted(control.edit([right.pk, wrong.pk], by=blind, patch=guess).applied) == sorted([right.pk, wrong.pk])
    view = run(where=DEAD, by=blind, patch=guess)
    assert (view.applied, view.refused, view.arguments.keys()) == (2, 0, {"patch"})
    assert set(JobDLQ.objects.values_list("revision", flat=True)) == {2}
    seer = make.operator("edit_payload", "view_payload", username="seer")
    assert control.preview_patch(guess, where=DEAD, by=seer).unchanged == 2
    assert run(where=DEAD, by=seer, patch=guess).left_alone == 2


def test_a_masked_value_is_not_to_be_guessed() -> None:
    """Whoever may see it reveals it, which is audited."""
    row = charge(1, payload='{"order":1,"currency":"EUR","token":"S3CRET"}')
    seer = make.operator("edit_payload", "view_payload")
    change = {"op": "replace", "path": "/order", "value": 2}
    for test in (
        {"op": "test", "path": "/token", "value": "S3CRET"},
        {"op": "test", "path": "/x/api_key/0", "value": 1},
        {"op": "test", "path": "/x", "value": {"password": "p"}},
    ):
        with pytest.raises(EnvelopeError, match="masked value"):
            control.preview_patch([test, change], [row.pk], by=seer)
    for allowed in ({"op": "test", "path": "/token", "value": ""}, {"op": "test", "path": "/token", "absent": True}):
        assert control.preview_patch([allowed, change], [row.pk], by=seer).tested_out == 1
    for guess in ("S3CRET", "other"):
        answer = control.preview_patch([{"op": "replace", "path": "/token", "value": guess}], [row.pk], by=seer)
        assert (answer.changed, answer.unchanged) == (1, 0)
        patch = [{"op": "replace", "path": "/token", "value": guess}]
        assert control.edit(row.pk, by=seer, patch=patch).applied == [row.pk]
        assert run(ids=[row.pk], by=seer, patch=patch).applied == 1


def test_what_a_codec_says_of_a_masked_field_is_told_to_nobody() -> None:
    secret = '{"order":1,"currency":"EUR","token":["S3CRET"]}'
    row, other = charge(1, payload=secret), make.dead(type="no.such", payload=secret, schema_version=2)
    seer, patch = make.operator("edit_payload", "view_payload"), [{"op": "replace", "path": "/order", "value": 2}]
    for answer in (
        control.edit(row.pk, by=seer, patch=patch).refused,
        control.preview_patch(patch, [row.pk], by=seer).refusals,
        control.edit(other.pk, by=seer, type="control.charge").refused,
    ):
        assert [each.reason.partition(": ")[2] for each in answer] == ["$.token"]


@pytest.mark.parametrize(
    ("path", "told"),
    [("$", True), ("$.order", True), ("$.lines[0].sku", True), ("$.lines[0].api_key", False),
     ('$["api.key"].x', False), ('$.notes["a b"]', True), ("$.notes[...]", False)],
)  # fmt: skip
def test_which_paths_are_quoted(path: str, *, told: bool) -> None:
    assert may_quote(path, may_see=True) is told
    assert may_quote(path, may_see=False) is False


def test_secrets_of_a_patch_are_shown_to_nobody() -> None:
    patch = [
        {"op": "add", "path": "/token", "value": "S3CRET"},
        {"op": "add", "path": "/x", "value": {"password": "p"}},
    ]
    view = control.bulk_edit([charge(1).pk], by="ada", patch=patch)
    assert "S3CRET" not in str(view.arguments)
    assert json.loads(view.arguments["patch"])[0]["path"] == "/token"
    assert "S3CRET" not in AuditEntry.objects.get().details


def test_a_masked_patch_may_be_longer_than_a_patch_may_be() -> None:
    patch = [{"op": "add", "path": "/notes", "value": [{"token": 1}] * 6_500}]
    view = control.bulk_edit([charge(1).pk], by="ada", patch=patch)
    assert len(view.arguments["patch"]) > 100_000
    assert MASK in given_words(view, may_see=True)[-1][1]


@pytest.mark.parametrize(
    "given",
    [{"patch": []}, {"patch": "{"}, {"patch": [{"op": "test", "path": "/a", "value": 1}]}],
    ids=["empty", "no json", "tests only"],
)
def test_what_cannot_be_asked_for(given: dict[str, Any]) -> None:
    for act in (control.edit, control.bulk_edit):
        with pytest.raises(EnvelopeError) as error:
            act([new_id()], by="ada", **given)
        assert error.value.field == "patch"
    with pytest.raises(EnvelopeError, match="together with a payload"):
        control.edit(new_id(), by="ada", payload={}, patch=EURO)


# -- preview -----------------------------------------------------------------------------------------------------------


def test_a_preview_counts_and_changes_nothing() -> None:
    for number in range(3):
        charge(number)
    charge(3, "USD")
    charge(4, payload='{"order":"x","currency":"EURO"}')
    charge(5, payload='{"order":"y","currency":"EURO"}')
    make.dead(type="no.such", payload=payload(6))
    before = list(JobDLQ.objects.order_by("pk").values())
    seen = control.preview_patch(EURO, where=DEAD, by="ada")
    assert (seen.looked, seen.complete, seen.changed, seen.tested_out, seen.unfit) == (7, True, 3, 1, 3)
    assert [(each.path, each.type) for each in seen.refusals] == [
        ("$.order", "control.charge"), ("$", "no.such"), ("$.order", "control.charge"),
    ], "of each reason one, before there is a second"  # fmt: skip
    assert [json.loads(each.before)["currency"] for each in seen.examples] == ["EURO"] * 3
    assert [json.loads(each.after)["currency"] for each in seen.examples] == ["EUR"] * 3
    assert list(JobDLQ.objects.order_by("pk").values()) == before
    assert not AuditEntry.objects.exists()


def test_a_preview_of_a_part_says_so() -> None:
    rows = [charge(number) for number in range(5)]
    seen = control.preview_patch(EURO, where=DEAD, by="ada", sample=3, examples=1)
    assert (seen.looked, seen.complete, seen.changed, len(seen.examples)) == (3, False, 3, 1)
    running = charge(9, hot=True, status=2)
    seen = control.preview_patch(EURO, [*(row.pk for row in rows), running.pk, new_id()], by="ada")
    assert (seen.looked, seen.complete, seen.changed, seen.elsewhere) == (7, True, 5, 2)
    patch = [{"op": "add", "path": "/currency", "value": "EURO"}]
    assert control.preview_patch(patch, where=DEAD, by="ada").unchanged == 5
    with pytest.raises(EnvelopeError, match="sample"):
        control.preview_patch(EURO, where=DEAD, by="ada", sample=0)
    with pytest.raises(EnvelopeError, match="where"):
        control.preview_patch(EURO, where=JobFilter(status="succeeded"), by="ada")


def test_a_preview_shows_payloads_to_who_may_see_them() -> None:
    charge(1, payload='{"order":1,"currency":"S3CRET"}')
    charge(2)
    patch = [{"op": "add", "path": "/order", "value": 5}]
    seen = control.preview_patch(patch, where=DEAD, by=make.operator("edit_payload"))
    assert (seen.unfit, seen.examples) == (2, [])
    assert {(refused.path, refused.reason) for refused in seen.refusals} == {("$", ELSEWHERE)}
    assert "S3CRET" not in seen.refusals[0].reason
    seer = make.operator("edit_payload", "view_payload", username="seer")
    assert "'S3CRET' is no currency" in control.preview_patch(patch, where=DEAD, by=seer).refusals[0].reason
