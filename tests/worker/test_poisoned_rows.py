"""Rows that no code of ours wrote: a worker settles or skips them, and they never stop the others."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest

from chokaq_django import enqueue
from chokaq_django.models import JobHot, JobStatus

from .. import factories as make
from .. import jobs
from ..helpers import wait_until
from .conftest import StartWorker
from .support import DYING, committed, settled

pytestmark = committed
MOST = 2**31 - 1
FAR = dt.datetime(9999, 12, 31, 23, 59, 59, 999999, tzinfo=dt.UTC)
EARLY = dt.datetime(1, 1, 1, tzinfo=dt.UTC)

ROWS: dict[str, dict[str, Any]] = {
    "deep": {"payload": "[" * 100_000},
    "deep object": {"payload": '{"name":' * 100_000},
    "not json": {"payload": "\x01<xml/>"},
    "huge": {"payload": '{"name":"' + "x" * 3_000_000 + '"}'},
    "surrogates": {"payload": '{"name":"\\ud800"}'},
    "nul": {"payload": '{"name":"\\u0000"}'},
    "version 0": {"schema_version": 0},
    "version -1": {"schema_version": -1},
    "version most": {"schema_version": MOST},
    "priority": {"priority": -MOST},
    "priority most": {"priority": MOST},
    "attempts": {"attempt": 50, "max_attempts": 3},
    "no attempts": {"max_attempts": 0},
    "minus attempts": {"attempt": -5, "max_attempts": -5},
    "attempt most": {"attempt": 10**9},
    "claims minus": {"claim_number": -MOST},
    "snoozes most": {"snooze_count": 10**9},
    "crashes most": {"crash_count": 10**9},
    "log": {"attempt_log": "garbage"},
    "log deep": {"attempt_log": "[" * 100_000},
    "log text": {"attempt_log": '[{"a":"\\ud800\\u0000"}, NaN, 1e999]'},
    "log list": {"attempt_log": "[" * 985 + "]" * 985},
    "log huge": {"attempt_log": '[{"message":"' + "x" * 5_000_000 + '"}]'},
    "tags": {"tags": "garbage", "headers": "garbage"},
    "tags kinds": {"tags": '{"a":1}', "headers": "[1]"},
    "type": {"type": "no.such\n🎉' OR 1=1 --"},
    "type blank": {"type": ""},
    "early": {"run_at": EARLY, "due_at": EARLY, "created_at": EARLY},
    "due late": {"due_at": FAR, "created_at": FAR},
    "deadline past": {"deadline_at": EARLY},
    "deadline far": {"deadline_at": FAR},
    "other worker": {"worker_id": "somebody else", "cancel_requested_by": "x"},
    "cancelled": {"cancel_requested_at": EARLY, "cancel_requested_by": "🎉"},
}
STUCK: dict[str, dict[str, Any]] = {
    "seven": {"status": 7},
    "nine": {"status": 9},
    "later": {"run_at": FAR},
}
LEASED: dict[str, dict[str, Any]] = {
    "nobody's": {"status": 2, "worker_id": None},
    "no heartbeat": {"status": 2, "worker_id": "gone", "heartbeat_at": None},
    "future heartbeat": {"status": 2, "worker_id": "gone", "heartbeat_at": FAR, "started_at": FAR},
    "buffered": {"status": 1, "worker_id": "gone"},
    "crashes": {"status": 2, "worker_id": "gone", "crash_count": 10**9, "attempt": 10**9},
}
PARTS = 5
TYPES = ("test.note", "test.fail", "test.snooze", "test.async_sleep", "test.context")


def poison(columns: dict[str, Any], type_key: str) -> str:
    payload = {"test.note": '{"name":"p"}', "test.fail": '{"times":1000}'}.get(type_key, "{}")
    return str(make.hot(**{"queue": "default", "type": type_key, "payload": payload, "priority": 50, **columns}).pk)


def others_run() -> None:
    assert settled(enqueue(jobs.NoteJob()).id).status == JobStatus.SUCCEEDED
    assert settled(enqueue(jobs.AsyncSleepJob()).id).status == JobStatus.SUCCEEDED


@pytest.mark.parametrize("part", range(PARTS))
def test_poisoned_rows_are_settled_and_stop_nobody(start_worker: StartWorker, part: int) -> None:
    rows = list(ROWS.items())[part::PARTS]
    ids = {poison(columns, key): f"{name} of {key}" for name, columns in rows for key in TYPES}
    start_worker(EXECUTION={"UNKNOWN_TYPE_GRACE": 0.1}, RETRY={"BASE_DELAY": 0.01, "MAX_DELAY": 0.02}, RECOVERY=DYING)
    others_run()

    def left() -> list[str]:
        return [ids[pk] for pk in JobHot.objects.filter(pk__in=ids).values_list("pk", flat=True)]

    try:
        wait_until(lambda: not left(), 60)
    except AssertionError:
        pytest.fail(f"not settled: {left()}")
    others_run()


def test_rows_that_are_not_due_are_left_alone(start_worker: StartWorker) -> None:
    ids = {poison(columns, "test.note"): name for name, columns in STUCK.items()}
    start_worker()
    others_run()
    touched = JobHot.objects.filter(pk__in=ids).exclude(attempt=0)
    assert [ids[row.pk] for row in touched] == []
    assert JobHot.objects.filter(pk__in=ids).count() == len(ids)


def test_leases_that_nobody_holds_are_taken_back(start_worker: StartWorker) -> None:
    ids = {poison(columns, "test.note"): name for name, columns in LEASED.items()}
    start_worker(RECOVERY=DYING)
    others_run()
    for job_id, name in ids.items():
        assert settled(job_id, 20), name
