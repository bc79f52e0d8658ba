"""A verb whose transaction the server undoes to end a deadlock is done again, whole and once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.db import DatabaseError, connection, transaction

from chokaq_django import control
from chokaq_django.control import acts
from chokaq_django.models import AuditEntry, JobDLQ, JobHot
from chokaq_django.storage.moves import MoveStatements
from tests import factories as make
from tests.verbs import VERBS

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.skipif(
        connection.vendor not in ("postgresql", "mysql"),
        reason="one writes at a time on SQLite; SQL Server raises its own deadlocks only",
    ),
]

VICTIM = {
    "postgresql": "DO $$ BEGIN RAISE EXCEPTION 'deadlock detected' USING ERRCODE = '40P01'; END $$",
    "mysql": "SIGNAL SQLSTATE '40001' SET MYSQL_ERRNO = 1213, MESSAGE_TEXT = 'Deadlock found'",
}


@pytest.fixture
def victim(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """From now on so many reads with locks end as the victim of a deadlock, after they were done."""
    left = [0]
    locked = MoveStatements._locked

    def look(self: MoveStatements, *args: Any) -> Any:
        rows = locked(self, *args)
        if left[0]:
            left[0] -= 1
            with connection.cursor() as cursor:
                cursor.execute(VICTIM[connection.vendor])
        return rows

    monkeypatch.setattr(MoveStatements, "_locked", look)

    def begin(times: int) -> None:
        left[0] = times

    return begin


@pytest.mark.parametrize("verb", VERBS)
def test_a_verb_is_done_again(verb: str, victim: Callable[[int], None]) -> None:
    ids = [make.dead().pk for _ in range(3)]
    victim(2)
    answer = VERBS[verb](ids)
    assert (sorted(answer.applied), answer.refused) == (sorted(ids), [])
    assert sorted(AuditEntry.objects.values_list("target", flat=True)) == sorted(ids), "each once"


def test_one_that_never_gets_through_is_told(victim: Callable[[int], None]) -> None:
    job = make.dead()
    victim(1_000)
    with pytest.raises(DatabaseError):
        control.edit(job.pk, by="ada", queue="else")
    assert (JobDLQ.objects.get().queue, AuditEntry.objects.count()) == (job.queue, 0)


@pytest.mark.parametrize("verb", VERBS)
def test_in_a_caller_s_transaction_too_where_it_spares_what_came_before(
    verb: str, victim: Callable[[int], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = [make.dead().pk for _ in range(3)]
    monkeypatch.setattr(acts, "CHUNK", 2)
    victim(2)
    if connection.vendor != "postgresql":
        with pytest.raises(DatabaseError), transaction.atomic():
            VERBS[verb](ids)
        assert (JobDLQ.objects.count(), AuditEntry.objects.count()) == (3, 0), "it is the caller's to begin again"
        return
    with transaction.atomic():
        before = make.hot()
        answer = VERBS[verb](ids)
    assert (sorted(answer.applied), answer.refused) == (sorted(ids), [])
    assert sorted(AuditEntry.objects.values_list("target", flat=True)) == sorted(ids), "each once"
    assert JobHot.objects.filter(pk=before.pk).exists()
