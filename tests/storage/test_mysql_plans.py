"""MariaDB and MySQL: what the statements of a worker read stays near the batch, whatever else is in the table.

Counted by the server itself, in rows and index entries handed to the executor (``Handler_read_...``).
"""

from __future__ import annotations

import datetime as dt
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from django.apps import apps
from django.db import connection

from chokaq_django.models import MetricBucket
from chokaq_django.storage import Claim, ClaimedJob, ClaimRequest, OutcomeKind, Storage, open_storage
from chokaq_django.storage.columns import BASE_COLUMNS, DLQ_COLUMNS, names, select
from chokaq_django.storage.deferrals import LOOKED_AT

from .support import WORKER, committed, new_job, outcome, rule, trim

pytestmark = [
    committed,
    pytest.mark.slow,
    pytest.mark.skipif(connection.vendor != "mysql", reason="plans of MariaDB and MySQL"),
]

QUEUES = ["q0", "q1", "q2", "q3"]
PRIORITIES = 3
PAIRS = len(QUEUES) * PRIORITIES
SEEKS = 2 * PAIRS + len(QUEUES)
"""One for each known pair, one for each gap between known priorities of a queue."""
CONTROL = 20
"""Reads of small tables, and of what is handed between the parts of one statement."""
HOT = "chokaq_job_hot"
TABLES = [HOT, "chokaq_job_archive", "chokaq_job_dlq"]
ALL_TABLES = [model._meta.db_table for model in apps.get_app_config("chokaq").get_models()]


@dataclass
class Watched:
    """A worker's storage whose statements are counted."""

    storage: Any
    statements: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        send = self.storage._send

        def sending(sql: str, params: Any = ()) -> Any:
            self.statements.append(sql)
            return send(sql, params)

        self.storage._send = sending

    def reads(self, act: Callable[[Storage], Any]) -> int:
        """How many rows and index entries the statements of ``act`` read."""
        before = self._counters()
        self.statements.clear()
        act(self.storage)
        sent = list(self.statements)
        after = self._counters()
        self.statements = sent
        # Asking for the counters reads them from a table of the server's memory.
        return sum(after[name] - before[name] for name in before) - self._own

    def _counters(self) -> dict[str, int]:
        rows = self.storage._query("SHOW SESSION STATUS LIKE 'Handler_read%%'")
        return {name: int(value) for name, value in rows}

    def __enter__(self) -> Watched:
        first = self._counters()
        second = self._counters()
        self._own = sum(second[name] - first[name] for name in first)
        return self

    def __exit__(self, *error: object) -> None:
        self.storage.close()


def execute(sql: str, *params: Any) -> None:
    with connection.cursor() as cursor:
        cursor.execute(sql, params)


@pytest.fixture(params=["analyzed", "analyzed while empty"])
def ready(request: pytest.FixtureRequest, transactional_db: None) -> Iterator[Callable[[], Watched]]:
    """Call it when the rows are there: statistics are then as the parameter says."""
    for table in TABLES:
        execute(f"TRUNCATE {table}")
    execute(f"ALTER TABLE {HOT} STATS_AUTO_RECALC = 0")
    analyze()
    storage = open_storage()

    def make_ready() -> Watched:
        if request.param == "analyzed":
            analyze()
        for table in ALL_TABLES:
            # MySQL counts what it reads of its own dictionary when it opens a table: some 120 entries each.
            storage._query(f"SELECT 1 FROM {table} LIMIT 0")  # type: ignore[attr-defined]  # noqa: S608
        return Watched(storage).__enter__()

    yield make_ready
    storage.close()
    for table in TABLES:
        execute(f"TRUNCATE {table}")
    execute(f"ALTER TABLE {HOT} STATS_AUTO_RECALC = DEFAULT")
    analyze()


def analyze() -> None:
    with connection.cursor() as cursor:
        cursor.execute(f"ANALYZE TABLE {HOT}")
        cursor.fetchall()


def fill(count: int, *, run_at: str, first: int = 0, job_type: str = "t.v1", status: int = 0) -> None:
    """``count`` rows over all queues and priorities; ``run_at``: SQL that may use ``i``."""
    digits = "(SELECT 0 d UNION ALL " + " UNION ALL ".join(f"SELECT {d}" for d in range(1, 10)) + ")"
    numbers = " CROSS JOIN ".join(f"{digits} d{place}" for place in range(6))
    number = " + ".join(f"d{place}.d * {10**place}" for place in range(6))
    execute(
        f"""
        INSERT INTO {HOT} (id, queue, type, schema_version, payload, tags, priority, attempt, max_attempts, crash_count,
            snooze_count, claim_number, generation, revision, created_at, run_at, due_at, headers, attempt_log, status,
            updated_at, worker_id, started_at, heartbeat_at)
        SELECT CONCAT('X', LPAD(i, 25, '0')), CONCAT('q', i MOD 4), %s, 1, REPEAT('x', 120), '[]',
            10 * (1 + i DIV 4 MOD 3), 0, 3, 0, 0, 1, 0, 0, UTC_TIMESTAMP(6), {run_at}, {run_at}, '{{}}', '[]', %s,
            UTC_TIMESTAMP(6), %s, UTC_TIMESTAMP(6), UTC_TIMESTAMP(6)
        FROM (SELECT {number} AS i FROM {numbers}) s WHERE i >= %s AND i < %s ORDER BY i
        """,  # noqa: S608
        job_type, status, "foreign" if status else None, first, first + count,
    )  # fmt: skip


def at(seconds: str, unit: str = "SECOND") -> str:
    return f"UTC_TIMESTAMP(6) + INTERVAL ({seconds}) {unit}"


def claim(storage: Storage, limit: int, **named: Any) -> Claim:
    return storage.claim(ClaimRequest(WORKER, QUEUES, limit, **named))


def cycle(storage: Storage, jobs: list[ClaimedJob]) -> None:
    leases = [job.lease for job in jobs]
    storage.heartbeat(WORKER, leases)
    storage.progress(WORKER, dict.fromkeys(leases, (50, None)))
    storage.cancel_requests(leases)
    kinds = [OutcomeKind.RETRY, OutcomeKind.DEAD, OutcomeKind.SUCCEEDED]
    outcomes = [outcome(job, kinds[i % 3], delay=3600.0) for i, job in enumerate(jobs)]
    assert storage.settle(WORKER, outcomes) == {job.id for job in jobs}


def test_future_rows_are_not_read(ready: Callable[[], Watched]) -> None:
    fill(200_000, run_at=at("3600 + i / 1000"))
    watched = ready()
    answers: list[Claim] = []
    watched.reads(lambda storage: claim(storage, 10))  # learns which priorities there are
    for start in (True, False):
        reads = watched.reads(lambda storage, start=start: answers.append(claim(storage, 10, start=start)))  # type: ignore[misc]
        assert reads <= SEEKS + CONTROL
        assert len(watched.statements) == 1, "one statement per idle poll"
        assert answers[-1].jobs == []
        assert answers[-1].next_due is not None
        assert 3500 < answers[-1].next_due < 3700
    watched.reads(lambda storage: storage.pending_queues())
    assert watched.reads(lambda storage: storage.pending_queues()) <= 2 * len(QUEUES) + CONTROL
    assert len(watched.statements) == 1


@pytest.mark.parametrize("batch", [1, 10, 100])
def test_a_claim_and_its_settle_read_about_their_batch(ready: Callable[[], Watched], batch: int) -> None:
    fill(30_000, run_at=at("-3600000000 + i", "MICROSECOND"))
    fill(30_000, run_at=at("3600"), first=30_000)
    fill(5_000, run_at=at("-3600"), first=60_000, status=2)
    watched = ready()
    watched.storage._look(QUEUES)
    jobs: list[ClaimedJob] = []
    reads = watched.reads(lambda storage: jobs.extend(claim(storage, batch).jobs))
    assert [job.id for job in jobs] == [f"X{4 * (3 * (i // 4) + 2) + i % 4:025d}" for i in range(batch)]
    # How many are where (read, merged, counted), the rows with their index entries, and once more for the update.
    assert reads <= SEEKS + CONTROL + 4 * len(QUEUES) * batch + 5 * batch
    assert watched.reads(lambda storage: cycle(storage, jobs)) <= 30 * batch + 3 * CONTROL


def test_leases_are_started_and_released_by_their_ids(ready: Callable[[], Watched]) -> None:
    fill(30_000, run_at=at("-3600"))
    fill(5_000, run_at=at("-3600"), first=30_000, status=1)
    watched = ready()
    jobs = claim(watched.storage, 10, start=False).jobs
    leases = [job.lease for job in jobs]
    assert watched.reads(lambda storage: storage.start(WORKER, leases[:5])) <= 5 * 4 + CONTROL
    assert watched.reads(lambda storage: storage.release(WORKER, leases[5:])) <= 5 * 4 + CONTROL


def test_a_long_blocked_head_costs_each_claim_a_bounded_look(ready: Callable[[], Watched]) -> None:
    """100,000 rows of an open circuit before everything else."""
    fill(100_000, run_at=at("-3600000000 + i", "MICROSECOND"), job_type="b.v1")
    fill(400, run_at=at("-60"), first=100_000, job_type="free.v1")
    watched = ready()
    deferred, began = 0, time.monotonic()
    for _ in range(3):
        answers: list[Claim] = []
        reads = watched.reads(lambda storage: answers.append(claim(storage, 10, blocked={"b.v1": 30.0})))  # noqa: B023
        deferred += answers[0].deferred
        assert 0 < answers[0].deferred <= 1_010
        assert reads <= 12 * 1_010
        assert not answers[0].jobs
    with connection.cursor() as cursor:
        cursor.execute(
            f"SELECT COUNT(*), TIMESTAMPDIFF(SECOND, UTC_TIMESTAMP(), MIN(run_at)), "  # noqa: S608
            f"TIMESTAMPDIFF(SECOND, UTC_TIMESTAMP(), MAX(run_at)) FROM {HOT} WHERE run_at > UTC_TIMESTAMP(6)"
        )
        moved, soonest, latest = cursor.fetchone()
    assert moved == deferred
    assert 28 - (time.monotonic() - began) < soonest <= 30, "whole seconds"
    assert latest > 200, "the tail is spread far beyond the one probe that is needed"
    moved_back: list[int] = []
    reads = watched.reads(lambda storage: moved_back.append(storage.advance(QUEUES, ["b.v1"], 30.0, 100)))
    assert moved_back == [100]
    assert reads <= SEEKS + CONTROL + 6 * 100


def test_looking_for_deferred_jobs_between_many_that_are_not_is_bounded(ready: Callable[[], Watched]) -> None:
    fill(60_000, run_at=at("30"))
    watched = ready()
    watched.storage._look(QUEUES)
    reads = watched.reads(lambda storage: storage.advance(QUEUES, ["b.v1"], 30.0, 100))
    assert reads <= SEEKS + CONTROL + 3 * LOOKED_AT / 2
    assert max(sql.count("FOR UPDATE") for sql in watched.statements) == 0


def test_trimming_reads_rows_that_another_rule_keeps_once(ready: Callable[[], Watched]) -> None:
    fill(20_000, run_at=at("-3600"))
    dead = {
        "failure_reason": "2 * MOD(CRC32(id), 2)", "failed_at": "run_at", "note": "''",
    }  # fmt: skip
    columns = [column for column in DLQ_COLUMNS if column in BASE_COLUMNS or column in dead]
    execute(f"INSERT INTO {TABLES[2]} ({names(columns)}) SELECT {select(columns, dead)} FROM {HOT}")  # noqa: S608
    watched = ready()
    trimmed: list[int] = []
    keeping, deleting = rule("dlq", 60.0, failure_reason=[0, 2]), rule("dlq", 60.0, "failure_reason", 2)
    trim(watched.storage, keeping, 1_000)
    reads = watched.reads(lambda storage: trimmed.append(trim(storage, keeping)))
    assert trimmed == [0]
    assert reads <= CONTROL, "they have been read once"
    reads = watched.reads(lambda storage: trimmed.append(storage.trim(deleting, 100).removed))
    assert trimmed == [0, 100]
    assert reads <= 12 * 100 + CONTROL


def test_a_capped_queue_is_counted_by_its_live_rows(ready: Callable[[], Watched]) -> None:
    fill(60_000, run_at=at("-3600"))
    execute("INSERT INTO chokaq_queue (name, is_paused, is_active, updated_at) VALUES ('q0', 0, 1, UTC_TIMESTAMP(6))")
    watched = ready()
    watched.storage._look(QUEUES)
    answers: list[Claim] = []
    reads = watched.reads(lambda storage: answers.append(claim(storage, 20, capped={"q0": 3})))
    assert sum(job.queue == "q0" for job in answers[0].jobs) == 3
    assert len(answers[0].jobs) == 20
    assert reads <= 2 * SEEKS + 2 * CONTROL + 4 * len(QUEUES) * 20


def test_retention_and_rescue_read_what_they_handle(ready: Callable[[], Watched]) -> None:
    fill(20_000, run_at=at("0"), status=0)
    common = ", ".join(BASE_COLUMNS)
    execute(
        f"INSERT INTO chokaq_job_archive ({common}, finished_at, duration_ms, wait_ms) "  # noqa: S608
        f"SELECT {common}, UTC_TIMESTAMP(6) - INTERVAL 1 DAY, 1, 1 FROM {HOT}"
    )
    fill(50, run_at=at("0"), first=20_000, status=2)
    watched = ready()
    reads = watched.reads(lambda storage: storage.trim(rule("archive", 3600.0), 100))
    # A DELETE by a join: MySQL first gathers where the rows are, and reads each of them once more.
    again = 0 if connection.mysql_is_mariadb else 1  # type: ignore[attr-defined]
    assert reads <= (5 + again) * 100 + CONTROL
    assert watched.reads(lambda storage: storage.live_rows()) <= 2 * 50 + CONTROL
    assert watched.reads(lambda storage: storage.expire(100)) <= CONTROL


def test_rolling_up_reads_what_it_takes(ready: Callable[[], Watched]) -> None:
    now = dt.datetime.now(dt.UTC)
    MetricBucket.objects.bulk_create(
        (
            MetricBucket(at=now - dt.timedelta(seconds=10 * (number // 5)), series=f"{number % 5:032}", queue="q",
                         type=f"t{number % 5}", outcome=0, shard="w", count=1)
            for number in range(5_000)
        ),
        batch_size=500,
    )  # fmt: skip
    execute("ANALYZE TABLE chokaq_metric_bucket")
    watched = ready()
    assert watched.reads(lambda storage: storage.roll_up(3600.0, 100)) <= 10 * 100 + CONTROL
    assert MetricBucket.objects.count() == 4_900


def test_a_claim_locks_few_rows_beyond_its_own(ready: Callable[[], Watched]) -> None:
    """What it locks and does not take, others pass over."""
    fill(4_000, run_at=at("-3600000000 + i", "MICROSECOND"))
    watched = ready()
    locked: list[int] = []
    send = watched.storage._send

    def sending(sql: str, params: Any = ()) -> Any:
        if sql == "COMMIT":
            with connection.cursor() as cursor:
                cursor.execute(
                    "SELECT trx_rows_locked FROM information_schema.innodb_trx WHERE trx_mysql_thread_id = %s",
                    [watched.storage.connection.connection.thread_id()],
                )
                locked.append(cursor.fetchone()[0])
        return send(sql, params)

    watched.storage._send = sending
    assert len(claim(watched.storage, 100).jobs) == 100
    # Each row in the claim's index and in the table, and what the update adds to the index.
    assert locked[0] <= 4 * 100


def test_a_plain_enqueue_is_one_statement(ready: Callable[[], Watched]) -> None:
    watched = ready()
    watched.reads(lambda storage: storage.enqueue([new_job()]))
    assert len(watched.statements) == 1
    watched.reads(lambda storage: storage.enqueue([new_job(idempotency_key="k")]))
    assert len(watched.statements) == 1
    watched.reads(lambda storage: storage.enqueue([new_job() for _ in range(500)]))
    assert len(watched.statements) == 3, "begin, insert, commit"
