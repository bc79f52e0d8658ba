"""The circuit breaker's state machine: pure logic on one row that the caller has locked.

Closed counts failures in a window; enough of them open it. Open blocks the type until ``open_until``; then a claim
hands out a few probe leases, which makes it half open. Enough successful probes close it, a failed one opens it again.
A probe whose worker died frees its permit when its lease runs out.
"""

from __future__ import annotations

import datetime as dt
import json
from dataclasses import dataclass, field

from ..models import Circuit
from .contract import CircuitAct, CircuitPolicy, CircuitReport, CircuitRow

FORCED_LOOK = 30.0
"""Seconds after which to look again at a circuit that only an operator closes."""


@dataclass(slots=True)
class CircuitState:
    """One circuit's row. ``probes``: job id -> end of its permit."""

    type: str
    state: int = Circuit.CLOSED
    failures: int = 0
    window_started_at: dt.datetime | None = None
    opened_at: dt.datetime | None = None
    open_until: dt.datetime | None = None
    probes: dict[str, dt.datetime] = field(default_factory=dict)
    probe_successes: int = 0
    forced: bool = False

    def row(self, now: dt.datetime) -> CircuitRow:
        """The answer for workers."""
        reopens_in = 0.0
        if self.state == Circuit.OPEN:
            reopens_in = max(0.0, (self.open_until - now).total_seconds()) if self.open_until else 0.0
            reopens_in = FORCED_LOOK if self.forced else reopens_in
        return CircuitRow(self.type, self.state, self.failures, reopens_in, self.forced)

    # -- operators ----------------------------------------------------------------------------------------------------

    def force(self, act: CircuitAct, now: dt.datetime) -> bool:
        """Do what an operator wants; whether anything changed."""
        if act is CircuitAct.OPEN:
            if self.state == Circuit.OPEN and self.forced:
                return False
            self.state, self.opened_at, self.open_until, self.forced = Circuit.OPEN, now, None, True
            self.probes, self.probe_successes = {}, 0
            return True
        if self.state == Circuit.CLOSED and (act is CircuitAct.CLOSE or not self.failures):
            return False
        self._close()
        self.forced = False
        return True

    # -- executions ---------------------------------------------------------------------------------------------------

    def apply(self, report: CircuitReport, now: dt.datetime) -> bool:
        """Take in what executions did; whether anything changed."""
        if self.state == Circuit.CLOSED:
            return self._count(report, now)
        if self.forced:
            return False
        changed = False
        for job_id, succeeded in report.probes.items():
            # A probe that is not known any more belongs to an earlier half-open phase: it says nothing about this one.
            if self.state != Circuit.HALF_OPEN or self.probes.pop(job_id, None) is None:
                continue
            changed = True
            if succeeded is False:
                self._open(report.policy, now)
            elif succeeded:
                self.probe_successes += 1
                if self.probe_successes >= report.policy.probes:
                    self._close()
        return changed

    def _count(self, report: CircuitReport, now: dt.datetime) -> bool:
        policy, before = report.policy, (self.failures, self.window_started_at)
        started = self.window_started_at
        if started is not None and (now - started).total_seconds() >= policy.window:
            self.failures, self.window_started_at = 0, None
        if report.failures:
            self.window_started_at = self.window_started_at or now
            self.failures += report.failures
            if self.failures >= policy.failures:
                self._open(policy, now)
        return (self.failures, self.window_started_at) != before

    def _open(self, policy: CircuitPolicy, now: dt.datetime) -> None:
        self.state, self.opened_at = Circuit.OPEN, now
        self.open_until = now + dt.timedelta(seconds=policy.break_)
        self.probes, self.probe_successes = {}, 0

    def _close(self) -> None:
        self.state, self.failures, self.window_started_at = Circuit.CLOSED, 0, None
        self.opened_at = self.open_until = None
        self.probes, self.probe_successes = {}, 0

    # -- probes -------------------------------------------------------------------------------------------------------

    def blocked(self, now: dt.datetime) -> bool:
        """Open, and not yet to be probed."""
        return self.state == Circuit.OPEN and (self.forced or self.open_until is None or self.open_until > now)

    def free_permits(self, permits: int, now: dt.datetime) -> int | None:
        """How many probes may start now; None when the circuit is closed and anything may."""
        if self.state == Circuit.CLOSED:
            return None
        if self.blocked(now):
            return 0
        held = sum(1 for ends in self.probes.values() if ends > now)
        return max(0, permits - self.probe_successes - held)

    def lease_probe(self, job_id: str, timeout: float, now: dt.datetime) -> None:
        """Hand a permit to a job that is about to start."""
        self.state = Circuit.HALF_OPEN
        self.probes = {key: ends for key, ends in self.probes.items() if ends > now}
        self.probes[job_id] = now + dt.timedelta(seconds=timeout)


def load_probes(text: str) -> dict[str, dt.datetime]:
    """The ``probes`` column: ``[["<job id>", "<ISO instant>"], ...]``."""
    return {job_id: dt.datetime.fromisoformat(ends) for job_id, ends in json.loads(text or "[]")}


def dump_probes(probes: dict[str, dt.datetime]) -> str:
    return json.dumps([[job_id, ends.isoformat()] for job_id, ends in probes.items()])
