"""Remove, purge and restore, as operators use them."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Callable
from typing import Any

import pytest
from django.core.exceptions import PermissionDenied
from django.db import transaction

from chokaq_django import EnvelopeError, control, wake
from chokaq_django.control import Location, acts
from chokaq_django.job.ids import new_id
from chokaq_django.models import AuditEntry, FailureReason, JobArchive, JobDLQ, JobHot, JobStatus, JobTrash
from tests import factories as make

pytestmark = pytest.mark.django_db

DAY = dt.timedelta(days=1)


def test_purge_and_restore_are_told_in_the_audit() -> None:
    corpse, done = make.dead(), make.archived()
    before = JobDLQ.objects.values().get(), JobArchive.objects.values().get()
    answer = control.purge([corpse.pk, done.pk], by="ada", reason="noise")
    assert (answer.applied, answer.refused) == ([corpse.pk, done.pk], [])
    assert (JobDLQ.objects.count(), JobArchive.objects.count(), JobTrash.objects.count()) == (0, 0, 2)
    assert set(JobTrash.objects.values_list("purged_by", flat=True)) == {"ada"}
    assert control.restore([corpse.pk, done.pk], by="bob", reason="no noise").applied == [corpse.pk, done.pk]
    assert (JobDLQ.objects.values().get(), JobArchive.objects.values().get()) == before
    told = AuditEntry.objects.filter(target=corpse.pk).order_by("at", "id").values_list("action", "by", "reason")
    assert list(told) == [("purge", "ada", "noise"), ("restore", "bob", "no noise")]


def test_remove() -> None:
    waiting, at_work, corpse = make.hot(), make.running(), make.dead()
    answer = control.remove([waiting.pk, at_work.pk, corpse.pk, new_id(), "x"], by="ada")
    assert answer.applied == [waiting.pk]
    reasons = {refusal.id: refusal.reason for refusal in answer.refused}
    assert reasons[at_work.pk] == "The job is running: cancel it instead."
    assert reasons[corpse.pk] == "The job is already dead."
    assert reasons["x"].startswith("This is not a job id")
    assert len(reasons) == 4
    assert [entry.target for entry in AuditEntry.objects.all()] == [waiting.pk]
    assert not JobDLQ.objects.filter(pk=waiting.pk).exists()


@pytest.mark.parametrize(("setting", "days"), [({}, 7), ({"TRASH": 3 * DAY}, 3), ({"TRASH": None}, None)])
def test_how_long_it_can_be_restored(settings: Any, setting: dict[str, Any], days: int | None) -> None:
    settings.CHOKAQ = {**settings.CHOKAQ, "RETENTION": setting}
    corpse, waiting = make.dead(), make.hot()
    control.purge(corpse.pk, by="ada")
    control.remove(waiting.pk, by="ada")
    for row in JobTrash.objects.all():
        if days is None:
            assert row.expires_at is None
        else:
            assert row.expires_at is not None
            assert abs(row.expires_at - row.purged_at - days * DAY) < dt.timedelta(seconds=1)


def test_a_job_in_the_trash_is_found() -> None:
    corpse = make.dead(failure_reason=FailureReason.ZOMBIE, note="look at this")
    waiting, done = make.hot(progress=3), make.archived()
    control.purge([corpse.pk, done.pk], by="ada")
    control.remove(waiting.pk, by="ada")
    found = control.get(corpse.pk)
    assert found is not None
    assert (found.location, found.came_from, found.purged_by) == (Location.TRASH, "dlq", "ada")
    assert (found.status, found.failure_reason, found.note) == (
        JobStatus.ZOMBIE, FailureReason.ZOMBIE, "look at this",
    )  # fmt: skip
    assert found.expires_at is not None
    assert found.error_details == corpse.error_details
    removed, archived = control.get(waiting.pk), control.get(done.pk)
    assert removed is not None
    assert archived is not None
    assert (removed.status, removed.progress, removed.came_from) == (JobStatus.PENDING, 3, "hot")
    assert (archived.status, archived.result, archived.came_from) == (JobStatus.SUCCEEDED, done.result, "archive")


def test_a_held_key_when_restored() -> None:
    away = make.hot(idempotency_key="order-7")
    control.remove(away.pk, by="ada")
    holder = make.hot(idempotency_key="order-7")
    [refusal] = control.restore(away.pk, by="ada").refused
    assert holder.pk in refusal.reason
    assert control.restore(away.pk, by="ada", on_key_conflict="drop").applied == [away.pk]
    assert JobHot.objects.get(pk=away.pk).idempotency_key is None
    assert json.loads(AuditEntry.objects.get(action="restore").details) == {"on_key_conflict": "drop"}
    with pytest.raises(ValueError, match="'skip' or 'drop', got 'steal'"):
        control.restore(away.pk, by="ada", on_key_conflict="steal")  # type: ignore[arg-type]


def test_restoring_wakes_workers(django_capture_on_commit_callbacks: Any) -> None:
    calls: list[str] = []
    job = make.hot()
    control.remove(job.pk, by="ada")

    def listener() -> None:
        calls.append("woken")

    wake.subscribe("default", listener)
    try:
        with django_capture_on_commit_callbacks(execute=True):
            control.restore(job.pk, by="ada")
            assert calls == []
    finally:
        wake.unsubscribe("default", listener)
    assert calls == ["woken"]


VERBS: list[tuple[Callable[..., object], tuple[str, ...]]] = [
    (control.remove, ("cancel", "purge")),
    (control.purge, ("purge",)),
    (control.restore, ("purge",)),
]


@pytest.mark.parametrize(("verb", "needed"), VERBS, ids=["remove", "purge", "restore"])
def test_who_may(verb: Callable[..., object], needed: tuple[str, ...]) -> None:
    job, corpse = make.hot(), make.dead()
    away = make.dead()
    control.purge(away.pk, by="ada")
    others = {"view_deck", "operate", "edit_payload", "resurrect", "cancel", "purge", "view_payload"}
    for number, missing in enumerate(needed):
        with pytest.raises(PermissionDenied, match=rf"chokaq\.{missing}"):
            verb([job.pk, corpse.pk, away.pk], by=make.operator(*(others - {missing}), username=f"user-{number}"))
    assert (JobHot.objects.count(), JobDLQ.objects.count(), JobTrash.objects.count()) == (1, 1, 1)
    assert AuditEntry.objects.count() == 1
    answer: Any = verb([job.pk, corpse.pk, away.pk], by=make.operator(*needed, username="allowed"))
    assert len(answer.applied) == 1
    with pytest.raises(EnvelopeError, match="must say who acts"):
        verb(job.pk, by="")


def test_an_act_and_its_audit_are_one() -> None:
    corpse = make.dead()
    with transaction.atomic():
        control.purge(corpse.pk, by="ada")
        transaction.set_rollback(True)
    assert JobDLQ.objects.filter(pk=corpse.pk).exists()
    assert not AuditEntry.objects.exists()


def test_long_lists_are_worked_off_in_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(acts, "CHUNK", 3)
    rows = [make.dead().pk for _ in range(8)]
    assert control.purge(rows, by="ada").applied == rows
    assert control.restore(rows, by="ada").applied == rows
    assert AuditEntry.objects.count() == 16
