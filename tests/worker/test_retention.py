"""What the retention loop deletes and rolls up, and what it leaves alone."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest
from django.utils import timezone

from chokaq_django.models import (
    Counter,
    FailureReason,
    JobArchive,
    JobDLQ,
    JobTrash,
    MetricBucket,
    MetricRollup,
    RetentionMark,
)
from chokaq_django.storage import Storage, get_storage, open_storage
from chokaq_django.worker.retention import Retention
from tests import factories as make

from .support import committed, use_options

pytestmark = committed

DAY = dt.timedelta(days=1)


def turn(settings: Any, **options: Any) -> None:
    use_options(settings, RETENTION=options)
    Retention("worker-1", open_storage).turn(get_storage())


def test_each_place_has_its_own_time(settings: Any) -> None:
    now = timezone.now()
    kept = [
        make.archived(finished_at=now - 29 * DAY).pk,
        make.dead(failed_at=now - 300 * DAY).pk,
        make.dead(failed_at=now - 6 * DAY, failure_reason=FailureReason.EXPIRED).pk,
        make.purged(purged_at=now - 300 * DAY, expires_at=now + DAY).pk,
        make.purged(purged_at=now - 300 * DAY, expires_at=None).pk,
    ]
    make.archived(finished_at=now - 31 * DAY)
    make.dead(failed_at=now - 8 * DAY, failure_reason=FailureReason.EXPIRED)
    make.purged(purged_at=now, expires_at=now - dt.timedelta(seconds=5))
    turn(settings)
    left = [
        pk for model in (JobArchive, JobDLQ, JobTrash) for pk in model._default_manager.values_list("pk", flat=True)
    ]
    assert sorted(left) == sorted(kept)
    removed = dict(RetentionMark.objects.filter(name__startswith="RETENTION").values_list("name", "removed"))
    assert removed == {
        "RETENTION.ARCHIVE": 1, "RETENTION.DLQ_BY_REASON.Expired": 1, "RETENTION.TRASH": 1, "RETENTION.BUCKETS": 0,
    }  # fmt: skip


def test_rules_of_queues_types_and_reasons(settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Storage, "sweep_chunk", 2)  # several steps
    monkeypatch.setattr(type(get_storage()), "sweep_chunk", 2)
    now = timezone.now()
    expired = FailureReason.EXPIRED
    kept = [
        make.archived(queue="reports", finished_at=now - 300 * DAY).pk,
        make.archived(queue="mail", type="audit.v1", finished_at=now - 300 * DAY).pk,
        make.archived(finished_at=now - 2 * DAY, queue="other").pk,
        make.dead(queue="mail", failed_at=now - 300 * DAY, failure_reason=expired, type="audit.v1").pk,
        make.dead(queue="other", failed_at=now - 3 * DAY).pk,
    ]
    for _ in range(3):
        make.archived(queue="mail", finished_at=now - 2 * DAY)
        make.archived(queue="other", finished_at=now - 31 * DAY)
        make.dead(queue="mail", failed_at=now - 3 * DAY)
        make.dead(queue="other", failed_at=now - 11 * DAY)
    turn(
        settings,
        ARCHIVE_BY_QUEUE={"reports": None, "mail": DAY}, ARCHIVE_BY_TYPE={"audit.v1": None},
        DLQ=10 * DAY, DLQ_BY_QUEUE={"mail": 2 * DAY}, DLQ_BY_TYPE={"audit.v1": DAY}, DLQ_BY_REASON={"Expired": None},
    )  # fmt: skip
    left = [pk for model in (JobArchive, JobDLQ) for pk in model._default_manager.values_list("pk", flat=True)]
    assert sorted(left) == sorted(kept)


def test_what_was_purged_keeps_the_time_it_was_given(settings: Any) -> None:
    """Whatever the setting says now: somebody may count on getting it back."""
    make.purged(expires_at=timezone.now() - dt.timedelta(seconds=5))
    row = make.purged(expires_at=timezone.now() + DAY)
    turn(settings, TRASH=None)
    assert [found.pk for found in JobTrash.objects.all()] == [row.pk]
    turn(settings, TRASH=1)
    assert JobTrash.objects.count() == 1


def _bucket(age: dt.timedelta, series: str = "a") -> None:
    at = timezone.now() - age
    MetricBucket.objects.create(at=at, series=series, queue="q", type="t", outcome=0, shard="s", count=1)


def test_buckets_roll_up_and_roll_ups_end(settings: Any) -> None:
    for hours in (0.01, 0.2, 1.5, 30, 60, 24 * 29, 24 * 31):
        _bucket(dt.timedelta(hours=hours))
    turn(settings)
    assert MetricBucket.objects.count() == 1
    ages = {
        span: sorted((timezone.now() - at) / dt.timedelta(hours=1) for at in rows)
        for span in (10, 60, 300, 3600)
        for rows in [MetricRollup.objects.filter(span=span).values_list("at", flat=True)]
    }
    assert [round(age, 1) for age in ages[10]] == [0.2], "twenty minutes of ten seconds"
    assert [round(age, 1) for age in ages[60]] == [0.2, 1.5], "three hours of minutes"
    assert [round(age) // 24 for age in ages[300]] == [0, 0, 1], "two days of five minutes"
    assert [round(age) // 24 for age in ages[3600]] == [0, 0, 1, 2, 29]
    assert Counter.objects.get().count == 6, "a total stays what it was"
    turn(settings, BUCKETS=3 * 3600)
    assert (MetricRollup.objects.count(), Counter.objects.get().count) == (7, 6)


def test_deleting_comes_once_an_hour_and_when_rules_change(settings: Any) -> None:
    now = 0.0
    loop = Retention("worker-1", open_storage, clock=lambda: now)

    def deletes() -> bool:
        RetentionMark.objects.all().delete()
        _bucket(DAY)
        loop.turn(get_storage())
        assert not MetricBucket.objects.exists(), "buckets roll up each time"
        return RetentionMark.objects.exists()

    for moment, expected in ((1_000.0, True), (1_300.0, False), (4_599.0, False), (4_600.0, True), (4_900.0, False)):
        now = moment
        assert deletes() is expected
    use_options(settings, RETENTION={"DLQ": 5})
    assert [deletes(), deletes()] == [True, False]


def test_one_worker_of_the_fleet_does_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Retention, "wait", lambda self, seconds: None)
    for worker, leads in (("worker-1", True), ("worker-2", False), ("worker-1", True)):
        RetentionMark.objects.all().delete()
        Retention(worker, open_storage).step()
        assert RetentionMark.objects.exists() is leads
