"""Erasing a queue: nothing of it stays, and nothing else goes."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest
from django.db import connection, transaction
from django.db.models import Model

from chokaq_django.models import (
    Counter,
    FailureGroup,
    FailureTotal,
    JobArchive,
    JobDLQ,
    JobHot,
    JobTrash,
    MetricBucket,
    MetricRollup,
    PayloadVersion,
    Queue,
)
from chokaq_django.storage import JobEdit, Storage
from chokaq_django.storage.contract import QueueRow
from chokaq_django.storage.groups import FRESH_END

from .support import Jobs, committed, place

pytestmark = committed

GONE, KEPT = "gone", "kept"
OF_QUEUE: tuple[type[Model], ...] = (
    JobHot, JobArchive, JobDLQ, JobTrash, MetricBucket, MetricRollup, Counter, FailureGroup,
)  # fmt: skip


def fill(storage: Storage, queue: str) -> None:
    """Jobs of this queue in every table, one of them edited, and all that counts them."""
    jobs = Jobs(storage)
    storage.seed_queue(QueueRow(queue, False, True, None, None, None, None))
    jobs.archived(2, queue=queue)
    jobs.dead(3, queue=queue)
    storage.roll_up(-60.0, 1_000)
    while storage.fold_groups(100):
        pass
    jobs.archived(queue=queue)
    jobs.dead(queue=queue)
    edited, *_, removed = jobs.add(3, queue=queue)
    storage.edit({edited: None}, "ada", JobEdit(payload='{"to":"grace@example.com"}'))
    storage.remove([removed], "ada", None)


def rows_of(queue: str) -> dict[str, int]:
    return {model.__name__: model._default_manager.filter(queue=queue).count() for model in OF_QUEUE}


def jobs_erased(storage: Storage, limit: int = 100) -> None:
    """Steps until no table has a job of it; what counts them is there still."""
    while any(rows_of(GONE)[model.__name__] for model in OF_QUEUE[:4]):
        assert storage.erase_queue(GONE, limit)


def once_read(monkeypatch: pytest.MonkeyPatch, storage: Any, model: type[Model], act: Callable[[], Any]) -> list[Any]:
    """``act`` is done when this storage has first found rows of a queue in the table; what it answered."""
    query, answers = storage._query, list[Any]()

    def look(sql: str, params: Any = ()) -> Any:
        rows = query(sql, params)
        if rows and f"FROM {model._meta.db_table} WHERE queue =" in sql and not answers:
            answers.append(act())
        return rows

    monkeypatch.setattr(storage, "_query", look)
    return answers


def totals() -> list[tuple[Any, ...]]:
    return sorted(FailureTotal.objects.values_list("fingerprint", "count", "total"))


def test_nothing_of_it_stays_and_nothing_else_goes(storage: Storage) -> None:
    fill(storage, KEPT)
    fill(storage, GONE)
    kept = rows_of(KEPT)
    folded = FailureGroup.objects.filter(queue=KEPT, series__gte=FRESH_END)
    assert all(rows_of(GONE).values()), "there is something to erase"
    assert PayloadVersion.objects.count() == 2

    while storage.erase_queue(GONE, 2):
        pass

    assert not any(rows_of(GONE).values())
    assert rows_of(KEPT) == kept
    assert PayloadVersion.objects.count() == 1
    assert list(Queue.objects.filter(name__in=(GONE, KEPT)).values_list("name", flat=True)) == [KEPT]
    columns = ("fingerprint", "count", "total")
    assert sorted(FailureTotal.objects.values_list(*columns)) == sorted(folded.values_list(*columns))
    assert storage.group_drift() == []
    assert not storage.erase_queue("nothing", 2)


def test_a_total_that_counts_nothing_any_more_is_gone(storage: Storage) -> None:
    fill(storage, GONE)
    while storage.erase_queue(GONE, 100):
        pass
    assert not FailureTotal.objects.exists()


def test_each_step_is_small(storage: Storage) -> None:
    fill(storage, GONE)
    steps = [rows_of(GONE)]
    while storage.erase_queue(GONE, 2):
        steps.append(rows_of(GONE))
        assert Queue.objects.filter(name=GONE).exists(), "a run that is killed is found by its queue"
    assert not any(steps[-1].values()), "it asks to be asked again until nothing is left"
    assert not Queue.objects.filter(name=GONE).exists()
    for before, after in pairwise(steps):
        assert max(before[name] - after[name] for name in before) in (1, 2)


def test_groups_that_are_folded_meanwhile(storage: Storage, other: Storage, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(storage, KEPT)
    while storage.fold_groups(100):
        pass
    kept = totals()
    fill(storage, GONE)
    jobs_erased(storage)
    assert FailureGroup.objects.filter(queue=GONE, series__lt=FRESH_END).exists(), "there is something to fold"
    folded = once_read(monkeypatch, storage, FailureGroup, lambda: other.fold_groups(100))
    while storage.erase_queue(GONE, 100):
        pass
    assert folded
    assert folded[0] > 0
    assert not rows_of(GONE)["FailureGroup"]
    assert totals() == kept


def test_a_job_that_is_moved_to_another_queue_meanwhile(
    storage: Storage, other: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    moved, gone = Jobs(storage).add(2, queue=GONE)
    changes = JobEdit(queue=KEPT, payload="{}")
    edit = once_read(monkeypatch, storage, JobHot, lambda: other.edit({moved: None}, "ada", changes).applied)
    while storage.erase_queue(GONE, 100):
        pass
    assert edit == [[moved]]
    assert (place(moved), place(gone)) == ("hot", None)
    assert PayloadVersion.objects.filter(job_id=moved).exists(), "with its earlier payload"


def test_dead_jobs_that_another_one_erases_meanwhile(
    storage: Storage, other: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    Jobs(storage).dead(3, queue=GONE)
    erased = once_read(monkeypatch, storage, JobDLQ, lambda: other.erase_queue(GONE, 100))
    jobs_erased(storage)
    assert all(erased)
    assert len(erased) == 1
    assert storage.group_drift() == [], "each is counted out once"


def test_a_step_that_is_repeated(storage: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """As after a commit whose reply was lost."""
    fill(storage, KEPT)
    while storage.fold_groups(100):
        pass
    kept = totals()
    fill(storage, GONE)
    monkeypatch.setattr(type(storage._retrier), "run", lambda self, work: (work(), work())[1])
    jobs_erased(storage)
    assert storage.group_drift() == [], "each is counted out once"
    while storage.erase_queue(GONE, 100):
        pass
    assert not any(rows_of(GONE).values())
    assert totals() == kept


@pytest.mark.skipif(connection.vendor == "sqlite", reason="on SQLite one writes at a time")
@pytest.mark.parametrize("model", [JobDLQ, FailureGroup])
def test_who_holds_something_of_it_is_not_waited_for(storage: Storage, other: Storage, model: type[Model]) -> None:
    fill(storage, GONE)
    if model is FailureGroup:
        jobs_erased(storage)
    with transaction.atomic():
        held = [row.pk for row in model._default_manager.filter(queue=GONE).select_for_update()]
        for _ in range(5):
            assert other.erase_queue(GONE, 100), "there is something left"
        assert model._default_manager.filter(pk__in=held).count() == len(held)
    while other.erase_queue(GONE, 100):
        pass
    assert not any(rows_of(GONE).values())
