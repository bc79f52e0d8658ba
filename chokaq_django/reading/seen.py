"""What everybody sees who may look at the Deck. All else of a job, and whatever nobody has named here yet, needs
``chokaq.view_payload``: what jobs and their callers wrote is in there.

Notes are named: operators write them for each other, as they write reasons.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .masks import MASK

__all__ = ["ATTEMPT", "DETAILS", "JOB", "plain_attempt", "plain_details"]

JOB = frozenset({
    "id", "location", "status", "queue", "type", "schema_version", "tags", "priority", "attempt", "max_attempts",
    "crash_count", "snooze_count", "claim_number", "generation", "revision", "worker_id", "created_by", "modified_by",
    "created_at", "started_at", "run_at", "due_at", "deadline_at", "idempotency_key", "concurrency_key",
    "heartbeat_at", "updated_at", "cancel_requested_at", "cancel_requested_by", "progress", "finished_at",
    "duration_ms", "wait_ms", "failure_reason", "error_type", "fingerprint", "failed_at", "note", "assignee",
    "acknowledged_at", "came_from", "purged_at", "purged_by", "expires_at",
})  # fmt: skip
"""Columns of jobs."""
ATTEMPT = frozenset({"attempt", "worker", "started", "duration_ms", "outcome", "error_type"})
"""What is told of one execution."""
DETAILS = frozenset({
    "acknowledged", "action", "assignee", "canary", "concurrency_key", "corrected", "desired_concurrency",
    "execution_timeout", "from", "host", "ids", "is_active", "is_paused", "location", "max_workers", "new", "note",
    "on_key_conflict", "outcome", "patch", "pid", "priority", "queue", "rate", "revision", "stop_requested",
    "stop_share", "tags", "to", "ttl", "type", "undo_of", "until", "where", "window_end", "window_start", "window_zone",
    "zombie_timeout",
})  # fmt: skip
"""What is told of an act."""


def plain_attempt(attempt: Mapping[str, Any]) -> dict[str, Any]:
    """An entry of an attempt log without what the job wrote."""
    return {name: value for name, value in attempt.items() if name in ATTEMPT}


def plain_details(details: Any) -> Any:
    """What an audit entry tells, with a mask for what is not for everybody. True and False give nothing away."""
    if not isinstance(details, Mapping):
        return MASK
    return {
        name: value if name in DETAILS or isinstance(value, bool) or value is None else MASK
        for name, value in details.items()
    }
