"""Handler logs: records made inside a job carry its identity, and the last lines are kept with the attempt.

Every record made inside a job, by whatever logger, has ``chokaq_job_id``, ``chokaq_job_type``, ``chokaq_attempt`` and
``chokaq_trace_id`` (None without a traceparent header) for the project's own formatters.
"""

from __future__ import annotations

import contextvars
import logging
import re
from collections import deque

CONTEXT_LOGGER = "chokaq.job"
"""The logger behind ``ctx.log``."""
TRACEPARENT = re.compile(r'"traceparent"\s*:\s*"[0-9a-f]{2}-([0-9a-f]{32})-')
MAX_LINES = 50
MAX_LINE_LENGTH = 500


class JobLog:
    """The last log lines of one attempt, newest kept."""

    __slots__ = ("attempt", "dropped", "job_id", "job_type", "lines", "trace_id")

    def __init__(self, job_id: str, job_type: str, attempt: int, trace_id: str | None) -> None:
        self.job_id = job_id
        self.job_type = job_type
        self.attempt = attempt
        self.trace_id = trace_id
        self.lines: deque[str] | None = None
        self.dropped = 0

    def add(self, line: str) -> None:
        if self.lines is None:
            self.lines = deque(maxlen=MAX_LINES)
        if len(self.lines) == MAX_LINES:
            self.dropped += 1
        if len(line) > MAX_LINE_LENGTH:
            line = line[:MAX_LINE_LENGTH] + "… [truncated]"
        self.lines.append(line)

    def text_lines(self) -> list[str]:
        """The kept lines, with a first line that says how many earlier ones were dropped."""
        if self.lines is None:
            return []
        head = [f"… [{self.dropped} earlier lines dropped]"] if self.dropped else []
        return head + list(self.lines)


def trace_id_of(headers: str) -> str | None:
    """The trace id of stored headers (JSON text) with a W3C ``traceparent``; None without."""
    found = TRACEPARENT.search(headers) if len(headers) > 2 else None
    return found.group(1) if found else None


current_log: contextvars.ContextVar[JobLog | None] = contextvars.ContextVar("chokaq_job_log", default=None)


class JobLogHandler(logging.Handler):
    """On the root logger of a worker: keeps lines logged inside a job with that job's attempt."""

    def __init__(self) -> None:
        super().__init__(level=logging.NOTSET)
        self.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))

    def emit(self, record: logging.LogRecord) -> None:
        log = current_log.get()
        if log is None or (record.name.startswith("chokaq.") and record.name != CONTEXT_LOGGER):
            return
        try:
            log.add(self.format(record))
        except Exception:  # noqa: BLE001 - as every logging handler: a bad format string must not fail the job
            self.handleError(record)


_plain_factory = logging.getLogRecordFactory()


def _record_factory(*args: object, **kwargs: object) -> logging.LogRecord:
    record = _plain_factory(*args, **kwargs)
    log = current_log.get()
    # Names of our own: logging refuses an ``extra`` that repeats a name of the record, and the handler's code may well
    # have a job_id to tell.
    if log is not None:
        record.chokaq_job_id = log.job_id
        record.chokaq_job_type = log.job_type
        record.chokaq_attempt = log.attempt
        record.chokaq_trace_id = log.trace_id
    return record


def install() -> None:
    """Add job identity to every record made inside a job and keep its last lines. Called once by a worker process."""
    root = logging.getLogger()
    if not any(isinstance(handler, JobLogHandler) for handler in root.handlers):
        logging.setLogRecordFactory(_record_factory)
        root.addHandler(JobLogHandler())
