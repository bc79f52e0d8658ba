"""SQLite: connections, transactions, and several processes at one file. No test here measures time."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from django.db import OperationalError, connection, connections, transaction
from django.db.backends.base.base import BaseDatabaseWrapper

from chokaq_django.models import AuditEntry, JobArchive, JobHot
from chokaq_django.storage import OutcomeKind, StorageError, get_storage
from chokaq_django.storage.contract import NewJob, Storage
from chokaq_django.storage.data_version import SQLiteWatcher
from chokaq_django.storage.sqlite import SQLiteStorage
from chokaq_django.worker.wakeup import SQLiteWaker
from tests.helpers import ROOT, database_url, wait_until

from .invariants import assert_one_place
from .support import WORKER, Jobs, committed, ids, new_job, outcome, row

pytestmark = [committed, pytest.mark.skipif(connection.vendor != "sqlite", reason="SQLite's own")]


def pragma(raw: sqlite3.Connection, name: str) -> Any:
    return raw.execute(f"PRAGMA {name}").fetchone()[0]


@pytest.fixture
def raw(other: Storage) -> sqlite3.Connection:
    """The driver's connection under ``other``, a private storage."""
    return other._raw()  # type: ignore[attr-defined, no-any-return]


@pytest.fixture
def mine() -> sqlite3.Connection:
    """The driver's connection under this thread's Django connection."""
    connection.ensure_connection()
    return connection.connection  # type: ignore[no-any-return]


# -- connections -------------------------------------------------------------------------------------------------------


def test_a_private_connection_checkpoints_rarely_and_waits_by_itself(raw: sqlite3.Connection) -> None:
    assert pragma(raw, "wal_autocheckpoint") == 10_000
    assert pragma(raw, "busy_timeout") == 0


def test_the_settings_decide_how_durable_and_how_shared_the_file_is(
    raw: sqlite3.Connection, mine: sqlite3.Connection
) -> None:
    for name in ("journal_mode", "synchronous", "foreign_keys", "cache_size", "mmap_size"):
        assert pragma(raw, name) == pragma(mine, name), name


def test_the_callers_connection_stays_as_it_was(mine: sqlite3.Connection, jobs: Jobs) -> None:
    names = ("journal_mode", "synchronous", "wal_autocheckpoint", "busy_timeout")
    before = [pragma(mine, name) for name in names]
    jobs.settle(jobs.running(3))
    assert [pragma(mine, name) for name in names] == before
    assert mine.isolation_level is None


def test_an_old_sqlite_is_refused_by_its_version(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite3.dbapi2, "sqlite_version_info", (3, 34, 1))
    with pytest.raises(StorageError, match=r"'default'.*SQLite 3\.34\.1; 3\.35 or newer is needed"):
        get_storage()


def test_a_connection_that_was_closed_is_prepared_again(other: Storage) -> None:
    other.pending_queues()
    other.close()
    assert other.pending_queues() == []
    assert pragma(other._raw(), "wal_autocheckpoint") == 10_000  # type: ignore[attr-defined]


# -- transactions ------------------------------------------------------------------------------------------------------


@contextmanager
def locked() -> Iterator[None]:
    """Somebody else writes meanwhile."""
    holder = sqlite3.connect(connection.settings_dict["NAME"], isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    try:
        yield
    finally:
        holder.rollback()
        holder.close()


@contextmanager
def impatient(wrapper: BaseDatabaseWrapper) -> Iterator[None]:
    """OPTIONS["timeout"] of next to nothing."""
    before = wrapper.settings_dict
    wrapper.settings_dict = {**before, "OPTIONS": {**before["OPTIONS"], "timeout": 0.02}}
    try:
        yield
    finally:
        wrapper.settings_dict = before


def test_a_file_that_stays_locked_is_an_error_and_leaves_no_transaction(
    other: Storage, raw: sqlite3.Connection
) -> None:
    wrapper = other.connection  # type: ignore[attr-defined]
    with locked(), impatient(wrapper), pytest.raises(OperationalError, match="locked"):
        other.enqueue([new_job(), new_job()])
    assert not raw.in_transaction
    assert [answer.created for answer in other.enqueue([new_job(), new_job()])] == [True, True]


def test_who_waits_for_the_file_gets_it(other: Storage) -> None:
    answers: list[list[Any]] = []
    thread = threading.Thread(target=lambda: answers.append(other.enqueue([new_job(), new_job()])), daemon=True)
    with locked():
        thread.start()
        # It has its turn in this process, and polls for the file.
        wait_until(lambda: other._turns.taken._holder)  # type: ignore[attr-defined]
        assert answers == []
    thread.join(20)
    assert [answer.created for answer in answers[0]] == [True, True]


def test_a_transaction_that_the_caller_began_by_hand_is_joined(mine: sqlite3.Connection, other: Storage) -> None:
    with connection.cursor() as cursor:
        cursor.execute("BEGIN")
        get_storage().enqueue([new_job(), new_job()])
        assert mine.in_transaction
        assert other.pending_queues() == []
        cursor.execute("ROLLBACK")
    assert_one_place(0)


def test_an_error_in_a_unit_rolls_back_and_frees_the_file(jobs: Jobs, storage: Storage, other: Storage) -> None:
    taken = jobs.one()
    for own in (storage, other):
        with pytest.raises(Exception):  # noqa: B017, PT011
            own.enqueue([new_job(), new_job(id=taken)])
        assert_one_place(1)
    assert other.enqueue([new_job()])[0].created


def test_a_bulk_that_fails_inside_the_callers_transaction_leaves_none_of_its_rows(jobs: Jobs, storage: Storage) -> None:
    taken = jobs.one()
    with transaction.atomic():
        with pytest.raises(Exception):  # noqa: B017, PT011
            storage.enqueue([new_job(), new_job(), new_job(id=taken)])
        assert JobHot.objects.count() == 1
        storage.enqueue([new_job()])
    assert_one_place(2)


def test_a_claim_answers_only_what_is_still_leased_when_it_reads(jobs: Jobs, other: Storage, storage: Storage) -> None:
    """The rows are read after the commit: what an operator took away in between is not handed out."""
    job_id, taken = jobs.add(2)
    read = other._leased  # type: ignore[attr-defined]

    def late(worker_id: str, places: list[int]) -> Any:
        storage.cancel([taken], "ada")
        return read(worker_id, places)

    other._leased = late  # type: ignore[attr-defined]
    assert ids(Jobs(other).take(start=False)) == [job_id]
    assert row(taken)["place"] == "dlq"


def test_jobs_that_a_claim_leased_and_could_not_read_are_told_when_it_asks_for_them(
    jobs: Jobs, other: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker, added = Jobs(other), jobs.add(3)
    with monkeypatch.context() as patched:
        patched.setattr(other, "_leased", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            worker.take(2)
    assert ids(other.claimed_by(WORKER)) == added[:2]
    assert ids(worker.take(2)) == added[2:], "by one way only: otherwise they would run twice"
    assert worker.take(2) == []


# -- in memory ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def memory() -> Iterator[list[SQLiteStorage]]:
    """Two storages on a shared in-memory database, as a project's own tests have: Django's and a private one."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT sql FROM sqlite_master WHERE tbl_name LIKE 'chokaq%%' AND sql <> '' ORDER BY type DESC", []
        )
        statements = [sql for (sql,) in cursor.fetchall()]
    config = {**connection.settings_dict, "NAME": "file:chokaq_memory?mode=memory&cache=shared", "OPTIONS": {}}
    wrappers = [type(connections["default"])(config, "default") for _ in range(2)]
    for sql in statements:
        wrappers[0].cursor().execute(sql)
    yield [SQLiteStorage(wrappers[0], private=False), SQLiteStorage(wrappers[1], private=True)]
    for wrapper in wrappers:
        if wrapper.connection is not None:
            wrapper.connection.close()  # Django would not: the last one takes the database with it


@pytest.mark.parametrize("worker", [0, 1], ids=["on one connection", "on a private one"])
def test_a_shared_database_in_memory_works_in_one_thread(memory: list[SQLiteStorage], worker: int) -> None:
    producer, consumer = Jobs(memory[0]), Jobs(memory[worker])
    added = [*producer.add(5), producer.one(idempotency_key="k")]
    jobs = consumer.take(3)
    assert ids(jobs) == added[:3]
    assert consumer.storage.heartbeat(WORKER, [job.lease for job in jobs]).lost == set()
    assert consumer.settle(jobs[:2]) == set(added[:2])
    assert consumer.settle(jobs[2], OutcomeKind.RETRY, delay=60.0) == {added[2]}
    assert ids(consumer.take(10, start=False)) == added[3:]
    assert consumer.storage.cancel([added[3]], "ada").applied == [added[3]]
    wrapper = memory[0].connection
    wrapper.set_autocommit(False)
    memory[0].enqueue([new_job()])
    wrapper.rollback()
    wrapper.set_autocommit(True)
    assert wrapper.cursor().execute("SELECT COUNT(*) FROM chokaq_job_hot").fetchone()[0] == 3


# -- several processes -------------------------------------------------------------------------------------------------


@contextmanager
def drainers(count: int, batch: int) -> Iterator[list[subprocess.Popen[str]]]:
    """Processes that claim and settle until nothing is due; they start together."""
    env = {**os.environ, "DJANGO_SETTINGS_MODULE": "tests.settings", "DATABASE_URL": database_url()}
    command = [sys.executable, "-m", "tests.storage.drainer", str(batch)]
    started = [
        subprocess.Popen(command, cwd=ROOT, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for _ in range(count)
    ]
    try:
        for process in started:
            assert process.stdout
            assert process.stdout.readline() == "ready\n"
        for process in started:
            assert process.stdin
            process.stdin.write("go\n")
            process.stdin.flush()
        yield started
    finally:
        for process in started:
            process.kill()
            process.communicate()


def result(process: subprocess.Popen[str]) -> list[str]:
    output, _ = process.communicate(timeout=120)
    assert process.returncode == 0
    return list(json.loads(output))


def test_two_processes_never_run_a_job_twice(storage: Storage) -> None:
    given = [new_job(queue=f"q{n % 3}", priority=n % 2) for n in range(3_000)]
    storage.enqueue(given)
    with drainers(2, 7) as processes:
        done = [result(process) for process in processes]
    assert all(done), "both had a share"
    assert sorted(done[0] + done[1]) == sorted(job.id for job in given)
    assert JobArchive.objects.count() == 3_000
    assert_one_place(3_000)


@pytest.mark.slow
def test_the_web_writes_while_two_workers_drain(storage: Storage) -> None:
    """Its inserts, by an enqueue, a transaction and the ORM alone, all get through before the workers are done."""
    for _ in range(16):
        storage.enqueue([new_job() for _ in range(5_000)])
    written: list[NewJob] = []
    with drainers(2, 200) as processes:
        for number in range(20):
            written += [new_job(queue="web", delay=3600), new_job(queue="web", delay=3600)]
            storage.enqueue(written[-2:-1])
            with transaction.atomic():
                storage.enqueue(written[-1:])
            AuditEntry.objects.create(id=f"{number:026d}", at=storage.now(), action="test", target="t")
        left = JobHot.objects.exclude(queue="web").count()
        done = [result(process) for process in processes]
    assert left > 0, "the workers were done before the web had its turn 60 times"
    assert len(done[0]) + len(done[1]) == 80_000
    assert JobHot.objects.filter(queue="web").count() == 40
    assert_one_place(80_040)


# -- data_version ------------------------------------------------------------------------------------------------------


@pytest.fixture
def watcher() -> Iterator[SQLiteWatcher]:
    watcher = SQLiteWatcher("default")
    assert watcher.changed(), "at first nothing is known"
    yield watcher
    watcher.close()


def test_a_commit_of_anybody_is_seen_once(watcher: SQLiteWatcher, jobs: Jobs, other: Storage) -> None:
    assert not watcher.changed()
    jobs.one()
    assert watcher.changed()
    assert not watcher.changed()
    other.enqueue([new_job(), new_job()])
    jobs.one()
    assert watcher.changed()
    assert not watcher.changed()


def test_reads_rollbacks_and_idle_polls_are_not_seen(watcher: SQLiteWatcher, jobs: Jobs, other: Storage) -> None:
    transaction.set_autocommit(False)
    jobs.one()
    transaction.rollback()
    transaction.set_autocommit(True)
    Jobs(other).take()
    other.pending_queues()
    assert other.settle(WORKER, []) == set()
    assert not watcher.changed()


class SleepingClock:
    """A clock that goes on only while somebody waits at its event, which nobody sets."""

    now = 1_000.0

    def wait(self, timeout: float) -> bool:
        self.now += timeout
        return False

    def clear(self) -> None:
        pass


def test_commits_that_bring_no_job_do_not_make_a_worker_look_more_often(
    jobs: Jobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker writes its own row every few seconds."""
    waker = SQLiteWaker("default")
    waker.wait(0.01)
    clock = SleepingClock()
    monkeypatch.setattr(waker, "_clock", lambda: clock.now)
    monkeypatch.setattr(waker, "_event", clock)
    looks = 0
    seen = waker._watcher.changed

    def changed() -> bool:
        nonlocal looks
        looks += 1
        return seen()

    monkeypatch.setattr(waker._watcher, "changed", changed)
    jobs.one()
    waker.wait(10.0)
    assert looks == 1, "the commit is seen at once"
    waker.wait(1.0)
    assert looks - 1 in (4, 5), "four a second, and not two hundred"
    waker.busy()
    looks = 0
    waker.wait(1.0)
    assert 200 <= looks <= 201, "two hundred after a job"
    waker.close()


def test_an_open_transaction_is_seen_when_it_commits(watcher: SQLiteWatcher, jobs: Jobs) -> None:
    with transaction.atomic():
        jobs.one()
        assert not watcher.changed()
    assert watcher.changed()


def test_it_opens_again_after_a_close(watcher: SQLiteWatcher, jobs: Jobs) -> None:
    watcher.close()
    assert watcher.changed()
    assert not watcher.changed()
    jobs.one()
    assert watcher.changed()


def test_a_write_that_changes_nothing_wakes_nobody(watcher: SQLiteWatcher, jobs: Jobs, other: Storage) -> None:
    """A settle that finds every lease gone commits, but writes no page."""
    (job,) = jobs.running()
    jobs.settle(job)
    assert watcher.changed()
    other.settle("worker-9", [outcome(job)])
    assert not watcher.changed()


def test_outcome_of_an_old_lease_does_not_hide_the_one_of_the_new(jobs: Jobs, storage: Storage) -> None:
    (old,) = jobs.running()
    jobs.settle(old, OutcomeKind.RETRY, attempt_log="[1]")
    (new,) = jobs.take()
    assert storage.settle(WORKER, [outcome(old), outcome(new)]) == {new.id}
    assert row(new.id)["place"] == "archive"
