"""Jobs: those that workers have, and one of them."""

from __future__ import annotations

from typing import Any

from ...models import JobStatus
from ...reading.job import dead_status, known
from .look import MATRIX, Look
from .values import Section, instant, keyed, label, reason

__all__ = ["job", "matrix", "overview_matrix"]


def matrix(look: Look, rows: list[dict[str, Any]], total: int | None) -> Section:
    found = {row["id"]: _leased(row) for row in rows}
    return keyed(look, found, 0 if total is None else max(0, total - len(found)))


def overview_matrix(look: Look) -> Section:
    at_work = sum(figures.fetched + figures.processing for figures in look.queues.values())
    return matrix(look, look.leased, at_work if len(look.leased) >= MATRIX else None)


def _leased(row: dict[str, Any]) -> Section:
    return {
        "id": row["id"],
        "type": row["type"],
        "queue": row["queue"],
        "status": label(known(JobStatus, row["status"])),
        "attempt": row["attempt"],
        "max_attempts": row["max_attempts"],
        "worker": row["worker_id"],
        "started_at": instant(row["started_at"]),
        "cancelling": row["cancel_requested_at"] is not None,
        "progress": row["progress"],
        "message": row["message"] or "",
    }


def job(job_id: str, look: Look) -> Section:
    place, row = look.job(job_id) or (None, {})
    status = row.get("status")
    if row.get("failure_reason") is not None:
        status = dead_status(row["failure_reason"])
    elif place is not None and status is None:
        status = JobStatus.SUCCEEDED
    waits = place == "hot" and status in (JobStatus.PENDING, JobStatus.AWAITING)
    return {
        "as_of": instant(look.now),
        "id": job_id,
        "location": place,
        "status": None if status is None else label(known(JobStatus, status)),
        **{name: row.get(name) for name in _JOB_PLAIN},
        "worker": row.get("worker_id"),
        **{name: instant(row.get(name)) for name in _JOB_INSTANTS},
        "cancelling": row.get("cancel_requested_at") is not None,
        "message": row.get("message") or "",
        "reason": reason(row.get("failure_reason")),
        "waiting": [
            {
                "code": hold.code,
                "text": str(hold.text),
                "said": hold.text.document(),
                "page": hold.page,
                "name": hold.name,
            }
            for hold in (look.why(job_id) if waits else ())
        ],
    }


_JOB_PLAIN = (
    "type", "queue", "attempt", "max_attempts", "generation", "revision", "priority", "progress", "duration_ms",
    "wait_ms", "error_type",
)  # fmt: skip
_JOB_INSTANTS = (
    "created_at", "run_at", "due_at", "deadline_at", "started_at", "heartbeat_at", "finished_at", "failed_at",
    "purged_at",
)  # fmt: skip
