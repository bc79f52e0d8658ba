"""What happened to one job: its attempts and the acts of operators, for its page."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from typing import Any

from ..job.attempts import read_attempts
from ..models import AuditEntry, FailureReason
from ..reading.acts import acts_on
from .text import duration, moment, page_text

__all__ = ["Attempt", "attempts_of", "audit_of"]

MOST_ACTS = 20


@dataclass(slots=True)
class Attempt:
    """One execution, as text to show. ``error`` and ``log`` come from the job and may be hidden."""

    number: str
    outcome: str
    tone: str
    worker: str
    started: str
    took: str
    error_type: str
    error: str
    log: str


def attempts_of(log_text: str) -> list[Attempt]:
    """The attempts kept in a job's row, the latest first."""
    return [_attempt(entry) for entry in reversed(read_attempts(log_text))]


def _attempt(entry: dict[str, Any]) -> Attempt:
    outcome = page_text(entry.get("outcome", ""))
    milliseconds = entry.get("duration_ms")
    lines = entry.get("log")
    return Attempt(
        number=page_text(entry.get("attempt", "?")),
        outcome=outcome,
        tone=_tone(outcome),
        worker=page_text(entry.get("worker") or ""),
        started=moment(_time(entry.get("started"))),
        took=duration(milliseconds) if isinstance(milliseconds, int) else "",
        error_type=page_text(entry.get("error_type") or ""),
        error=page_text(entry.get("traceback") or entry.get("message") or ""),
        log="\n".join(map(page_text, lines)) if isinstance(lines, list) else "",
    )


def _tone(outcome: str) -> str:
    if outcome.casefold() == "succeeded":
        return "good"
    return "bad" if outcome in {reason.label for reason in FailureReason} else "warn"


def _time(value: object) -> dt.datetime | None:
    try:
        time = dt.datetime.fromisoformat(str(value))
    except ValueError:
        return None
    return time if time.tzinfo else time.replace(tzinfo=dt.UTC)


def audit_of(target: str) -> list[AuditEntry]:
    """The latest acts on a job, queue or worker, newest first."""
    return acts_on(target, MOST_ACTS)
