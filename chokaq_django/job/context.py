"""What a handler knows about its job, and can say about it while it runs."""

from __future__ import annotations

import contextvars
import json
import logging
from collections.abc import Mapping, MutableMapping
from datetime import datetime
from typing import Any, NoReturn, Protocol

from .durations import LONGEST_DELAY, Duration, to_seconds
from .failures import CancelReason, JobCancelled, Snooze

__all__ = ["ContextHost", "JobContext", "current_context", "reset_current", "set_current"]

_TRACE_HEADERS = ("traceparent", "tracestate", "baggage")
_logger = logging.getLogger("chokaq.job")


class ContextHost(Protocol):
    """What a context needs from whoever runs the job. Called from the job's own thread or task."""

    def progress(self, ctx: JobContext, percent: int, message: str) -> None:
        """Store the progress of the job."""

    def heartbeat(self, ctx: JobContext) -> None:
        """Renew the lease of the job now."""


class _JobLogger(logging.LoggerAdapter[logging.Logger]):
    """Puts the job's identity on every record, next to the ``extra`` of the call."""

    def process(self, msg: Any, kwargs: MutableMapping[str, Any]) -> tuple[Any, MutableMapping[str, Any]]:
        kwargs["extra"] = {**(self.extra or {}), **(kwargs.get("extra") or {})}
        return msg, kwargs


class JobContext:
    """Facts about one execution of one job. Times are aware datetimes in UTC, by the database's clock."""

    __slots__ = (
        "_cancel_reason",
        "_headers",
        "_headers_text",
        "_host",
        "_log",
        "_tags",
        "_tags_text",
        "attempt",
        "created_at",
        "created_by",
        "deadline",
        "due_at",
        "id",
        "max_attempts",
        "priority",
        "queue",
        "run_at",
        "type",
    )

    def __init__(
        self,
        host: ContextHost,
        *,
        id: str,  # noqa: A002 - the names of the attributes
        type: str,  # noqa: A002
        queue: str,
        attempt: int,
        max_attempts: int,
        priority: int,
        created_at: datetime,
        run_at: datetime,
        due_at: datetime,
        deadline: datetime | None = None,
        created_by: str | None = None,
        tags: str = "[]",
        headers: str = "{}",
    ) -> None:
        """``tags`` and ``headers`` are the stored JSON texts; they are parsed when first asked for."""
        self._host = host
        self.id = id
        self.type = type
        self.queue = queue
        self.attempt = attempt
        self.max_attempts = max_attempts
        self.priority = priority
        self.created_at = created_at
        self.run_at = run_at
        self.due_at = due_at
        self.deadline = deadline
        self.created_by = created_by
        self._tags_text = tags
        self._headers_text = headers
        self._tags: tuple[str, ...] | None = None
        self._headers: Mapping[str, str] | None = None
        self._log: logging.LoggerAdapter[logging.Logger] | None = None
        self._cancel_reason: CancelReason | None = None

    def __repr__(self) -> str:
        return f"<JobContext {self.type} {self.id} attempt {self.attempt}/{self.max_attempts}>"

    @property
    def tags(self) -> tuple[str, ...]:
        """The tags given at enqueue."""
        if self._tags is None:
            self._tags = tuple(json.loads(self._tags_text)) if self._tags_text else ()
        return self._tags

    @property
    def headers(self) -> Mapping[str, str]:
        """The headers given at enqueue, trace headers included."""
        if self._headers is None:
            self._headers = json.loads(self._headers_text) if self._headers_text else {}
        return self._headers

    @property
    def trace_headers(self) -> dict[str, str]:
        """The W3C trace context of the enqueuing code: traceparent, tracestate, baggage, as far as present."""
        headers = self.headers
        return {name: headers[name] for name in _TRACE_HEADERS if name in headers}

    @property
    def log(self) -> logging.LoggerAdapter[logging.Logger]:
        """A logger whose records carry the job's id, type, queue and attempt."""
        if self._log is None:
            identity = {
                "job_id": self.id,
                "job_type": self.type,
                "job_queue": self.queue,
                "job_attempt": self.attempt,
            }
            self._log = _JobLogger(_logger, identity)
        return self._log

    @property
    def cancelled(self) -> bool:
        """Whether the job was told to stop. A long handler asks now and then."""
        return self._cancel_reason is not None

    @property
    def cancel_reason(self) -> CancelReason | None:
        """Why the job was told to stop; None while it was not."""
        return self._cancel_reason

    def raise_if_cancelled(self) -> None:
        """Raise ``JobCancelled`` when the job was told to stop."""
        if self._cancel_reason is not None:
            raise JobCancelled(self._cancel_reason)

    def progress(self, percent: float, message: str = "") -> None:
        """Store how far the job is: ``percent`` is cut to whole numbers from 0 to 100. Cheap; may be called often."""
        if isinstance(percent, bool) or not isinstance(percent, (int, float)) or percent != percent:
            raise TypeError(f"progress() takes a number from 0 to 100, got {percent!r}")
        self._host.progress(self, int(min(max(percent, 0), 100)), str(message))

    def heartbeat(self) -> None:
        """Renew the lease now. The worker does so by itself; this is for handlers that starve its threads."""
        self._host.heartbeat(self)

    def snooze(self, delay: Duration) -> NoReturn:
        """End this execution and run the job again after ``delay``; the attempt is given back. Never returns."""
        try:
            seconds = to_seconds(delay, zero=True)
        except (TypeError, ValueError) as error:
            raise type(error)(f"snooze(): delay {error}") from None
        if seconds > LONGEST_DELAY:
            raise ValueError(f"snooze(): delay must be at most 100 years, got {delay!r}")
        raise Snooze(seconds)

    def _cancel(self, reason: CancelReason) -> None:
        """Tell the job to stop; the first reason stays."""
        if self._cancel_reason is None:
            self._cancel_reason = reason


_current: contextvars.ContextVar[JobContext | None] = contextvars.ContextVar("chokaq_job", default=None)


def current_context() -> JobContext | None:
    """The context of the job that the calling code runs in; None outside of one."""
    return _current.get()


def set_current(ctx: JobContext | None) -> contextvars.Token[JobContext | None]:
    """Make ``ctx`` the current one; give the token to ``reset_current`` afterwards."""
    return _current.set(ctx)


def reset_current(token: contextvars.Token[JobContext | None]) -> None:
    """Undo ``set_current``."""
    _current.reset(token)
