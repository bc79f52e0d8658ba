"""Plans that stay right: figures must not depend on when the planner last looked at the tables."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from django.db import connections, transaction
from django.db.models import QuerySet

from ..models import JobStatus

__all__ = ["LIVE", "by_index", "live"]

LIVE = f"status IN ({int(JobStatus.FETCHED)}, {int(JobStatus.PROCESSING)})"
"""SQL of what workers have now, in the words of its partial index: SQLite compares them as text, and a parameter never
fits."""


def live(rows: QuerySet[Any]) -> QuerySet[Any]:
    """The leased ones among rows of the hot table, by their index."""
    return rows.extra(where=[LIVE])  # noqa: S610 - a constant


@contextmanager
def by_index(alias: str) -> Iterator[None]:
    """For statements each part of which is a seek: PostgreSQL, when its statistics are from before a backlog came,
    believes the table small and reads all of it. Here it may not."""
    connection = connections[alias]
    if connection.vendor != "postgresql":
        yield
        return
    with transaction.atomic(using=alias):
        with connection.cursor() as cursor:
            cursor.execute("SET LOCAL enable_seqscan = off")
        yield
        with connection.cursor() as cursor:  # the caller may have a transaction open that goes on
            cursor.execute("SET LOCAL enable_seqscan TO DEFAULT")
