"""SQLite: what a statement reads, in steps of its virtual machine, and how long a transaction is, in statements.

A step is one instruction of a compiled statement; reading a row takes some ten to thirty of them. Unlike a time it is
the same on every machine.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from django.db import connection

from chokaq_django.models import JobArchive
from chokaq_django.storage import ClaimRequest, Lease, OutcomeKind, Storage, open_storage

from .support import WORKER, Jobs, committed, leases, new_job, outcome, rule, trim

pytestmark = [committed, pytest.mark.skipif(connection.vendor != "sqlite", reason="plans of SQLite")]

QUEUES = ["q0", "q1", "q2", "q3"]
BLOCKED = "partner.call.v1"
LOOKED_BEYOND = 1_000
"""Rows that a claim inspects beyond its limit, at most."""

FILL = """
WITH RECURSIVE n (i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i + 1 < {count})
INSERT INTO chokaq_job_hot
  (id, queue, type, schema_version, payload, tags, priority, attempt, max_attempts, crash_count, snooze_count,
   claim_number, generation, revision, created_at, run_at, due_at, headers, attempt_log, status, updated_at)
SELECT printf('{prefix}%025d', i), 'q' || (i % {queues}), '{type}', 1, '{{}}', '[]',
       {priority} + 10 * (i / {queues} % {levels}), 0, 3, 0, 0, 0, 0, 0, '{at}', '{at}', '{at}', '{{}}', '[]', 0, '{at}'
FROM n
"""
PAST, FUTURE = "2020-01-01 00:00:00.000000", "2099-01-01 00:00:00.000000"


def fill(count: int, at: str = PAST, *, prefix: str = "A", queues: int = 4, levels: int = 3, priority: int = 0,
         type_: str = "email.send.v1") -> None:  # fmt: skip
    """Pending rows in ``queues`` queues and ``levels`` priorities, all alike otherwise."""
    with connection.cursor() as cursor:
        sql = FILL.format(
            count=count, at=at, prefix=prefix, queues=queues, levels=levels, priority=priority, type=type_
        )
        cursor.execute(sql)


@pytest.fixture
def raw(other: Storage) -> sqlite3.Connection:
    """The driver's connection under ``other``, a private storage."""
    return other._raw()  # type: ignore[attr-defined, no-any-return]


@pytest.fixture
def steps(raw: sqlite3.Connection) -> Callable[[Callable[[], Any]], int]:
    """``steps(work)``: how many steps the statements of ``work`` take on that connection, to the next 10."""

    def count(work: Callable[[], Any]) -> int:
        counted = 0

        def tick() -> None:
            nonlocal counted
            counted += 10

        raw.set_progress_handler(tick, 10)
        try:
            work()
        finally:
            raw.set_progress_handler(None, 0)
        return counted

    return count


@contextmanager
def traced(raw: sqlite3.Connection) -> Iterator[list[str]]:
    """The statements that run meanwhile, with their values."""
    found: list[str] = []
    raw.set_trace_callback(found.append)
    try:
        yield found
    finally:
        raw.set_trace_callback(None)


def claim(storage: Storage, limit: int = 10, **request: Any) -> Any:
    return storage.claim(ClaimRequest(WORKER, QUEUES, limit, **request))


def empty() -> None:
    with connection.cursor() as cursor:
        cursor.execute("DELETE FROM chokaq_job_hot")


@pytest.fixture(params=["never analyzed", "analyzed while empty", "analyzed"])
def statistics(request: pytest.FixtureRequest) -> Iterator[Callable[[str], None]]:
    """Plans follow statistics; what a claim reads must not. Call it with the moment that it is now."""

    def moment(now: str) -> None:
        if request.param == now:
            with connection.cursor() as cursor:
                cursor.execute("ANALYZE")

    yield moment
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE")  # so that the table of statistics exists
        cursor.execute("DELETE FROM sqlite_stat1")


def test_an_idle_poll_does_not_read_future_rows(
    other: Storage, steps: Callable[..., int], statistics: Callable[[str], None]
) -> None:
    statistics("analyzed while empty")
    fill(240, FUTURE)
    few = steps(lambda: claim(other))
    empty()
    fill(200_000, FUTURE)
    statistics("analyzed")
    many = steps(lambda: claim(other))
    assert many < 1.2 * few + 100
    assert claim(other).jobs == []
    assert claim(other).next_due > 0


@pytest.mark.parametrize("limit", [1, 10, 100])
def test_a_claim_reads_its_batch_and_not_the_backlog(
    other: Storage, steps: Callable[..., int], limit: int, statistics: Callable[[str], None]
) -> None:
    statistics("analyzed while empty")
    fill(1_200)
    few = steps(lambda: claim(other, limit))
    empty()
    fill(100_000)
    fill(100_000, FUTURE, prefix="F")
    statistics("analyzed")
    many = steps(lambda: claim(other, limit))
    assert many < 1.2 * few + 100
    assert len(claim(other, limit).jobs) == limit


def test_due_rows_behind_future_ones_cost_no_more(other: Storage, steps: Callable[..., int]) -> None:
    fill(100, levels=1)
    alone = steps(lambda: claim(other, 10))
    empty()
    fill(100_000, FUTURE, prefix="F", priority=50, levels=1)
    fill(100, levels=1)
    assert steps(lambda: claim(other, 10)) < 2 * alone + 500


def test_a_blocked_head_is_read_in_bounded_parts(other: Storage, steps: Callable[..., int]) -> None:
    request = {"blocked": {BLOCKED: 60.0}}
    fill(2_000, type_=BLOCKED, priority=50)
    few = steps(lambda: claim(other, 10, **request))
    empty()
    fill(100_000, type_=BLOCKED, priority=50)
    fill(100, prefix="B")
    deferred = 0

    def first() -> None:
        nonlocal deferred
        deferred = claim(other, 10, **request).deferred

    many = steps(first)
    assert 0 < deferred <= 10 + LOOKED_BEYOND
    assert many < 1.2 * few + 1_000


def test_rows_in_flight_and_awaiting_are_not_in_the_way(other: Storage, steps: Callable[..., int]) -> None:
    fill(100, levels=1)
    alone = steps(lambda: claim(other, 10))
    empty()
    fill(50_000, prefix="W", levels=1)
    with connection.cursor() as cursor:
        cursor.execute("UPDATE chokaq_job_hot SET status = 2, worker_id = 'elsewhere'")
        cursor.execute("UPDATE chokaq_job_hot SET status = 7 WHERE rowid %% 2", [])
    fill(100, levels=1)
    assert steps(lambda: claim(other, 10)) < 1.2 * alone + 100


def test_a_settle_reads_its_batch_only(other: Storage, steps: Callable[..., int]) -> None:
    def settle(kind: OutcomeKind, count: int) -> int:
        start = kind is not OutcomeKind.EXPIRED
        jobs = claim(other, count, start=start).jobs
        return steps(lambda: other.settle(WORKER, [outcome(job, kind) for job in jobs]))

    fill(600)
    few = {kind: settle(kind, 20) for kind in OutcomeKind}
    empty()
    fill(100_000)
    with connection.cursor() as cursor:
        cursor.execute(
            "UPDATE chokaq_job_hot SET status = 2, worker_id = %s WHERE id < %s", [WORKER, f"A{50_000:025d}"]
        )
    for kind, expected in few.items():
        assert settle(kind, 20) < 1.2 * expected + 200, kind


def test_naming_the_pending_queues_reads_a_row_of_each(other: Storage, steps: Callable[..., int]) -> None:
    fill(40)
    few = steps(other.pending_queues)
    fill(100_000, prefix="B")
    assert steps(other.pending_queues) < 1.2 * few + 100
    assert other.pending_queues() == QUEUES


# -- plans -------------------------------------------------------------------------------------------------------------


ALLOWED = {
    "SCAN CONSTANT ROW",
    # The few rows of the recursive queries, and of the queues that are controlled.
    "SCAN p",
    "SCAN q",
    # The first queue that has Pending rows: the first entry of the index. Its steps are counted above.
    "SCAN chokaq_job_hot USING INDEX chokaq_hot_claim",
}


def test_no_statement_of_the_hot_path_reads_a_whole_table(other: Storage, raw: sqlite3.Connection, jobs: Jobs) -> None:
    with traced(raw) as statements:
        for kind in OutcomeKind:
            unstarted = kind in (OutcomeKind.EXPIRED, OutcomeKind.UNSTARTED_DEAD)
            other.enqueue([new_job(idempotency_key=kind.value), new_job(), new_job()])
            other.enqueue([new_job(idempotency_key=kind.value)])
            found = other.claim(ClaimRequest(WORKER, ["mail"], 10, start=False)).jobs
            if not unstarted:
                other.start(WORKER, leases(found))
                other.heartbeat(WORKER, leases(found))
                other.cancel_requests(leases(found))
                other.progress(WORKER, {job.lease: (5, "x") for job in found})
            other.settle(WORKER, [outcome(job, kind, delay=60.0) for job in found])
            other.settle(WORKER, [outcome(job, kind, delay=60.0) for job in found])
        other.release(WORKER, [Lease("A" * 26, 1)])
        other.pending_queues()
        other.claim(ClaimRequest(WORKER, ["mail"], 10, capped={"mail": 2}, blocked={"x.v1": 5.0}))
        other.cancel([new_job().id], "ada")
    asked = [sql for sql in statements if sql.split(None, 1)[0] in ("SELECT", "INSERT", "UPDATE", "DELETE", "WITH")]
    assert len(set(asked)) > 50
    for sql in asked:
        for *_, detail in raw.execute(f"EXPLAIN QUERY PLAN {sql}"):
            bounded = detail in ALLOWED or "VIRTUAL TABLE" in detail or detail.startswith("SCAN (subquery-")
            assert bounded or not detail.startswith("SCAN "), f"{detail}: {sql}"


# -- the length of transactions ----------------------------------------------------------------------------------------


def written(statements: list[str]) -> list[list[str]]:
    """The statements of each transaction, without BEGIN and COMMIT."""
    found: list[list[str]] = []
    inside = False
    for sql in statements:
        if sql == "BEGIN IMMEDIATE":
            found.append([])
            inside = True
        elif sql == "COMMIT":
            inside = False
        elif inside:
            found[-1].append(sql)
    return found


@pytest.mark.parametrize("count", [1, 200])
def test_a_transaction_has_a_few_statements_whatever_its_size(
    other: Storage, raw: sqlite3.Connection, count: int
) -> None:
    """Each is one step to its result: no row is fetched while the file is locked."""
    with traced(raw) as statements:
        other.enqueue([new_job() for _ in range(count)])
        jobs = other.claim(ClaimRequest(WORKER, ["mail"], count)).jobs
        other.heartbeat(WORKER, leases(jobs))
        other.settle(WORKER, [outcome(job) for job in jobs])
    lengths = [len(transaction) for transaction in written(statements)]
    # In order: enqueue (one row needs no BEGIN); find and lease; find and beat; archive, delete, count.
    assert lengths == ([1] if count > 1 else []) + [2, 2, 3]


def test_successes_are_settled_without_a_look_unless_a_lease_is_gone(other: Storage, raw: sqlite3.Connection) -> None:
    other.enqueue([new_job() for _ in range(3)])
    jobs = other.claim(ClaimRequest(WORKER, ["mail"], 3)).jobs
    outcomes = [outcome(job) for job in jobs]
    outcomes[0].claim_number += 1
    with traced(raw) as statements:
        assert other.settle(WORKER, outcomes) == {job.id for job in jobs[1:]}
    assert statements.count("BEGIN IMMEDIATE") == 2
    assert statements.count("COMMIT") == 1


def test_every_kind_of_outcome_at_once_is_still_one_transaction(other: Storage, raw: sqlite3.Connection) -> None:
    running = [kind for kind in OutcomeKind if kind not in (OutcomeKind.EXPIRED, OutcomeKind.UNSTARTED_DEAD)]
    other.enqueue([new_job() for _ in range(50)])
    jobs = other.claim(ClaimRequest(WORKER, ["mail"], 50)).jobs
    outcomes = [outcome(job, running[number % len(running)], delay=60.0) for number, job in enumerate(jobs)]
    with traced(raw) as statements:
        other.settle(WORKER, outcomes)
    (transaction,) = written(statements)
    assert len(transaction) == 7
    assert sum("chokaq_failure_group" in sql for sql in transaction) == 1


def test_an_idle_poll_is_one_statement_and_no_transaction(raw: sqlite3.Connection, other: Storage, jobs: Jobs) -> None:
    jobs.one(delay=3600)
    with traced(raw) as statements:
        assert other.claim(ClaimRequest(WORKER, ["mail"], 10)).jobs == []
        constrained = other.claim(ClaimRequest(WORKER, ["mail"], 10, capped={"mail": 2}, blocked={"x.v1": 5.0}))
    assert constrained.jobs == []
    assert [sql.split(None, 1)[0] for sql in statements] == ["WITH", "WITH"]


def test_the_writers_of_other_connections_do_not_stop_an_idle_poll(other: Storage) -> None:
    holder = open_storage()
    try:
        with holder._transaction():  # type: ignore[attr-defined]
            assert other.claim(ClaimRequest(WORKER, ["mail"], 10)).jobs == []
            assert other.pending_queues() == []
            assert other.expire(10) == 0
    finally:
        holder.close()


@pytest.mark.parametrize("column", [None, "queue", "type", "failure_reason"])
def test_retention_goes_along_the_index_of_its_rule(
    other: Storage, raw: sqlite3.Connection, column: str | None
) -> None:
    value = {None: None, "queue": "mail", "type": "a.v1", "failure_reason": 11}[column]
    one = rule("dlq", 60.0, column, value)
    with traced(raw) as statements:
        trim(other, one)
    (read,) = [sql for sql in statements if "chokaq_job_dlq" in sql]
    plan = [row[3] for row in raw.execute(f"EXPLAIN QUERY PLAN {read}")]
    index = {None: "time", "failure_reason": "reason"}.get(column, column)
    own = "" if column is None else f"{column}=? AND "
    assert f"SEARCH chokaq_job_dlq USING INDEX chokaq_dlq_{index} ({own}failed_at>? AND failed_at<?)" in plan


def test_a_second_pass_reads_nothing_of_what_stays(
    other: Storage, jobs: Jobs, steps: Callable[[Callable[[], Any]], int]
) -> None:
    archived = jobs.archived(200)
    jobs.shift(archived, JobArchive, finished_at=-7_200)
    one = rule("archive", 60.0, type=["email.send.v1"])
    first, second = steps(lambda: trim(other, one)), steps(lambda: trim(other, one))
    assert first > 200 * 20
    assert second < 1_000
