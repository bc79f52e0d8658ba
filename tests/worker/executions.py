"""Executions of jobs that no table holds, for tests of what runs them."""

from __future__ import annotations

import datetime as dt
from typing import Any

from chokaq_django.job.definition import JobType
from chokaq_django.job.ids import new_id
from chokaq_django.storage import ClaimedJob, Lease
from chokaq_django.worker.execution import Execution

NOW = dt.datetime(2026, 3, 1, 12, tzinfo=dt.UTC)


class Host:
    """What executions ask for, written down."""

    def __init__(self) -> None:
        self.notes: list[tuple[Lease, int, str | None]] = []
        self.beats = 0

    def progress(self, lease: Lease, percent: int, message: str | None) -> None:
        self.notes.append((lease, percent, message))

    def heartbeat(self) -> None:
        self.beats += 1


def claimed(**columns: Any) -> ClaimedJob:
    values: dict[str, Any] = {
        "id": new_id(), "queue": "default", "type": "test.note", "schema_version": 1, "payload": "{}", "tags": "[]",
        "priority": 10, "attempt": 1, "max_attempts": 3, "crash_count": 0, "snooze_count": 0, "claim_number": 1,
        "generation": 0, "created_by": None, "created_at": NOW, "started_at": NOW, "run_at": NOW, "due_at": NOW,
        "deadline_at": None, "headers": "{}", "attempt_log": "[]", "status": 2, "expired": False,
    }  # fmt: skip
    return ClaimedJob(**{**values, **columns})


def execution(
    job_type: JobType | None = None, host: Host | None = None, timeout: float = 60.0, **columns: Any
) -> Execution:
    return Execution(claimed(**columns), job_type or JobType("test.note", None), host or Host(), timeout)
