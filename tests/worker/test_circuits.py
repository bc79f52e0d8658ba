"""The shared circuit breaker, over two worker processes: both live in the test's process, with nothing in common but
the database."""

from __future__ import annotations

import datetime as dt
import itertools
import logging

import pytest
from django.db.models import F

from chokaq_django import enqueue, enqueue_many
from chokaq_django.models import Circuit, JobDLQ, JobHot, JobStatus
from chokaq_django.observability.events import Event
from chokaq_django.worker.process import WorkerProcess as Worker

from .. import jobs
from ..helpers import wait_until
from ..ledger import Ledger
from .conftest import StartWorker
from .support import all_settled, committed, job, settled

pytestmark = committed

TRIP = "test.trip"
GATED = "test.gated_trip"


def state(type_key: str = TRIP) -> int:
    row = Circuit.objects.filter(pk=type_key).first()
    return row.state if row else Circuit.CLOSED


def wait_open(*workers: Worker, type_key: str = TRIP) -> None:
    """Until the circuit is open and these workers know it: each looks once a second."""
    wait_until(lambda: state(type_key) == Circuit.OPEN, what="the circuit opens")
    for worker in workers:
        wait_until(lambda worker=worker: (row := worker._circuits.row(type_key)) and row.state == Circuit.OPEN)  # type: ignore[misc]


def keep_open(type_key: str = TRIP, hours: int = 1) -> None:
    """Moves the time of the first probe, so that a test has all the time it needs. A circuit opens a moment after the
    outcomes that open it are written."""
    until = dt.datetime.now(dt.UTC) + dt.timedelta(hours=hours)
    opened = Circuit.objects.filter(pk=type_key, state=Circuit.OPEN)
    wait_until(lambda: opened.update(open_until=until), what="the circuit opens")


def let_it_be_probed(*workers: Worker, type_key: str = TRIP) -> None:
    """The break is over. What was put off until its end is due now, as it would be without our hand on the clock, and
    the workers know (they would put it off again)."""
    keep_open(type_key, hours=-1)
    for worker in workers:
        wait_until(lambda worker=worker: type_key not in worker._circuits.blocked())  # type: ignore[misc]
    JobHot.objects.filter(type=type_key, status=JobStatus.PENDING).update(run_at=F("due_at"))


def test_five_failures_over_two_processes_open_it_and_a_probe_closes_it(
    start_worker: StartWorker, ledger: Ledger, caplog: pytest.LogCaptureFixture
) -> None:
    workers = [start_worker(queue, concurrency=2) for queue in ("one", "two")]
    for number in range(5):  # one after the other, by turns: neither process sees five failures itself
        settled(enqueue(jobs.TripJob(gate="mended"), queue=("one", "two")[number % 2]).id)
    wait_until(lambda: state() == Circuit.OPEN, what="the circuit opens")
    keep_open()
    wait_open(*workers)

    def said() -> list[logging.LogRecord]:
        return [record for record in caplog.records if getattr(record, "event_id", 0) == Event.CIRCUIT_CHANGED]

    wait_until(said, what="who opened it says so, after its commit")
    assert len(said()) == 1
    # Jobs of an open circuit keep their place, use no attempt and no slot.
    answers = [
        *enqueue_many([jobs.TripJob(gate="mended", name=str(number)) for number in range(20)], queue="one"),
        *enqueue_many([jobs.TripJob(gate="mended", name="also")], queue="two"),
    ]
    waiting = [answer.id for answer in answers]
    other = [settled(enqueue(jobs.NoteJob(name="other"), queue=queue).id) for queue in ("one", "two")]
    assert {view.status for view in other} == {JobStatus.SUCCEEDED}
    rows = JobHot.objects.filter(pk__in=waiting)
    assert set(rows.values_list("status", "attempt")) == {(JobStatus.PENDING, 0)}
    assert all(row.due_at == row.created_at for row in rows), "they keep what they asked for"
    assert ledger.names().count("") == 5
    ledger.open_gate("mended")
    let_it_be_probed(*workers)
    views = all_settled(waiting, 30)
    assert {view.status for view in views} == {JobStatus.SUCCEEDED}
    assert {view.attempt for view in views} == {1}
    assert state() == Circuit.CLOSED
    names = [name for name in ledger.names() if name.isdigit()]
    assert sorted(names, key=int) == [str(number) for number in range(20)]


def test_an_open_circuit_is_probed_by_itself_and_a_failed_probe_opens_it_again(
    start_worker: StartWorker, ledger: Ledger
) -> None:
    worker = start_worker(concurrency=2)
    all_settled(answer.id for answer in enqueue_many([jobs.TripJob(gate="mended")] * 5))
    wait_open(worker)
    until = Circuit.objects.get(pk=TRIP).open_until
    waiting = [answer.id for answer in enqueue_many([jobs.TripJob(gate="mended", name="later")] * 8)]
    wait_until(lambda: JobHot.objects.filter(pk__in=waiting).count() < 8, what="one probe runs, and fails")
    wait_until(lambda: (row := Circuit.objects.get(pk=TRIP)).state == Circuit.OPEN and row.open_until != until)
    ledger.open_gate("mended")
    views = all_settled(waiting, 30)
    later = [entry for entry in ledger.entries("ran") if entry.name == "later"]
    assert len(later) == 8
    failed = {view.id for view in views if view.status != JobStatus.SUCCEEDED}
    assert failed, "the gate was opened before the first probe"
    # It is open for two seconds after each that fails, however long this test was busy with something else.
    for probe, following in itertools.pairwise(later):
        assert probe.job not in failed or following.at - probe.at > 1.9


def test_jobs_of_a_circuit_that_is_reset_run_at_once(start_worker: StartWorker, ledger: Ledger) -> None:
    workers = [start_worker(queue, concurrency=2) for queue in ("one", "two")]
    all_settled(answer.id for answer in enqueue_many([jobs.TripJob(gate="mended")] * 5, queue="one"))
    wait_until(lambda: state() == Circuit.OPEN, what="the circuit opens")
    keep_open()
    wait_open(*workers)
    ids = [
        answer.id
        for queue in ("one", "two")
        for answer in enqueue_many([jobs.TripJob(gate="mended", name="waited")] * 60, queue=queue)
    ]
    soon = dt.datetime.now(dt.UTC) + dt.timedelta(minutes=30)
    wait_until(lambda: not JobHot.objects.filter(pk__in=ids, run_at__lt=soon).exists(), what="all are put off")
    ledger.open_gate("mended")
    Circuit.objects.filter(pk=TRIP).delete()
    assert {view.status for view in all_settled(ids, 15)} == {JobStatus.SUCCEEDED}


def test_only_one_probe_runs_at_a_time(start_worker: StartWorker, ledger: Ledger) -> None:
    workers = [start_worker(queue, concurrency=4) for queue in ("one", "two")]
    all_settled(answer.id for answer in enqueue_many([jobs.GatedTripJob(gate="mended")] * 3, queue="one"))
    keep_open(GATED)
    wait_open(*workers, type_key=GATED)
    many = [jobs.GatedTripJob(gate="mended", wait="probe")] * 5
    ids = [answer.id for queue in ("one", "two") for answer in enqueue_many(many, queue=queue)]
    let_it_be_probed(*workers, type_key=GATED)
    wait_until(lambda: ledger.count("enter") == 1, what="a probe runs")
    assert state(GATED) == Circuit.HALF_OPEN
    # Other work goes past it, in both processes, for longer than the view of the circuits is fresh.
    for number in range(4):
        for queue in ("one", "two"):
            settled(enqueue(jobs.NoteJob(name=str(number)), queue=queue, delay=0.3).id)
    assert ledger.count("enter") == 1
    ledger.open_gate("mended")
    ledger.open_gate("probe")
    JobHot.objects.filter(pk__in=ids, status=JobStatus.PENDING).update(run_at=F("due_at"))
    assert {view.status for view in all_settled(ids, 30)} == {JobStatus.SUCCEEDED}


def test_one_fatal_error_does_not_open_it(start_worker: StartWorker, ledger: Ledger) -> None:
    start_worker()
    settled(enqueue(jobs.FragileFatalJob(bad=True)).id)
    assert settled(enqueue(jobs.FragileFatalJob()).id).status == JobStatus.SUCCEEDED
    row = Circuit.objects.filter(pk="test.fragile_fatal").first()
    assert row is None or row.state == Circuit.CLOSED


def test_broken_payloads_do_not_open_it(start_worker: StartWorker, ledger: Ledger) -> None:
    ledger.open_gate("open")
    ids = [answer.id for answer in enqueue_many([jobs.TripJob(gate="open", name=str(number)) for number in range(8)])]
    assert JobHot.objects.filter(pk__in=ids[:6]).update(payload='{"gate": 5}') == 6
    start_worker("default", concurrency=1)
    all_settled(ids)
    assert set(JobDLQ.objects.values_list("pk", flat=True)) == set(ids[:6])
    assert not Circuit.objects.filter(pk=TRIP).exists()


def test_a_type_without_a_circuit_never_opens_one(start_worker: StartWorker) -> None:
    start_worker()
    all_settled(answer.id for answer in enqueue_many([jobs.FailJob()] * 12, max_attempts=1))
    settled(enqueue(jobs.NoteJob()).id)
    assert not Circuit.objects.filter(pk="test.fail").exists()


def test_buffered_jobs_of_a_circuit_that_opens_are_given_back(start_worker: StartWorker, ledger: Ledger) -> None:
    worker = start_worker(concurrency=1, WORKER={"PREFETCH": 60})
    blocker = enqueue(jobs.GateJob(gate="go on"), priority=90).id
    wait_until(lambda: ledger.count("enter") == 1)
    # From the fourth on each stands at a gate of its own until the circuit is open: the rest cannot have run by then.
    made = [jobs.GatedTripJob(gate="mended", wait="" if number < 3 else "opened") for number in range(60)]
    ids = [answer.id for answer in enqueue_many(made)]
    wait_until(lambda: JobHot.objects.filter(status=JobStatus.FETCHED).exists(), what="the buffer is filled")
    ledger.open_gate("go on")
    settled(blocker)
    wait_until(lambda: state(GATED) == Circuit.OPEN)
    keep_open(GATED)
    wait_until(lambda: GATED in worker._circuits.blocked(), what="the worker knows")
    ledger.open_gate("opened")
    wait_until(lambda: not JobHot.objects.exclude(status=JobStatus.PENDING).exists(), what="nothing is held any more")
    left = [job_id for job_id in ids if job(job_id).status == JobStatus.PENDING]
    # Three failures open it; what had been started by then stood behind the gate. The rest was given back unharmed.
    assert 0 < len(left) <= 60 - 3
    assert {job(job_id).attempt for job_id in left} == {0}
    ledger.open_gate("mended")
    let_it_be_probed(worker, type_key=GATED)
    all_settled(ids, 60)
