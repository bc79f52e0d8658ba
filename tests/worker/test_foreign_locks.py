"""Somebody else's transaction holds the row of a job that runs: what else its worker has must not suffer for it."""

from __future__ import annotations

import pytest
from django.db import connection, transaction

from chokaq_django import control, enqueue
from chokaq_django.models import JobArchive, JobHot, JobStatus

from .. import jobs
from ..helpers import wait_until
from ..ledger import Ledger
from .conftest import StartWorker
from .support import committed, job, settled

pytestmark = [
    committed,
    pytest.mark.skipif(
        connection.vendor not in ("postgresql", "mysql"), reason="on SQLite one writes at a time; others are not asked"
    ),
]

OFTEN = {"HEARTBEAT_MIN": 0.05, "HEARTBEAT_MAX": 0.1}
PATIENT = {"WORKER_TIMEOUT": 60, "ZOMBIE_TIMEOUT": 60}


def heartbeat_of(job_id: str) -> object:
    return JobHot.objects.values_list("heartbeat_at", flat=True).get(pk=job_id)


def test_the_others_live_and_end(start_worker: StartWorker, ledger: Ledger) -> None:
    worker = start_worker(EXECUTION=OFTEN, RECOVERY=PATIENT)
    held, free = (enqueue(jobs.GateJob(gate=gate, name=gate)).id for gate in ("held", "free"))
    wait_until(lambda: ledger.count("enter") == 2)
    with transaction.atomic():
        JobHot.objects.select_for_update().get(pk=held)
        stands, first = heartbeat_of(held), heartbeat_of(free)
        wait_until(lambda: (beat := heartbeat_of(free)) is not None and beat != first)
        ledger.open_gate("free")
        wait_until(lambda: JobArchive.objects.filter(pk=free).exists(), what="it is settled while the lock is held")
        assert heartbeat_of(held) == stands
        assert ledger.count("told to stop") == 0
    assert job(held).status == JobStatus.PROCESSING
    wait_until(lambda: heartbeat_of(held) != stands)
    ledger.open_gate("held")
    assert settled(held).status == JobStatus.SUCCEEDED
    assert worker.accounts.conflicts == 0


def test_a_cancel_in_a_long_transaction_reaches_its_job_at_the_end_of_that(
    start_worker: StartWorker, ledger: Ledger
) -> None:
    worker = start_worker(EXECUTION=OFTEN, RECOVERY=PATIENT, WORKER={"CANCEL_GRACE": 60})
    asked, free = (enqueue(jobs.GateJob(gate=gate, name=gate)).id for gate in ("asked", "free"))
    wait_until(lambda: ledger.count("enter") == 2)
    with transaction.atomic():
        control.cancel(asked, by="ada")
        first = heartbeat_of(free)
        wait_until(lambda: (beat := heartbeat_of(free)) is not None and beat != first)
        ledger.open_gate("free")
        wait_until(lambda: JobArchive.objects.filter(pk=free).exists(), what="it is settled meanwhile")
        assert ledger.count("told to stop") == 0, "nothing is asked before it is committed"
    assert settled(asked).status == JobStatus.CANCELLED
    assert worker.accounts.conflicts == 0
