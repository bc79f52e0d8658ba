"""The rule over all rules: a job is in exactly one table, and no accepted job is ever missing. And failure groups count
what the DLQ holds, at every moment.

Tests that run workers call :func:`assert_one_place` at their end; every chaos test has a :class:`Sampler` running.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Self

from django.db import DatabaseError, InterfaceError, connections
from django.db.backends.base.base import BaseDatabaseWrapper

from chokaq_django.models import FailureGroup, FailureTotal, JobArchive, JobDLQ, JobHot, JobTrash
from chokaq_django.storage.groups import FRESH_END

_TABLES = [model._meta.db_table for model in (JobHot, JobArchive, JobDLQ, JobTrash)]
_KIND = "fingerprint, queue, type"
_WRONG = (
    f"SELECT {_KIND}, SUM(n) FROM (SELECT {_KIND}, 1 AS n FROM {JobDLQ._meta.db_table} "  # noqa: S608 - constants
    f"UNION ALL SELECT {_KIND}, -count AS n FROM {FailureGroup._meta.db_table}) x GROUP BY {_KIND} HAVING SUM(n) <> 0"
)
_WRONG_TOTALS = (
    f"SELECT fingerprint, 'total', 'of what was folded', SUM(n) FROM (SELECT fingerprint, count AS n "  # noqa: S608
    f"FROM {FailureGroup._meta.db_table} WHERE series >= '{FRESH_END}' UNION ALL SELECT fingerprint, -count AS n "
    f"FROM {FailureTotal._meta.db_table}) x GROUP BY fingerprint HAVING SUM(n) <> 0"
)

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
# There the level is the session's, and would be that of everything after the look.
_END = {"microsoft": ["ROLLBACK TRANSACTION", "SET TRANSACTION ISOLATION LEVEL READ COMMITTED"]}


class Picture:
    """What one look found: ``total`` rows in all tables, ``doubles`` (id -> tables) of ids in more than one place, and
    the failure groups that do ``not_counted`` what the DLQ holds (fingerprint, queue, type -> how many are missing)."""

    __slots__ = ("doubles", "not_counted", "total")

    def __init__(
        self, total: int, doubles: dict[str, list[str]], not_counted: dict[tuple[str | None, str, str], int]
    ) -> None:
        self.total = total
        self.doubles = doubles
        self.not_counted = not_counted


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
            for statement in _END.get(connection.vendor, ["ROLLBACK"]):
                cursor.execute(statement)


def look(connection: BaseDatabaseWrapper) -> Picture:
    """Asks all job tables in one consistent snapshot, or in the caller's transaction when one is open."""
    every = " UNION ALL ".join(f"SELECT id, '{table}' AS place FROM {table}" for table in _TABLES)  # noqa: S608 - constants
    with _snapshot(connection) as cursor:
        cursor.execute(f"SELECT COUNT(*) FROM ({every}) jobs")  # noqa: S608 - constants
        total = cursor.fetchone()[0]
        cursor.execute(f"SELECT id FROM ({every}) jobs GROUP BY id HAVING COUNT(*) > 1")  # noqa: S608 - constants
        doubles: dict[str, list[str]] = {}
        for (job_id,) in cursor.fetchall():
            cursor.execute(f"SELECT place FROM ({every}) jobs WHERE id = %s", [job_id])  # noqa: S608 - constants
            doubles[job_id] = [found for (found,) in cursor.fetchall()]
        not_counted = {}
        for sql in (_WRONG, _WRONG_TOTALS):
            cursor.execute(sql)
            not_counted |= {tuple(kind): int(missing) for *kind, missing in cursor.fetchall()}
    return Picture(total, doubles, not_counted)


def assert_one_place(expected_total: int | None = None, alias: str = "default") -> None:
    """Every id is in exactly one table, and failure groups count what the DLQ holds; with ``expected_total``, there are
    as many jobs as were ever accepted."""
    picture = look(connections[alias])
    assert not picture.doubles, f"in more than one table: {picture.doubles}"
    assert not picture.not_counted, f"not counted in their failure groups: {picture.not_counted}"
    if expected_total is not None:
        assert picture.total == expected_total, f"{picture.total} jobs in all tables, {expected_total} were accepted"


class Sampler(threading.Thread):
    """Looks every ``interval`` seconds while a test tortures the workers, and keeps what it should never have seen.

    ``accepted``: how many jobs there are to begin with; what comes later is told with :meth:`accepting`. Their number
    is exact at every look (nothing is trimmed meanwhile). ``connect`` makes a connection of its own: to the test's
    database, unless said otherwise. A look that fails because the database is away is counted in ``missed``.

        with Sampler() as sampler:
            with sampler.accepting(2_000):
                enqueue_many(...)
        sampler.check()
    """

    def __init__(
        self, accepted: int = 0, *, interval: float = 0.1, connect: Callable[[], BaseDatabaseWrapper] | None = None
    ) -> None:
        super().__init__(name="invariant-sampler", daemon=True)
        self.interval = interval
        self.violations: list[str] = []
        self.samples = 0
        self.missed = 0
        self._connect = connect or connections["default"].copy
        self._connection: BaseDatabaseWrapper | None = None
        self._least = self._most = accepted
        self._bounds = threading.Lock()
        self._end = threading.Event()

    @contextmanager
    def accepting(self, most: int, created: Callable[[], int] | None = None) -> Iterator[None]:
        """Jobs are enqueued here, ``most`` of them; ``created`` says afterwards how many, if it may be fewer."""
        with self._bounds:
            self._most += most
        yield
        accepted = most if created is None else created()
        with self._bounds:
            self._least += accepted
            self._most -= most - accepted

    @property
    def accepted(self) -> int:
        """How many jobs have been accepted so far."""
        return self._least

    def run(self) -> None:
        try:
            while not self._end.wait(self.interval):
                self.sample()
        finally:
            self.close()

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
        self._connection = None

    def sample(self) -> None:
        """One look, now."""
        if self._connection is None:
            self._connection = self._connect()  # in the thread that uses it
        least = self._least
        try:
            picture = look(self._connection)
        except (DatabaseError, InterfaceError):
            self.missed += 1
            self._connection.close()
            return
        most = self._most
        self.samples += 1
        if picture.doubles:
            self.violations.append(f"look {self.samples}: in more than one table: {picture.doubles}")
        if picture.not_counted:
            self.violations.append(f"look {self.samples}: failure groups are wrong: {picture.not_counted}")
        if not least <= picture.total <= most:
            known = f"{least}" if least == most else f"{least} to {most}"
            self.violations.append(f"look {self.samples}: {picture.total} jobs, {known} were accepted")

    def stop(self, timeout: float = 30.0) -> None:
        self._end.set()
        self.join(timeout)
        assert not self.is_alive(), "the sampler hangs in a look"
        self.sample()  # how it ends
        self.close()

    def check(self) -> None:
        """No look found a violation, and there were looks."""
        assert not self.violations, "\n".join(self.violations[:20])
        assert self.samples, f"not one look succeeded ({self.missed} failed)"

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.stop()
