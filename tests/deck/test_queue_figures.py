"""Figures of queues: what is read for them, counted by the engine itself."""

from __future__ import annotations

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from chokaq_django.models import JobHot
from chokaq_django.reading import queues
from chokaq_django.storage import get_storage
from tests import factories as make

from .plans import rows_read

pytestmark = [
    pytest.mark.django_db,
    pytest.mark.skipif(connection.vendor == "microsoft", reason="its plans are asserted by their statements"),
]

MANY, COUNTED = 2_000, 50


def test_a_backlog_that_came_just_now_is_not_read_for_its_priorities(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor for the names of queues: the planner knows nothing of the rows yet."""
    monkeypatch.setattr(queues, "MOST_COUNTED", COUNTED)
    pattern = make.hot(queue="unknown", priority=7)
    values = JobHot.objects.values().get(pk=pattern.pk)
    waiting = (
        JobHot(**{**values, "id": f"01WAITS{number:019}", "queue": name, "priority": 10 * (1 + number % 3)})
        for number in range(MANY)
        for name in [("mail", "unknown")[number % 2]]
    )
    JobHot.objects.bulk_create(waiting, batch_size=500)
    make.queue("mail")
    with CaptureQueriesContext(connection) as captured:
        found = {one.name: one for one in queues.read_queues("default", get_storage().now())}
    assert {name: (one.pending, one.capped) for name, one in found.items()} == {
        "mail": (COUNTED, True), "unknown": (COUNTED, True),
    }  # fmt: skip
    asked = [query["sql"] for query in captured if "chokaq_job_hot" in query["sql"]]
    read = {sql: rows_read(sql) for sql in asked}
    assert sum(read.values()) < MANY / 2, read
