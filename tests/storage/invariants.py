"""The rule over all rules: a job is in exactly one table, and no accepted job is ever missing.

Tests that run workers call :func:`assert_one_place` at their end; chaos tests keep a :class:`Sampler` running.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Self

from django.db import DatabaseError, InterfaceError, connections
from django.db.backends.base.base import BaseDatabaseWrapper

from chokaq_django.models import JobArchive, JobDLQ, JobHot, JobTrash

_TABLES = [model._meta.db_table for model in (JobHot, JobArchive, JobDLQ, JobTrash)]

# One consistent picture of all tables for the two questions below. SQLite's plain BEGIN is a reader's: it does not
# queue behind writers, whatever transaction_mode the settings ask for.
_BEGIN = {
    "postgresql": ["BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"],
    "sqlite": ["BEGIN DEFERRED"],
    "mysql": [
        "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ",
        "START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY",
    ],
    "microsoft": ["SET TRANSACTION ISOLATION LEVEL SNAPSHOT", "BEGIN TRANSACTION"],
}


class Picture:
    """What one look found: ``total`` rows in all tables, ``doubles`` (id -> tables) of ids in more than one place."""

    __slots__ = ("doubles", "total")

    def __init__(self, total: int, doubles: dict[str, list[str]]) -> None:
        self.total = total
        self.doubles = doubles


@contextmanager
def _snapshot(connection: BaseDatabaseWrapper) -> Iterator[Any]:
    with connection.cursor() as cursor:
        if connection.in_atomic_block:
            yield cursor
            return
        for statement in _BEGIN[connection.vendor]:
            cursor.execute(statement)
        try:
            yield cursor
        finally:
            cursor.execute("ROLLBACK")


def look(alias: str = "default") -> Picture:
    """Asks all job tables in one consistent snapshot, or in the caller's transaction when one is open."""
    every = " UNION ALL ".join(f"SELECT id, '{table}' AS place FROM {table}" for table in _TABLES)  # noqa: S608 - constants
    with _snapshot(connections[alias]) as cursor:
        cursor.execute(f"SELECT COUNT(*) FROM ({every}) jobs")  # noqa: S608 - constants
        total = cursor.fetchone()[0]
        cursor.execute(f"SELECT id FROM ({every}) jobs GROUP BY id HAVING COUNT(*) > 1")  # noqa: S608 - constants
        doubles: dict[str, list[str]] = {}
        for (job_id,) in cursor.fetchall():
            cursor.execute(f"SELECT place FROM ({every}) jobs WHERE id = %s", [job_id])  # noqa: S608 - constants
            doubles[job_id] = [found for (found,) in cursor.fetchall()]
    return Picture(total, doubles)


def assert_one_place(expected_total: int | None = None, alias: str = "default") -> None:
    """Every id is in exactly one table; with ``expected_total``, there are as many as were ever accepted."""
    picture = look(alias)
    assert not picture.doubles, f"in more than one table: {picture.doubles}"
    if expected_total is not None:
        assert picture.total == expected_total, f"{picture.total} jobs in all tables, {expected_total} were accepted"


class Sampler(threading.Thread):
    """Looks every ``interval`` seconds while a test tortures the workers, and keeps what it should never have seen.

    ``expected_total``: how many jobs there must be at every look; None: their number may grow but never fall (nothing
    is trimmed meanwhile). A look that fails because the database is away is counted in ``missed``, not a violation.

        with Sampler(expected_total=2_000) as sampler:
            ...
        sampler.check()
    """

    def __init__(self, expected_total: int | None = None, *, interval: float = 0.1, alias: str = "default") -> None:
        super().__init__(name="invariant-sampler", daemon=True)
        self.expected_total = expected_total
        self.interval = interval
        self.alias = alias
        self.violations: list[str] = []
        self.samples = 0
        self.missed = 0
        self._least = 0
        self._end = threading.Event()

    def run(self) -> None:
        try:
            while not self._end.wait(self.interval):
                self.sample()
        finally:
            connections[self.alias].close()

    def sample(self) -> None:
        """One look, now."""
        try:
            picture = look(self.alias)
        except (DatabaseError, InterfaceError):
            self.missed += 1
            connections[self.alias].close()
            return
        self.samples += 1
        if picture.doubles:
            self.violations.append(f"look {self.samples}: in more than one table: {picture.doubles}")
        if self.expected_total is not None and picture.total != self.expected_total:
            self.violations.append(f"look {self.samples}: {picture.total} jobs, {self.expected_total} were accepted")
        if picture.total < self._least:
            self.violations.append(f"look {self.samples}: {picture.total} jobs, {self._least} before")
        self._least = max(self._least, picture.total)

    def stop(self, timeout: float = 30.0) -> None:
        self._end.set()
        self.join(timeout)
        assert not self.is_alive(), "the sampler hangs in a look"

    def check(self) -> None:
        """No look found a violation, and there were looks."""
        assert not self.violations, "\n".join(self.violations[:20])
        assert self.samples, f"not one look succeeded ({self.missed} failed)"

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.stop()
