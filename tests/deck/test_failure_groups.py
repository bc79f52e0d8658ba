"""What is read of failure groups: sums over shards, kinds, samples, trend, risk, triage; and what a look may cost."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from chokaq_django.job.failures import FailureReason
from chokaq_django.models import FailureGroup, FailureTriage, JobDLQ
from chokaq_django.reading.groups import (
    LATELY_COUNTED,
    ReplayRisk,
    count_groups,
    read_group,
    read_groups,
    replay_risk,
)
from chokaq_django.storage import get_storage
from tests import factories as make

pytestmark = pytest.mark.django_db

F = FailureReason
MINUTE, HOUR = dt.timedelta(minutes=1), dt.timedelta(hours=1)
ONE, OTHER, THIRD = "1" * 32, "2" * 32, "3" * 32


def now() -> dt.datetime:
    return get_storage().now()


def dead(count: int = 1, group: str = ONE, ago: dt.timedelta = MINUTE, **columns: Any) -> list[str]:
    at = now() - ago
    return [make.dead(fingerprint=group, failed_at=at, **columns).pk for _ in range(count)]


def counted() -> None:
    get_storage().recount_groups()


def look(**wanted: Any) -> dict[str, int]:
    return {view.fingerprint: view.count for view in read_groups("default", now(), **wanted)}


def shard(group: str = ONE, name: str = "", **columns: Any) -> None:
    values: dict[str, Any] = {
        "series": f"{len(name):02}{name:x<30}"[:32] if name else group, "fingerprint": group, "queue": "mail",
        "type": "test.note", "shard": name, "reason": F.ZOMBIE, "message": "", "sample_id": "S" * 26, "count": 1,
        "total": 1, "first_seen": now(), "last_seen": now(), **columns,
    }  # fmt: skip
    FailureGroup.objects.create(**values)


def test_a_group_is_the_sum_of_its_shards() -> None:
    early, late = now() - HOUR, now()
    shard(name="a", count=5, total=5, message="an old one", sample_id="A" * 26, first_seen=early, last_seen=early)
    shard(name="b", count=3, total=3, message="the newest", sample_id="B" * 26, error_type="E", last_seen=late)
    shard(name="c", count=-2, total=0, last_seen=late)
    (view,) = read_groups("default", now())
    assert (view.count, view.total, view.first_seen, view.last_seen) == (6, 8, early, late)
    assert (view.message, view.sample_id, view.error_type) == ("the newest", "B" * 26, "E")
    assert view.kinds == Counter({("mail", "test.note"): 6})


def test_the_largest_or_the_newest_first_and_none_that_are_empty() -> None:
    dead(3, ONE, HOUR)
    dead(1, OTHER, MINUTE)
    dead(2, THIRD, HOUR * 3)
    counted()
    FailureGroup.objects.filter(fingerprint=THIRD).update(count=0)
    assert list(look()) == [ONE, OTHER]
    assert list(look(order="last_seen")) == [OTHER, ONE]
    assert list(look(limit=1)) == [ONE]
    with pytest.raises(ValueError, match="order"):
        look(order="name; DROP TABLE")


def test_filters_count_what_they_let_through() -> None:
    dead(2, ONE, queue="mail", type="test.note")
    dead(3, ONE, queue="reports", type="test.add")
    dead(1, OTHER, queue="reports", type="test.note", failure_reason=F.ZOMBIE)
    counted()
    assert look() == {ONE: 5, OTHER: 1}
    assert look(queue="mail") == {ONE: 2}
    assert look(queue="reports") == {ONE: 3, OTHER: 1}
    assert look(queue="reports", type="test.note") == {OTHER: 1}
    assert look(reason=F.ZOMBIE) == {OTHER: 1}
    assert look(queue="Mail") == {}
    (view,) = read_groups("default", now(), queue="mail")
    assert (view.queues, view.types) == ({"mail": 2}, {"test.note": 2})
    (view, _) = read_groups("default", now())
    assert view.queues == {"reports": 3, "mail": 2}
    assert list(view.types) == ["test.add", "test.note"]
    assert (count_groups("default"), count_groups("default", queue="mail")) == (2, 1)


def test_triage_is_read_with_the_group_and_can_be_filtered_by() -> None:
    dead(1, ONE)
    dead(2, OTHER)
    counted()
    at = now()
    FailureTriage.objects.create(
        fingerprint=ONE, note="known", assignee="ada", acknowledged_at=at, acknowledged_by="bob", updated_at=at
    )
    FailureTriage.objects.create(fingerprint=OTHER, note="look at it", updated_at=at)
    assert look(acknowledged=True) == {ONE: 1}
    assert look(acknowledged=False) == {OTHER: 2}
    group = read_group("default", now(), ONE)
    assert group is not None
    assert (group.acknowledged, group.assignee, group.came_again) == (True, "ada", False)
    FailureGroup.objects.filter(fingerprint=ONE).update(last_seen=at + MINUTE)
    group = read_group("default", now(), ONE)
    assert group is not None
    assert group.came_again


def test_one_group_by_its_fingerprint() -> None:
    dead(2)
    counted()
    assert read_group("default", now(), OTHER) is None
    group = read_group("default", now(), ONE)
    assert group is not None
    assert (group.count, group.total, group.reason) == (2, 2, F.MAX_RETRIES_EXCEEDED)
    FailureGroup.objects.update(count=0)
    group = read_group("default", now(), ONE)
    assert group is not None
    assert group.count == 0, "what is known of it stays known"


@pytest.mark.parametrize(
    ("last_hour", "hour_before", "older", "trend"),
    [
        (0, 2, 0, "quiet"), (0, 0, 1, "quiet"), (3, 0, 0, "new"), (3, 0, 1, "steady"), (5, 0, 1, "rising"),
        (9, 2, 0, "rising"), (9, 6, 0, "steady"), (2, 2, 1, "steady"), (2, 9, 0, "falling"),
    ],
)  # fmt: skip
def test_the_trend_compares_the_last_hour_with_the_one_before(
    last_hour: int, hour_before: int, older: int, trend: str
) -> None:
    dead(last_hour, ago=MINUTE * 5)
    dead(hour_before, ago=MINUTE * 90)
    dead(older, ago=HOUR * 30)
    counted()
    (view,) = read_groups("default", now())
    assert (view.last_hour, view.hour_before, view.trend(now())) == (last_hour, hour_before, trend)


def test_the_trend_counts_to_a_limit() -> None:
    (job_id,) = dead()
    values = JobDLQ.objects.values().get(pk=job_id)
    rows = [JobDLQ(**{**values, "id": f"01TREND{number:019}"}) for number in range(LATELY_COUNTED + 5)]
    JobDLQ.objects.bulk_create(rows, batch_size=500)
    counted()
    (view,) = read_groups("default", now())
    assert (view.count, view.last_hour) == (LATELY_COUNTED + 6, LATELY_COUNTED)


def test_each_reason_has_its_risk() -> None:
    assert {reason: replay_risk(reason) for reason in (F.EXPIRED, F.ZOMBIE, F.MAX_RETRIES_EXCEEDED)} == {
        F.EXPIRED: ReplayRisk.NONE, F.ZOMBIE: ReplayRisk.LIKELY, F.MAX_RETRIES_EXCEEDED: ReplayRisk.PARTLY,
    }  # fmt: skip
    assert replay_risk(F.UNKNOWN_TYPE) is ReplayRisk.NONE
    assert replay_risk(F.CANCELLED) is ReplayRisk.IF_STARTED
    assert {replay_risk(reason) for reason in (F.TIMEOUT, F.HEARTBEAT_FAILURE, F.POISON)} == {ReplayRisk.LIKELY}
    assert replay_risk(F.FATAL_ERROR, "PayloadError") is ReplayRisk.NONE, "its handler did not run"
    assert replay_risk(F.FATAL_ERROR, "chokaq_django.job.failures.PayloadError") is ReplayRisk.PARTLY, "it raised it"
    assert replay_risk(99) is ReplayRisk.PARTLY, "a reason of newer code"


def test_a_look_is_a_fixed_number_of_statements_and_reads_no_dead_row_by_itself() -> None:
    for number in range(30):
        dead(2, f"{number:032x}", queue=f"q{number % 3}")
    counted()

    def statements(limit: int) -> list[str]:
        with CaptureQueriesContext(connection) as queries:
            assert len(read_groups("default", now(), limit)) == limit
        settings = ("set_config", "SET LOCAL", "SAVEPOINT")
        return [query["sql"] for query in queries if not any(word in query["sql"] for word in settings)]

    few, many = statements(2), statements(30)
    assert len(few) == len(many) <= 6, "\n".join(sql[:150] for sql in many)
    assert not [sql for sql in many if "error_details" in sql]
    with CaptureQueriesContext(connection) as queries:
        read_groups("default", now(), 30, queue="nothing")
    assert len(queries) <= 2
