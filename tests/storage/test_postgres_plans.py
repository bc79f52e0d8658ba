"""PostgreSQL: what the statements of a worker read stays near the batch, whatever else is in the table.

The plans are those of the very statements that the storage sends, as the server reports them (auto_explain), prepared
ones included: a plan made while the table was empty must not read all of it once rows have come.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import psycopg
import pytest
from django.db import connection, connections

from chokaq_django.storage import Claim, ClaimedJob, ClaimRequest, Lease, OutcomeKind, open_storage
from chokaq_django.storage.columns import BASE_COLUMNS
from chokaq_django.storage.postgres import PostgresStorage

from .support import WORKER, committed, new_job, outcome, rule, trim

pytestmark = [
    committed,
    pytest.mark.slow,
    pytest.mark.skipif(connection.vendor != "postgresql", reason="PostgreSQL's plans"),
]

QUEUES = ["q0", "q1", "q2", "q3"]
PRIORITIES = 3
PAIRS = len(QUEUES) * PRIORITIES
HOT = "chokaq_job_hot"


@dataclass
class Plan:
    """One statement as the server ran it. ``rows``: entries of the hot table that were looked at."""

    sql: str
    buffers: int
    rows: int
    sequential: bool
    compared: int
    """Pairs of rows that a join compared and dropped."""


@dataclass
class Watched:
    """A worker's storage whose connection reports the plan of each statement."""

    storage: PostgresStorage
    plans: list[Plan] = field(default_factory=list)

    def watch(self) -> None:
        raw = self.storage._connected()
        raw.add_notice_handler(self._notice)
        try:
            raw.execute("LOAD 'auto_explain'")
        except psycopg.Error as error:
            pytest.skip(f"auto_explain cannot be loaded: {error}")
        for name, value in {
            "auto_explain.log_min_duration": "0", "auto_explain.log_analyze": "on", "auto_explain.log_buffers": "on",
            "auto_explain.log_format": "json", "auto_explain.log_timing": "off", "client_min_messages": "log",
        }.items():  # fmt: skip
            raw.execute("SELECT set_config(%s, %s, false)", [name, value])
        self.plans.clear()

    def _notice(self, diagnostic: Any) -> None:
        text = diagnostic.message_primary or ""
        if "plan:\n" in text:
            report = json.loads(text.partition("plan:\n")[2])
            self.plans.append(_read(report["Query Text"], report["Plan"]))

    def of(self, act: Callable[[PostgresStorage], Any]) -> list[Plan]:
        """The plans of the statements that ``act`` sends about jobs."""
        self.plans.clear()
        act(self.storage)
        return [plan for plan in self.plans if HOT in plan.sql]

    def claim(self, limit: int, **named: Any) -> tuple[Claim, list[Plan]]:
        """A claim and the plans of its statements."""
        answers: list[Claim] = []
        plans = self.of(lambda storage: answers.append(claim(storage, limit, **named)))
        return answers[0], plans


def _read(sql: str, root: dict[str, Any]) -> Plan:
    rows, sequential, compared = 0.0, False, 0.0

    def walk(node: dict[str, Any]) -> None:
        nonlocal rows, sequential, compared
        compared += node.get("Rows Removed by Join Filter", 0) * node["Actual Loops"]
        if "Scan" in node["Node Type"] and (
            node.get("Relation Name") == HOT or node.get("Index Name", "").startswith("chokaq_")
        ):
            removed = node.get("Rows Removed by Filter", 0) + node.get("Rows Removed by Index Recheck", 0)
            rows += (node["Actual Rows"] + removed) * node["Actual Loops"]
            sequential |= node["Node Type"] == "Seq Scan"
        for child in node.get("Plans", []):
            walk(child)

    walk(root)
    return Plan(sql, root["Shared Hit Blocks"] + root["Shared Read Blocks"], round(rows), sequential, round(compared))


@pytest.fixture
def empty() -> Iterator[None]:
    """A table without dead rows, which DELETE would leave, and without statistics."""
    execute(f"TRUNCATE {HOT}, chokaq_job_archive, chokaq_job_dlq")
    execute("DELETE FROM pg_statistic WHERE starelid = %s::regclass", HOT)
    execute(f"ALTER TABLE {HOT} SET (autovacuum_enabled = false)")
    yield
    execute(f"ALTER TABLE {HOT} RESET (autovacuum_enabled)")
    execute(f"TRUNCATE {HOT}, chokaq_job_archive, chokaq_job_dlq")


@pytest.fixture
def watched(transactional_db: None, empty: None) -> Iterator[Watched]:
    storage = open_storage()
    assert isinstance(storage, PostgresStorage)
    yield Watched(storage)
    storage.close()


def execute(sql: str, *params: Any) -> None:
    with connection.cursor() as cursor:
        cursor.execute(sql, params)


def fill(count: int, *, run_at: str, first: int = 0, job_type: str = "t.v1", status: int = 0) -> None:
    """``count`` rows over all queues and priorities; ``run_at``: SQL that may use ``i``."""
    execute(
        f"""
        INSERT INTO {HOT} (id, queue, type, schema_version, payload, tags, priority, attempt, max_attempts, crash_count,
            snooze_count, claim_number, generation, revision, created_at, run_at, due_at, headers, attempt_log, status,
            updated_at, worker_id, started_at, heartbeat_at)
        SELECT 'X' || lpad(i::text, 25, '0'), 'q' || i %% 4, %s, 1, repeat('x', 120), '[]', 10 * (1 + i / 4 %% 3), 0, 3,
            0, 0, 1, 0, 0, now(), {run_at}, {run_at}, '{{}}', '[]', %s, now(), %s, now(), now()
        FROM generate_series(%s::int, %s::int) AS s(i)
        """,  # noqa: S608
        job_type, status, "foreign" if status else None, first, first + count - 1,
    )  # fmt: skip


@pytest.fixture(params=["analyzed", "never analyzed", "planned while empty"])
def ready(request: pytest.FixtureRequest, watched: Watched) -> Callable[[], Watched]:
    """Call it when the rows are there: statistics are then as the parameter says."""
    if request.param == "planned while empty":
        for _ in range(10):  # five custom plans, then the server may keep a generic one
            use_all(watched.storage)
        # Not TRUNCATE: it would have the statements planned anew.
        execute(f"DELETE FROM {HOT}")  # noqa: S608
        execute("DELETE FROM chokaq_queue")

    def make_ready() -> Watched:
        if request.param == "analyzed":
            execute(f"ANALYZE {HOT}")
        watched.watch()
        return watched

    return make_ready


def use_all(storage: PostgresStorage) -> None:
    """Every statement of the hot path once, on two jobs of one queue."""
    storage.enqueue([new_job(queue="q0"), new_job(queue="q0")])
    jobs = claim(storage, 2).jobs
    cycle(storage, jobs)
    storage.claim(ClaimRequest(WORKER, QUEUES, 2, blocked={"b.v1": 30.0}))
    storage.claim(ClaimRequest(WORKER, QUEUES, 2, capped={"q0": 5}))


def claim(storage: PostgresStorage, limit: int, **named: Any) -> Claim:
    return storage.claim(ClaimRequest(WORKER, QUEUES, limit, **named))


def cycle(storage: PostgresStorage, jobs: list[ClaimedJob]) -> None:
    leases = [job.lease for job in jobs]
    storage.heartbeat(WORKER, leases)
    storage.progress(WORKER, dict.fromkeys(leases, (50, None)))
    storage.cancel_requests(leases)
    kinds = [OutcomeKind.RETRY, OutcomeKind.DEAD, OutcomeKind.SUCCEEDED]
    outcomes = [outcome(job, kinds[i % 3], delay=3600.0) for i, job in enumerate(jobs)]
    assert storage.settle(WORKER, outcomes) == {job.id for job in jobs}


def assert_near(plans: list[Plan], rows: int, buffers: int) -> None:
    assert plans
    for plan in plans:
        assert not plan.sequential, plan.sql
        assert plan.rows <= rows, f"{plan.rows} rows read: {plan.sql}"
        assert plan.buffers <= buffers, f"{plan.buffers} buffers read: {plan.sql}"


def test_future_rows_are_not_read(ready: Callable[[], Watched]) -> None:
    fill(200_000, run_at="now() + interval '1 hour' + i * interval '1 millisecond'")
    watched = ready()
    for start in (True, False):
        answer, plans = watched.claim(10, start=start)
        assert answer.jobs == []
        assert answer.next_due is not None
        assert 3500 < answer.next_due < 3700
        assert len(plans) == 1, "one statement per idle poll"
        # To find the pairs, to find nothing due in each, and the next due of each.
        assert_near(plans, rows=4 * PAIRS, buffers=20 * PAIRS)
    assert_near(watched.of(lambda storage: storage.pending_queues()), rows=2 * len(QUEUES), buffers=50)


@pytest.mark.parametrize("batch", [1, 10, 100])
def test_a_claim_and_its_settle_read_about_their_batch(ready: Callable[[], Watched], batch: int) -> None:
    fill(30_000, run_at="now() - interval '1 hour' + i * interval '1 millisecond'")
    fill(30_000, run_at="now() + interval '1 hour'", first=30_000)
    fill(5_000, run_at="now() - interval '1 hour'", first=60_000, status=2)
    watched = ready()
    answer, plans = watched.claim(batch)
    jobs = answer.jobs
    assert [job.id for job in jobs] == [f"X{4 * (3 * (i // 4) + 2) + i % 4:025d}" for i in range(batch)]
    assert len(plans) == 1
    assert_near(plans, rows=4 * PAIRS + len(QUEUES) * batch + 2 * batch, buffers=20 * PAIRS + 40 * len(QUEUES) * batch)
    plans = watched.of(lambda storage: cycle(storage, jobs))
    assert_near(plans, rows=10 * batch, buffers=100 + 120 * batch)


def test_a_burst_of_many_groups_costs_a_settle_as_much_for_each(ready: Callable[[], Watched]) -> None:
    """Hundreds of fingerprints in one batch: no group is compared with the jobs of all others."""
    fill(1_000, run_at="now() - interval '1 hour'")
    watched = ready()
    jobs = claim(watched.storage, 200).jobs
    outcomes = [outcome(job, OutcomeKind.DEAD, fingerprint=f"{number:032x}") for number, job in enumerate(jobs)]
    (plan,) = watched.of(lambda storage: storage.settle(WORKER, outcomes))
    assert plan.compared < len(jobs)
    assert_near([plan], rows=10 * len(jobs), buffers=100 + 120 * len(jobs))


def test_leases_are_started_and_released_by_their_ids(ready: Callable[[], Watched]) -> None:
    fill(30_000, run_at="now() - interval '1 hour'")
    fill(5_000, run_at="now() - interval '1 hour'", first=30_000, status=1)
    watched = ready()
    jobs = claim(watched.storage, 10, start=False).jobs
    leases: list[Lease] = [job.lease for job in jobs]
    assert_near(watched.of(lambda storage: storage.start(WORKER, leases[:5])), rows=20, buffers=1_000)
    assert_near(watched.of(lambda storage: storage.release(WORKER, leases[5:])), rows=20, buffers=1_000)


def test_a_long_blocked_head_costs_each_claim_a_bounded_look(ready: Callable[[], Watched]) -> None:
    """100,000 rows of an open circuit before everything else."""
    fill(100_000, run_at="now() - interval '1 hour' + i * interval '1 microsecond'", job_type="b.v1")
    fill(400, run_at="now() - interval '1 minute'", first=100_000, job_type="free.v1")
    watched = ready()
    jobs: list[ClaimedJob] = []
    deferred, began = 0, time.monotonic()
    for _ in range(3):
        answer, plans = watched.claim(10, blocked={"b.v1": 30.0})
        deferred += answer.deferred
        assert 0 < answer.deferred <= 1_010
        assert_near(plans, rows=4 * PAIRS + 5 * 1_010, buffers=60_000)
        assert sum(plan.rows for plan in plans) < 12_000
        jobs += answer.jobs
    assert not jobs
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT count(*), min(run_at - now()), max(run_at - now()) FROM {HOT} WHERE run_at > now()")  # noqa: S608
        moved, soonest, latest = cursor.fetchone()
    assert moved == deferred
    assert 30 - (time.monotonic() - began) < soonest.total_seconds() <= 30
    assert latest.total_seconds() > 200, "the tail is spread far beyond the one probe that is needed"
    for _ in range(300):
        answer = claim(watched.storage, 10, blocked={"b.v1": 30.0})
        if answer.jobs:
            break
    assert [job.type for job in answer.jobs] == ["free.v1"] * 10
    # The head has been moved out of the way: the next claim is one statement again.
    plans = watched.of(lambda storage: claim(storage, 10, blocked={"b.v1": 30.0}))
    assert len(plans) == 1
    assert_near(plans, rows=4 * PAIRS + 60, buffers=10_000)


def test_a_capped_queue_is_counted_by_its_live_rows(ready: Callable[[], Watched]) -> None:
    fill(60_000, run_at="now() - interval '1 hour'")
    execute("INSERT INTO chokaq_queue (name, is_paused, is_active, updated_at) VALUES ('q0', false, true, now())")
    watched = ready()
    answer, plans = watched.claim(20, capped={"q0": 3})
    assert sum(job.queue == "q0" for job in answer.jobs) == 3
    assert len(answer.jobs) == 20
    assert_near(plans, rows=4 * PAIRS + 4 * 20 + 40, buffers=5_000)


@pytest.fixture
def old_snapshot() -> Iterator[Callable[[], None]]:
    """Call it to hold a snapshot: from then on no dead row can be removed."""
    other = connections.create_connection("default")
    other.inc_thread_sharing()

    def hold() -> None:
        other.set_autocommit(False)
        with other.cursor() as cursor:
            cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
            cursor.execute(f"SELECT count(*) FROM {HOT}")  # noqa: S608

    yield hold
    other.close()


def test_dead_rows_under_an_old_snapshot_are_walked_over_once_a_second(
    watched: Watched, old_snapshot: Callable[[], None], no_look_is_slow: pytest.MonkeyPatch
) -> None:
    no_look_is_slow.undo()
    fill(150_000, run_at="now() - interval '1 hour' + i * interval '1 microsecond'")
    old_snapshot()
    execute(f"DELETE FROM {HOT}")  # noqa: S608
    fill(2_000, run_at="now() - interval '1 second' + i * interval '1 microsecond'", first=200_000)
    watched.watch()
    costs = []
    for _ in range(30):
        answer, plans = watched.claim(10)
        assert len(answer.jobs) == 10
        assert [job.priority for job in answer.jobs] == [30] * 10
        costs.append(sum(plan.buffers for plan in plans))
    assert costs[0] > 30_000, "finding the pairs walks over the dead entries"
    assert sorted(costs)[len(costs) // 2] < 2_000, "known pairs do not"
    # A pair that nobody knew is found within a second.
    watched.storage.enqueue([new_job(queue="q1", priority=99)])
    seen: list[int] = []
    deadline = time.monotonic() + 10
    while 99 not in seen:
        assert time.monotonic() < deadline
        seen += [job.priority for job in claim(watched.storage, 1).jobs]


def test_retention_reads_what_it_deletes(ready: Callable[[], Watched]) -> None:
    fill(20_000, run_at="now()", status=2)
    common = ", ".join(BASE_COLUMNS)
    execute(
        f"INSERT INTO chokaq_job_archive ({common}, finished_at, duration_ms, wait_ms) "  # noqa: S608
        f"SELECT {common}, now() - interval '1 day', 1, 1 FROM {HOT}"
    )
    watched = ready()
    watched.of(lambda storage: storage.trim(rule("archive", 3600.0), 100))
    assert watched.plans
    for plan in watched.plans:
        assert plan.buffers < 3_000, plan.sql


def test_retention_reads_what_other_rules_keep_once(ready: Callable[[], Watched]) -> None:
    """And stays on the index of its rule: in that of times it would meet other queues' rows first."""
    fill(20_000, run_at="now() - interval '1 day' + make_interval(secs => i)", status=2)
    common = ", ".join(BASE_COLUMNS)
    execute(
        f"INSERT INTO chokaq_job_archive ({common}, finished_at, duration_ms, wait_ms) "  # noqa: S608
        f"SELECT {common}, run_at, 1, 1 FROM {HOT}"
    )
    watched = ready()
    types = ["t.v1"]
    for one in (rule("archive", 3600.0, type=types), rule("archive", 3600.0, "queue", "q1", type=types)):
        assert trim(watched.storage, one, 1_000) == 0
        watched.of(lambda storage: trim(storage, one))  # noqa: B023 - runs here and now
        assert watched.plans
        assert sum(plan.buffers for plan in watched.plans) < 200
    watched.of(lambda storage: trim(storage, rule("archive", 3600.0, "queue", "rare")))
    assert sum(plan.buffers for plan in watched.plans) < 200


def test_rolling_up_reads_what_it_takes(ready: Callable[[], Watched]) -> None:
    execute("TRUNCATE chokaq_metric_bucket, chokaq_metric_rollup")
    bins = ", ".join(f"{name}_{number}" for name in ("run", "wait") for number in range(16))
    execute(
        "INSERT INTO chokaq_metric_bucket "  # noqa: S608
        "(at, series, queue, type, outcome, reason, shard, count, total_ms, max_ms, "
        f"{bins}) SELECT now() - make_interval(secs => 10 * (i / 20)), lpad((i %% 20)::text, 32, '0'), 'q', "
        f"'t' || i %% 20, 0, -1, 'w', 1, 1, 1{', 0' * 32} FROM generate_series(0, 19999) i"
    )
    watched = ready()
    watched.of(lambda storage: storage.roll_up(3600.0, 100))
    assert watched.plans
    for plan in watched.plans:
        assert plan.buffers < 3_000, plan.sql
    assert sum(plan.buffers for plan in watched.plans) < 5_000
