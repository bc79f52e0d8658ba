"""Many jobs in one call: all of them or none."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any

import pytest
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext

from chokaq_django import Job, enqueue, enqueue_many, job_enqueued
from chokaq_django import request as request_module
from chokaq_django.models import JobHot
from chokaq_django.request import Request

Undone = Callable[..., AbstractContextManager[None]]

committed = pytest.mark.usefixtures("transactional_db")


class CardJob(Job, type="producer.card", queue="cards"):
    number: int


@pytest.fixture
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(request_module, "CHUNK_ROWS", 3)


def numbers() -> list[int]:
    return sorted(int(payload.removeprefix('{"number":').rstrip("}")) for payload in payloads())


def payloads() -> list[str]:
    return list(JobHot.objects.values_list("payload", flat=True))


@committed
def test_answers_are_in_the_order_of_the_jobs(woken: list[str]) -> None:
    answers = enqueue_many([CardJob(n) for n in range(5)], priority=7, tags=["batch"])
    assert all(answer.created for answer in answers)
    rows = JobHot.objects.in_bulk([answer.id for answer in answers])
    assert [rows[answer.id].payload for answer in answers] == [f'{{"number":{n}}}' for n in range(5)]
    assert {(row.priority, row.tags, row.queue) for row in rows.values()} == {(7, '["batch"]', "cards")}
    assert len(woken) == 1


@committed
def test_nothing_is_nothing(woken: list[str]) -> None:
    assert enqueue_many([]) == []
    assert enqueue_many(iter(())) == []
    assert woken == []


@committed
def test_requests_have_their_own_options() -> None:
    answers = enqueue_many([CardJob(1), Request(CardJob(2), queue="own", priority=1, idempotency_key="k")], priority=9)
    first, second = (JobHot.objects.get(pk=answer.id) for answer in answers)
    assert (first.queue, first.priority, first.idempotency_key) == ("cards", 9, None)
    assert (second.queue, second.priority, second.idempotency_key) == ("own", 1, "k")


@committed
def test_keys_met_twice(small_chunks: None) -> None:
    held = enqueue(CardJob(0), idempotency_key="held")
    keys = ["held", "new", "new", "late", None, "new", "late", None]
    answers = enqueue_many(Request(CardJob(n), idempotency_key=key) for n, key in enumerate(keys, 1))
    assert [answer.created for answer in answers] == [False, True, False, True, True, False, False, True]
    assert answers[0].id == held.id
    assert answers[1].id == answers[2].id == answers[5].id
    assert answers[3].id == answers[6].id
    assert JobHot.objects.count() == 5


@committed
def test_a_generator_is_streamed_in_one_transaction(small_chunks: None, woken: list[str]) -> None:
    seen: list[int] = []

    def jobs() -> Iterator[CardJob]:
        for n in range(10):
            seen.append(JobHot.objects.count())
            yield CardJob(n)

    assert len(enqueue_many(jobs())) == 10
    assert numbers() == list(range(10))
    assert max(seen) > 0  # earlier chunks were written while it still ran
    assert len(woken) == 4


@committed
@pytest.mark.parametrize("bad", [1, 8])
def test_an_error_leaves_nothing(small_chunks: None, woken: list[str], bad: int) -> None:
    def jobs() -> Iterator[Any]:
        for n in range(10):
            yield CardJob(n) if n != bad else object()

    with pytest.raises(LookupError) as caught:
        enqueue_many(jobs())
    assert caught.value.__notes__ == [f"item {bad} of enqueue_many"]
    assert (payloads(), woken) == ([], [])


@committed
def test_an_error_of_the_generator_leaves_nothing(small_chunks: None) -> None:
    def jobs() -> Iterator[CardJob]:
        yield from (CardJob(n) for n in range(8))
        raise RuntimeError("the source broke")

    with pytest.raises(RuntimeError, match="the source broke"):
        enqueue_many(jobs())
    assert payloads() == []


@committed
def test_it_belongs_to_the_open_transaction(small_chunks: None, undone: Undone, woken: list[str]) -> None:
    with undone():
        enqueue_many(CardJob(n) for n in range(5))
    assert (payloads(), woken) == ([], [])
    with transaction.atomic():
        with undone():
            enqueue_many([CardJob(1)])
        enqueue_many([CardJob(2)])
    assert numbers() == [2]


@committed
def test_one_round_trip_for_a_chunk() -> None:
    enqueue(CardJob(0))
    with transaction.atomic(), CaptureQueriesContext(connection) as queries:
        enqueue_many(CardJob(n) for n in range(200))
    statements = [query["sql"] for query in queries.captured_queries]
    assert len(statements) <= 3, statements


@committed
def test_one_signal_for_each_new_job() -> None:
    sent: list[str] = []

    def receiver(job_id: str, **named: Any) -> None:
        sent.append(job_id)

    job_enqueued.connect(receiver)
    try:
        answers = enqueue_many(Request(CardJob(n), idempotency_key="k" if n < 2 else None) for n in range(4))
    finally:
        job_enqueued.disconnect(receiver)
    assert sent == [answer.id for answer in answers if answer.created]
    assert len(sent) == 3
