"""The subcommands of ``manage.py chokaq``: what an operator sees and does from a shell."""

from __future__ import annotations

from .acts import CANCEL, PURGE, RESTORE, RESURRECT
from .audit import AUDIT
from .bench import BENCH
from .circuits import CIRCUITS
from .dlq import DLQ
from .doctor import DOCTOR
from .health import HEALTH
from .jobs import JOB, JOBS
from .queues import PAUSE, QUEUES, RESUME
from .status import STATUS
from .workers import WORKERS

__all__ = ["SUBCOMMANDS"]

SUBCOMMANDS = (
    STATUS,
    HEALTH,
    QUEUES,
    WORKERS,
    JOBS,
    JOB,
    DLQ,
    RESURRECT,
    CANCEL,
    PURGE,
    RESTORE,
    PAUSE,
    RESUME,
    CIRCUITS,
    AUDIT,
    DOCTOR,
    BENCH,
)
"""In the order of the help."""
