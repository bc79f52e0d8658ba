"""Edit and run again, as operators use them."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.core.exceptions import PermissionDenied
from django.db import connections, transaction

from chokaq_django import EnvelopeError, Job, control
from chokaq_django.job.ids import new_id
from chokaq_django.job.schema import migrates
from chokaq_django.models import AuditEntry, JobArchive, JobDLQ, JobHot, PayloadVersion
from chokaq_django.storage import BulkResult
from tests import factories as make
from tests.storage.support import together

pytestmark = pytest.mark.django_db


class InvoiceJob(Job, type="control.invoice", aliases=["control.invoice.old"], schema_version=2):
    number: int
    note: str = ""


@migrates(InvoiceJob, from_version=1)
def _numbered(raw: dict[str, Any]) -> dict[str, Any]:
    return {"number": int(raw["nr"])}


class ReminderJob(Job, type="control.reminder"):
    number: int
    note: str = ""


def invoice(*, hot: bool = False, **columns: Any) -> Any:
    row = {"type": "control.invoice", "payload": '{"number":1}', "schema_version": 2, **columns}
    return make.hot(**row) if hot else make.dead(**row)


def details(job_id: str) -> Any:
    return json.loads(AuditEntry.objects.get(target=job_id).details)


def refusal(answer: BulkResult) -> str:
    assert answer.applied == []
    [refused] = answer.refused
    return refused.reason


# -- edit --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("hot", [True, False], ids=["waiting", "dead"])
def test_an_edit_of_everything(hot: bool) -> None:
    row = invoice(hot=hot, priority=10, tags='["a"]', queue="old")
    answer = control.edit(
        row.pk, by="ada", reason="typo", revision=0, payload={"number": 7}, tags=["b", "c"], priority=20, queue="new",
        type="control.invoice.old",
    )  # fmt: skip
    assert (answer.applied, answer.refused) == ([row.pk], [])
    after = (JobHot if hot else JobDLQ).objects.get(pk=row.pk)
    assert json.loads(after.payload)["number"] == 7
    assert (after.tags, after.priority, after.queue, after.type) == ('["b","c"]', 20, "new", "control.invoice.old")
    assert (after.revision, after.modified_by, after.schema_version) == (1, "ada", 2)
    version = PayloadVersion.objects.get()
    assert (version.job_id, version.revision, version.payload, version.replaced_by) == (
        row.pk, 0, '{"number":1}', "ada",
    )  # fmt: skip
    entry = AuditEntry.objects.get()
    assert (entry.action, entry.by, entry.reason) == ("edit", "ada", "typo")
    assert json.loads(entry.details) == {
        "revision": 1,
        "queue": {"from": "old", "to": "new"},
        "type": {"from": "control.invoice", "to": "control.invoice.old"},
        "priority": {"from": 10, "to": 20},
        "tags": {"from": '["a"]', "to": '["b","c"]'},
        "payload": True,
    }


def test_the_audit_names_what_changed_and_nothing_else() -> None:
    row = invoice(priority=10, queue="mail")
    control.edit(row.pk, by="ada", priority=11, queue="mail")
    assert details(row.pk) == {"revision": 1, "priority": {"from": 10, "to": 11}}


@pytest.mark.parametrize("payload", [{"number": 7}, '{"number":7,"note":""}', InvoiceJob(7)])
def test_a_payload_in_any_form_lifts_the_row_to_the_version_of_the_code(payload: object) -> None:
    row = invoice(payload='{"nr":"1"}', schema_version=1)
    control.edit(row.pk, by="ada", payload=payload)
    after = JobDLQ.objects.get()
    assert (json.loads(after.payload)["number"], after.schema_version) == (7, 2)


@pytest.mark.parametrize(
    ("payload", "words"),
    [
        ({"number": "seven"}, "$.number: Expected `int`, got `str`"),
        ({"number": 7, "amount": 1}, "$.amount"),
        ({}, "number"),
        ("{", "$: not valid JSON"),
        (ReminderJob(7), "$: it is a control.reminder, the job is a control.invoice"),
    ],
)
def test_a_payload_that_does_not_fit_is_refused_with_its_path(payload: object, words: str) -> None:
    row = invoice()
    reason = refusal(control.edit(row.pk, by="ada", payload=payload, priority=3))
    assert reason.startswith("The payload does not fit: ")
    assert words in reason
    assert JobDLQ.objects.values("payload", "priority", "revision").get() == {
        "payload": row.payload, "priority": row.priority, "revision": 0,
    }  # fmt: skip
    assert not AuditEntry.objects.exists()
    assert not PayloadVersion.objects.exists()


def test_a_refusal_quotes_no_stored_value_to_who_may_not_see_it() -> None:
    job = make.dead(type="test.note", payload='{"number":1,"colour":"S3CRET"}')
    editor = make.operator("edit_payload")
    assert refusal(control.edit(job.pk, by=editor, type="test.every")) == "The payload does not fit the other type."
    seer = make.operator("edit_payload", "view_payload", username="seer")
    assert "S3CRET" in refusal(control.edit(job.pk, by=seer, type="test.every"))


def test_a_payload_is_checked_for_each_type() -> None:
    fits, other, unknown = invoice(), make.dead(type="test.note"), make.dead(type="no.such")
    answer = control.edit([fits.pk, other.pk, unknown.pk], by="ada", payload={"number": 5})
    assert answer.applied == [fits.pk]
    reasons = {each.id: each.reason for each in answer.refused}
    assert "$.number" in reasons[other.pk]
    assert "no code here knows the type 'no.such'" in reasons[unknown.pk]


def test_another_type_must_take_the_payload_that_stays() -> None:
    good, old, bad = invoice(), invoice(payload='{"nr":"4"}', schema_version=1), invoice(payload='{"x":1}')
    answer = control.edit([good.pk, old.pk, bad.pk], by="ada", type="control.reminder")
    assert answer.applied == []  # version 2 of a payload means nothing to a type of version 1
    assert {each.id for each in answer.refused} == {good.pk, old.pk, bad.pk}
    plain = invoice(schema_version=1)
    assert control.edit([plain.pk], by="ada", type="control.reminder").applied == [plain.pk]
    # An alias is the same type: what it cannot read it could not read before.
    assert control.edit([bad.pk], by="ada", type="control.invoice.old").applied == [bad.pk]
    with pytest.raises(EnvelopeError, match=r"'control\.reminders' is not registered here; did you mean"):
        control.edit(good.pk, by="ada", type="control.reminders")


def test_many_at_once() -> None:
    rows = [invoice(hot=number % 2 == 0) for number in range(6)]
    answer = control.edit([row.pk for row in rows], by="ada", priority=77)
    assert sorted(answer.applied) == sorted(row.pk for row in rows)
    assert set(JobHot.objects.values_list("priority", flat=True)) == {77}
    assert set(JobDLQ.objects.values_list("priority", flat=True)) == {77}
    assert AuditEntry.objects.count() == 6


def test_a_revision_for_each_job() -> None:
    first, second = invoice(revision=3), invoice(revision=5)
    answer = control.edit({first.pk.lower(): 3, second.pk: 4}, by="ada", priority=1)
    assert answer.applied == [first.pk]
    assert answer.refused[0].id == second.pk


def test_the_second_of_two_editors_is_told_what_changed() -> None:
    row = invoice(priority=10)
    control.edit(row.pk, by="ada", revision=0, payload={"number": 2}, priority=20)
    control.edit(row.pk, by="bob", revision=1, tags=["x"])
    reason = refusal(control.edit(row.pk, by="eve", revision=0, payload={"number": 3}))
    assert reason == (
        "The job was changed meanwhile by bob: it is at revision 2, not 0. "
        'ada: priority 10 -> 20, a new payload. bob: tags [] -> ["x"].'
    )
    assert "priority" not in refusal(control.edit(row.pk, by="eve", revision=1, payload={"number": 3}))
    assert json.loads(JobDLQ.objects.get().payload)["number"] == 2


def test_without_a_revision_the_later_edit_wins() -> None:
    row = invoice()
    control.edit(row.pk, by="ada", priority=1)
    assert control.edit(row.pk, by="bob", priority=2).applied == [row.pk]
    assert JobDLQ.objects.get().revision == 2


@pytest.mark.parametrize("kind", ["running", "archived", "nowhere", "trash"])
def test_only_waiting_and_dead_jobs(kind: str) -> None:
    job_id = {"running": make.running, "archived": make.archived, "trash": make.dead}[kind]().pk \
        if kind != "nowhere" else new_id()  # fmt: skip
    if kind == "trash":
        control.purge(job_id, by="ada")
    for changes in ({"priority": 3}, {"payload": {"number": 1}}, {"type": "control.invoice"}):
        assert len(refusal(control.edit(job_id, by="ada", **changes))) > 10  # type: ignore[arg-type]
    assert not AuditEntry.objects.filter(action="edit").exists()


def test_what_cannot_be_asked_for() -> None:
    row = invoice()
    with pytest.raises(EnvelopeError, match="payload is missing: one of payload, patch, tags"):
        control.edit(row.pk, by="ada")
    with pytest.raises(EnvelopeError, match="of one job"):
        control.edit([row.pk, new_id()], by="ada", revision=1, priority=1)
    with pytest.raises(EnvelopeError, match="revision is of one job; the dict"):
        control.edit({row.pk: 1}, by="ada", revision=1, priority=1)
    with pytest.raises(EnvelopeError, match="revision must be an integer"):
        control.edit(row.pk, by="ada", revision=True, priority=1)
    with pytest.raises(EnvelopeError, match="priority must be an integer"):
        control.edit(row.pk, by="ada", priority="high")  # type: ignore[arg-type]
    with pytest.raises(EnvelopeError, match="queue must be letters"):
        control.edit(row.pk, by="ada", queue="a b")
    with pytest.raises(EnvelopeError, match="tags must be a list"):
        control.edit(row.pk, by="ada", tags="urgent")
    with pytest.raises(EnvelopeError, match="payload must be a job, a dict or JSON text"):
        control.edit(row.pk, by="ada", payload=object())
    assert "not a job id" in refusal(control.edit("garbage", by="ada", priority=1))
    assert refusal(control.edit(row.pk, by="ada", priority=row.priority)) == "The job has these values already."


def test_who_may_edit() -> None:
    row = invoice()
    with pytest.raises(PermissionDenied, match=r"chokaq\.edit_payload"):
        control.edit(row.pk, by=make.operator("operate", "resurrect", "cancel", "purge", username="bob"), priority=1)
    assert control.edit(row.pk, by=make.operator("edit_payload"), priority=1).applied == [row.pk]


@pytest.mark.usefixtures("transactional_db")
def test_of_many_editors_at_once_one_is_first() -> None:
    row = invoice()

    def work(number: int, own: Any) -> BulkResult:
        try:
            return control.edit(row.pk, by=f"editor-{number}", revision=0, payload={"number": number})
        finally:
            connections.close_all()

    answers = together(4, work)
    [winner] = [number for number, answer in enumerate(answers) if answer.applied]
    assert json.loads(JobDLQ.objects.get().payload)["number"] == winner
    for answer in answers:
        for each in answer.refused:
            assert f"changed meanwhile by editor-{winner}" in each.reason
            assert "a new payload" in each.reason
    assert PayloadVersion.objects.count() == AuditEntry.objects.count() == 1


def test_an_edit_that_is_undone_leaves_nothing() -> None:
    row = invoice()
    with transaction.atomic():
        control.edit(row.pk, by="ada", payload={"number": 2})
        transaction.set_rollback(True)
    assert JobDLQ.objects.get().revision == 0
    assert not PayloadVersion.objects.exists()
    assert not AuditEntry.objects.exists()


# -- run again ---------------------------------------------------------------------------------------------------------


def test_run_again() -> None:
    done, corpse = make.archived(idempotency_key="k"), make.dead()
    answer = control.run_again([done.pk, corpse.pk], by="ada", reason="once more")
    assert answer.applied == [done.pk]
    assert answer.refused[0].reason == "The job is already dead."
    new = JobHot.objects.get()
    assert answer.new_ids == {done.pk: new.pk}
    assert json.loads(new.headers)["chokaq-run-again-of"] == done.pk
    assert (new.payload, new.idempotency_key, new.modified_by, new.attempt) == (done.payload, "k", "ada", 0)
    assert JobArchive.objects.filter(pk=done.pk).exists()
    entry = AuditEntry.objects.get()
    assert (entry.action, entry.target, entry.reason) == ("run_again", done.pk, "once more")
    assert json.loads(entry.details) == {"new": new.pk}
    [refused] = control.run_again(done.pk, by="ada").refused
    assert new.pk in refused.reason
    assert len(control.run_again(done.pk, by="ada", on_key_conflict="drop").new_ids) == 1
    with pytest.raises(ValueError, match="'skip' or 'drop', got 'steal'"):
        control.run_again(done.pk, by="ada", on_key_conflict="steal")  # type: ignore[arg-type]


def test_who_may_run_again() -> None:
    done = make.archived()
    with pytest.raises(PermissionDenied, match=r"chokaq\.resurrect"):
        control.run_again(done.pk, by=make.operator("operate", "edit_payload", "purge", username="bob"))
    assert control.run_again(done.pk, by=make.operator("resurrect")).applied == [done.pk]
