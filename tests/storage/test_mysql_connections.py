"""MariaDB and MySQL: connections lost at any moment, deadlocks and lock timeouts, what a worker's session is like."""

from __future__ import annotations

import datetime as dt
import itertools
import threading
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest
from django.db import OperationalError, connection, connections, transaction

from chokaq_django.job.failures import FailureReason
from chokaq_django.models import JobArchive, JobDLQ, JobHot, MetricBucket, Queue
from chokaq_django.storage import ClaimRequest, OutcomeKind, Storage, get_storage, open_storage
from chokaq_django.storage.contract import RescueAction
from chokaq_django.storage.mysql import MySQLStorage, session

from ..helpers import wait_until
from .invariants import assert_one_place
from .support import (
    INNODB,
    LOG,
    PROCESSING,
    WORKER,
    Jobs,
    Pace,
    committed,
    keep_claiming,
    keep_trying,
    new_job,
    outcome,
    row,
    rule,
    run_in_thread,
    trim,
    waiting,
)

pytestmark = [committed, pytest.mark.skipif(connection.vendor != "mysql", reason="MariaDB's and MySQL's connections")]

Killer = Callable[[Callable[[], int]], None]


@pytest.fixture
def own(other: Storage) -> MySQLStorage:
    """A worker's storage."""
    assert isinstance(other, MySQLStorage)
    return other


def number_of(storage: MySQLStorage) -> int:
    return int(storage._query("SELECT CONNECTION_ID()")[0][0])


# -- lost connections --------------------------------------------------------------------------------------------------


@pytest.fixture
def killer() -> Iterator[Killer]:
    """Call it to start killing the connections of workers to this database, until the test ends; with what tells how
    far they are."""
    stop = threading.Event()
    by = connections.create_connection("default")
    by.inc_thread_sharing()
    with connection.cursor() as cursor:
        cursor.execute("SELECT CONNECTION_ID()")
        (spared,) = cursor.fetchone()

    def kill(progress: Callable[[], int]) -> None:
        pace = Pace(0.05, progress)
        while not stop.wait(pace.pause()):
            with by.cursor() as cursor:
                cursor.execute(
                    "SELECT id FROM information_schema.processlist WHERE db = DATABASE() AND id <> CONNECTION_ID() "
                    "AND id <> %s",
                    [spared],
                )
                for (number,) in cursor.fetchall():
                    try:
                        cursor.execute("KILL %s", [number])
                    except OperationalError:  # it has ended meanwhile
                        continue

    threads: list[threading.Thread] = []

    def start(progress: Callable[[], int]) -> None:
        threads.append(threading.Thread(target=kill, args=(progress,)))
        threads[0].start()

    yield start
    stop.set()
    for thread in threads:
        thread.join()
    by.close()


@pytest.mark.slow
def test_nothing_is_lost_or_doubled_while_connections_are_killed(killer: Killer, own: MySQLStorage) -> None:
    ids: list[str] = []
    done: list[str] = []
    killer(lambda: len(ids) + len(done))
    for round_ in itertools.count():
        if round_ >= 40 and own._retrier.errors > 5:
            break
        rows = [new_job(idempotency_key=f"{round_}-{i}" if i % 2 else None) for i in range(1 + round_ % 7)]
        answers = keep_trying(partial(own.enqueue, rows))
        assert [(answer.id, answer.created) for answer in answers] == [(given.id, True) for given in rows]
        ids += [given.id for given in rows]
    assert sorted(JobHot.objects.values_list("pk", flat=True)) == sorted(ids)
    while len(done) < len(ids):
        jobs = keep_claiming(own, 7)
        kinds = [OutcomeKind.SUCCEEDED, OutcomeKind.DEAD]
        outcomes = [outcome(job, kinds[i % 2]) for i, job in enumerate(jobs)]
        applied = keep_trying(partial(own.settle, WORKER, outcomes)) if outcomes else set()
        assert applied == {job.id for job in jobs}
        done += [job.id for job in jobs]
    assert sorted(done) == sorted(ids)
    assert not JobHot.objects.exists()
    assert JobArchive.objects.count() + JobDLQ.objects.count() == len(ids)
    assert sum(MetricBucket.objects.values_list("count", flat=True)) == len(ids)


def lose_commits(storage: MySQLStorage, monkeypatch: pytest.MonkeyPatch, count: int) -> None:
    """The server commits, and the connection ends before it says so, so many times."""
    send = storage._send
    error = storage.connection.Database.OperationalError  # type: ignore[attr-defined]
    left = [None] * count

    def losing(sql: str, params: Any = ()) -> Any:
        answer = send(sql, params)
        if left and sql == "COMMIT":
            left.pop()
            storage.connection.close()
            raise error(2013, "Lost connection to server during query")
        return answer

    monkeypatch.setattr(storage, "_send", losing)
    monkeypatch.setattr(storage._retrier, "sleep", lambda pause: None)


ONCE_OR_FIVE_TIMES = pytest.mark.parametrize("count", [1, 5], ids=["retried", "given up"])


@ONCE_OR_FIVE_TIMES
@pytest.mark.parametrize("restricted", [False, True])
@pytest.mark.parametrize("start", [True, False], ids=["started", "leased"])
def test_a_lost_claim_shows_in_what_the_worker_holds(
    jobs: Jobs, own: MySQLStorage, monkeypatch: pytest.MonkeyPatch, count: int, restricted: bool, start: bool
) -> None:
    ids = jobs.add(10)
    request = ClaimRequest(WORKER, ["mail"], 2, start=start, blocked={"other.v1": 60.0} if restricted else {})
    lose_commits(own, monkeypatch, count)
    if count > 1:
        with pytest.raises(OperationalError):
            own.claim(request)
    else:
        assert [job.id for job in own.claim(request).jobs] == ids[2:4], "the first two went unheard"
    assert own.errors == count
    held = own.claimed_by(WORKER)
    assert [job.id for job in held] == ids[: 10 if count > 1 else 4]
    assert {(job.status, job.attempt, job.claim_number) for job in held} == {(1 + start, int(start), 1)}


def test_jobs_of_a_claim_that_never_committed_are_not_answered(
    jobs: Jobs, own: MySQLStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    (first,) = jobs.add(1)
    send = own._send
    error = own.connection.Database.OperationalError  # type: ignore[attr-defined]

    def losing(sql: str, params: Any = ()) -> Any:
        if sql == "COMMIT":
            own.connection.close()
            raise error(2006, "Server has gone away")
        return send(sql, params)

    with monkeypatch.context() as patch:
        patch.setattr(own, "_send", losing)
        patch.setattr(own._retrier, "sleep", lambda pause: None)
        with pytest.raises(OperationalError):
            own.claim(ClaimRequest(WORKER, ["mail"], 1))
    # The server may take a moment to end what the lost connection began; until then the row is locked.
    taken = wait_until(lambda: jobs.take(1, worker="worker-2"), what="another worker takes it")
    assert taken[0].id == first
    assert own.claim(ClaimRequest(WORKER, ["mail"], 1)).jobs == []


@ONCE_OR_FIVE_TIMES
def test_a_lost_start_shows_in_what_the_worker_holds(
    jobs: Jobs, own: MySQLStorage, monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    fetched = Jobs(own).fetched(3)
    leases = [job.lease for job in fetched]
    lose_commits(own, monkeypatch, count)
    if count > 1:
        with pytest.raises(OperationalError):
            own.start(WORKER, leases)
    else:
        assert own.start(WORKER, leases).started == {}
    assert own.errors == count
    assert [(job.lease, job.status, job.attempt, job.started_at) for job in own.claimed_by(WORKER)] == [
        (job.lease, PROCESSING, 1, row(job.id)["started_at"]) for job in fetched
    ]


@ONCE_OR_FIVE_TIMES
@pytest.mark.parametrize("kind", [OutcomeKind.SUCCEEDED, OutcomeKind.DEAD, OutcomeKind.RETRY, OutcomeKind.SNOOZED])
def test_a_lost_settle_finds_its_own_work(
    jobs: Jobs, own: MySQLStorage, monkeypatch: pytest.MonkeyPatch, kind: OutcomeKind, count: int
) -> None:
    running = jobs.running(3)
    outcomes = [outcome(job, kind, delay=60.0) for job in running]
    lose_commits(own, monkeypatch, count)
    if count > 1:
        with pytest.raises(OperationalError):
            own.settle(WORKER, outcomes)
    assert own.settle(WORKER, outcomes) == {job.id for job in running}
    assert sum(MetricBucket.objects.values_list("count", flat=True)) == (0 if kind is OutcomeKind.SNOOZED else 3)
    assert_one_place(3)


@pytest.mark.parametrize("many", [False, True])
@pytest.mark.parametrize("key", [None, "k"])
def test_a_lost_enqueue_is_not_repeated(
    own: MySQLStorage, monkeypatch: pytest.MonkeyPatch, many: bool, key: str | None
) -> None:
    rows = [new_job(idempotency_key=key), *([new_job()] if many else [])]
    send = own._send
    error = own.connection.Database.OperationalError  # type: ignore[attr-defined]
    left = [None]

    def losing(sql: str, params: Any = ()) -> Any:
        answer = send(sql, params)
        if left and (sql == "COMMIT" or (not many and sql.startswith("INSERT"))):
            left.pop()
            raise error(2013, "Lost connection to server during query")
        return answer

    monkeypatch.setattr(own, "_send", losing)
    answers = own.enqueue(rows)
    assert not left
    assert [(answer.id, answer.created) for answer in answers] == [(given.id, True) for given in rows]
    assert_one_place(len(rows))


def test_an_idle_connection_that_the_server_closed_is_opened_again(own: MySQLStorage) -> None:
    number = number_of(own)
    own._send("SET SESSION wait_timeout = 1")

    def gone() -> bool:
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1 FROM information_schema.processlist WHERE id = %s", [number])
            return not cursor.fetchall()

    wait_until(gone, 15, what="the server has closed the connection")
    assert own.pending_queues() == []
    assert number_of(own) != number


def test_a_server_that_became_read_only_is_left_for_a_new_connection(own: MySQLStorage) -> None:
    """A failover: behind the same name, the next connection reaches the new primary."""
    number = number_of(own)
    own._send("SET SESSION TRANSACTION READ ONLY")
    assert own.enqueue([new_job(), new_job()])[0].created
    assert number_of(own) != number
    assert_one_place(2)


def test_a_worker_does_not_wait_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "CLIENT_LIMIT", 1)
    own = open_storage()
    assert isinstance(own, MySQLStorage)
    try:
        assert own.now()
        tries: list[str] = []

        def wait() -> None:
            tries.append("one")
            own._query("SELECT GET_LOCK('held', 60)")

        with connection.cursor() as cursor:
            cursor.execute("SELECT GET_LOCK('held', 0)")
            with pytest.raises(OperationalError):  # the server would answer when the lock is free
                own._single(wait)
            assert tries == ["one"], "and it is not tried again at once"
            assert own.now(), "the next statement has a new connection"
            cursor.execute("SELECT RELEASE_LOCK('held')")
    finally:
        own.close()


# -- locks -------------------------------------------------------------------------------------------------------------


def test_a_deadlock_is_retried_invisibly(jobs: Jobs, own: MySQLStorage) -> None:
    """Somebody locks two jobs in the other order; having written more, it wins."""
    first, second = sorted(jobs.running(2), key=lambda job: job.id)
    waits = waiting(own)
    with transaction.atomic():
        for number in range(50):
            Queue.objects.create(name=f"weight-{number}", updated_at=jobs.now())
        JobHot.objects.select_for_update().get(pk=second.id)
        settled = run_in_thread(lambda: own.settle(WORKER, [outcome(first), outcome(second)]))
        wait_until(waits, what="the settle waits for the second job", interval=INNODB)
        JobHot.objects.select_for_update().get(pk=first.id)
    assert settled() == {first.id, second.id}
    assert own._retrier.errors == 1
    assert sum(MetricBucket.objects.values_list("count", flat=True)) == 2
    assert_one_place(2)


def test_after_a_lock_timeout_the_whole_unit_is_undone(own: MySQLStorage, monkeypatch: pytest.MonkeyPatch) -> None:
    """The server undoes the statement only; without a rollback its first half would be committed with the next try."""
    now = own.now()
    Queue.objects.create(name="held", updated_at=now)
    own._send("SET SESSION innodb_lock_wait_timeout = 1")
    monkeypatch.setattr(own._retrier, "attempts", 2)
    tries = []

    def work() -> None:
        tries.append(own._query("SELECT COUNT(*) FROM chokaq_queue WHERE name = 'half'")[0][0])
        own._insert_unless_there(
            "chokaq_queue", ("name", "is_paused", "is_active", "updated_at"), "%s, 0, 1, UTC_TIMESTAMP(6)", ["half"]
        )
        own._query("SELECT name FROM chokaq_queue WHERE name = 'held' FOR UPDATE")

    with transaction.atomic():
        Queue.objects.select_for_update().get(name="held")
        with pytest.raises(OperationalError, match="1205"):
            run_in_thread(lambda: own._unit(work))()
    assert tries == [0, 0]
    assert list(Queue.objects.values_list("name", flat=True)) == ["held"]
    own._unit(work)
    assert Queue.objects.count() == 2


def test_a_duplicate_in_an_open_transaction_does_not_hold_up_the_holders_worker(jobs: Jobs, own: MySQLStorage) -> None:
    running = jobs.running(2, idempotency_key=None)
    JobHot.objects.filter(pk=running[0].id).update(idempotency_key="k")
    own._send("SET SESSION innodb_lock_wait_timeout = 1")
    with transaction.atomic():
        answers = jobs.storage.enqueue([new_job(idempotency_key="k")])
        answers += jobs.storage.enqueue([new_job(idempotency_key="k"), new_job(idempotency_key="other")])
        assert [answer.id for answer in answers[:2]] == [running[0].id] * 2
        settled = run_in_thread(lambda: own.settle(WORKER, [outcome(job) for job in running]))
        assert settled() == {job.id for job in running}
    assert own._retrier.errors == 0


def change_waiting(**changed: object) -> int:
    """Changes the committed jobs that wait, by their keys: MySQL waits for what others have not committed where it only
    looks for rows of a status."""
    ids = list(JobHot.objects.filter(status=0).values_list("pk", flat=True))
    return sum(JobHot.objects.filter(pk=job_id).update(**changed) for job_id in ids)


OTHERS: dict[str, Callable[[Jobs, MySQLStorage], object]] = {
    "claim": lambda seen, own: len(seen.take(2)) == 2,
    "claim under a cap": lambda seen, own: len(seen.take(2, capped={"mail": 9})) == 2,
    "claim past a blocked type": lambda seen, own: (
        change_waiting(type="x.v1") and seen.claim(2, blocked={"x.v1": 60.0}).deferred
    ),
    "advance": lambda seen, own: (
        change_waiting(run_at=own.now() + dt.timedelta(seconds=20))
        and own.advance(["mail"], ["email.send.v1"], 60.0, 10)
    ),
    "start": lambda seen, own: own.start("w", [job.lease for job in seen.take(2, worker="w", start=False)]).started,
    "release": lambda seen, own: own.release("w", [job.lease for job in seen.take(2, worker="w", start=False)]),
    "heartbeat": lambda seen, own: not own.heartbeat("w", [job.lease for job in seen.take(2, worker="w")]).lost,
    "progress": lambda seen, own: own.progress("w", {job.lease: (1, "x") for job in seen.take(2, worker="w")}),
    "settle": lambda seen, own: seen.settle(seen.take(3, worker="w"), worker="w"),
    "retry": lambda seen, own: seen.settle(seen.take(3, worker="w"), OutcomeKind.RETRY, worker="w"),
    "bury": lambda seen, own: seen.settle(seen.take(3, worker="w"), OutcomeKind.DEAD, worker="w"),
    "cancel": lambda seen, own: own.cancel(list(JobHot.objects.filter(status=0).values_list("pk", flat=True)), "a"),
    "ask to stop": lambda seen, own: own.cancel([job.id for job in seen.take(3, worker="w")], "a").requested,
    "rescue": lambda seen, own: (
        seen.take(3, worker="w")
        and own.rescue([RescueAction(live, to, LOG, reason=FailureReason.ZOMBIE)
                        for live, to in zip(own.live_rows(), ["pending", "dlq", "dlq"], strict=True)])
    ),
}  # fmt: skip


@pytest.mark.parametrize("operation", OTHERS.values(), ids=OTHERS.keys())
def test_rows_that_others_hold_stop_nobody_who_does_not_want_them(
    jobs: Jobs, own: MySQLStorage, operation: Callable[[Jobs, MySQLStorage], object]
) -> None:
    """A web transaction that stays open with its new jobs and a dead one in hand. In a table as small as this one, the
    planner would rather read all rows than seek, and wait for those."""
    (held,) = jobs.dead()
    jobs.dead(2)
    jobs.add(3)
    own._send("SET SESSION innodb_lock_wait_timeout = 1")
    seen = Jobs(own)
    ready, end = threading.Event(), threading.Event()

    def hold() -> None:
        with transaction.atomic():
            get_storage().enqueue([new_job(queue="web"), new_job(queue="web")])
            JobDLQ.objects.select_for_update().get(pk=held)
            ready.set()
            assert end.wait(30)

    holding = run_in_thread(hold)
    assert ready.wait(30)
    try:
        assert operation(seen, own)
        assert own._retrier.errors == 0
        dead = list(JobDLQ.objects.exclude(pk=held).values_list("pk", flat=True))
        assert sorted(own.resurrect(dead, "a").applied) == sorted(dead)
        assert trim(own, rule("dlq", 0.0)) == 0
        assert own._retrier.errors == 0
    finally:
        end.set()
        holding()


# -- the session -------------------------------------------------------------------------------------------------------


def test_a_worker_session_has_settings_of_its_own(own: MySQLStorage) -> None:
    def shown(storage: MySQLStorage, name: str) -> str:
        return str(storage._query(f"SELECT @@SESSION.{name}")[0][0])

    isolation = "tx_isolation" if own.connection.mysql_is_mariadb else "transaction_isolation"  # type: ignore[attr-defined]
    assert shown(own, isolation) == "READ-COMMITTED"
    assert "STRICT_ALL_TABLES" in shown(own, "sql_mode")
    assert shown(own, "innodb_lock_wait_timeout") == "10"
    assert shown(own, "character_set_connection") == shown(own, "character_set_results") == "utf8mb4"
    assert shown(own, "autocommit") == "1"
    with connection.cursor() as cursor:
        cursor.execute("SELECT @@SESSION.innodb_lock_wait_timeout = @@GLOBAL.innodb_lock_wait_timeout")
        assert cursor.fetchone() == (1,), "the caller's connection is left alone"


def test_the_clock_does_not_follow_the_sessions_time_zone(jobs: Jobs, own: MySQLStorage) -> None:
    own._send("SET SESSION time_zone = '+09:00'")
    own.enqueue([new_job(delay=60.0)])
    before, now = jobs.now(), own.now()
    assert before <= now <= jobs.now()
    assert 0 < jobs.claim().next_due <= 60  # type: ignore[operator]
    assert jobs.take() == []
