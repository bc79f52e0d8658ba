"""Rows that no code of ours wrote: a worker settles or skips them, and they never stop the others."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest

from chokaq_django import enqueue
from chokaq_django.models import JobHot, JobStatus

from .. import factories as make
from .. import jobs
from .conftest import StartWorker
from .support import all_settled, committed, settled

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
TYPES = ("test.note", "test.fail", "test.snooze", "test.async_sleep", "test.context")


def poison(columns: dict[str, Any], type_key: str) -> str:
    payload = {"test.note": '{"name":"p"}', "test.fail": '{"times":1000}'}.get(type_key, "{}")
    return str(make.hot(**{"queue": "default", "type": type_key, "payload": payload, "priority": 50, **columns}).pk)


def others_run() -> None:
    assert settled(enqueue(jobs.NoteJob()).id).status == JobStatus.SUCCEEDED
    assert settled(enqueue(jobs.AsyncSleepJob()).id).status == JobStatus.SUCCEEDED


@pytest.mark.parametrize("name", ROWS)
def test_a_poisoned_row_is_settled_and_stops_nobody(start_worker: StartWorker, name: str) -> None:
    ids = [poison(ROWS[name], type_key) for type_key in TYPES]
    start_worker(EXECUTION={"UNKNOWN_TYPE_GRACE": 0.1}, RETRY={"BASE_DELAY": 0.01, "MAX_DELAY": 0.02})
    others_run()
    all_settled(ids, 30)


@pytest.mark.parametrize("name", STUCK)
def test_a_row_that_is_not_due_is_left_alone(start_worker: StartWorker, name: str) -> None:
    job_id = poison(STUCK[name], "test.note")
    start_worker()
    others_run()
    assert JobHot.objects.get(pk=job_id).attempt == 0


@pytest.mark.parametrize("name", LEASED)
def test_a_lease_that_nobody_holds_is_taken_back(start_worker: StartWorker, name: str) -> None:
    job_id = poison(LEASED[name], "test.note")
    start_worker()
    others_run()
    settled(job_id, 20)
