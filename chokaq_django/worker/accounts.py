"""What became of the jobs of this process: counts, a line in the log, a signal to the project."""

from __future__ import annotations

import logging
from typing import Any

from ..job import signals
from ..observability.events import Event, log_event
from ..storage import Outcome, OutcomeKind
from .execution import Execution
from .signal_sender import SignalSender

logger = logging.getLogger("chokaq.worker")


class Accounts:
    """Since the process started. ``finished``: outcomes that were written; ``conflicts``: those that were refused."""

    def __init__(self) -> None:
        self.succeeded = 0
        self.failed = 0
        self.retried = 0
        self.conflicts = 0
        self.finished = 0
        self._signals = SignalSender()

    def began(self, execution: Execution) -> None:
        """User code is about to run."""
        self._send(signals.job_started, execution)

    def settled(self, execution: Execution, outcome: Outcome) -> None:
        """The outcome has been committed."""
        self.finished += 1
        kind = outcome.kind
        if kind is OutcomeKind.SUCCEEDED:
            self.succeeded += 1
            log_event(
                logger, logging.DEBUG, Event.JOB_SUCCEEDED, "Job %s (%s) succeeded in %d ms",
                outcome.id, outcome.type, outcome.duration_ms,
            )  # fmt: skip
            self._send(signals.job_succeeded, execution)
        elif kind is OutcomeKind.RETRY:
            self.retried += 1
            log_event(
                logger, logging.INFO, Event.JOB_RETRYING, "Job %s (%s) failed, attempt %d of %d; again in %.1f s: %s",
                outcome.id, outcome.type, execution.job.attempt, execution.job.max_attempts, outcome.delay,
                outcome.error_details,
            )  # fmt: skip
            self._send(signals.job_retrying, execution, delay=outcome.delay, error=outcome.error_details)
        elif outcome.reason is not None:
            self.failed += 1
            log_event(
                logger, logging.WARNING, Event.JOB_BURIED, "Job %s (%s) is dead: %s (%s), attempt %d of %d: %s",
                outcome.id, outcome.type, outcome.reason.label, outcome.error_type, execution.job.attempt,
                execution.job.max_attempts, execution.error_message,
            )  # fmt: skip
            self._send(signals.job_buried, execution, reason=outcome.reason, error=outcome.error_details)

    def refused(self, execution: Execution, outcome: Outcome | None) -> None:
        """The lease is gone, and with it whatever the execution did; ``outcome``: what it wanted to write."""
        self.conflicts += 1
        job = execution.job
        if outcome is None:
            log_event(
                logger, logging.WARNING, Event.JOB_LEASE_LOST,
                "Job %s (%s) was taken over by somebody else; its outcome here is refused", job.id, job.type,
            )  # fmt: skip
        else:
            log_event(
                logger, logging.WARNING, Event.JOB_CONFLICT,
                "The outcome (%s) of job %s (%s) was refused: its lease is gone", outcome.kind.value, job.id, job.type,
            )  # fmt: skip

    def close(self) -> None:
        """Send the signals that wait, then no more."""
        self._signals.close()

    def _send(self, signal: Any, execution: Execution, **more: Any) -> None:
        if signal.receivers:
            job = execution.job
            self._signals.send(
                signal, execution.type.cls, job_id=job.id, type=job.type, queue=job.queue, attempt=job.attempt, **more
            )
