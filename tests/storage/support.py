"""What the storage suite shares: a small way to bring jobs into a state, to look at rows, and to run threads.

Everything goes through the contract; only rows are looked at, and made old, through the ORM. Nothing here knows an
engine.
"""

from __future__ import annotations

import datetime as dt
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

import pytest
from django.db import OperationalError, connections, models, transaction

from chokaq_django.job.failures import FailureReason
from chokaq_django.job.ids import new_id
from chokaq_django.models import JobArchive, JobBase, JobDLQ, JobHot, JobTrash
from chokaq_django.storage import (
    Applied,
    Claim,
    ClaimedJob,
    ClaimRequest,
    Lease,
    NewJob,
    Outcome,
    OutcomeKind,
    Storage,
    open_storage,
)
from chokaq_django.storage.engine import Engine
from chokaq_django.storage.retention_rules import TrimRule

from ..claims import start_crashed
from ..helpers import KILL, wait_until

T = TypeVar("T")

committed = pytest.mark.usefixtures("transactional_db")
"""Real commits, seen by other connections: the fixture of that name in this folder's ``conftest.py``."""

PLACES: dict[str, type[JobBase]] = {"hot": JobHot, "archive": JobArchive, "dlq": JobDLQ, "trash": JobTrash}
BASE_COLUMNS = frozenset(column.name for column in JobBase._meta.get_fields())
PENDING, FETCHED, PROCESSING, AWAITING = 0, 1, 2, 7
WORKER = "worker-1"
NOBODY = "01AAAAAAAAAAAAAAAAAAAAAAAA"
"""An id that no job has."""

LOG = '[{"attempt":1,"outcome":"tested"}]'


def new_job(**columns: Any) -> NewJob:
    """A row to insert: queue ``mail``, type ``email.send.v1``, unless said otherwise."""
    named = {"id": new_id(), "queue": "mail", "type": "email.send.v1", "payload": '{"to":"ada@example.com"}', **columns}
    return NewJob(**named)


def outcome(job: ClaimedJob, kind: OutcomeKind = OutcomeKind.SUCCEEDED, **named: Any) -> Outcome:
    """The end of an execution of ``job``; a dead one is FATAL_ERROR unless ``reason`` says otherwise."""
    if kind is OutcomeKind.DEAD:
        named.setdefault("reason", FailureReason.FATAL_ERROR)
    if kind is OutcomeKind.UNSTARTED_DEAD:
        named.setdefault("reason", FailureReason.UNKNOWN_TYPE)
    return Outcome(
        **{
            "id": job.id,
            "claim_number": job.claim_number,
            "kind": kind,
            "queue": job.queue,
            "type": job.type,
            "attempt_log": LOG,
            **named,
        }
    )


def place(job_id: str) -> str | None:
    """Where the job is; AssertionError when it is in two places."""
    found = [name for name, model in PLACES.items() if model._default_manager.filter(pk=job_id).exists()]
    assert len(found) < 2, f"{job_id} is in {found}"
    return found[0] if found else None


def row(job_id: str) -> dict[str, Any]:
    """All columns of the job, and ``place``."""
    where = place(job_id)
    assert where is not None, f"{job_id} is in no table"
    return {"place": where, **PLACES[where]._default_manager.filter(pk=job_id).values().get()}


def base(columns: dict[str, Any], *but: str) -> dict[str, Any]:
    """The columns that every place has, without those named in ``but``."""
    assert BASE_COLUMNS.issuperset(but), but
    return {name: columns[name] for name in BASE_COLUMNS.difference(but)}


class Jobs:
    """Brings jobs into a state through a storage, as one worker would."""

    def __init__(self, storage: Storage) -> None:
        self.storage = storage

    # producing

    def add(self, count: int = 1, **columns: Any) -> list[str]:
        """Enqueues ``count`` jobs in one call; their ids in order."""
        answers = self.storage.enqueue([new_job(**columns) for _ in range(count)])
        assert all(answer.created for answer in answers)
        return [answer.id for answer in answers]

    def one(self, **columns: Any) -> str:
        return self.add(1, **columns)[0]

    # working

    def claim(
        self, limit: int = 10, *, worker: str = WORKER, queues: Sequence[str] = ("mail",), **request: Any
    ) -> Claim:
        """One claim; a contended one is asked again at once, as a worker does."""
        for _ in range(100):
            claim = self.storage.claim(ClaimRequest(worker, list(queues), limit, **request))
            assert len(claim.jobs) <= limit
            if claim.jobs or not claim.contended:
                return claim
        raise AssertionError("always contended")

    def take(self, limit: int = 10, *, worker: str = WORKER, start: bool = True, **request: Any) -> list[ClaimedJob]:
        """Claims, and with ``start`` starts what has crashed before too, which a claim only leases."""
        jobs = self.claim(limit, worker=worker, start=start, **request).jobs
        if start:
            start_crashed(self.storage, worker, jobs)
        return jobs

    def running(self, count: int = 1, *, worker: str = WORKER, **columns: Any) -> list[ClaimedJob]:
        """Enqueues and starts ``count`` jobs."""
        return self._claimed(count, worker, True, columns)

    def fetched(self, count: int = 1, *, worker: str = WORKER, **columns: Any) -> list[ClaimedJob]:
        """Enqueues ``count`` jobs and leases them into the buffer."""
        return self._claimed(count, worker, False, columns)

    def _claimed(self, count: int, worker: str, start: bool, columns: dict[str, Any]) -> list[ClaimedJob]:
        ids = self.add(count, **columns)
        jobs = self.take(count, worker=worker, queues=[columns.get("queue", "mail")], start=start)
        assert sorted(job.id for job in jobs) == sorted(ids), "other due jobs were in the way"
        assert {job.status for job in jobs} == {PROCESSING if start else FETCHED}
        return jobs

    def settle(
        self, jobs: ClaimedJob | Iterable[ClaimedJob], kind: OutcomeKind = OutcomeKind.SUCCEEDED,
        *, worker: str = WORKER, **named: Any,
    ) -> Applied:  # fmt: skip
        jobs = [jobs] if isinstance(jobs, ClaimedJob) else jobs
        return self.storage.settle(worker, [outcome(job, kind, **named) for job in jobs])

    def archived(self, count: int = 1, **columns: Any) -> list[str]:
        jobs = self.running(count, **columns)
        assert len(self.settle(jobs)) == count
        return [job.id for job in jobs]

    def dead(self, count: int = 1, *, reason: FailureReason = FailureReason.FATAL_ERROR, **columns: Any) -> list[str]:
        jobs = self.running(count, **columns)
        assert len(self.settle(jobs, OutcomeKind.DEAD, reason=reason)) == count
        return [job.id for job in jobs]

    def awaiting(self, count: int = 1, **columns: Any) -> list[str]:
        """Jobs that wait for a parent; the operation that makes them comes later, so the status is written here."""
        ids = self.add(count, **columns)
        JobHot.objects.filter(pk__in=ids).update(status=AWAITING)
        return ids

    # time

    def now(self) -> dt.datetime:
        return self.storage.now()

    def shift(self, ids: str | Sequence[str], model: type[models.Model] = JobHot, **seconds: float) -> None:
        """Sets columns to instants relative to the server's now: ``shift(ids, run_at=-60)``."""
        ids = [ids] if isinstance(ids, str) else ids
        now = self.now()
        values = {column: now + dt.timedelta(seconds=offset) for column, offset in seconds.items()}
        assert model._default_manager.filter(pk__in=ids).update(**values) == len(ids)


def rule(
    place: str, age: float | None, column: str | None = None, value: Any = None, **but: Collection[Any]
) -> TrimRule:
    """A rule of retention; ``but``: values of columns for which there is a more specific one."""
    name = f"RETENTION.{place}.{column}.{value}"
    return TrimRule(name, place, column, value, age, {other: frozenset(values) for other, values in but.items()})


def trim(storage: Storage, rule: TrimRule, limit: int = 100) -> int:
    """A whole pass of the rule, ``limit`` rows a step; how many jobs it deleted."""
    step = storage.trim(rule, limit)
    removed = step.removed
    while step.walk is not None:
        step = storage.trim(rule, limit, step.walk)
        removed += step.removed
    return removed


def near(instant: dt.datetime | None, expected: dt.datetime, tolerance: float = 3.0) -> bool:
    """Whether two instants are the same but for the time that a busy machine takes between two statements."""
    return instant is not None and abs((instant - expected).total_seconds()) <= tolerance


def leases(jobs: Iterable[ClaimedJob]) -> list[Lease]:
    return [job.lease for job in jobs]


def ids(jobs: Iterable[ClaimedJob]) -> list[str]:
    return [job.id for job in jobs]


def bad_leases(job: ClaimedJob) -> dict[str, tuple[str, Lease]]:
    """Name -> (worker, lease): everything that is not quite the lease of ``job``, held by ``WORKER``."""
    return {
        "an older number": (WORKER, Lease(job.id, job.claim_number - 1)),
        "a later number": (WORKER, Lease(job.id, job.claim_number + 1)),
        "another worker": ("worker-2", job.lease),
        "an unknown id": (WORKER, Lease(NOBODY, job.claim_number)),
    }


class _UndoneError(Exception):
    pass


@contextmanager
def undone(using: str = "default") -> Iterator[None]:
    """A transaction of the caller's, or a savepoint inside one, that ends in an error and is rolled back."""
    try:
        with transaction.atomic(using=using):
            yield
            raise _UndoneError
    except _UndoneError:
        pass


def together(count: int, work: Callable[[int, Storage], T], deadline: float = 60.0) -> list[T]:
    """Runs ``work(number, storage)`` in ``count`` threads at once, each on a connection of its own; their answers.

    The first exception of a thread is raised here; a thread that is not done after ``deadline`` seconds fails the test.
    """
    barrier = threading.Barrier(count)
    answers: dict[int, T] = {}
    errors: list[BaseException] = []

    def run(number: int) -> None:
        storage = open_storage()
        try:
            barrier.wait(deadline)
            answers[number] = work(number, storage)
        except BaseException as error:  # noqa: BLE001 - raised again by the thread that waits
            errors.append(error)
        finally:
            storage.close()
            connections.close_all()

    threads = [threading.Thread(target=run, args=(number,), daemon=True) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(deadline)
    if errors:
        raise errors[0]
    assert len(answers) == count, f"{count - len(answers)} threads did not end within {deadline:g} s"
    return [answers[number] for number in range(count)]


def run_in_thread(work: Callable[[], Any]) -> Callable[[], Any]:
    """Starts ``work`` in a thread; the answer waits for its end and returns what it returned."""
    answers: list[Any] = []
    errors: list[BaseException] = []

    def run() -> None:
        try:
            answers.append(work())
        except BaseException as error:  # noqa: BLE001 - raised again by who waits
            errors.append(error)
        finally:
            connections.close_all()

    thread = threading.Thread(target=run, daemon=True)
    thread.start()

    def result() -> Any:
        thread.join(30)
        assert not thread.is_alive()
        if errors:
            raise errors[0]
        return answers[0]

    return result


INNODB = 0.2
"""Seconds: asked more often than ten times a second, MariaDB and MySQL repeat their last answer about transactions."""
_WAITS = {
    "postgresql": "SELECT 1 FROM pg_locks WHERE pid = %s AND NOT granted",
    "mysql": "SELECT 1 FROM information_schema.innodb_trx WHERE trx_mysql_thread_id = %s AND trx_state = 'LOCK WAIT'",
}


def waiting(storage: Storage) -> Callable[[], bool]:
    """A function that says whether the storage's transaction waits for a lock now; PostgreSQL, MariaDB and MySQL."""
    assert isinstance(storage, Engine)
    vendor = connections["default"].vendor
    (number,) = storage._query(KILL[vendor][0])[0]

    def look() -> bool:
        with connections["default"].cursor() as cursor:
            cursor.execute(_WAITS[vendor], [number])
            return bool(cursor.fetchall())

    return look


class Pace:
    """How long to wait before the next blow at those who ``progress``: the longer, the longer they get nowhere, which
    on a busy machine they would not between two blows that come as fast as they may."""

    LONGEST = 1.0

    def __init__(self, shortest: float, progress: Callable[[], object]) -> None:
        self._shortest = self._pause = shortest
        self._progress = progress
        self._seen: object = None

    def pause(self) -> float:
        found = self._progress()
        self._pause = self._shortest if found != self._seen else min(2 * self._pause, self.LONGEST)
        self._seen = found
        return self._pause


def keep_trying(act: Callable[[], T], deadline: float = 60.0) -> T:
    """As a worker's loop does: what the storage gave up is tried again."""

    def answer() -> list[T]:
        try:
            return [act()]
        except OperationalError:
            return []

    return wait_until(answer, deadline, interval=0.01)[0]


def keep_claiming(storage: Storage, limit: int) -> list[ClaimedJob]:
    """Jobs of WORKER, which has no others: as a worker does, it asks what it holds when there may be more than the
    answer said."""
    errors = storage.errors
    jobs = keep_trying(lambda: storage.claim(ClaimRequest(WORKER, ["mail"], limit))).jobs
    return keep_trying(lambda: storage.claimed_by(WORKER)) if storage.errors > errors or not jobs else jobs
