"""What is collected about circuits, and what is told of it."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from chokaq_django.job.registry import registry
from chokaq_django.models import Circuit
from chokaq_django.observability.events import Event
from chokaq_django.storage import get_storage
from chokaq_django.storage.contract import CircuitReport, CircuitRow
from chokaq_django.worker.breaker import Breaker
from chokaq_django.worker.views import CircuitView

from .. import jobs

pytestmark = pytest.mark.django_db


def test_a_circuit_that_the_fetch_loop_has_seen_first_is_told_all_the_same(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Between the commit of the report and the breaker's look at its answer, the fetch loop reads the circuits anew."""
    storage, view = get_storage(), CircuitView()
    breaker, job_type = Breaker(view), registry.for_class(jobs.TripJob)
    report = type(storage).report_circuits

    def seen_first(reports: Sequence[CircuitReport]) -> list[CircuitRow]:
        rows = report(storage, reports)
        view.replace(storage.circuits())
        return rows

    monkeypatch.setattr(storage, "report_circuits", seen_first)
    policy = breaker.policy(job_type)
    assert policy is not None
    for _ in range(policy.failures):
        breaker.crashed(job_type, job_type.key)
    breaker.flush(storage)
    row = view.row(job_type.key)
    assert row is not None
    assert row.state == Circuit.OPEN
    assert [r for r in caplog.records if getattr(r, "event_id", None) == Event.CIRCUIT_CHANGED]
