"""Verbs in a transaction of the caller's, which keeps all their locks, beside sweeps and beside each other."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.db import connection, transaction

from chokaq_django import Job, control
from chokaq_django.control import acts
from chokaq_django.models import JobArchive, JobDLQ, JobHot
from chokaq_django.storage import ClaimedJob, JobEdit, Note, OutcomeKind, Storage, bulk, get_storage
from chokaq_django.storage.engine import CHUNK
from chokaq_django.storage.moves import MoveStatements
from chokaq_django.storage.retention_marks import BEGINNING

from ..helpers import wait_until
from ..verbs import VERBS
from .support import INNODB, WORKER, Jobs, committed, outcome, rule, run_in_thread, trim, waiting

pytestmark = [
    committed,
    pytest.mark.skipif(
        connection.vendor not in ("postgresql", "mysql"), reason="on SQLite one writes at a time; others are not asked"
    ),
]

LONG_AGO = -7_200


def beside(other: Storage, work: Callable[[], Any]) -> Callable[[], Any]:
    """``work``, done with the storage ``other`` in a thread; here it goes on when that waits for a lock, or is done."""
    waits, done = waiting(other), []

    def run() -> Any:
        try:
            return work()
        finally:
            done.append(True)

    result = run_in_thread(run)
    wait_until(lambda: done or waits(), interval=INNODB)
    return result


def once_locked(
    monkeypatch: pytest.MonkeyPatch, other: Storage, work: Callable[[], Any], job_id: str = ""
) -> list[Callable[[], Any]]:
    """Has ``work`` done :func:`beside` when a verb has first locked rows (those with ``job_id``); there its end is."""
    locked, theirs = MoveStatements._locked, list[Callable[[], Any]]()

    def look(self: MoveStatements, *args: Any) -> Any:
        rows = locked(self, *args)
        if rows and (not job_id or job_id in rows) and self is not other and not theirs:
            theirs.append(beside(other, work))
        return rows

    monkeypatch.setattr(MoveStatements, "_locked", look)
    return theirs


HELD: dict[str, Callable[[Storage, list[ClaimedJob]], Any]] = {
    "heartbeat": lambda by, run: by.heartbeat(WORKER, [job.lease for job in run]),
    "progress": lambda by, run: by.progress(WORKER, {job.lease: (50, None) for job in run}),
    "succeeded": lambda by, run: by.settle(WORKER, [outcome(job) for job in run]),
    "retried": lambda by, run: by.settle(WORKER, [outcome(job, OutcomeKind.RETRY) for job in run]),
    "died": lambda by, run: by.settle(WORKER, [outcome(job, OutcomeKind.DEAD) for job in run]),
    "start": lambda by, run: by.start(WORKER, [job.lease for job in run]),
    "release": lambda by, run: by.release(WORKER, [job.lease for job in run]),
}


@pytest.mark.parametrize("act", HELD)
def test_a_worker_locks_by_id_too(jobs: Jobs, other: Storage, act: str) -> None:
    """While it waits for the first of its jobs it holds none of the others, wherever their rows lie in the table."""
    assert isinstance(other, MoveStatements)
    run = jobs.fetched(3) if act in ("start", "release") else jobs.running(3)
    first, *rest = sorted(job.id for job in run)
    # The first one's row lies behind the others then, and whoever plans now knows nothing of the table.
    JobHot.objects.filter(pk=first).update(priority=7)
    with transaction.atomic():
        JobHot.objects.select_for_update().get(pk=first)
        theirs = beside(other, lambda: HELD[act](other, run))
        assert len(JobHot.objects.select_for_update(nowait=True).filter(pk__in=rest)) == 2
    assert theirs()
    assert other._retrier.errors == 0


def old_dead(jobs: Jobs, count: int) -> list[str]:
    made = jobs.dead(count)
    jobs.shift(made, JobDLQ, failed_at=LONG_AGO)
    return made


def test_a_verb_goes_on_while_retention_trims(jobs: Jobs, storage: Storage, other: Storage) -> None:
    """It has written on the marks when it comes to the second job, which a step of the trim must not hold."""
    assert isinstance(other, MoveStatements)
    first, second = sorted(old_dead(jobs, 2))
    one = rule("dlq", 60, "queue", "mail")
    assert trim(storage, rule("dlq", 1e6, "queue", "mail")) == 0  # which has the same mark
    with transaction.atomic():
        assert storage.edit({first: None}, "ada", JobEdit(queue="else")).applied
        passing = beside(other, lambda: other.trim(one, 10, BEGINNING).removed)
        assert storage.edit({second: None}, "ada", JobEdit(queue="else")).applied
    assert passing() == 0
    assert other._retrier.errors == 0
    assert JobDLQ.objects.filter(queue="else").count() == 2


ACTS: dict[str, Callable[[Storage, list[str]], Any]] = {
    "edit": lambda by, ids: by.edit(dict.fromkeys(ids), "ada", JobEdit(queue="else")),
    "purge": lambda by, ids: by.purge(ids, "ada", None),
    "resurrect": lambda by, ids: by.resurrect(ids, "ada"),
    "annotate": lambda by, ids: by.annotate(ids, Note(text="hm")),
}


@pytest.mark.parametrize("verb", ACTS)
def test_two_lists_in_other_orders(
    jobs: Jobs, storage: Storage, other: Storage, verb: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever comes second waits for the first, and not both for each other. A chunk of the long list has the higher
    job, the next one the lower; the short list has both."""
    assert isinstance(storage, MoveStatements)
    assert isinstance(other, MoveStatements)
    low, high = sorted(jobs.dead(2))
    nobodies = [f"01BBBBBBBBBBBBBBBBBBBBB{number:03}" for number in range(CHUNK)]
    locked, act, theirs = storage._locked, ACTS[verb], list[Callable[[], Any]]()

    def look(*args: Any) -> Any:
        rows = locked(*args)
        if rows and not theirs:
            theirs.append(beside(other, lambda: act(other, [low, high])))
        return rows

    monkeypatch.setattr(storage, "_locked", look)
    with transaction.atomic():
        mine = act(storage, [high, *nobodies, low])
    assert sorted(mine.applied) == [low, high]
    assert theirs[0]() is not None
    assert other._retrier.errors == 0


@pytest.mark.parametrize("verb", VERBS)
def test_more_jobs_than_a_verb_takes_at_once(
    jobs: Jobs, storage: Storage, other: Storage, verb: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It acts on the higher job first, and has locked the lower one before."""
    monkeypatch.setattr(acts, "CHUNK", 1)
    assert isinstance(other, MoveStatements)
    low, high = sorted(jobs.dead(2))
    theirs = once_locked(monkeypatch, other, lambda: other.annotate([low, high], Note(text="mine")))
    with transaction.atomic():
        mine = VERBS[verb]([high, low])
    assert sorted(mine.applied) == [low, high]
    assert theirs[0]() is not None
    assert other._retrier.errors == 0


@pytest.mark.skipif(connection.vendor != "postgresql", reason="elsewhere a settle locks all of its jobs first, by id")
def test_a_verb_that_meets_a_settle_of_several_kinds_is_done_again(
    jobs: Jobs, storage: Storage, other: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The settle has the higher job, the verb the lower one. What the caller did before the verb stays."""
    assert isinstance(other, MoveStatements)
    low, high = sorted(jobs.running(2), key=lambda job: job.id)
    ends = [outcome(high), outcome(low, OutcomeKind.RETRY)]
    locked, settled = MoveStatements._locked, list[Callable[[], Any]]()
    other._query("SET deadlock_timeout = '1min'")  # the verb is the victim, which looks for the circle

    def look(self: MoveStatements, table: str, columns: Any, ids: Any) -> Any:
        if not settled:
            locked(self, table, columns, [low.id])
            settled.append(beside(other, lambda: other.settle(WORKER, ends)))
        return locked(self, table, columns, ids)

    monkeypatch.setattr(MoveStatements, "_locked", look)
    with transaction.atomic():
        with connection.cursor() as cursor:
            cursor.execute("SET LOCAL deadlock_timeout = '10ms'")
        mine = jobs.one(queue="else")
        answer = control.cancel([low.id, high.id], by="ada")
    assert settled[0]() == {low.id, high.id}
    assert other._retrier.errors == 0
    assert (answer.applied, [refused.id for refused in answer.refused]) == ([low.id], [high.id])
    assert JobHot.objects.filter(pk=mine).exists()


class LowJob(Job, type="locks.low"):
    name: str


class HighJob(Job, type="locks.high", schema_version=2):
    name: str


@pytest.mark.parametrize("verb", ["edit", "resurrect"])
def test_jobs_that_get_several_payloads(
    jobs: Jobs, storage: Storage, other: Storage, verb: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each type gets its own by a statement of its own, and the first one has the higher job."""
    assert isinstance(other, MoveStatements)
    low, high = sorted(jobs.dead(2))
    JobDLQ.objects.filter(pk=low).update(type="locks.low")
    JobDLQ.objects.filter(pk=high).update(type="locks.high")
    theirs = once_locked(monkeypatch, other, lambda: other.annotate([low, high], Note(text="mine")))
    with transaction.atomic():
        mine = getattr(control, verb)([high, low], by="ada", payload={"name": "x"})
    assert sorted(mine.applied) == [low, high]
    assert theirs[0]() is not None
    assert other._retrier.errors == 0


def test_a_bulk_operation_that_takes_its_step_by_parts(
    jobs: Jobs, storage: Storage, other: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first part has a dead job, the second one an active one, which all lock before dead ones."""
    assert isinstance(other, MoveStatements)
    monkeypatch.setattr(bulk, "FIRST_PAYLOADS", 1)
    low, high = jobs.dead(1, type="locks.low")[0], jobs.one(type="locks.low")
    assert low < high
    for model in (JobDLQ, JobHot):
        model.objects.update(payload='{"name":"x"}')
    begun = control.bulk_edit([low, high], by="ada", patch=[{"op": "add", "path": "/name", "value": "y"}])
    edit = {low: None, high: None}
    theirs = once_locked(monkeypatch, other, lambda: other.edit(edit, "eve", JobEdit(priority=77)), low)
    assert control.bulk_run(begun.id).applied == 2
    assert sorted(theirs[0]().applied) == [low, high]
    assert get_storage()._retrier.errors == other._retrier.errors == 0  # type: ignore[attr-defined]


def test_an_undo_that_gives_back_other_values_to_each(
    jobs: Jobs, storage: Storage, other: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first and the last job get one value, the one between them another, by statements of their own."""
    assert isinstance(other, MoveStatements)
    first, between, last = sorted(jobs.dead(3))
    JobDLQ.objects.filter(pk=between).update(priority=2)
    done = control.bulk_run(control.bulk_edit([first, between, last], by="ada", priority=9).id)
    undo = control.bulk_undo(done.id, by="ada")
    theirs = once_locked(monkeypatch, other, lambda: other.annotate([between, last], Note(text="mine")), last)
    assert control.bulk_run(undo.id).applied == 3
    assert sorted(theirs[0]().applied) == [between, last]
    assert get_storage()._retrier.errors == other._retrier.errors == 0  # type: ignore[attr-defined]


@pytest.mark.parametrize("place", ["archive", "dlq"])
def test_what_comes_back_beside_the_first_pass_of_a_rule(
    jobs: Jobs, storage: Storage, other: Storage, place: str
) -> None:
    """The rule has no mark on which that could be written; its pass must not go by."""
    model: Any = JobArchive if place == "archive" else JobDLQ
    made = jobs.archived(3) if place == "archive" else jobs.dead(3)
    jobs.shift(made, model, **{"finished_at" if place == "archive" else "failed_at": LONG_AGO})
    assert len(storage.purge(made, "ada", None).applied) == 3
    one = rule(place, 60)
    with transaction.atomic():
        assert len(storage.restore(made).applied) == 3
        passing = beside(other, lambda: trim(other, one))
    assert passing() + trim(storage, one) == 3
    assert not model.objects.exists()
