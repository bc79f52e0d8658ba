"""Connections end without asking: what storage owns is done again, what belongs to the caller's transaction is told."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest
from django.db import DatabaseError, connection, transaction

from chokaq_django.models import JobHot, Queue
from chokaq_django.storage import ClaimedJob, ClaimRequest, Storage, get_storage
from chokaq_django.storage.contract import QueueRow

from ..helpers import kill_connection
from .invariants import assert_one_place
from .support import WORKER, Jobs, committed, new_job, outcome

pytestmark = committed


@pytest.fixture(autouse=True)
def _a_server(engine: str) -> None:
    if engine == "sqlite":
        pytest.skip("SQLite has no connection to lose")


Operation = Callable[[Storage, ClaimedJob, ClaimedJob], object]
OPERATIONS: dict[str, Operation] = {
    "enqueue": lambda own, running, fetched: own.enqueue([new_job(idempotency_key="k"), new_job()]),
    "claim": lambda own, running, fetched: own.claim(ClaimRequest(WORKER, ["mail"], 5)).jobs,
    "claim under a cap": lambda own, running, fetched: (
        own.claim(ClaimRequest(WORKER, ["mail"], 5, capped={"mail": 9})).jobs
    ),
    "start": lambda own, running, fetched: own.start(WORKER, [fetched.lease]).started,
    "release": lambda own, running, fetched: own.release(WORKER, [fetched.lease]),
    "settle": lambda own, running, fetched: own.settle(WORKER, [outcome(running)]),
    "heartbeat": lambda own, running, fetched: not own.heartbeat(WORKER, [running.lease]).lost,
    "progress": lambda own, running, fetched: own.progress(WORKER, {running.lease: (1, "x")}),
    "cancel": lambda own, running, fetched: own.cancel([running.id], "ada").requested,
    "live rows": lambda own, running, fetched: own.live_rows(),
    "lead": lambda own, running, fetched: own.lead("x", WORKER, 60.0),
    "now": lambda own, running, fetched: own.now(),
}


@pytest.mark.parametrize("operation", OPERATIONS.values(), ids=OPERATIONS.keys())
def test_a_lost_connection_is_opened_again_and_the_work_is_done(
    jobs: Jobs, other: Storage, operation: Operation
) -> None:
    jobs.storage.seed_queue(QueueRow("mail", False, True, None, None, None, None))
    (running,), (fetched,) = jobs.running(), jobs.fetched()
    jobs.one()
    kill_connection(other.connection, by=connection)  # type: ignore[attr-defined]
    assert operation(other, running, fetched), "as if nothing had happened"
    assert_one_place(3 + 2 * (operation is OPERATIONS["enqueue"]))


def test_the_callers_own_connection_is_opened_again_outside_a_transaction(jobs: Jobs, other: Storage) -> None:
    kill_connection(connection, by=other.connection)  # type: ignore[attr-defined]
    assert jobs.one()
    assert JobHot.objects.count() == 1


def test_a_connection_lost_in_the_callers_transaction_is_the_callers_error(other: Storage) -> None:
    """Nothing is retried there: what the caller wrote before is gone, and only the caller can write it again."""
    raised: list[BaseException] = []

    def work() -> None:
        try:
            with transaction.atomic():
                own = get_storage()
                Queue.objects.create(name="before", updated_at=own.now())
                kill_connection(connection, by=other.connection)  # type: ignore[attr-defined]
                own.enqueue([new_job()])
        except DatabaseError as error:
            raised.append(error)
        finally:
            connection.close()

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    thread.join(30)
    assert raised
    assert not Queue.objects.exists()
    assert_one_place(0)
