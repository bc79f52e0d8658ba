"""What the doctor says: one finding, its severity and its remedy."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Any

from django.core.checks import ERROR, WARNING, CheckMessage

from ..health import Finding as HealthFinding
from ..health import State

__all__ = ["Diagnosis", "Severity", "from_check", "from_health"]


class Severity(enum.IntEnum):
    """``INFO`` is worth knowing, ``WARNING`` costs speed or safety, ``ERROR`` stops or loses work."""

    INFO = 0
    WARNING = 1
    ERROR = 2

    @property
    def label(self) -> str:
        return self.name.lower()


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """``code`` is stable: a system check's id, or a word. ``remedy`` says what to run or to set."""

    code: str
    severity: Severity
    message: str
    remedy: str = ""
    area: str = ""

    def document(self) -> dict[str, Any]:
        return {
            "area": self.area, "code": self.code, "severity": self.severity.label, "message": self.message,
            "remedy": self.remedy,
        }  # fmt: skip


def from_check(message: CheckMessage) -> Diagnosis:
    """A system check's message."""
    level = message.level or 0
    severity = Severity.ERROR if level >= ERROR else Severity.WARNING if level >= WARNING else Severity.INFO
    text = message.msg[:1].upper() + message.msg[1:]
    return Diagnosis(message.id or "check", severity, text, message.hint or "")


def from_health(finding: HealthFinding) -> Diagnosis:
    """A health finding."""
    severity = Severity.ERROR if finding.state is State.UNHEALTHY else Severity.WARNING
    return Diagnosis(finding.code, severity, finding.message, finding.hint)
