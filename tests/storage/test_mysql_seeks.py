"""MariaDB and MySQL: with many queues a worker sends more statements, not longer ones."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from django.db import connection

from chokaq_django.models import Queue
from chokaq_django.storage import Storage, open_storage
from chokaq_django.storage.mysql import seeks
from chokaq_django.storage.mysql.seeks import SELECTS

from .support import PENDING, Jobs, committed, ids, new_job, row

pytestmark = [committed, pytest.mark.skipif(connection.vendor != "mysql", reason="statements of MariaDB and MySQL")]

QUEUES = [f"q{number:03}" for number in range(2 * SELECTS + 20)]
FRAME = 6
"""SELECTs of one statement around its seeks: closed queues, the clock, what puts the heads in order."""


@pytest.fixture
def own() -> Iterator[Any]:
    """A worker's storage."""
    storage = open_storage()
    yield storage
    storage.close()


@pytest.fixture
def sent(own: Any) -> list[str]:
    """The statements that it sends."""
    statements: list[str] = []
    send = own._send

    def sending(sql: str, params: Any = ()) -> Any:
        statements.append(sql)
        return send(sql, params)

    own._send = sending
    return statements


def longest(statements: list[str]) -> int:
    return max(sql.count("SELECT") for sql in statements)


def filled(storage: Storage, priorities: tuple[int, ...] = (5,)) -> list[str]:
    """One job of each priority in each queue; the ids in the order of their claim."""
    rows = [new_job(queue=queue, priority=priority) for priority in priorities for queue in QUEUES]
    return [answer.id for one in rows for answer in storage.enqueue([one])]


def test_a_claim_of_many_queues(own: Any, sent: list[str], storage: Storage) -> None:
    given = filled(storage, (9, 5))
    worker = Jobs(own)
    everything = len(QUEUES)
    taken = ids(worker.take(everything + 30, queues=QUEUES))
    assert taken == given[: everything + 30], "true order, over all parts of a level"
    assert ids(worker.take(7, queues=QUEUES)) == given[everything + 30 :][:7]
    assert len(worker.take(everything, queues=QUEUES)) == everything - 37
    assert longest(sent) <= SELECTS + FRAME
    assert worker.take(1, queues=QUEUES) == []


def test_a_restricted_claim_of_many_queues(own: Any, sent: list[str], storage: Storage) -> None:
    given = filled(storage)
    worker = Jobs(own)
    claimed = worker.take(len(QUEUES), queues=QUEUES, blocked={"other.v1": 60.0})
    assert ids(claimed) == given
    assert longest(sent) <= SELECTS + FRAME


def test_the_next_due_job_and_closed_queues_are_found_in_every_part(
    own: Any, sent: list[str], storage: Storage
) -> None:
    storage.enqueue([new_job(queue=queue, delay=3600.0 - number) for number, queue in enumerate(QUEUES)])
    now = storage.enqueue([new_job(queue=queue) for queue in QUEUES[:2]])
    Queue.objects.create(name=QUEUES[0], is_paused=True, updated_at=storage.now())
    claim = Jobs(own).claim(10, queues=QUEUES)
    assert ids(claim.jobs) == [now[1].id]
    assert row(now[0].id)["status"] == PENDING
    assert claim.next_due is not None
    assert 3600.0 - len(QUEUES) - 30 < claim.next_due < 3600.0 - len(QUEUES) + 2
    assert own.pending_queues() == QUEUES
    assert own.pending_queues() == QUEUES
    assert longest(sent) <= SELECTS + FRAME


def test_queues_that_are_no_longer_asked_for_are_forgotten(
    own: Any, storage: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(seeks, "REMEMBERED", 10)
    filled(storage)
    own._look(QUEUES[:30])
    own._look(QUEUES[20:30])
    assert set(own._priorities) == set(QUEUES[20:30])
    own._look(QUEUES[25:30])
    assert set(own._priorities) == set(QUEUES[20:30]), "a part of the queues may be asked for in between"


def test_what_is_new_is_asked_about_once(own: Any, sent: list[str], storage: Storage) -> None:
    """A first look at many queues or priorities asks no question again with each name that it learns."""
    filled(storage)
    assert own.pending_queues() == QUEUES
    assert sum(sql.count("SELECT") for sql in sent) < 2 * len(QUEUES)
    sent.clear()
    for priority in range(100):
        storage.enqueue([new_job(queue="many", priority=priority)])
    assert len(own._pairs(["many"])) == 100
    assert sum(sql.count("SELECT") for sql in sent) < 100 * (2 + FRAME)
