"""Bulk operations worked off by workers: in the background, at a drip, with a canary, stopped by failures."""

from __future__ import annotations

import itertools
from collections import Counter
from typing import Any

from django.utils import timezone

from chokaq_django import control
from chokaq_django.control import BulkState, BulkView, JobFilter
from chokaq_django.job.ids import new_id
from chokaq_django.models import FailureReason, JobArchive, JobDLQ, JobHot, JobTrash, LeaderLease
from chokaq_django.storage import get_storage
from chokaq_django.storage.bulk_rules import MOST_SAVED

from .. import factories as make
from ..helpers import wait_until
from ..ledger import Ledger
from .conftest import StartWorker
from .support import committed

pytestmark = committed

DEAD = JobFilter(status="dead")
FAILS: dict[str, Any] = {"type": "test.fail", "payload": "{}", "max_attempts": 1}


def corpses(count: int, **columns: Any) -> list[str]:
    now = timezone.now()
    base = {
        "queue": "mail", "type": "test.note", "payload": '{"name":"a"}', "created_at": now, "run_at": now,
        "due_at": now, "failed_at": now, "failure_reason": FailureReason.FATAL_ERROR, **columns,
    }  # fmt: skip
    rows = JobDLQ.objects.bulk_create([JobDLQ(id=new_id(), **base) for _ in range(count)], batch_size=500)
    get_storage().recount_groups()
    return [row.pk for row in rows]


def at_rest(view: BulkView, deadline: float = 30.0) -> BulkView:
    def look() -> BulkView | None:
        found = control.bulk_get(view.id)
        assert found is not None
        return found if found.at_rest else None

    return wait_until(look, deadline, what=f"the operation ends: {control.bulk_get(view.id)}")  # type: ignore[return-value]


def test_a_worker_works_it_off_and_runs_the_jobs(start_worker: StartWorker, ledger: Ledger) -> None:
    ids = corpses(1_200)
    start_worker()
    view = at_rest(control.bulk_resurrect(where=DEAD, by="ada"))
    assert (view.state, view.applied) == (BulkState.DONE, 1_200)
    wait_until(lambda: JobArchive.objects.count() == 1_200, what="all have run")
    assert ledger.per_job() == dict.fromkeys(ids, 1)


def test_an_operation_that_was_given_while_no_worker_ran_waits_for_one(start_worker: StartWorker) -> None:
    corpses(5)
    view = control.bulk_purge(where=DEAD, by="ada")
    start_worker()
    assert at_rest(view).applied == 5 == JobTrash.objects.count()


def test_one_of_two_workers_does_it_and_leaves_it_to_the_other_when_it_stops(start_worker: StartWorker) -> None:
    workers = {worker.id: worker for worker in (start_worker(), start_worker())}
    corpses(300)
    view = control.bulk_purge(where=DEAD, by="ada", rate=100)
    wait_until(lambda: JobTrash.objects.count() > 20, what="it has begun")
    leader = LeaderLease.objects.get(name="bulk").holder
    workers[leader].shutdown(hurry=lambda: True)
    view = at_rest(view)
    assert (view.applied, view.refused, JobTrash.objects.count()) == (300, 0, 300)
    assert LeaderLease.objects.get(name="bulk").holder in set(workers) - {leader}


def test_a_drip_keeps_its_rate(start_worker: StartWorker) -> None:
    """Jobs come back at 50 a second, by the server's clock, which each has kept of its return."""
    corpses(150)
    start_worker("none")
    assert at_rest(control.bulk_resurrect(where=DEAD, by="ada", rate=50)).applied == 150
    steps = sorted(Counter(JobHot.objects.values_list("updated_at", flat=True)).items())
    (began, first), (ended, _) = steps[0], steps[-1]
    took = (ended - began).total_seconds()
    # Of a pause longer than that a drip makes up for no more: a busy machine makes it slower, never faster.
    idle = sum(max(0.0, (b - a).total_seconds() - MOST_SAVED) for (a, _), (b, _) in itertools.pairwise(steps))
    print(f"drip of 50 a second: {(150 - first) / took:.1f} in {len(steps)} steps, {idle:.1f} s stood still")
    assert (150 - first) / took <= 55
    assert (150 - first) / (took - idle) >= 40
    assert max(count for _, count in steps) <= 50, f"a burst: {steps}"


def test_a_canary_that_lives_lets_the_rest_go(start_worker: StartWorker, ledger: Ledger) -> None:
    corpses(100)
    view = control.bulk_resurrect(where=DEAD, by="ada", canary=10)
    start_worker("none")  # nobody runs the jobs yet

    def waits() -> bool:
        found = control.bulk_get(view.id)
        return found is not None and found.canary_decision == "waiting"

    wait_until(waits, what="it waits for its canary")
    assert JobHot.objects.count() == 10
    start_worker("mail")
    view = at_rest(view)
    assert (view.canary_decision, view.state, view.applied, view.succeeded) == ("passed", BulkState.DONE, 100, 10)
    assert ledger.count() >= 10


def test_a_canary_that_dies_stops_it(start_worker: StartWorker) -> None:
    doomed = corpses(5, **FAILS)
    corpses(95)
    start_worker()
    view = at_rest(control.bulk_resurrect(where=DEAD, by="ada", canary=5))
    assert (view.canary_decision, view.state) == ("failed", BulkState.STOPPED)
    assert (view.applied, view.died, view.message) == (5, 5, "5 of the first 5 jobs have died; at most 10.0% may.")
    assert set(JobDLQ.objects.filter(generation=1).values_list("pk", flat=True)) == set(doomed)
    control.bulk_resume(view.id, by="ada", reason="only these five")
    view = at_rest(view)
    assert (view.canary_decision, view.state, view.applied) == ("overruled", BulkState.DONE, 100)


def test_a_canary_that_never_ends_stops_it_after_its_time(start_worker: StartWorker) -> None:
    corpses(20)
    start_worker("none")
    view = at_rest(control.bulk_resurrect(where=DEAD, by="ada", canary=3, canary_timeout=0.5))
    assert (view.state, view.applied) == (BulkState.STOPPED, 3)
    assert view.message == "None of the first 3 jobs ended within 500 ms."


def test_it_stops_itself_when_too_many_die(start_worker: StartWorker, ledger: Ledger) -> None:
    """The first hundred are fine; then every second one dies, at 50 a second, and 20 % may."""
    corpses(100)
    for _ in range(100):
        corpses(1, **FAILS)
        corpses(1)
    start_worker()
    view = at_rest(control.bulk_resurrect(where=DEAD, by="ada", rate=50, stop_at=0.2, stop_window=60), 60)
    print(f"stopped after {view.done} of {view.total}: {view.message}")
    assert view.state is BulkState.STOPPED, view
    assert "at most 20.0% may" in view.message
    assert 100 < view.done < view.total, view
    left = JobDLQ.objects.filter(generation=0).count()
    assert left == 300 - view.done
    control.bulk_abort(view.id, by="ada")


def test_a_job_that_was_cancelled_meanwhile_says_nothing_about_the_others(start_worker: StartWorker) -> None:
    first = make.dead()
    corpses(9)
    start_worker("none")
    view = control.bulk_resurrect(where=DEAD, by="ada", canary=1)
    wait_until(lambda: JobHot.objects.filter(pk=first.pk).exists())
    control.cancel(first.pk, by="bob")
    view = at_rest(view)
    assert (view.state, view.gone, view.died) == (BulkState.STOPPED, 1, 0)
    assert view.message == "None of the first 1 jobs ended by itself."
