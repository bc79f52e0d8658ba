"""What jobs do to the database connection of their thread stays with them. One thread, so that jobs share it."""

from __future__ import annotations

import pytest

from chokaq_django import enqueue
from chokaq_django.models import JobStatus

from .. import jobs
from ..ledger import Ledger
from ..models import Effect
from .conftest import StartWorker
from .support import committed, not_on, settled

pytestmark = committed

BAD_STATES = ["open transaction", "raw transaction", "broken transaction", "no autocommit", "session"]


@pytest.mark.parametrize("how", BAD_STATES)
def test_a_job_that_leaves_its_connection_in_a_bad_state_does_not_hurt_the_next(
    start_worker: StartWorker, ledger: Ledger, how: str
) -> None:
    start_worker(concurrency=1)
    settled(enqueue(jobs.BreakJob(how=how), max_attempts=1).id)
    view = settled(enqueue(jobs.EffectJob(name="next"), max_attempts=1).id)
    assert view.status == JobStatus.SUCCEEDED, view.error_details
    assert Effect.objects.filter(name="next").count() == 1, "its row is committed"
    assert not Effect.objects.filter(name="never committed").exists()


@pytest.mark.parametrize("how", BAD_STATES)
def test_an_atomic_job_after_it_is_not_hurt_either(start_worker: StartWorker, how: str) -> None:
    start_worker(concurrency=1)
    settled(enqueue(jobs.BreakJob(how=how), max_attempts=1).id)
    view = settled(enqueue(jobs.AtomicJob(name="next")).id)
    assert (view.status, view.attempt) == (JobStatus.SUCCEEDED, 1), view.attempts
    assert Effect.objects.filter(name="next").count() == 1


@pytest.mark.parametrize(
    "how",
    [pytest.param("killed", marks=not_on("sqlite", "there is no server that could end a connection")), "closed"],
)
def test_a_job_whose_connection_is_lost_does_not_hurt_the_next(start_worker: StartWorker, how: str) -> None:
    start_worker(concurrency=1)
    settled(enqueue(jobs.BreakJob(how=how), max_attempts=1).id)
    for job in (jobs.EffectJob(name="next"), jobs.AtomicJob(name="next")):
        view = settled(enqueue(job, max_attempts=1).id)
        assert view.status == JobStatus.SUCCEEDED, view.error_details
    assert Effect.objects.filter(name="next").count() == 2


@pytest.mark.parametrize("concurrency", [1, 4])
def test_threads_keep_their_connections_between_jobs(
    start_worker: StartWorker, ledger: Ledger, concurrency: int
) -> None:
    """A slot keeps a healthy connection: not one connect for each job."""
    from django.db.backends.signals import connection_created

    opened: list[str] = []

    def count(**named: object) -> None:
        opened.append("one")

    start_worker(concurrency=concurrency)
    settled(enqueue(jobs.EffectJob(name="warm")).id)
    connection_created.connect(count, weak=False)
    try:
        for _ in range(30):
            settled(enqueue(jobs.EffectJob(name="many")).id)
    finally:
        connection_created.disconnect(count)
    assert len(opened) < 15, "one for each thread that had none, and for services that begin late; not one for each job"
