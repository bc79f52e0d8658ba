"""The same state by polling, for whom there is no socket; and the charts."""

from __future__ import annotations

import datetime as dt
import threading
from typing import Any

import pytest
from django.contrib.sessions.models import Session
from django.db import connection, connections
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from chokaq_django.deck.feed.board import get_board
from chokaq_django.models import BucketOutcome, MetricBucket, Queue
from tests import factories as make

from .conftest import ALL
from .test_feed_board import away

SNAPSHOT, SERIES = "admin:chokaq_deck_data_snapshot", "admin:chokaq_deck_data_series"


def ask(client: Client, *topics: str, status: int = 200) -> dict[str, Any]:
    response = client.get(reverse(SNAPSHOT), {"topic": topics})
    assert response.status_code == status, response.content
    assert response["Content-Type"] == "application/json"
    assert "no-store" in response["Cache-Control"]
    found: dict[str, Any] = response.json()
    return found


def test_all_topics_come_in_one_answer(deck: Client) -> None:
    job = make.running(progress_message="4 of 10")
    answer = ask(deck, "overview", f"job:{job.pk}")
    assert answer["type"] == "batch"
    hello, *snapshots = answer["messages"]
    assert (hello["type"], hello["mode"], hello["permissions"]) == ("hello", "poll", sorted(ALL))
    assert [(one["type"], one["topic"]) for one in snapshots] == [
        ("snapshot", "overview"),
        ("snapshot", f"job:{job.pk}"),
    ]
    assert snapshots[0]["sections"]["matrix"]["rows"][job.pk]["message"] == "4 of 10"
    assert snapshots[1]["sections"]["job"]["message"] == "4 of 10"
    assert ask(deck)["type"] == "hello"


def test_texts_of_jobs_are_masked(viewer: Client) -> None:
    job = make.running(progress_message="secret of the job")
    answer = ask(viewer, "overview", f"job:{job.pk}", "queue:mail")
    assert answer["messages"][0]["masked"] is True
    assert "secret of the job" not in str(answer)
    assert answer["messages"][1]["sections"]["matrix"]["rows"][job.pk]["message"] is None


def test_many_who_poll_cost_one_look_per_tick(deck: Client, settings: Any) -> None:
    settings.CHOKAQ = {**settings.CHOKAQ, "DECK": {"TICK": 600}}
    ask(deck, "overview")
    with CaptureQueriesContext(connection) as captured:
        for _ in range(10):
            ask(deck, "overview")
    assert get_board().looks == 1
    assert not [query for query in captured if "chokaq_" in query["sql"]]


@pytest.mark.django_db(transaction=True)
def test_who_asks_while_another_looks_gets_what_that_finds(settings: Any) -> None:
    settings.CHOKAQ = {**settings.CHOKAQ, "DECK": {"TICK": 600}}
    together, done = threading.Barrier(4), []

    def look() -> None:
        try:
            together.wait(10)
            get_board().refresh(["overview"], 600.0)
            done.append(get_board().news("overview", False, None)[1])
        finally:
            connections.close_all()

    threads = [threading.Thread(target=look) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert get_board().looks == 1
    assert len(set(done)) == 1
    assert done[0] is not None


@pytest.mark.parametrize("name", [SNAPSHOT, SERIES])
def test_whoever_may_not_look_is_told_so_and_not_redirected(db: None, name: str) -> None:
    def refused(client: Client) -> tuple[int, str]:
        response = client.get(reverse(name), {"topic": "overview"})
        return response.status_code, response.json()["code"]

    def of(*permissions: str, **columns: Any) -> Client:
        client = Client()
        client.force_login(make.operator(*permissions, username=f"{permissions}{columns}", **columns))
        return client

    assert refused(Client()) == (401, "signed_out")
    assert refused(of()) == (403, "forbidden")
    assert refused(of("operate", "view_payload")) == (403, "forbidden")
    assert refused(of("view_deck", is_staff=False)) == (403, "forbidden")


@pytest.mark.parametrize("name", [SNAPSHOT, SERIES])
def test_it_only_tells(deck: Client, name: str) -> None:
    for method in (deck.post, deck.put, deck.delete, deck.patch):
        assert method(reverse(name), {"topic": "overview", "act": "pause"}).status_code == 405


@pytest.mark.parametrize("topic", ["", "nothing", "queue:", "queue:a\x00b", "job:1", "queue:" + "q" * 300])
def test_a_topic_that_there_is_not_is_refused(deck: Client, topic: str) -> None:
    assert ask(deck, topic, status=400)["code"] == "bad_topic"


def test_too_many_topics_are_refused(deck: Client) -> None:
    assert ask(deck, *(f"queue:{number}" for number in range(21)), status=400)["code"] == "too_many_topics"


@pytest.mark.django_db(transaction=True)
def test_a_database_that_does_not_answer_is_told(deck: Client, settings: Any) -> None:
    settings.CHOKAQ = {**settings.CHOKAQ, "DECK": {"TICK": 0.001}}
    make.queue()
    seen = ask(deck, "overview")["messages"][1]["at"]
    with away():
        answer = ask(deck, "overview", status=503)
        assert (answer["type"], answer["reason"]) == ("stale", "database")
        assert answer["since"] >= seen
    Queue.objects.update(is_paused=True)
    assert ask(deck, "overview")["messages"][1]["sections"]["queues"]["rows"]["mail"]["state"] == "paused"


@pytest.mark.django_db(transaction=True)
def test_a_database_that_does_not_know_who_asks_is_told(deck: Client) -> None:
    with away(Session):
        answer = ask(deck, "overview", status=503)
        assert (answer["type"], answer["reason"]) == ("stale", "database")
    ask(deck, "overview")


# -- charts ------------------------------------------------------------------------------------------------------------


def chart(client: Client, status: int = 200, **query: str) -> dict[str, Any]:
    response = client.get(reverse(SERIES), query)
    assert response.status_code == status, response.content
    found: dict[str, Any] = response.json()
    return found


def bucket(queue: str, type_key: str, count: int) -> None:
    at = timezone.now().replace(microsecond=0) - dt.timedelta(seconds=60)
    at = at.replace(second=at.second // 10 * 10)
    MetricBucket.objects.create(
        at=at, series=f"{queue} {type_key}", queue=queue, type=type_key, outcome=BucketOutcome.SUCCEEDED, shard="s",
        count=count, run_3=count, wait_1=count, max_ms=20,
    )  # fmt: skip


def test_charts(deck: Client) -> None:
    bucket("mail", "a.v1", 5)
    bucket("reports", "b.v1", 7)
    whole = chart(deck)
    assert (whole["range"], whole["span"], len(whole["at"])) == ("15m", 10, 90)
    assert sum(whole["done"]) == 12
    assert max(value for value in whole["run"]["p95"] if value is not None) <= 30
    for name in ("done", "dead", "retried"):
        assert len(whole[name]) == 90
    for name in ("run", "wait"):
        assert {key: len(line) for key, line in whole[name].items()} == {"p50": 90, "p95": 90, "p99": 90}
    assert sum(chart(deck, queue="mail")["done"]) == 5
    assert sum(chart(deck, type="b.v1")["done"]) == 7
    assert sum(chart(deck, queue="mail", type="b.v1")["done"]) == 0
    for reach in ("1h", "6h", "1d", "7d"):
        assert chart(deck, range=reach)["range"] == reach


def test_charts_are_kept_for_all_who_ask(deck: Client) -> None:
    chart(deck)
    bucket("mail", "a.v1", 5)
    with CaptureQueriesContext(connection) as captured:
        assert sum(chart(deck)["done"]) == 0
    assert not [query for query in captured if "chokaq_" in query["sql"]]


def test_a_chart_that_there_is_not_is_refused(deck: Client) -> None:
    assert chart(deck, range="1y", status=400)["code"] == "bad_range"
    assert chart(deck, queue="a\x00b", status=400)["code"] == "bad_topic"
