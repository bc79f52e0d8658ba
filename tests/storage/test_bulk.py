"""Steps of bulk operations, taken by many at once."""

from __future__ import annotations

from collections import Counter

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from chokaq_django import control
from chokaq_django.control import BulkState, JobFilter
from chokaq_django.models import BulkItem, BulkOperation, FailureGroup, FailureReason, JobDLQ, JobHot
from chokaq_django.reading.selected import frozen_reasons
from chokaq_django.storage import Storage, bulk_sets

from .support import Jobs, committed, together

pytestmark = [committed, pytest.mark.usefixtures("transactional_db")]

DEAD = JobFilter(status="dead")


def test_many_who_take_steps_of_one_operation_act_on_each_job_once(jobs: Jobs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bulk_sets, "FREEZE_CHUNK", 20)
    dead = [job_id for _ in range(3) for job_id in jobs.dead(100)]
    operation = control.bulk_resurrect(where=DEAD, by="ada")

    def work(number: int, storage: Storage) -> int:
        steps = 0
        while storage.bulk_step(operation.id, 7).pause is not None:
            steps += 1
        return steps

    steps = together(4, work)
    view = control.bulk_get(operation.id)
    assert view is not None
    assert (view.state, view.total, view.applied, view.refused) == (BulkState.DONE, 300, 300, 0)
    assert sum(steps) >= 300 / 7
    assert sum(step > 0 for step in steps) > 1, f"one of them did it all: {steps}"
    assert dict(JobHot.objects.values_list("pk", "generation")) == dict.fromkeys(dead, 1)
    assert BulkItem.objects.count() == 300


def test_operations_on_one_set_at_a_time_do_not_stop_each_other(jobs: Jobs) -> None:
    """Each locks its jobs in the order of their ids; whoever comes second finds them gone."""
    dead = [job_id for _ in range(3) for job_id in jobs.dead(100)]
    begun = [control.bulk_resurrect(dead, by="ada"), control.bulk_purge(dead[::-1], by="bob"),
             control.bulk_edit(dead, by="eve", priority=77), control.bulk_resurrect(where=DEAD, by="ada")]  # fmt: skip

    def work(number: int, storage: Storage) -> None:
        while storage.bulk_step(begun[number].id, 10).pause is not None:
            pass

    together(4, work)
    views = [view for each in begun if (view := control.bulk_get(each.id))]
    assert {view.state for view in views} == {BulkState.DONE}
    assert all(view.applied + view.refused == view.done == view.total for view in views)
    resurrected, purged, _, again = (view.applied for view in views)
    assert resurrected + again == JobHot.objects.count()
    assert resurrected + purged + again == 300
    assert not JobDLQ.objects.exists()
    assert set(JobHot.objects.values_list("generation", flat=True)) <= {1}


@pytest.mark.parametrize("by", ["filter", "ids", "operation"])
def test_a_set_that_is_held_is_counted_while_it_is_frozen_and_no_more(
    jobs: Jobs, monkeypatch: pytest.MonkeyPatch, by: str
) -> None:
    """Chunk by chunk; whoever looks at it reads the sums, whatever became of the jobs meanwhile."""
    monkeypatch.setattr(bulk_sets, "FREEZE_CHUNK", 7)
    dead = [*jobs.dead(10, queue="mail"), *jobs.dead(8, queue="sms", reason=FailureReason.ZOMBIE)]
    jobs.shift(dead[:3], JobDLQ, failed_at=-7_200.0)
    if by == "operation":
        edited = control.bulk_run(control.bulk_edit(dead, by="ada", priority=3).id)
        held = control.bulk_resurrect(of=edited.id, by="ada", hold=True)
    elif by == "ids":
        held = control.bulk_purge(dead, by="ada", hold=True)
    else:
        held = control.bulk_purge(where=DEAD, by="ada", hold=True)
    view = control.bulk_freeze(held.id, seconds=60)
    assert (view.awaits_go, view.total) == (True, 18)
    jobs.dead(5)
    JobDLQ.objects.filter(pk__in=dead[:5]).delete()
    FailureGroup.objects.all().delete()
    with CaptureQueriesContext(connection) as asked:
        counts = control.bulk_counts(view.id)
    assert not [query["sql"] for query in asked if "chokaq_bulk_item" in query["sql"] or "_job_" in query["sql"]]
    assert [(each.queue, each.count) for each in counts] == [("mail", 10), ("sms", 8)]
    assert [each.ages["hour"] for each in counts] == [7, 8]
    assert counts[0].ages["day"] == 3
    assert frozen_reasons(view.id, [FailureReason.ZOMBIE], "default") == {int(FailureReason.ZOMBIE): 8}


@pytest.mark.skipif(connection.vendor not in ("postgresql", "mysql"), reason="on SQLite one writes at a time")
@pytest.mark.parametrize("by", ["filter", "operation"])
def test_what_is_counted_is_what_is_frozen(
    jobs: Jobs, other: Storage, monkeypatch: pytest.MonkeyPatch, by: str
) -> None:
    """Although a job goes between the looks at it."""
    dead = jobs.dead(5)
    if by == "operation":
        edited = control.bulk_run(control.bulk_edit(dead, by="ada", priority=3).id)
        held = control.bulk_resurrect(of=edited.id, by="ada", hold=True)
    else:
        held = control.bulk_purge(where=DEAD, by="ada", hold=True)
    gone, execute = list[str](), type(jobs.storage)._execute  # type: ignore[attr-defined]

    def look(self: Storage, sql: str, *params: object) -> int:
        if self is not other and not gone and sql.startswith("INSERT INTO chokaq_bulk_item"):
            gone.extend(other.purge(dead[:1], "eve", None).applied)
        return int(execute(self, sql, *params))

    monkeypatch.setattr(type(jobs.storage), "_execute", look)
    view = control.bulk_freeze(held.id, seconds=60)
    assert gone == dead[:1]
    assert sum(count.count for count in control.bulk_counts(view.id)) == view.total == BulkItem.objects.filter(
        operation_id=view.id
    ).count()  # fmt: skip


def test_a_step_that_fails_leaves_nothing_behind(jobs: Jobs, monkeypatch: pytest.MonkeyPatch) -> None:
    jobs.dead(30)
    operation = control.bulk_resurrect(where=DEAD, by="ada")
    while BulkOperation.objects.get().state == BulkState.PREPARING:
        jobs.storage.bulk_step(operation.id)
    jobs.storage.bulk_step(operation.id, 10)

    def looks() -> tuple[object, ...]:
        states = Counter(BulkItem.objects.values_list("state", flat=True))
        return JobHot.objects.count(), JobDLQ.objects.count(), states, BulkOperation.objects.values().get()

    before = looks()

    def broken(*args: object) -> None:
        raise RuntimeError("in the middle")

    with monkeypatch.context() as patched:
        patched.setattr(type(jobs.storage), "_save", broken)  # the last thing that a step does
        with pytest.raises(RuntimeError):
            jobs.storage.bulk_step(operation.id, 10)
    assert looks() == before
    assert jobs.storage.bulk_step(operation.id, 500).done == 30
