"""What is larger than max_allowed_packet: the server hangs up, and the driver says only that it has gone away."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import connection, transaction

from chokaq_django import StorageError
from chokaq_django.models import JobHot
from chokaq_django.storage import OutcomeKind, open_storage
from chokaq_django.worker.settle import REFUSED

from .support import WORKER, Jobs, new_job, outcome

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.skipif(connection.vendor != "mysql", reason="applies to mysql only: no other engine has such a limit"),
]


@pytest.fixture
def too_much() -> str:
    with connection.cursor() as cursor:
        cursor.execute("SELECT @@max_allowed_packet")
        (limit,) = cursor.fetchone()
    return "x" * (limit + 1)


def assert_says_why(error: BaseException, text: str) -> None:
    assert f"max_allowed_packet is {len(text) - 1:,}" in str(error)
    (said,) = (word for word in str(error).split() if word.replace(",", "").isdigit())
    assert len(text) < int(said.replace(",", "")) < len(text) + 10_000, "and how large it was"


@pytest.mark.parametrize("more", [{}, {"idempotency_key": "k"}])
def test_an_enqueue_says_which_setting_and_which_sizes(jobs: Jobs, too_much: str, more: dict[str, Any]) -> None:
    with pytest.raises(StorageError) as caught:
        jobs.storage.enqueue([new_job(payload=too_much, **more)])
    assert_says_why(caught.value, too_much)
    jobs.storage.enqueue([new_job(**more)])
    assert JobHot.objects.count() == 1, "and the connection is one again"


def test_inside_the_callers_transaction_too(jobs: Jobs, too_much: str) -> None:
    with pytest.raises(StorageError) as caught, transaction.atomic():
        jobs.storage.enqueue([new_job(), new_job(payload=too_much)])
    assert_says_why(caught.value, too_much)
    assert not JobHot.objects.exists()


def test_the_callers_transaction_survives_it(jobs: Jobs, too_much: str) -> None:
    """What is too large is not sent: at that the server would hang up, and undo all that came before."""
    (running,) = jobs.running()
    with transaction.atomic():
        jobs.storage.enqueue([new_job()])
        with pytest.raises(REFUSED) as caught:
            jobs.storage.settle(WORKER, [outcome(running, OutcomeKind.SUCCEEDED, result=too_much)])
        assert jobs.settle(running) == {running.id}
    assert_says_why(caught.value, too_much)
    assert JobHot.objects.count() == 1


def test_text_of_many_bytes_is_split_by_its_bytes(jobs: Jobs, too_much: str) -> None:
    """Together too large by its bytes, though not by its characters."""
    part = "漢" * (len(too_much) // 7)
    assert len(jobs.storage.enqueue([new_job(payload=part) for _ in range(3)])) == 3


def test_an_outcome_is_refused_and_not_tried_for_ever(jobs: Jobs, too_much: str) -> None:
    running = jobs.running(2)
    own = open_storage()
    try:
        with pytest.raises(REFUSED) as caught:
            own.settle(WORKER, [outcome(running[0], OutcomeKind.SUCCEEDED, result=too_much)])
        assert_says_why(caught.value, too_much)
        assert own.settle(WORKER, [outcome(job) for job in running]) == {job.id for job in running}
    finally:
        own.close()
