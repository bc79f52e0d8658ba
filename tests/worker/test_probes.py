"""The permits of half-open circuits find their way back, whatever becomes of the claim that took them."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Callable
from typing import Any

import pytest
from django.db.models import F

from chokaq_django import enqueue
from chokaq_django.models import Circuit, JobHot, JobStatus
from chokaq_django.observability.events import Event

from .. import jobs
from ..helpers import WorkerProcess, wait_until
from ..ledger import Ledger
from .conftest import StartWorker
from .executions import claimed
from .support import committed, job, make_worker, settled, store_raw
from .test_lost_replies import Loser

GATED = "test.gated_trip"
"""It has one permit at a time, and a probe that says nothing keeps it for a minute."""
NEWER = "test.newer"
HOW = pytest.mark.parametrize("how", ["given up", "tried again"])


@pytest.fixture
def loser(monkeypatch: pytest.MonkeyPatch) -> Loser:
    return Loser(monkeypatch)


def due_to_be_probed(type_key: str) -> None:
    past = dt.datetime.now(dt.UTC) - dt.timedelta(hours=1)
    Circuit.objects.create(
        type=type_key, state=Circuit.OPEN, failures=3, opened_at=past, open_until=past, updated_at=past
    )


def closes(type_key: str) -> None:
    """Long before a permit runs out."""
    wait_until(lambda: Circuit.objects.get(pk=type_key).state == Circuit.CLOSED, what="the circuit closes")


@committed
@HOW
def test_a_probe_whose_claim_was_not_answered_closes_its_circuit(
    start_worker: StartWorker, ledger: Ledger, loser: Loser, how: str
) -> None:
    ledger.open_gate("mended")
    due_to_be_probed(GATED)
    loser.lose_claims(how)
    probe = enqueue(jobs.GatedTripJob(gate="mended")).id
    start_worker()
    view = settled(probe)
    assert (view.status, view.attempt, len(loser.lost)) == (JobStatus.SUCCEEDED, 1, 1)
    closes(GATED)


@committed
@HOW
def test_a_probe_whose_start_was_not_answered_keeps_no_permit(
    start_worker: StartWorker, ledger: Ledger, loser: Loser, how: str
) -> None:
    """A claim only leases what has crashed before. Where the start was tried again it was refused, and the permit given
    back then: the next job is the probe."""
    ledger.open_gate("mended")
    due_to_be_probed(GATED)
    loser.lose_starts(how)
    probe = enqueue(jobs.GatedTripJob(gate="mended")).id
    JobHot.objects.filter(pk=probe).update(crash_count=1)
    start_worker()
    view = settled(probe)
    assert (view.status, view.attempt, len(loser.lost)) == (JobStatus.SUCCEEDED, 1, 1)
    if how == "tried again":
        assert settled(enqueue(jobs.GatedTripJob(gate="mended")).id).status == JobStatus.SUCCEEDED
    closes(GATED)


@committed
def test_a_worker_without_the_type_keeps_no_permit(
    start_worker: StartWorker, worker_process: Callable[..., WorkerProcess], caplog: pytest.LogCaptureFixture
) -> None:
    due_to_be_probed(NEWER)
    circuit = {"PROBES": 1, "PROBE_TIMEOUT": 60}
    older = start_worker(CIRCUIT=circuit)
    newer = store_raw(NEWER, '{"name":"at last"}')

    def met() -> bool:
        return any(getattr(record, "event_id", 0) == Event.JOB_TYPE_UNKNOWN for record in caplog.records)

    wait_until(met, what="the old code claims it, on a permit")
    assert NEWER not in older._fetcher._request(["default"], 1, True).probing, "and asks for no other for a while"
    wait_until(lambda: json.loads(Circuit.objects.get(pk=NEWER).probes) == [], what="the permit is back")
    wait_until(lambda: job(newer).status == JobStatus.PENDING, what="and so is the job")
    older.shutdown(hurry=lambda: True)
    JobHot.objects.filter(pk=newer).update(run_at=F("due_at"))
    worker_process(options={"CIRCUIT": circuit}, env={"CHOKAQ_TEST_NEWER_CODE": "1"})
    assert settled(newer).status == JobStatus.SUCCEEDED
    closes(NEWER)


def test_what_cannot_run_leaves_its_permit_to_another(settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    fetcher = make_worker(settings)._fetcher
    passed: list[str] = []
    monkeypatch.setattr(fetcher, "_passed_up", lambda job: passed.append(job.id))
    monkeypatch.setattr(fetcher, "_expired", lambda job: None)
    monkeypatch.setattr(fetcher, "_unknown", lambda job: None)
    late = claimed(type=GATED, status=1, expired=True)
    unknown = [claimed(type=NEWER, status=status) for status in (1, 2)]
    others = [claimed(type="test.nobody", status=1), claimed(status=1, expired=True)]
    fetcher._take([late, *unknown, *others], frozenset({GATED, NEWER}))
    assert passed == [late.id, *(each.id for each in unknown)]
