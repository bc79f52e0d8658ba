"""What a look costs, when there is one, and what is said when the database does not answer."""

from __future__ import annotations

import asyncio
import contextlib
import datetime as dt
import json
import re
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest
import time_machine
from django.db import DatabaseError, connection, connections, transaction
from django.db.models import Model
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from chokaq_django import control
from chokaq_django.deck.feed import board as boards
from chokaq_django.deck.feed import look as looks
from chokaq_django.deck.feed.board import Board
from chokaq_django.deck.feed.look import FEW_GROUPS
from chokaq_django.deck.feed.masked import OPEN, masked
from chokaq_django.deck.feed.probe import Probe
from chokaq_django.job.ids import new_id
from chokaq_django.models import BucketOutcome, Circuit, FailureGroup, FailureReason, JobStatus, MetricBucket, Queue
from tests import factories as make
from tests.helpers import wait_until

from .conftest import ALL
from .feed import OVERVIEW, Browser, in_database, session_of, with_browsers

LIVE_TOPICS = (OVERVIEW, "queue:mail", "bulk", "failures")


def statements(board: Board, *topics: str) -> list[str]:
    """The statements of one look."""
    with CaptureQueriesContext(connection) as captured:
        assert board.refresh(topics, 0.0)
    assert board.stale() is None
    return [query["sql"] for query in captured]


def some_of_all(count: int) -> None:
    for number in range(count):
        make.hot()
        make.hot(run_at=timezone.now() + dt.timedelta(hours=1))
        make.running(progress=number)
        make.archived()
        make.dead(fingerprint=f"{number:032x}")
        group(f"{number:032x}", 1, shard=f"of {count}")
        make.audit_entry()
        make.worker(f"worker-{number}-of-{count}")
        make.circuit(f"type-{number}-of-{count}", state=1)


@pytest.mark.django_db
def test_a_look_is_as_many_statements_whatever_there_is() -> None:
    make.queue()
    some_of_all(1)
    first = statements(Board(), *LIVE_TOPICS)
    some_of_all(40)
    second = statements(Board(), *LIVE_TOPICS)
    assert len(second) == len(first)
    assert len(statements(Board(), OVERVIEW)) <= 40


@pytest.mark.django_db
def test_many_who_look_at_single_jobs_cost_little_more_than_a_few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Why each of them waits is found out for few in each look, and kept for a while for the others."""
    monkeypatch.setattr(looks, "EXPLAINED_FOR", 3_600.0)
    make.queue(is_paused=True)
    topics = [f"job:{make.hot().pk}" for _ in range(looks.MOST_EXPLAINED + 5)]

    def cost(board: Board, *topics: str) -> int:
        board._version += 1  # as if somebody had committed
        with CaptureQueriesContext(connection) as captured:
            board.refresh(topics, 0.0)
        return len(captured)

    board = Board()
    first = cost(board, *topics)
    assert [topic for topic in topics if not waits_for(board, topic)] == topics[looks.MOST_EXPLAINED :]
    cost(board, *topics)
    assert all("paused" in waits_for(board, topic) for topic in topics)
    few = Board()
    cost(few, *topics[: looks.EXPLAINED])
    assert cost(board, *topics) <= cost(few, *topics[: looks.EXPLAINED]) + 2 < first / 3


def waits_for(board: Board, topic: str) -> list[str]:
    texts, _ = board.news(topic, False, None)
    return [hold["code"] for hold in json.loads(texts[0])["sections"]["job"]["waiting"]]


@pytest.mark.django_db
def test_history_is_never_counted() -> None:
    """Each statement on what has ended stops after a few rows, or is a figure that somebody keeps."""
    some_of_all(2)
    for sql in statements(Board(), *LIVE_TOPICS):
        if re.search(r"chokaq_job_(archive|dlq|trash)", sql):
            assert re.search(r"\bLIMIT\b|\bTOP\b|\bFETCH\b", sql), sql
        assert "DISTINCT" not in sql


@pytest.mark.django_db
def test_what_was_just_looked_at_is_not_looked_at_again() -> None:
    board = Board()
    assert board.refresh([OVERVIEW], 0.5)
    with CaptureQueriesContext(connection) as captured:
        for _ in range(20):
            assert not board.refresh([OVERVIEW], 60)
    assert len(captured) == 0


@pytest.mark.django_db
def test_whoever_comes_later_does_not_begin_with_what_was_long_ago() -> None:
    board = Board()
    board.refresh([OVERVIEW], 0.0)
    texts, state = board.news(OVERVIEW, False, None)
    assert len(texts) == 1
    board._topics[OVERVIEW].checked_at -= 100
    assert board.news(OVERVIEW, False, None) == ([], None)
    assert board.news(OVERVIEW, False, state) == ([], state), "who has been there all the time knows it"
    board.refresh([OVERVIEW], boards.current())
    assert len(board.news(OVERVIEW, False, None)[0]) == 1


@pytest.mark.django_db
def test_a_look_that_takes_long_is_told_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """Or whoever comes to a slow database would never see anything."""
    now = [1_000.0]
    monkeypatch.setattr(boards, "time", SimpleNamespace(monotonic=lambda: now[0], time=time.time))

    def slow(name: str, look: Any) -> Any:
        now[0] += 10 * boards.current()
        return build(name, look)

    build = boards.build
    monkeypatch.setattr(boards, "build", slow)
    board = Board()
    board.refresh([OVERVIEW], 0.0)
    assert len(board.news(OVERVIEW, False, None)[0]) == 1


@pytest.mark.django_db(transaction=True)
def test_nothing_is_read_when_nothing_was_committed(engine: str) -> None:
    if engine == "microsoft":
        pytest.skip("nothing tells on SQL Server: every tick is a look")
    make.queue()
    make.archived()
    board = Board()
    board.refresh([OVERVIEW], 0.0)
    wait_until(lambda: not quiet(board), what="the server writes nothing of its own")
    looks = board.looks
    with CaptureQueriesContext(connection) as captured:
        board.refresh([OVERVIEW], 0.0)
    if board.looks > looks:  # somebody else on the server has committed meanwhile
        return
    assert len(captured) <= 1, "the probe"
    make.dead()
    assert board.refresh([OVERVIEW], 0.0)
    assert board.looks == looks + 1


def quiet(board: Board) -> bool:
    looks = board.looks
    board.refresh([OVERVIEW], 0.0)
    return board.looks > looks


@pytest.mark.django_db(transaction=True)
def test_what_waits_is_read_again_although_nothing_is_committed(monkeypatch: pytest.MonkeyPatch) -> None:
    make.worker()
    make.hot()
    board = Board()
    board.refresh([OVERVIEW], 0.0)
    looks = board.looks
    monkeypatch.setattr(boards, "RESTLESS", 0.0)
    board.refresh([OVERVIEW], 0.0)
    assert board.looks == looks + 1


@pytest.mark.django_db(transaction=True)
def test_the_probe_sees_every_commit_and_nothing_before_it(engine: str) -> None:
    if engine == "microsoft":
        pytest.skip("nothing tells on SQL Server")
    probe = Probe("default")
    assert probe.changed(), "the first time"
    row = make.queue()
    assert probe.changed()
    open_transaction, commit = threading.Event(), threading.Event()

    def write() -> None:
        try:
            with transaction.atomic():
                Queue.objects.filter(pk=row.pk).update(is_paused=True)
                open_transaction.set()
                commit.wait(10)
        finally:
            connections.close_all()

    writer = threading.Thread(target=write)
    writer.start()
    assert open_transaction.wait(10)
    wait_until(lambda: not probe.changed(), what="an open transaction is no news for ever")
    commit.set()
    writer.join()
    assert probe.changed(), "its commit is news"
    probe.close()
    assert probe.changed(), "who has closed its eyes does not know"
    probe.close()


# -- figures -----------------------------------------------------------------------------------------------------------


def sections_of(board: Board, topic: str = OVERVIEW) -> dict[str, Any]:
    board.refresh([topic], 0.0)
    found = board._topics[topic].open.snapshot()["sections"]
    assert board.stale() is None
    return dict(found)


def bucket(outcome: BucketOutcome, count: int, seconds: float = 0, queue: str = "mail", **bins: int) -> None:
    at = timezone.now() - dt.timedelta(seconds=seconds)
    at = at.replace(second=at.second // 10 * 10, microsecond=0)
    series = f"{queue}-{outcome}-{seconds}"
    MetricBucket.objects.create(
        at=at, series=series, queue=queue, type="t", outcome=outcome, shard="s", count=count, **bins
    )


@pytest.mark.django_db
def test_figures_of_queues(settings: Any) -> None:
    settings.CHOKAQ = {
        **settings.CHOKAQ,
        "DECK": {"LAG_CRITICAL": 3600},
    }  # of a job that gets older as the test goes on
    make.queue(max_workers=5)
    make.queue("shut", is_paused=True)
    make.queue("away", is_active=False)
    now = timezone.now()
    make.hot(run_at=now - dt.timedelta(seconds=7), due_at=now - dt.timedelta(seconds=7))
    make.hot(run_at=now + dt.timedelta(hours=1))
    make.hot(queue="shut", run_at=now - dt.timedelta(hours=1))
    make.running()
    make.hot(status=JobStatus.FETCHED, worker_id=make.WORKER_ID, claim_number=1)
    make.worker(queues='["mail"]')
    make.worker("elsewhere", queues='["other"]')
    make.worker("silent", last_seen=now - dt.timedelta(hours=1), clock_offset=1.234, clock_doubt=0.001)
    bucket(BucketOutcome.SUCCEEDED, 120, seconds=20, wait_0=60, wait_6=60)
    bucket(BucketOutcome.DEAD, 30, seconds=20)
    bucket(BucketOutcome.SUCCEEDED, 1_000, seconds=200)
    sections = sections_of(Board())
    mail, shut = sections["queues"]["rows"]["mail"], sections["queues"]["rows"]["shut"]
    assert (mail["pending"], mail["due"], mail["scheduled"], mail["processing"], mail["fetched"]) == (2, 1, 1, 1, 1)
    assert 7 <= mail["lag_max"] < 60
    assert mail["lag_level"] == "warning"
    assert (mail["state"], shut["state"], shut["lag_level"]) == ("open", "paused", "ok")
    assert sections["queues"]["rows"]["away"]["state"] == "hidden"
    assert (mail["workers"], mail["max_workers"]) == (1, 5)
    assert (mail["per_second"], mail["eta_seconds"]) == (2.0, 0)
    assert mail["lag_avg"] is not None
    assert 0.1 < mail["lag_avg"] < 1
    tiles = sections["tiles"]
    assert {name: tiles[name]["value"] for name in ("pending", "scheduled", "buffered", "processing", "succeeded")} == {
        "pending": 3, "scheduled": 1, "buffered": 1, "processing": 1, "succeeded": 1_120,
    }  # fmt: skip
    assert tiles["rates"]["1m"] == {
        "done_per_second": 2.0, "done": 120, "dead": 30, "retried": 0, "failure_share": 0.2,
    }  # fmt: skip
    assert tiles["rates"]["5m"]["done"] == 1_120
    assert len(tiles["spark"]["done"]) == len(tiles["spark"]["dead"]) == 60
    assert (sum(tiles["spark"]["done"]), sum(tiles["spark"]["dead"])) == (1_120, 30)
    silent, old = sections["fleet"]["rows"]["silent"], sections["fleet"]["rows"]["elsewhere"]
    assert silent["silent"] is True
    assert (silent["clock_offset"], silent["clock_doubt"], silent["clock_is_off"]) == (1.23, 0.0, True)
    assert (old["clock_offset"], old["clock_doubt"], old["clock_is_off"]) == (None, None, False)


@pytest.mark.django_db
def test_an_operation_that_waits_to_be_confirmed_is_not_one_that_somebody_paused() -> None:
    make.dead()
    held = control.bulk_freeze(control.bulk_purge(where=control.JobFilter(status="dead"), by="grace", hold=True).id)
    paused = control.bulk_pause(control.bulk_purge(["01ARZ3NDEKTSV4RRFFQ69G5FAV"], by="grace").id, by="grace")
    rows = sections_of(Board())["bulk"]["rows"]
    assert [(rows[view.id]["state"], rows[view.id]["awaits_go"]) for view in (held, paused)] == [
        ("paused", True), ("paused", False),
    ]  # fmt: skip


def group(fingerprint: str, count: int, shard: str = "a", **columns: Any) -> None:
    now = timezone.now()
    said = {
        "queue": "mail",
        "type": "test.note",
        "reason": FailureReason.ZOMBIE,
        "error_type": "E",
        "message": "said",
    }
    seen = {"first_seen": now - dt.timedelta(days=1), "last_seen": now, "sample_id": new_id(), "total": max(0, count)}
    FailureGroup.objects.create(
        series=new_id(), fingerprint=fingerprint, shard=shard, count=count, **{**said, **seen, **columns}
    )


@pytest.mark.django_db
def test_groups_of_failures() -> None:
    group("often", 7)
    group("often", -3, shard="b", queue="other")
    for number in range(FEW_GROUPS + 2):
        group(f"rare-{number}", 2)
    group("gone", 0)
    board = Board()
    sections = sections_of(board)
    assert sections["tiles"]["failed"] == {"value": 4 + 2 * (FEW_GROUPS + 2), "capped": False, "how": "counter"}
    groups = sections["groups"]
    assert groups["order"][0] == "often"
    assert (len(groups["order"]), groups["more"]) == (FEW_GROUPS, 3)
    often = groups["rows"]["often"]
    assert (often["count"], often["message"], often["replay_risk"]) == (4, "said", "likely")
    assert (often["queues"], often["types"], often["acknowledged"]) == (["mail"], ["test.note"], False)
    assert len(sections_of(board, "failures")["groups"]["order"]) == FEW_GROUPS + 3
    masked = board._topics["failures"].masked.snapshot()["sections"]["groups"]["rows"]["often"]
    assert masked["message"] is None
    assert masked["error_type"] == "E"


@pytest.mark.django_db
def test_what_is_told_of_jobs_is_hidden_unless_it_is_named() -> None:
    job = make.running(queue="mail", progress_message="SECRET", progress=40)
    make.dead(queue="mail", error_details="SECRET")
    make.archived()
    make.audit_entry()
    make.circuit(state=Circuit.OPEN)
    group("often", 7)
    board = Board()
    told = {**sections_of(board, "queue:mail"), **sections_of(board, f"job:{job.pk}"), **sections_of(board)}
    told = json.loads(json.dumps(told))
    assert set(different(told, masked(told))) == {"matrix.message", "job.message", "groups.message"}
    more = {name: with_more(section) for name, section in told.items()}
    assert {name for name, section in masked(more).items() if "SECRET" in json.dumps(section)} <= set(OPEN)
    assert masked({"another": {"as_of": 1.0, "rows": {"a": {"text": "SECRET"}}, "text": "SECRET"}}) == {
        "another": {"as_of": 1.0, "rows": {"a": {"text": None}}, "text": None}
    }


def different(told: dict[str, Any], shown: dict[str, Any]) -> Iterator[str]:
    """Section and field of what is not the same."""
    for name, section in told.items():
        rows = section.get("rows", {})
        keys = rows if isinstance(rows, dict) else range(len(rows))
        for one, other in [(section, shown[name]), *((rows[key], shown[name]["rows"][key]) for key in keys)]:
            assert one.keys() == other.keys()
            yield from (f"{name}.{field}" for field in one if field != "rows" and one[field] != other[field])


def with_more(section: dict[str, Any]) -> dict[str, Any]:
    """A section with one more field, wherever there is one."""
    rows = section.get("rows")
    if isinstance(rows, dict):
        return {**section, "rows": {key: {**row, "more_text": "SECRET"} for key, row in rows.items()}}
    if isinstance(rows, list):
        return {**section, "rows": [{**row, "more_text": "SECRET"} for row in rows]}
    return {**section, "more_text": "SECRET"}


@pytest.mark.django_db
def test_counts_go_on_between_two_reads_of_all_counters() -> None:
    bucket(BucketOutcome.SUCCEEDED, 5, seconds=100)
    board = Board()
    assert sections_of(board)["tiles"]["succeeded"]["value"] == 5
    bucket(BucketOutcome.SUCCEEDED, 3)
    board._version += 1
    with CaptureQueriesContext(connection) as captured:
        assert sections_of(board)["tiles"]["succeeded"]["value"] == 8
    assert not [query for query in captured if "chokaq_counter" in query["sql"]]


@pytest.mark.django_db
def test_a_count_that_takes_long_is_spared_and_says_how_old_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    make.queue()
    make.hot()
    board = Board()
    monkeypatch.setattr(looks, "DEAR", 0.0)
    first = sections_of(board)
    board._memory.count_took = 60.0  # as with a backlog of very many
    make.hot()
    make.running()
    Queue.objects.update(is_paused=True)
    board._version += 1
    second = sections_of(board)
    row = second["queues"]["rows"]["mail"]
    assert (row["pending"], row["processing"], row["state"]) == (1, 1, "paused"), "all but the count is new"
    assert second["tiles"]["as_of"] == second["queues"]["as_of"] == first["queues"]["as_of"]
    board._memory.counted_at -= dt.timedelta(seconds=looks.LONGEST_COUNTS)
    board._version += 1
    assert sections_of(board)["queues"]["rows"]["mail"]["pending"] == 2


@pytest.mark.django_db
def test_a_queue_outside_its_window() -> None:
    make.queue(window_start=dt.time(8), window_end=dt.time(18), window_zone="UTC")
    with time_machine.travel(dt.datetime(2026, 1, 5, 3, tzinfo=dt.UTC)):
        row = sections_of(Board(), "queue:mail")["queue"]
    if connection.vendor == "sqlite":  # elsewhere the server's clock decides
        assert row["state"] == "closed"
    assert row["window"] == {
        "start": "08:00", "end": "18:00", "zone": "UTC", "open": row["state"] == "open",
    }  # fmt: skip


# -- when the database does not answer ---------------------------------------------------------------------------------


@contextmanager
def away(model: type[Model] = Queue) -> Iterator[None]:
    """A table has another name for a while."""
    table, elsewhere = model._meta.db_table, "chokaq_away"
    with connection.schema_editor() as editor:
        editor.alter_db_table(model, table, elsewhere)
    try:
        yield
    finally:
        with connection.schema_editor() as editor:
            editor.alter_db_table(model, elsewhere, table)


def test_a_look_that_fails_is_told_and_heals_by_itself(feed: Any) -> None:
    make.queue()
    session = session_of(make.operator(*ALL, username="grace"))

    async def look(browser: Browser) -> None:
        await browser.subscribe(OVERVIEW)
        shown = await browser.until(lambda message: message["type"] == "snapshot")
        rename = away()
        await in_database(rename.__enter__)
        try:
            stale = await browser.until(lambda message: message["type"] == "stale")
            assert stale["reason"] == "database"
            assert stale["since"] >= shown["at"]
        finally:
            await in_database(rename.__exit__, None, None, None)
        healed = await browser.until(lambda message: message["type"] == "stale")
        assert healed["since"] is None
        await in_database(Queue.objects.filter(name="mail").update, is_paused=True)
        await browser.section("queues", lambda queues: queues["rows"].get("mail", {}).get("state") == "paused")

    with_browsers(Browser(session), work=look)


def test_a_database_that_says_nothing_is_told_too(feed: Any, engine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if engine != "postgresql":
        pytest.skip("needs a lock that readers wait for")
    monkeypatch.setattr(boards, "HUNG", 0.3)
    monkeypatch.setattr("chokaq_django.deck.feed.consumer.ALIVE", 0.2)
    session = session_of(make.operator(*ALL, username="grace"))

    async def look(browser: Browser) -> None:
        await browser.subscribe(OVERVIEW)
        await browser.snapshot()
        locked, release = threading.Event(), threading.Event()

        def hold() -> None:
            with transaction.atomic(), connection.cursor() as cursor:
                cursor.execute("LOCK TABLE chokaq_queue IN ACCESS EXCLUSIVE MODE")
                locked.set()
                release.wait(20)

        holder = asyncio.create_task(in_database(hold))
        try:
            await asyncio.to_thread(locked.wait, 10)
            await browser.until(lambda message: message["type"] == "stale" and message["since"])
        finally:
            release.set()
            await holder
        await browser.until(lambda message: message["type"] == "stale" and message["since"] is None)

    with_browsers(Browser(session), work=look)


OTHERS = {
    "postgresql": (
        "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()",
        "SELECT pg_terminate_backend({})",
    ),
    "mysql": (
        "SELECT id FROM information_schema.processlist WHERE db = DATABASE() AND id <> CONNECTION_ID()",
        "KILL {}",
    ),
}


def test_a_server_that_drops_its_connections_is_back_by_itself(feed: Any, engine: str) -> None:
    if engine not in OTHERS:
        pytest.skip("SQLite has no server; on SQL Server this would need rights that nobody has")
    make.queue()
    session = session_of(make.operator(*ALL, username="grace"))

    def drop_others() -> None:
        find, kill = OTHERS[engine]
        with connection.cursor() as cursor:
            cursor.execute(find)
            for (number,) in cursor.fetchall():
                with contextlib.suppress(DatabaseError):  # it has gone by itself
                    cursor.execute(kill.format(int(number)))

    async def look(browser: Browser) -> None:
        await browser.subscribe(OVERVIEW)
        await browser.snapshot()
        await in_database(drop_others)
        await in_database(Queue.objects.filter(name="mail").update, is_paused=True)
        await browser.section("queues", lambda queues: queues["rows"].get("mail", {}).get("state") == "paused")
        await browser.subscribe("bulk")
        await browser.snapshot("bulk")

    connection.close()
    with_browsers(Browser(session), work=look)
