"""While an operation goes on: another rate, no waiting for the canary; and what became of its jobs after its end."""

from __future__ import annotations

import json

import pytest
from django.core.exceptions import PermissionDenied

from chokaq_django import EnvelopeError, control
from chokaq_django.control import BulkOutcomes, BulkRefusedError, BulkState
from chokaq_django.job.ids import new_id
from chokaq_django.models import AuditEntry, BulkOperation, FailureReason, JobDLQ, JobHot
from chokaq_django.storage import get_storage
from tests import factories as make

pytestmark = pytest.mark.django_db


def corpses(count: int) -> list[str]:
    return [make.dead().pk for _ in range(count)]


def test_another_rate_without_a_pause() -> None:
    view = control.bulk_resurrect(corpses(20), by="ada", rate=0.001)
    storage = get_storage()
    for _ in range(3):
        storage.bulk_step(view.id)
    assert JobHot.objects.count() <= 1
    view = control.bulk_set_rate(view.id, 9_000, by="bob", reason="it works")
    assert (view.state, view.rate) == (BulkState.RUNNING, 9_000)
    entry = AuditEntry.objects.get(action="bulk_set_rate")
    assert (entry.by, entry.reason, json.loads(entry.details)) == ("bob", "it works", {"rate": 9_000.0})
    control.bulk_pause(view.id, by="bob")
    assert control.bulk_set_rate(view.id, None, by="bob").state is BulkState.PAUSED
    control.bulk_resume(view.id, by="bob")
    assert control.bulk_run(view.id).applied == 20
    with pytest.raises(BulkRefusedError, match="is done"):
        control.bulk_set_rate(view.id, 5, by="bob")
    with pytest.raises(EnvelopeError, match="rate"):
        control.bulk_set_rate(view.id, 0, by="bob")


def test_on_without_waiting_for_the_canary() -> None:
    view = control.bulk_resurrect(corpses(6), by="ada", canary=2, canary_timeout=600)
    storage = get_storage()
    for _ in range(4):
        storage.bulk_step(view.id)
    assert (BulkOperation.objects.get().applied, BulkOperation.objects.get().canary_decision) == (2, "waiting")
    view = control.bulk_skip_canary(view.id, by="bob")
    assert (view.state, view.canary_decision) == (BulkState.RUNNING, "overruled")
    assert json.loads(AuditEntry.objects.get(action="bulk_skip_canary").details) == {"canary": "overruled"}
    assert control.bulk_run(view.id).applied == 6
    without = control.bulk_resurrect(corpses(1), by="ada")
    with pytest.raises(BulkRefusedError, match="waits for no canary"):
        control.bulk_skip_canary(without.id, by="bob")


def test_who_may() -> None:
    view = control.bulk_resurrect(corpses(1), by="ada", canary=1)
    for act in (
        lambda by: control.bulk_skip_canary(view.id, by=by),
        lambda by: control.bulk_set_rate(view.id, 1, by=by),
    ):
        with pytest.raises(PermissionDenied):
            act(make.operator("purge", username=new_id()))


def test_what_became_of_its_jobs_after_its_end() -> None:
    ids = corpses(6)
    view = control.bulk_run(control.bulk_resurrect([*ids, new_id()], by="ada").id)
    assert control.bulk_outcomes(view.id) == BulkOutcomes(succeeded=0, died=0, active=6, gone=0)
    for job_id, fate in zip(ids[:4], ("archive", "dead", "cancelled", "gone"), strict=True):
        JobHot.objects.filter(pk=job_id).delete()
        if fate == "archive":
            make.archived(id=job_id)
        elif fate != "gone":
            reason = FailureReason.CANCELLED if fate == "cancelled" else FailureReason.TIMEOUT
            make.dead(id=job_id, failure_reason=reason)
    assert control.bulk_outcomes(view.id) == BulkOutcomes(succeeded=1, died=1, active=2, gone=2)
    assert JobDLQ.objects.count() == 2
    assert control.bulk_outcomes(new_id()) is None
    for first in (0, -1, 50_001, 2**63):
        with pytest.raises(EnvelopeError, match="first must be from 1 to 50,000"):
            control.bulk_outcomes(view.id, first)
    BulkOperation.objects.update(applied=50_001)
    assert control.bulk_outcomes(view.id) is None
