"""Collects what executions say about the circuits of their types, and reports it after the settle that wrote them."""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping
from typing import TYPE_CHECKING

from ..conf import get_options
from ..job.registry import registry
from ..models import Circuit
from ..observability.events import Event, log_event
from ..storage import ClaimedJob, Storage
from ..storage.contract import CircuitPolicy, CircuitReport, CircuitRow
from .execution import Execution, Verdict
from .views import CircuitView

if TYPE_CHECKING:
    from ..job.definition import CircuitPolicy as Policy
    from ..job.definition import JobType

logger = logging.getLogger("chokaq.worker.circuit")


class Breaker:
    """Fed by every settled execution; writes only when a circuit can change by it."""

    def __init__(self, view: CircuitView) -> None:
        self._view = view
        self._lock = threading.Lock()
        self._reports: dict[str, CircuitReport] = {}

    def policy(self, job_type: JobType) -> CircuitPolicy | None:
        """The type's own policy or the setting; None for a type without a circuit."""
        return None if job_type.circuit is False else _plain(job_type.circuit or get_options().circuit)

    def settled(self, execution: Execution) -> None:
        """Count one execution; most need nothing at all."""
        verdict = execution.verdict
        if not execution.is_probe:
            if verdict is Verdict.NEUTRAL:
                return
            if verdict is Verdict.SUCCESS and self._view.row(execution.job.type) is None:
                return
        policy = self.policy(execution.type)
        if policy is None and execution.is_probe:
            # The type had a circuit when this one opened, and now has none that could close it.
            policy = _plain(get_options().circuit)
        if policy is None:
            return
        with self._lock:
            report = self._report(execution.job.type, policy)
            if verdict is Verdict.SUCCESS:
                report.successes += 1
            elif verdict is not Verdict.NEUTRAL:
                report.failures += 1
            if execution.is_probe:
                report.probes[execution.job.id] = None if verdict is Verdict.NEUTRAL else verdict is Verdict.SUCCESS

    def passed_up(self, job: ClaimedJob) -> None:
        """A job that was claimed as a probe does not start: another may."""
        job_type = registry.get(job.type)
        policy = (self.policy(job_type) if job_type is not None else None) or _plain(get_options().circuit)
        with self._lock:
            self._report(job.type, policy).probes[job.id] = None

    def crashed(self, job_type: JobType, key: str) -> None:
        """A worker died while it ran a job of the type stored as ``key``: a failure."""
        policy = self.policy(job_type)
        if policy is not None:
            with self._lock:
                self._report(key, policy).failures += 1

    def _report(self, key: str, policy: CircuitPolicy) -> CircuitReport:
        return self._reports.setdefault(key, CircuitReport(key, policy))

    def flush(self, storage: Storage) -> bool:
        """Write what was counted; True when a circuit closed, so that its jobs may be claimed."""
        if not self._reports:
            return False
        with self._lock:
            reports, self._reports = self._reports, {}
        # Before they are written: the fetch loop may read the circuits anew as soon as they are.
        before = {key: self._view.row(key) for key in reports}
        try:
            rows = storage.report_circuits(list(reports.values()))
        except BaseException:
            self._take_back(reports)
            raise
        closed = False
        for row in rows:
            closed = self._changed(before[row.type], row) or closed
        self._view.replace(storage.circuits())
        return closed

    def _take_back(self, reports: Mapping[str, CircuitReport]) -> None:
        """Keep what could not be written for the next flush."""
        with self._lock:
            for key, late in reports.items():
                newer = self._reports.setdefault(key, late)
                if newer is not late:
                    newer.successes += late.successes
                    newer.failures += late.failures
                    newer.probes = {**late.probes, **newer.probes}

    def _changed(self, before: CircuitRow | None, row: CircuitRow) -> bool:
        was = before.state if before is not None else Circuit.CLOSED
        if was == row.state:
            return False
        if row.state == Circuit.OPEN:
            log_event(
                logger, logging.WARNING, Event.CIRCUIT_CHANGED,
                "The circuit of %s is open after %d failures; its jobs keep their place, the next look is in %.0f s",
                row.type, row.failures, row.reopens_in,
            )  # fmt: skip
        elif row.state == Circuit.CLOSED:
            log_event(logger, logging.INFO, Event.CIRCUIT_CHANGED, "The circuit of %s is closed again", row.type)
        return row.state == Circuit.CLOSED


def _plain(policy: Policy) -> CircuitPolicy:
    """A type's policy, or the settings', as the storage takes it."""
    return CircuitPolicy(
        policy.failures, float(policy.window), float(policy.break_), policy.probes, float(policy.probe_timeout)
    )
