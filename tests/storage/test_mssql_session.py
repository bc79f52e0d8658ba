"""SQL Server's connections and transactions, over a driver that answers as it is told."""

from __future__ import annotations

import datetime as dt
import json
from typing import Any

import django.db
import pytest
from django.db import transaction

from chokaq_django.storage import Lease, OutcomeKind, StorageError
from chokaq_django.storage.contract import QueueRow

from ..helpers import keep_versions
from .invariants import assert_one_place, look
from .mssql_recorder import ALIAS, Recorder, RecordingWrapper, callers_storage, parsed, private_storage, registered
from .mssql_scenarios import NOW, ONE, THREE, TWO, WORKER, claimed, job, lost, outcome

import pyodbc  # isort: skip - after the recorder, which skips where it cannot be

from chokaq_django.storage.mssql.session import bound  # isort: skip
from chokaq_django.storage.mssql.tsql import AFTER, Texts, as_json, fit, span  # isort: skip

pytestmark = pytest.mark.any_engine

DEADLOCK = pyodbc.OperationalError(
    "40001", "[40001] [Microsoft][ODBC Driver 18 for SQL Server][SQL Server]Transaction (Process ID 52) was deadlocked "
    "on lock resources with another process and has been chosen as the deadlock victim. Rerun the transaction. (1205) "
    "(SQLExecDirectW)",
)  # fmt: skip


@pytest.fixture
def recorder() -> Recorder:
    return Recorder()


@pytest.fixture
def own(recorder: Recorder) -> Any:
    return private_storage(recorder)


def texts(recorder: Recorder) -> list[str]:
    return [sent.sql for sent in recorder.statements()]


# -- a worker's connection ---------------------------------------------------------------------------------------------


def test_a_worker_is_one_round_trip_for_what_is_one_batch(own: Any, recorder: Recorder) -> None:
    recorder.answer("@held", [(ONE, False, None)])
    assert own.settle(WORKER, [outcome(ONE, OutcomeKind.SUCCEEDED)]) == {ONE}
    assert len(texts(recorder)) == 1
    assert own.connection.connection.autocommit, "what it is sent begins and commits by itself"
    assert own.connection.connection.timeout > 0


def test_a_session_is_set_up_once_for_each_connection(own: Any, recorder: Recorder) -> None:
    own.pending_queues()
    own.pending_queues()
    assert len([sent for sent in recorder.sent if "SET LOCK_TIMEOUT" in sent.sql]) == recorder.opened == 1
    own.close()
    own.pending_queues()
    assert len([sent for sent in recorder.sent if "SET LOCK_TIMEOUT" in sent.sql]) == recorder.opened == 2


def test_an_old_server_is_refused(own: Any) -> None:
    own.connection.sql_server_version = 2016
    with pytest.raises(StorageError, match="2017"):
        own.pending_queues()


def test_a_deadlock_victim_is_run_again_on_the_same_connection(own: Any, recorder: Recorder) -> None:
    recorder.fail("@held", DEADLOCK)
    recorder.answer("@held", [(ONE, False, None)])
    assert own.settle(WORKER, [outcome(ONE, OutcomeKind.SUCCEEDED)]) == {ONE}
    first, rollback, second = texts(recorder)
    assert first == second
    assert rollback == "IF @@TRANCOUNT > 0 ROLLBACK TRANSACTION"
    assert (recorder.opened, recorder.closed) == (1, 0)


def test_a_lost_connection_is_opened_again(own: Any, recorder: Recorder) -> None:
    recorder.fail("@held", lost())
    recorder.answer("@held", [(ONE, False, None)])
    assert own.settle(WORKER, [outcome(ONE, OutcomeKind.SUCCEEDED)]) == {ONE}
    assert recorder.opened == 2
    assert len(texts(recorder)) == 2, "nothing is rolled back on a connection that is gone"


def test_an_error_after_the_first_result_is_an_error(own: Any, recorder: Recorder) -> None:
    """The last statement of a batch fails after rows of the first were read."""
    raised = iter([DEADLOCK])

    def nextset(cursor: Any) -> bool:
        for error in raised:
            raise error
        cursor._results = cursor._results[1:]
        return bool(cursor._results)

    own._connected()
    cursor_class = type(own.connection.connection.cursor())
    patch = pytest.MonkeyPatch()
    patch.setattr(cursor_class, "nextset", nextset)
    try:
        recorder.answer("@name", [("mail",)])
        recorder.answer("@name", [("mail",), ("reports",)])
        assert own.pending_queues() == ["mail", "reports"]
    finally:
        patch.undo()


def test_a_unit_of_several_statements_is_rolled_back_and_run_again(own: Any, recorder: Recorder) -> None:
    recorder.fail("SELECT id, status, queue, type", DEADLOCK)
    assert own.cancel([ONE], "ada").applied == []
    sent = texts(recorder)
    assert sent[0] == sent[3] == "BEGIN TRANSACTION"
    assert sent[2] == "IF @@TRANCOUNT > 0 ROLLBACK TRANSACTION"
    assert sent[-1] == "COMMIT TRANSACTION"


def test_a_connection_lost_in_a_transaction_is_not_opened_in_its_middle(own: Any, recorder: Recorder) -> None:
    """What had been done before would be gone, and the rest committed."""
    tries: list[int] = []

    def work() -> None:
        tries.append(1)
        own._query("SELECT 1")
        if len(tries) == 1:
            own._drop()
        own._query("SELECT 2")

    own._unit(work)
    sent = [sql.removeprefix("SET NOCOUNT ON;\n") for sql in texts(recorder)]
    begin, first = "BEGIN TRANSACTION", "SELECT 1;"
    assert sent == [begin, first, begin, first, "SELECT 2;", "COMMIT TRANSACTION"]


def test_what_would_fail_again_is_raised_at_once(own: Any, recorder: Recorder) -> None:
    recorder.fail("@now", pyodbc.ProgrammingError("42S02", "[42S02] Invalid object name 'x'. (208) (SQLExecDirectW)"))
    with pytest.raises(django.db.ProgrammingError):
        own.now()
    assert own._retrier.errors == 0


# -- the caller's connection -------------------------------------------------------------------------------------------


def test_in_the_callers_transaction_nothing_is_retried(recorder: Recorder) -> None:
    recorder.fail("INSERT INTO chokaq_job_hot", DEADLOCK)
    with callers_storage(recorder) as storage:
        with pytest.raises(django.db.OperationalError), transaction.atomic(using=ALIAS):
            storage.enqueue([job(ONE)])
        assert storage._retrier.errors == 0
    assert sum("INSERT INTO" in sql for sql in texts(recorder)) == 1


def test_outside_of_one_the_callers_connection_is_retried(recorder: Recorder) -> None:
    recorder.fail("INSERT INTO chokaq_job_hot", DEADLOCK)
    with callers_storage(recorder) as storage:
        assert [answer.id for answer in storage.enqueue([job(ONE), job(TWO)])] == [ONE, TWO]
    assert sum("INSERT INTO" in sql for sql in texts(recorder)) == 2
    assert any("UNION ALL" in sql for sql in texts(recorder)), "the first try may have committed"


def test_several_statements_in_the_callers_transaction_are_all_or_nothing(recorder: Recorder) -> None:
    recorder.fail("COUNT(*) FROM @held", DEADLOCK)
    with callers_storage(recorder) as storage, transaction.atomic(using=ALIAS):
        try:
            storage.settle(WORKER, [outcome(ONE, OutcomeKind.SUCCEEDED)])
        except django.db.OperationalError:
            storage.enqueue([job(TWO)])
    assert any("INSERT INTO chokaq_job_hot" in sql for sql in texts(recorder)), "the caller may go on"
    assert any(sql.startswith("ROLLBACK TRANSACTION s") for sql in texts(recorder)), "to a savepoint"


def test_another_transaction_is_not_the_one_that_was_marked(recorder: Recorder) -> None:
    for number in (7, 7, 8):
        recorder.answer("CURRENT_TRANSACTION_ID", [(number,)])
    with callers_storage(recorder) as storage, transaction.atomic(using=ALIAS):
        mark = storage.mark_transaction()
        assert storage.is_marked(mark)
        assert not storage.is_marked(mark), "as after a deadlock, whose victim goes on"


def test_the_callers_connection_counts_rows_again_afterwards(recorder: Recorder) -> None:
    """Django would take an UPDATE of its own for one that found nothing."""
    with callers_storage(recorder) as storage:
        storage.pending_queues()
        storage.cancel([ONE], "ada")
    quiet = [sql for sql in texts(recorder) if "SET NOCOUNT" in sql]
    assert len(quiet) > 2
    assert all(sql.endswith("\nSET NOCOUNT OFF;") for sql in quiet)


def test_they_count_after_an_error_too(recorder: Recorder) -> None:
    """A statement without parameters is no procedure of the driver's, at whose end the setting would end."""
    recorder.fail("@name", DEADLOCK)
    with callers_storage(recorder) as storage:
        storage._retrier.attempts = 1
        with pytest.raises(django.db.OperationalError):
            storage.pending_queues()
    assert texts(recorder)[-1] == "SET NOCOUNT OFF;"


def test_nothing_more_is_sent_when_the_callers_connection_is_lost(recorder: Recorder) -> None:
    recorder.fail("@name", lost())
    with callers_storage(recorder) as storage:
        storage._retrier.attempts = 1
        with pytest.raises(django.db.OperationalError):
            storage.pending_queues()
    assert "@name" in texts(recorder)[-1]


@pytest.mark.parametrize(("server", "settings"), [("Microsoft SQL Server 2022 (RTM)", 2), ("Something else", 0)])
def test_the_databases_of_tests_have_row_versions(recorder: Recorder, server: str, settings: int) -> None:
    recorder.answer("@@VERSION", [(server,)])
    with registered(recorder) as wrapper:
        keep_versions(wrapper)
    sent = [sql for sql in texts(recorder) if sql.startswith("ALTER DATABASE CURRENT SET ")]
    assert len(sent) == settings
    for sql in sent:
        parsed(sql, "2017")


def test_a_look_at_all_tables_leaves_the_session_as_it_was(recorder: Recorder) -> None:
    """The level of isolation is the session's there, and SNAPSHOT is none for what comes after."""
    for _ in range(2):
        recorder.answer("SELECT COUNT(*) FROM (", [(0,)])
    with registered(recorder) as wrapper:
        look(wrapper)
        with pytest.raises(AssertionError, match="0 jobs"):
            assert_one_place(1, alias=ALIAS)
    sent = texts(recorder)
    assert sent[0] == "SET TRANSACTION ISOLATION LEVEL SNAPSHOT"
    assert sent[-2:] == ["ROLLBACK TRANSACTION", "SET TRANSACTION ISOLATION LEVEL READ COMMITTED"]
    assert sent.count("ROLLBACK TRANSACTION") == 2


# -- answers -----------------------------------------------------------------------------------------------------------


def test_a_settle_that_lost_a_lease_sends_the_others_again(own: Any, recorder: Recorder) -> None:
    recorder.answer("@held", [(ONE, False, None), (THREE, False, None)])
    recorder.answer("@held", [(THREE, False, None)])
    recorder.answer("@held", [(THREE, False, None)])
    outcomes = [outcome(job_id, OutcomeKind.SUCCEEDED) for job_id in (ONE, TWO, THREE)]
    assert own.settle(WORKER, outcomes) == {THREE}
    settles = [sent for sent in recorder.statements() if "@held" in sent.sql]
    assert [sent.params[1].count(ONE) for sent in settles] == [1, 1, 0]
    assert ['"count":3' in str(sent.params) for sent in settles] == [True, False, False]


def test_keys_are_inserted_in_their_order(own: Any, recorder: Recorder) -> None:
    """Two calls of the same keys would wait for each other."""
    recorder.answer("@created", [(ONE,), (TWO,)])
    own.enqueue([job(ONE, idempotency_key="b"), job(TWO, idempotency_key="a"), job(THREE, idempotency_key="b")])
    (sent,) = [sent for sent in recorder.statements() if "@created" in sent.sql]
    rows = json.loads(sent.params[0])
    assert [(row["place"], row["id"], row["idempotency_key"]) for row in rows] == [(0, TWO, "a"), (1, ONE, "b")]


def test_a_settle_finds_its_own_work(own: Any, recorder: Recorder) -> None:
    recorder.answer("@held", [])
    recorder.answer("UNION ALL", [(ONE, 4, -1, None, 0, None), (TWO, 4, 7, '["other"]', 0, None)])
    outcomes = [outcome(ONE, OutcomeKind.SUCCEEDED), outcome(TWO, OutcomeKind.DEAD)]
    assert own.settle(WORKER, outcomes) == {ONE}


def test_errors_after_which_a_claim_was_tried_again_are_counted(own: Any, recorder: Recorder) -> None:
    recorder.fail("@limit int", lost())
    recorder.answer("@limit int", [(None,)], [claimed(ONE)])
    assert [job.id for job in own.claim(request()).jobs] == [ONE]
    assert own.errors == 1


def test_a_late_request_to_cancel_is_told_only_when_it_was_in_time(own: Any, recorder: Recorder, caplog: Any) -> None:
    for status in (2, 0):
        recorder.answer("@held", [(ONE, True, "ada")])
        recorder.answer("SELECT id, status, queue, type", [(ONE, status, "mail", "email.send.v1")])
        with caplog.at_level("INFO", logger="chokaq.storage"):
            assert own.settle(WORKER, [outcome(ONE, OutcomeKind.RETRY)]) == {ONE}
        assert ("was cancelled while it ran" in caplog.text) == (status == 0)


def test_claimed_jobs_come_in_their_order_and_with_aware_times(own: Any, recorder: Recorder) -> None:
    late = (*claimed(TWO)[:6], 99, *claimed(TWO)[7:18], dt.datetime(2001, 1, 1), *claimed(TWO)[19:21], 1,  # noqa: DTZ001
            claimed(TWO)[-1])  # fmt: skip
    recorder.answer("@limit int", [(2_500_000,)], [claimed(ONE), late])
    claim = own.claim(request())
    assert [(job.id, job.expired) for job in claim.jobs] == [(TWO, True), (ONE, False)]
    assert claim.next_due == 2.5
    assert claim.jobs[0].deadline_at == dt.datetime(2001, 1, 1, tzinfo=dt.UTC)
    assert claim.jobs[1].started_at.utcoffset() == dt.timedelta(0)


def request() -> Any:
    from chokaq_django.storage import ClaimRequest

    return ClaimRequest(WORKER, ["mail"], 10)


def test_an_old_and_a_new_lease_are_one(own: Any, recorder: Recorder) -> None:
    recorder.answer("UPDATE h SET heartbeat_at", [(ONE, None, None)])
    assert own.heartbeat(WORKER, [Lease(ONE, 5), Lease(ONE, 4), Lease(TWO, 1)]).lost == {TWO}
    sent, looked = recorder.statements()
    assert sent.params[1].strip() == f'[{{"id":"{ONE}","claim_number":5}},{{"id":"{TWO}","claim_number":1}}]'
    assert looked.params[1].strip() == f'[{{"id":"{TWO}","claim_number":1}}]'


def test_a_heartbeat_of_all_leases_is_one_statement(own: Any, recorder: Recorder) -> None:
    recorder.answer("UPDATE h SET heartbeat_at", [(ONE, NOW, "ada"), (TWO, None, None)])
    reply = own.heartbeat(WORKER, [Lease(ONE, 5), Lease(TWO, 1)])
    assert (reply.lost, reply.cancels, reply.busy) == (set(), {ONE: "ada"}, set())
    assert len(recorder.statements()) == 1


def test_where_nobody_can_tell_whether_a_lease_holds_it_is_not_lost(own: Any, recorder: Recorder) -> None:
    """A row that somebody writes cannot be read without waiting there: the database is without row versioning."""
    recorder.answer("UPDATE h SET heartbeat_at", [(ONE, None, None)])
    recorder.fail(
        "NOWAIT", pyodbc.Error("HYT00", "[HYT00] Lock request time out period exceeded. (1222) (SQLExecDirectW)")
    )
    reply = own.heartbeat(WORKER, [Lease(ONE, 5), Lease(TWO, 1)])
    assert (reply.lost, reply.cancels, reply.busy) == (set(), {}, {TWO})
    recorder.answer("UPDATE h SET heartbeat_at", [(ONE, None, None)])
    recorder.fail("NOWAIT", lost())
    with pytest.raises(django.db.DatabaseError):
        own.heartbeat(WORKER, [Lease(ONE, 5), Lease(TWO, 1)])


# -- values ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [(0, (0, 0, 0)), (90.5, (0, 90, 500_000)), (-0.25, (-1, 86_399, 750_000)), (86_400 * 3 + 1e-6, (3, 0, 1)),
     (1e300, (2_500_000, 0, 0)), (-1e300, (-700_000, 0, 0)), (1e12, (2_500_000, 0, 0)),
     (float("inf"), (2_500_000, 0, 0))],
)  # fmt: skip
def test_a_time_is_three_integers_that_stay_in_the_calendar(seconds: float, expected: tuple[int, int, int]) -> None:
    assert span(seconds) == expected
    assert 1 <= (dt.datetime(2031, 1, 1, tzinfo=dt.UTC) + dt.timedelta(*expected)).year <= 9999


def test_a_null_is_written_into_the_statement() -> None:
    assert bound("a = %s AND b = %s AND c = %s", [1, None, "x"]) == ("a = %s AND b = NULL AND c = %s", [1, "x"])
    sql = f"a = %s AND b = {AFTER} AND c = %s AND d LIKE '%%'"
    assert bound(sql, ["x", 1.5, None]) == (
        f"a = %s AND b = {AFTER} AND c = NULL AND d LIKE '%%'",
        ["x", 0, 1, 500_000],
    )
    with pytest.raises(ValueError, match="zip"):
        bound("a = %s", [])


def test_lists_have_few_lengths() -> None:
    assert {len(as_json(list(range(count)))) for count in range(1, 300, 7)} == {250, 1000, 4000}
    assert as_json(["ä", 1]).rstrip() == '["ä",1]'


@pytest.mark.parametrize("wide", [True, False])
def test_texts_say_where_they_begin(wide: bool) -> None:
    given = ["", "abc", "ü🐙x", "abc", None, "end"]
    made = Texts(lambda: wide)
    places = [made.place(text) for text in given]
    whole = made.value().encode("utf-16-le")
    for text, (at, length) in zip(given, places, strict=True):
        if at is None or length is None:
            assert (text, at, length) == (None, None, None)
        elif wide:  # as SUBSTRING counts where a character beyond U+FFFF is two
            assert whole[2 * (at - 1) : 2 * (at - 1 + length)].decode("utf-16-le") == text
        else:
            assert made.value()[at - 1 : at - 1 + length] == text
    assert places[1] == places[3], "what is alike travels once"
    assert len(made.value()) == 250


def test_how_the_server_counts_is_asked_with_the_first_connection(own: Any, recorder: Recorder) -> None:
    for _ in range(2):
        own.enqueue([job(ONE, payload="🐙")])
        assert '"payload_length":2' in recorder.statements()[-1].params[0]
        own.close()
    assert len([sent for sent in recorder.sent if "LEN(" in sent.sql]) == 1


def test_how_the_server_counts_is_asked_where_the_caller_is(recorder: Recorder) -> None:
    with callers_storage(recorder) as storage, transaction.atomic(using=ALIAS):
        storage.enqueue([job(ONE, payload="plain ä")])
        assert not [sent for sent in recorder.sent if "LEN(" in sent.sql], "only when it matters"
        storage.enqueue([job(ONE, payload="🐙")])
    assert '"payload_length":2' in str(recorder.statements())


def test_a_text_is_cut_as_the_server_counts() -> None:
    assert fit("x" * 100, 100) == "x" * 100
    assert fit(None, 100) is None
    assert fit("🐙" * 50, 100) == "🐙" * 50
    for text in ("🐙" * 80, "x" + "🐙" * 80, "🐙" * 5000, "\ud83d" * 90):
        cut = fit(text, 100)
        assert cut is not None
        assert 90 <= len(cut.encode("utf-16-le")) // 2 <= 100


def test_a_control_row_is_inserted_once(own: Any, recorder: Recorder) -> None:
    recorder.answer("INSERT INTO chokaq_queue", [(0,)])
    own.seed_queue(QueueRow("mail", False, True, None, None, None, None))
    assert texts(recorder)[0] == "BEGIN TRANSACTION"
    assert isinstance(own.connection, RecordingWrapper)
