"""The operator's verbs on jobs, against real storage."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.contrib.auth.models import AnonymousUser
from django.core.exceptions import PermissionDenied
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext

from chokaq_django import EnvelopeError, Job, control, wake
from chokaq_django.control import Location, acts
from chokaq_django.job.ids import new_id
from chokaq_django.models import AuditEntry, FailureReason, JobDLQ, JobHot, JobStatus
from tests import factories as make

pytestmark = pytest.mark.django_db


class LetterJob(Job, type="control.letter", schema_version=3):
    to: str
    copies: int = 1


class OtherJob(Job, type="control.other"):
    to: str


@pytest.fixture
def woken() -> Iterator[list[str]]:
    calls: list[str] = []

    def listener() -> None:
        calls.append("woken")

    wake.subscribe("default", listener)
    yield calls
    wake.unsubscribe("default", listener)


def letter(**columns: Any) -> JobDLQ:
    """A dead letter, written by an older version of the code."""
    return make.dead(type="control.letter", payload='{"to":"ada"}', **columns)


# -- get ---------------------------------------------------------------------------------------------------------------


def test_get_finds_a_job_wherever_it_is() -> None:
    active = make.running(
        tags='["a","b"]', headers='{"x":"y"}', progress=40, progress_message="half", attempt_log="[{}]"
    )
    found = control.get(active.pk)
    assert found is not None
    assert (found.location, found.status) == (Location.HOT, JobStatus.PROCESSING)
    assert (found.tags, found.headers, found.attempts) == (("a", "b"), {"x": "y"}, ({},))
    assert (found.progress, found.progress_message, found.worker_id) == (40, "half", make.WORKER_ID)
    assert (found.finished_at, found.failure_reason, found.result) == (None, None, None)

    done = make.archived()
    found = control.get(f" {done.pk.lower()} ")
    assert found is not None
    assert (found.id, found.location, found.status) == (done.pk, Location.ARCHIVE, JobStatus.SUCCEEDED)
    assert (found.duration_ms, found.wait_ms, found.result) == (1530, 12, '{"sent":1}')
    assert found.finished_at == done.finished_at


@pytest.mark.parametrize(
    ("reason", "status"),
    [
        (FailureReason.CANCELLED, JobStatus.CANCELLED),
        (FailureReason.ZOMBIE, JobStatus.ZOMBIE),
        (FailureReason.EXPIRED, JobStatus.EXPIRED),
        (FailureReason.POISON, JobStatus.FAILED),
        (FailureReason.MAX_RETRIES_EXCEEDED, JobStatus.FAILED),
    ],
)
def test_the_status_of_the_dead_follows_from_the_reason(reason: FailureReason, status: JobStatus) -> None:
    found = control.get(make.dead(failure_reason=reason).pk)
    assert found is not None
    assert (found.location, found.status, found.failure_reason) == (Location.DLQ, status, reason)


@pytest.mark.parametrize("job_id", [new_id(), "", "nonsense", "x" * 500, "\x00"])
def test_get_of_an_unknown_id(job_id: str) -> None:
    assert control.get(job_id) is None


def test_a_view_opens_whatever_the_row_holds() -> None:
    found = control.get(make.hot(tags="not json", headers="[]", attempt_log="{").pk)
    assert found is not None
    assert (found.tags, found.headers, found.attempts) == ((), {}, ())


# -- cancel ------------------------------------------------------------------------------------------------------------


def test_cancel() -> None:
    waiting, at_work, done = make.hot(), make.running(), make.archived()
    answer = control.cancel([waiting.pk, at_work.pk, done.pk], by="ada", reason=" wrong address ")
    assert (answer.applied, answer.requested) == ([waiting.pk], [at_work.pk])
    [refusal] = answer.refused
    assert refusal.id == done.pk
    assert "succeeded" in refusal.reason
    buried = JobDLQ.objects.get(pk=waiting.pk)
    assert (buried.failure_reason, buried.modified_by) == (FailureReason.CANCELLED, "ada")
    asked = JobHot.objects.get(pk=at_work.pk)
    assert asked.cancel_requested_at is not None
    assert asked.cancel_requested_by == "ada"
    entries = {entry.target: entry for entry in AuditEntry.objects.all()}
    assert set(entries) == {waiting.pk, at_work.pk}  # what was refused did not happen
    assert {(entry.action, entry.by, entry.reason) for entry in entries.values()} == {
        ("cancel", "ada", "wrong address")
    }
    assert json.loads(entries[waiting.pk].details) == {}
    assert json.loads(entries[at_work.pk].details) == {"outcome": "requested"}


def test_ids_are_cleaned() -> None:
    job = make.hot()
    answer = control.cancel([f" {job.pk.lower()}\n", job.pk, "garbage", "", "x" * 900, None, 7], by="ada")  # type: ignore[list-item]
    assert answer.applied == [job.pk]
    assert [refusal.id for refusal in answer.refused] == ["garbage", "", answer.refused[2].id, "None", "7"]
    assert len(answer.refused[2].id) <= 64
    assert {refusal.reason for refusal in answer.refused} == {"This is not a job id, which has 26 letters and digits."}


def test_one_id_needs_no_list() -> None:
    job = make.hot()
    assert control.cancel(job.pk, by="ada").applied == [job.pk]


def test_long_lists_are_worked_off_in_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(acts, "CHUNK", 3)
    jobs = [make.hot().pk for _ in range(8)]
    answer = control.cancel(iter(jobs), by="ada")
    assert answer.applied == jobs
    assert AuditEntry.objects.count() == 8


def test_lists_have_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(acts, "MOST_IDS", 3)
    job = make.hot()
    with pytest.raises(EnvelopeError, match="ids must be at most 3 in one call"):
        control.cancel([job.pk, *(new_id() for _ in range(3))], by="ada")
    assert JobHot.objects.filter(pk=job.pk).exists()


def test_an_act_and_its_audit_are_one() -> None:
    job = make.hot()
    with transaction.atomic():
        control.cancel(job.pk, by="ada")
        transaction.set_rollback(True)
    assert JobHot.objects.filter(pk=job.pk).exists()
    assert not AuditEntry.objects.exists()


# -- who may -----------------------------------------------------------------------------------------------------------


def test_a_user_needs_the_permission() -> None:
    job, corpse = make.hot(), make.dead()
    nobody = make.operator("view_deck", "resurrect", "operate", username="nobody")
    with pytest.raises(PermissionDenied, match=r"chokaq\.cancel"):
        control.cancel(job.pk, by=nobody)
    with pytest.raises(PermissionDenied):
        control.cancel(job.pk, by=AnonymousUser())
    with pytest.raises(PermissionDenied):
        control.cancel(job.pk, by=make.operator("cancel", username="gone", is_active=False))
    with pytest.raises(PermissionDenied, match=r"chokaq\.resurrect"):
        control.resurrect(corpse.pk, by=make.operator("cancel", username="canceller"))
    assert (JobHot.objects.count(), JobDLQ.objects.count(), AuditEntry.objects.count()) == (1, 1, 0)
    assert control.cancel(job.pk, by=make.operator("cancel")).applied == [job.pk]
    assert AuditEntry.objects.get().by == "ada"


def test_an_edited_payload_needs_its_own_permission() -> None:
    corpse = letter()
    reviver = make.operator("resurrect")
    with pytest.raises(PermissionDenied, match=r"chokaq\.edit_payload"):
        control.resurrect(corpse.pk, by=reviver, payload={"to": "bob"})
    assert control.resurrect(corpse.pk, by=reviver).applied == [corpse.pk]


def test_somebody_must_act() -> None:
    job = make.hot()
    with pytest.raises(EnvelopeError, match="by must say who acts"):
        control.cancel(job.pk, by=" ")
    with pytest.raises(TypeError):
        control.cancel(job.pk)  # type: ignore[call-arg]


def test_long_and_odd_names_are_storable() -> None:
    job, other = make.hot(), make.running()
    control.cancel([job.pk, other.pk], by="a" * 150 + "\x00", reason="r\x00" + "x" * 5_000)
    entry = AuditEntry.objects.filter(target=job.pk).get()
    assert entry.by is not None
    assert len(entry.by) <= 150
    assert len(entry.reason) <= 2_000
    assert "\x00" not in entry.by + entry.reason


# -- resurrect ---------------------------------------------------------------------------------------------------------


def test_resurrect(woken: list[str], django_capture_on_commit_callbacks: Any) -> None:
    corpse = make.dead(priority=20, tags='["a"]', idempotency_key="k")
    with django_capture_on_commit_callbacks(execute=True):
        answer = control.resurrect([corpse.pk, new_id()], by="ada", reason="fixed")
        assert woken == []
    assert answer.applied == [corpse.pk]
    assert len(answer.refused) == 1
    job = JobHot.objects.get(pk=corpse.pk)
    assert (job.status, job.attempt, job.generation, job.claim_number) == (0, 0, 1, 3)
    assert (job.payload, job.priority, job.tags, job.idempotency_key) == (corpse.payload, 20, '["a"]', "k")
    assert len(woken) == 1
    entry = AuditEntry.objects.get()
    assert (entry.action, entry.target, entry.reason, entry.details) == ("resurrect", corpse.pk, "fixed", "{}")


@pytest.mark.parametrize("payload", [{"to": "bob", "copies": 2}, '{"to":"bob","copies":2}', LetterJob("bob", 2)])
def test_a_new_payload_in_any_form(payload: object) -> None:
    corpse = letter()
    answer = control.resurrect(corpse.pk, by="ada", payload=payload, tags=["fixed"], priority=1)
    assert answer.applied == [corpse.pk]
    job = JobHot.objects.get(pk=corpse.pk)
    assert json.loads(job.payload) == {"to": "bob", "copies": 2}
    assert (job.schema_version, job.tags, job.priority, job.revision) == (3, '["fixed"]', 1, 1)
    assert json.loads(AuditEntry.objects.get().details) == {"payload": True, "tags": '["fixed"]', "priority": 1}


def test_tags_can_be_taken_off() -> None:
    corpse = make.dead(tags='["a"]')
    control.resurrect(corpse.pk, by="ada", tags=())
    assert JobHot.objects.get().tags == "[]"


@pytest.mark.parametrize(
    ("payload", "words"),
    [
        ({"to": 5}, "$.to: Expected `str`, got `int`"),
        ({"to": "bob", "cc": "eve"}, "$.cc"),
        ({}, "to"),
        ({"to": {1, 2}}, "$: not JSON"),
        ({"to": float("nan")}, "$: not JSON"),
        ("{", "$: not valid JSON"),
        ("[]", "$: Expected `object`"),
        ('{"to":"\ud800"}', "$: not valid text"),
        (OtherJob("bob"), "$: it is a control.other, the job is a control.letter"),
    ],
)
def test_a_payload_that_does_not_fit_is_refused(payload: Any, words: str) -> None:
    corpse = letter()
    answer = control.resurrect(corpse.pk, by="ada", payload=payload)
    assert answer.applied == []
    [refusal] = answer.refused
    assert refusal.id == corpse.pk
    assert refusal.reason.startswith("The payload does not fit: ")
    assert words in refusal.reason
    assert JobDLQ.objects.get().payload == corpse.payload
    assert not AuditEntry.objects.exists()


def test_a_payload_fits_some_and_not_others() -> None:
    fits, other, unknown = letter(), make.dead(type="control.other"), make.dead(type="no.such.type")
    active = make.hot(type="control.letter")
    answer = control.resurrect([fits.pk, other.pk, unknown.pk, active.pk], by="ada", payload={"to": "b", "copies": 9})
    assert answer.applied == [fits.pk]
    reasons = {refusal.id: refusal.reason for refusal in answer.refused}
    assert "$.copies" in reasons[other.pk]
    assert "no code here knows the type 'no.such.type'" in reasons[unknown.pk]
    assert reasons[active.pk] == "There is no dead job with this id."


def test_only_payloads_can_be_payloads() -> None:
    with pytest.raises(EnvelopeError, match="payload must be a job, a dict or JSON text"):
        control.resurrect(letter().pk, by="ada", payload=object())
    with pytest.raises(EnvelopeError, match="priority must be an integer"):
        control.resurrect(letter().pk, by="ada", priority=True)
    with pytest.raises(EnvelopeError, match="tags must be a list"):
        control.resurrect(letter().pk, by="ada", tags="urgent")
    with pytest.raises(ValueError, match="'skip' or 'drop', got 'steal'"):
        control.resurrect(letter().pk, by="ada", on_key_conflict="steal")  # type: ignore[arg-type]


def test_a_held_key() -> None:
    corpse = make.dead(idempotency_key="order-7")
    holder = make.hot(idempotency_key="order-7")
    answer = control.resurrect(corpse.pk, by="ada")
    assert answer.applied == []
    assert holder.pk in answer.refused[0].reason
    assert control.resurrect(corpse.pk, by="ada", on_key_conflict="drop").applied == [corpse.pk]
    assert JobHot.objects.get(pk=corpse.pk).idempotency_key is None


@pytest.mark.usefixtures("transactional_db")
def test_an_act_begins_as_a_writer() -> None:
    """On SQLite a transaction that reads first fails at its first write if somebody else has written meanwhile."""
    if connection.features.has_select_for_update:
        pytest.skip("the engine locks rows")
    job, queue = make.hot(), make.queue()
    worker = make.worker()
    verbs: list[Callable[[], object]] = [
        lambda: control.cancel(job.pk, by="ada"),
        lambda: control.edit(job.pk, by="ada", payload={"name": "b"}),
        lambda: control.purge(job.pk, by="ada"),
        lambda: control.restore(job.pk, by="ada"),
        lambda: control.resurrect(job.pk, by="ada", payload={"name": "b"}),
        lambda: control.remove(job.pk, by="ada"),
        lambda: control.run_again(job.pk, by="ada"),
        lambda: control.open_circuit("test.note", by="ada"),
        lambda: control.pause_queue(queue.name, by="ada"),
        lambda: control.stop_worker(worker.pk, by="ada"),
    ]
    for act in verbs:
        with CaptureQueriesContext(connection) as queries:
            act()
        begin, first, *_ = (query["sql"] for query in queries.captured_queries)
        assert begin.startswith("BEGIN")
        assert first.startswith("UPDATE")
