"""The first failure groups by index: the same as of all counts added up, and few rows read for it."""

from __future__ import annotations

import datetime as dt
import random
from collections import defaultdict
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from chokaq_django.models import FailureGroup, FailureReason, FailureTotal, FailureTriage
from chokaq_django.reading.group_sums import first_groups, sum_of_all
from chokaq_django.reading.groups import count_dead, read_groups
from chokaq_django.storage import get_storage
from chokaq_django.storage.groups import base_series

from .plans import rows_read

pytestmark = pytest.mark.django_db

NOON = dt.datetime(2031, 5, 17, 12, 0, tzinfo=dt.UTC)
MANY = 3_000


def row(group: str, queue: str = "mail", shard: str = "", **columns: Any) -> FailureGroup:
    given = {
        "series": f"{random.getrandbits(128):032x}", "fingerprint": group, "queue": queue, "type": "test.note",
        "shard": shard, "reason": FailureReason.ZOMBIE, "message": "no", "sample_id": "S" * 26, "count": 1, "total": 1,
        "first_seen": NOON, "last_seen": NOON, **columns,
    }  # fmt: skip
    return FailureGroup(**given)


def fold() -> None:
    storage = get_storage()
    while storage.fold_groups(500):
        pass


def expected(limit: int, order: str) -> list[tuple[str, int, dt.datetime]]:
    """By adding up every row there is."""
    counts: dict[str, int] = defaultdict(int)
    last: dict[str, dt.datetime] = {}
    for each in FailureGroup.objects.all():
        counts[each.fingerprint] += each.count
        last[each.fingerprint] = max(last.get(each.fingerprint, each.last_seen), each.last_seen)
    found = [(group, count, last[group]) for group, count in counts.items() if count > 0]
    place = 1 if order == "count" else 2
    return sorted(found, key=lambda one: (one[place], one[0]), reverse=True)[:limit]


@pytest.mark.parametrize("seed", range(4))
def test_the_first_are_the_first_of_all_whatever_is_folded(seed: int) -> None:
    chance = random.Random(seed)
    groups = [f"{number:032x}" for number in range(25)]
    for _ in range(3):
        FailureGroup.objects.bulk_create(
            row(
                chance.choice(groups), chance.choice(["mail", "reports"]), f"w{chance.randrange(3)}",
                count=chance.randint(-2, 6), last_seen=NOON + dt.timedelta(minutes=chance.randrange(90)),
            )
            for _ in range(20)
        )  # fmt: skip
        for order in ("count", "last_seen"):
            for limit in (1, 5, 100):
                found = first_groups("default", limit, order)
                assert [(one.fingerprint, one.dead, one.last_seen) for one in found] == expected(limit, order)
        assert sum_of_all("default") == sum(each.count for each in FailureGroup.objects.all())
        fold()


def test_what_is_known_can_be_asked_for_or_left_out() -> None:
    names = [f"{number:032x}" for number in range(6)]
    FailureGroup.objects.bulk_create(row(name, count=number + 1) for number, name in enumerate(names))
    fold()
    FailureGroup.objects.bulk_create(row(name, shard="w", count=10) for name in names[:4])
    for name in names[1:3] + names[5:]:
        FailureTriage.objects.create(fingerprint=name, acknowledged_at=NOON, updated_at=NOON)
    FailureTriage.objects.create(fingerprint=names[0], note="not acknowledged", updated_at=NOON)

    def look(acknowledged: bool | None) -> dict[str, int]:
        return {one.fingerprint: one.dead for one in first_groups("default", 3, "count", acknowledged)}

    assert look(None) == {names[3]: 14, names[2]: 13, names[1]: 12}
    assert look(True) == {names[2]: 13, names[1]: 12, names[5]: 6}
    assert look(False) == {names[3]: 14, names[0]: 11, names[4]: 5}


@pytest.mark.django_db(transaction=True)  # MySQL commits by ANALYZE
@pytest.mark.skipif(connection.vendor == "microsoft", reason="its plans are asserted by their statements")
def test_the_first_of_very_many_read_few_rows() -> None:
    """What was folded by their index, and what was not whole."""
    names = [f"{number:032x}" for number in range(MANY)]
    rows = [row(name, series=base_series(name, "mail", "test.note"), count=n + 1) for n, name in enumerate(names)]
    FailureGroup.objects.bulk_create(rows, batch_size=500)
    seen = {"first_seen": NOON, "last_seen": NOON}
    totals = (FailureTotal(fingerprint=name, count=n + 1, total=n + 1, **seen) for n, name in enumerate(names))
    FailureTotal.objects.bulk_create(totals, batch_size=500)
    FailureGroup.objects.bulk_create(row(names[number], shard="w", count=9_000) for number in range(5))
    with connection.cursor() as cursor:
        tables = "chokaq_failure_group", "chokaq_failure_total"
        for table in tables:
            cursor.execute(f"ANALYZE {'TABLE ' if connection.vendor == 'mysql' else ''}{table}")
            if cursor.description:
                cursor.fetchall()
    for order in ("count", "last_seen"):
        with CaptureQueriesContext(connection) as captured:
            found = read_groups("default", NOON, 8, order=order)  # type: ignore[arg-type]
        assert len(found) == 8
        if order == "count":
            assert [view.count for view in found] == [9005, 9004, 9003, 9002, 9001, MANY, MANY - 1, MANY - 2]
        asked = [query["sql"] for query in captured if "chokaq_" in query["sql"]]
        assert len(asked) == 5
        read = {sql: rows_read(sql) for sql in asked}
        assert sum(read.values()) < MANY / 3, (order, read)
    with CaptureQueriesContext(connection) as captured:
        assert count_dead("default") == MANY * (MANY + 1) // 2 + 45_000
    assert len([query for query in captured if "chokaq_" in query["sql"]]) == 1
