"""Atomic jobs whose transaction ends while their handler goes on, and whose success the database does not take."""

from __future__ import annotations

from collections import Counter
from itertools import groupby
from pathlib import Path

import pytest
from django.db import connection, transaction

from chokaq_django import enqueue
from chokaq_django.conf import get_options
from chokaq_django.control import JobView
from chokaq_django.job.registry import registry
from chokaq_django.models import JobStatus
from chokaq_django.storage import ClaimRequest, get_storage
from chokaq_django.storage.columns import ARCHIVE
from chokaq_django.worker.execution import Execution
from chokaq_django.worker.outcomes import OutcomeTable
from chokaq_django.worker.runner import Runner

from .. import jobs
from ..helpers import wait_until
from ..ledger import Ledger
from ..models import Effect
from ..storage.support import run_in_thread
from .conftest import StartWorker
from .executions import Host
from .support import committed, not_on, only_on, settled

SOON = {"BASE_DELAY": 0.01, "MAX_DELAY": 0.02, "JITTER": 0.0}
TABLE = "tests_scratch_of_atomic"
DDL = f"CREATE TABLE {TABLE} (id int)"

pytestmark = committed


def effects(view: JobView) -> Counter[str]:
    return Counter(Effect.objects.filter(job=view.id).values_list("name", flat=True))


def assert_failed_once(view: JobView) -> None:
    assert (view.status, view.attempt) == (JobStatus.SUCCEEDED, 2), view.attempts
    first, second = view.attempts
    assert first["outcome"] == "failed"
    assert first["error_type"].endswith("TransactionEndedError")
    assert "was ended while its handler ran" in first["message"]
    assert second["outcome"] == "succeeded"


def assert_unstorable(view: JobView) -> None:
    assert (view.status, view.attempt) == (JobStatus.SUCCEEDED, 1), view.attempts
    assert view.result == '{"$unstorable": true}'
    assert effects(view) == {"large": 1}


@only_on("mysql", "a deadlock undoes the whole transaction and lets the victim begin another")
def test_who_goes_on_after_a_deadlock_has_not_succeeded(start_worker: StartWorker, ledger: Ledger) -> None:
    first, second = (Effect.objects.create(job="", attempt=1, name="locked").pk for _ in range(2))
    start_worker(RETRY=SOON)
    job_id = enqueue(jobs.AtomicVictimJob(first=first, second=second, gate="locked")).id
    wait_until(lambda: ledger.count("locked") == 1, what="the job holds the first row")
    with transaction.atomic():
        # Whoever has written less is the victim.
        Effect.objects.bulk_create(Effect(job="", attempt=1, name="weight") for _ in range(50))
        Effect.objects.select_for_update().get(pk=second)
        ledger.open_gate("locked")
        Effect.objects.select_for_update().get(pk=first)
    view = settled(job_id)
    assert ledger.count("went on") == 1
    assert_failed_once(view)
    assert effects(view) == {"before": 1, "after": 1}


@only_on("mysql", "TRUNCATE and DDL commit")
@pytest.mark.parametrize("sql", [f"TRUNCATE TABLE {TABLE}", f"ALTER TABLE {TABLE} ADD COLUMN more int"])
def test_who_commits_by_a_statement_has_not_succeeded(start_worker: StartWorker, sql: str) -> None:
    """What it had written by then stays: nobody can take that back."""
    with connection.cursor() as cursor:
        cursor.execute(DDL)
    try:
        start_worker(RETRY=SOON)
        view = settled(enqueue(jobs.AtomicEndedJob(sql=sql)).id)
    finally:
        with connection.cursor() as cursor:
            cursor.execute(f"DROP TABLE {TABLE}")
    assert_failed_once(view)
    assert effects(view) == {"before": 2, "after": 1}


@only_on("sqlite", "it knows only whether a transaction is open")
@pytest.mark.parametrize("sql", ["ROLLBACK", "COMMIT", "driver: rollback", "driver: commit"])
def test_who_ends_the_one_transaction_has_not_succeeded(start_worker: StartWorker, sql: str) -> None:
    start_worker(RETRY=SOON)
    assert_failed_once(view := settled(enqueue(jobs.AtomicEndedJob(sql=sql)).id))
    assert effects(view)["before"] == (2 if "commit" in sql.lower() else 1)


ENDS = [
    "COMMIT", "ROLLBACK", "END WORK", "/* now */ ABORT", "COMMIT AND CHAIN", "ROLLBACK AND CHAIN", "COMMIT; BEGIN",
    "SELECT ';'; COMMIT; BEGIN; SELECT 1", "driver: commit", "driver: rollback", "driver: execute COMMIT AND CHAIN",
]  # fmt: skip
WITH_WORDS = {
    "END WORK": ("postgresql",),
    "/* now */ ABORT": ("postgresql",),
    "COMMIT AND CHAIN": ("postgresql", "mysql"),
    "ROLLBACK AND CHAIN": ("postgresql", "mysql"),
    "COMMIT; BEGIN": ("postgresql",),
    "SELECT ';'; COMMIT; BEGIN; SELECT 1": ("postgresql",),
    "driver: execute COMMIT AND CHAIN": ("postgresql",),
}
"""Engines that take what not all of them do."""
KEEPS = [
    "SAVEPOINT one; ROLLBACK TO one; ROLLBACK WORK TO SAVEPOINT one; RELEASE one", "SELECT 'COMMIT; BEGIN'",
    "/* COMMIT; */ SELECT $$ROLLBACK; BEGIN$$ -- COMMIT", "DO $do$ BEGIN PERFORM 1; END $do$",
    "SELECT CASE WHEN true THEN 1 END", "BEGIN", "SET LOCAL TIME ZONE 'Asia/Tokyo'; SET LOCAL DateStyle = 'SQL, DMY'",
    "DO $$ BEGIN BEGIN PERFORM 1 / 0; EXCEPTION WHEN division_by_zero THEN NULL; END; END $$",
]  # fmt: skip


@not_on("sqlite", "it takes one statement at a time, and knows only whether a transaction is open")
@pytest.mark.parametrize("more", [False, True], ids=["at the end", "and goes on"])
@pytest.mark.parametrize("sql", ENDS)
def test_who_ends_the_transaction_has_not_succeeded(start_worker: StartWorker, sql: str, more: bool) -> None:
    if connection.vendor not in WITH_WORDS.get(sql, (connection.vendor,)):
        pytest.skip(f"words or several statements that {connection.vendor} does not take")
    start_worker(RETRY=SOON)
    view = settled(enqueue(jobs.AtomicEndedJob(sql=sql, more=more)).id)
    assert_failed_once(view)
    kept = 0 if "ROLLBACK" in sql.upper() or "ABORT" in sql else 1
    assert effects(view) == {"before": 1 + kept, "after": 1}


@only_on("postgresql", "its words")
@pytest.mark.parametrize("sql", ["COMMIT", "COMMIT AND CHAIN", "driver: commit"])
def test_who_ends_it_before_anything_else_has_not_succeeded(start_worker: StartWorker, sql: str) -> None:
    start_worker(RETRY=SOON)
    assert_failed_once(settled(enqueue(jobs.AtomicEndedJob(sql=sql, before=False)).id))


@only_on("postgresql", "its words")
@pytest.mark.parametrize("more", [False, True], ids=["at the end", "and goes on"])
def test_who_prepares_the_transaction_for_two_phases_has_not_succeeded(start_worker: StartWorker, more: bool) -> None:
    with connection.cursor() as cursor:
        cursor.execute("SHOW max_prepared_transactions")
        if cursor.fetchone() == ("0",):
            pytest.skip("the server's max_prepared_transactions is 0, as it is unless somebody sets it")
        start_worker(RETRY=SOON)
        view = settled(enqueue(jobs.AtomicEndedJob(sql="PREPARE TRANSACTION 'of a handler'", more=more)).id)
        cursor.execute("ROLLBACK PREPARED 'of a handler'")
    assert_failed_once(view)
    assert effects(view) == {"before": 1, "after": 1}


@only_on("postgresql", "its words")
@pytest.mark.parametrize("sql", KEEPS)
def test_what_leaves_the_transaction_open_is_no_end_of_it(start_worker: StartWorker, sql: str) -> None:
    start_worker()
    view = settled(enqueue(jobs.AtomicEndedJob(sql=sql)).id)
    assert (view.status, view.attempt) == (JobStatus.SUCCEEDED, 1), view.attempts
    assert effects(view) == {"before": 1, "after": 1}


@only_on("postgresql", "its words")
@pytest.mark.parametrize(
    "sql",
    [
        "SET TRANSACTION ISOLATION LEVEL SERIALIZABLE",
        "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ WRITE",
        f"LOCK TABLE {Effect._meta.db_table} IN SHARE ROW EXCLUSIVE MODE",
    ],
)
def test_the_first_statement_of_an_atomic_job_may_say_how_it_is_isolated(start_worker: StartWorker, sql: str) -> None:
    start_worker()
    view = settled(enqueue(jobs.AtomicEndedJob(sql=sql, before=False)).id)
    assert (view.status, view.attempt) == (JobStatus.SUCCEEDED, 1), view.attempts


@only_on("postgresql", "the other engines mark a transaction by a statement of its own")
def test_to_know_the_transaction_takes_no_round_trip(tmp_path: Path) -> None:
    enqueue(jobs.AtomicEndedJob(sql="SELECT 1"))
    (claimed,) = get_storage().claim(ClaimRequest("w", ["default"], 1, True)).jobs
    job_type = registry.get(claimed.type)
    assert job_type is not None
    settled_as: list[bool] = []
    runner = Runner(
        get_options(), OutcomeTable("w"), lambda *_: None, lambda *told: settled_as.append(told[2]), lambda _: None,
        lambda _: None, "w",
    )  # fmt: skip
    with (tmp_path / "trace").open("w+") as trace:

        def traced() -> None:
            connection.ensure_connection()
            pgconn = connection.connection.pgconn
            pgconn.trace(trace.fileno())
            try:
                runner.run(Execution(claimed, job_type, Host(), 60.0))
            finally:
                pgconn.untrace()

        run_in_thread(traced)()
        trace.seek(0)
        trace.seek(0)
        sides = [line.split("\t")[1] for line in trace.read().splitlines()]
    assert settled_as == [True]
    # Turns of the talk: a look whether the connection is well, the begin, three statements of the job, settle, commit.
    assert [side for side, _ in groupby(sides)] == ["F", "B"] * 7


@only_on("postgresql", "DDL is part of the transaction")
def test_ddl_is_part_of_an_atomic_job(start_worker: StartWorker) -> None:
    start_worker()
    view = settled(enqueue(jobs.AtomicEndedJob(sql=f"{DDL}; DROP TABLE {TABLE}")).id)
    assert (view.status, view.attempt) == (JobStatus.SUCCEEDED, 1), view.attempts


@only_on("mysql", "no other engine limits the size of a statement")
def test_a_result_that_is_too_large_does_not_undo_an_atomic_job(start_worker: StartWorker) -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT @@max_allowed_packet")
        (limit,) = cursor.fetchone()
    start_worker(MAX_PAYLOAD_BYTES=2 * limit)
    view = settled(enqueue(jobs.AtomicLargeJob(size=limit)).id)
    assert_unstorable(view)


@not_on("sqlite", "no constraint can be added to a table")
def test_a_result_that_is_refused_does_not_undo_an_atomic_job(start_worker: StartWorker) -> None:
    """Nor leaves it a transaction in which nothing can be done any more."""
    with connection.cursor() as cursor:
        cursor.execute(f"ALTER TABLE {ARCHIVE} ADD CONSTRAINT no_x CHECK (result NOT LIKE '%xxx%')")
    try:
        start_worker()
        view = settled(enqueue(jobs.AtomicLargeJob(size=3)).id)
    finally:
        with connection.cursor() as cursor:
            cursor.execute(f"ALTER TABLE {ARCHIVE} DROP CONSTRAINT no_x")
    assert_unstorable(view)
