"""Plans that stay right: figures must not depend on when the planner last looked at the tables."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from django.db import connections, transaction
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models import QuerySet

from ..models import JobStatus

__all__ = ["LIVE", "WAITING", "by_index", "live", "waiting"]

LIVE = f"status IN ({int(JobStatus.FETCHED)}, {int(JobStatus.PROCESSING)})"
"""SQL of what workers have now, in the words of its partial index: SQLite compares them as text, and a parameter never
fits, there or on SQL Server."""
WAITING = f"status = {int(JobStatus.PENDING)}"
"""The same of what waits for a worker."""

_INSIDE = "_chokaq_by_index"


def live(rows: QuerySet[Any]) -> QuerySet[Any]:
    """The leased ones among rows of the hot table, by their index."""
    return rows.extra(where=[LIVE])  # noqa: S610 - a constant


def waiting(rows: QuerySet[Any]) -> QuerySet[Any]:
    """The Pending ones among rows of the hot table, by their index."""
    return rows.extra(where=[WAITING])  # noqa: S610 - a constant


@contextmanager
def by_index(alias: str) -> Iterator[None]:
    """For statements each part of which is a seek: PostgreSQL, when its statistics are from before a backlog came,
    believes the table small and reads all of it. Here it may not. One inside another adds nothing."""
    connection = connections[alias]
    if connection.vendor != "postgresql" or getattr(connection, _INSIDE, False):
        yield
        return
    is_joined = connection.in_atomic_block
    with transaction.atomic(using=alias):
        _set(connection, "off")
        setattr(connection, _INSIDE, True)
        try:
            yield
        finally:
            setattr(connection, _INSIDE, False)
        if is_joined:  # the caller's transaction goes on
            _set(connection, None)


def _set(connection: BaseDatabaseWrapper, value: str | None) -> None:
    """For this transaction; None: as it was. A scan that is wanted looks dear, and must not be compiled for that."""
    names = ("enable_seqscan", "jit")
    with connection.cursor() as cursor:
        if value is None:
            cursor.execute("; ".join(f"SET LOCAL {name} TO DEFAULT" for name in names))
        else:
            cursor.execute(
                "SELECT set_config(%s, %s, true), set_config(%s, %s, true)", [names[0], value, names[1], value]
            )
