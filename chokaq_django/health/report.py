"""A report on the job system: what was found, and how bad it is."""

from __future__ import annotations

import datetime as dt
import enum
from dataclasses import dataclass, field
from typing import Any

from ..reading.fleet import WorkerView
from ..reading.queues import QueueFigures

__all__ = ["CHECKS", "SATURATION", "STORAGE", "WORKER", "Finding", "Report", "State"]

STORAGE, WORKER, SATURATION = CHECKS = ("chokaq_storage", "chokaq_worker", "chokaq_queue_saturation")


class State(enum.IntEnum):
    """How bad it is; the worst of its findings is the report's."""

    HEALTHY = 0
    DEGRADED = 1
    UNHEALTHY = 2

    @property
    def label(self) -> str:
        return self.name.lower()


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is not well. ``code`` is stable, ``target`` what it is about: a queue, a worker, a type.
    ``message`` and ``hint`` are English; made here, they are each a :class:`~chokaq_django.sentence.Sentence`."""

    check: str
    code: str
    state: State
    message: str
    hint: str = ""
    target: str = ""
    value: float | None = None

    def document(self) -> dict[str, Any]:
        return {
            "check": self.check, "code": self.code, "state": self.state.label, "message": self.message,
            "hint": self.hint, "target": self.target, "value": self.value,
        }  # fmt: skip


@dataclass(slots=True)
class Report:
    """What was found at ``as_of`` (the database's clock; None when it did not answer)."""

    findings: list[Finding] = field(default_factory=list)
    as_of: dt.datetime | None = None
    queues: list[QueueFigures] = field(default_factory=list)
    workers: list[WorkerView] = field(default_factory=list)

    @property
    def state(self) -> State:
        return max((finding.state for finding in self.findings), default=State.HEALTHY)

    def checks(self) -> dict[str, str]:
        """The state of each check by its name; what could not be looked at is ``unknown``."""
        if self.as_of is None:
            return {STORAGE: State.UNHEALTHY.label, WORKER: "unknown", SATURATION: "unknown"}
        worst = dict.fromkeys(CHECKS, State.HEALTHY)
        for finding in self.findings:
            worst[finding.check] = max(worst[finding.check], finding.state)
        return {name: state.label for name, state in worst.items()}
