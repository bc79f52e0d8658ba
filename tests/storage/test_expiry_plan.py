"""Looking for expired jobs costs by the jobs with a deadline, not by the jobs that wait."""

from __future__ import annotations

from typing import Any

import pytest

from chokaq_django.models import JobHot
from chokaq_django.storage import open_storage

from .support import Jobs

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize("filled", [False, True])
def test_expired_jobs_are_found_by_their_deadline(jobs: Jobs, engine: str, filled: bool) -> None:
    """Also where the plan is made on an empty table, as a worker that starts first makes it."""
    if engine == "microsoft":
        pytest.skip("SQL Server plans anew when a table has grown, and reads a small one whole")
    if filled:
        jobs.add(50)
        assert JobHot.objects.count() == 50
    storage: Any = open_storage()
    try:
        explain = {"sqlite": "EXPLAIN QUERY PLAN ", "postgresql": "EXPLAIN ", "mysql": "EXPLAIN "}[engine]
        plan = "\n".join(str(row) for row in storage._query(explain + storage._overdue(), [10]))
    finally:
        storage.close()
    assert "chokaq_hot_deadline" in plan, plan
