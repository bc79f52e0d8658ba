"""The subcommands of ``manage.py chokaq``: what an operator sees and does from a shell."""

from __future__ import annotations

from .acts import CANCEL, EDIT, PURGE, REMOVE, RESTORE, RESURRECT, RUN_AGAIN
from .audit import AUDIT
from .bench import BENCH
from .bulk import BULK
from .circuits import CIRCUITS
from .dlq import DLQ
from .doctor import DOCTOR
from .failures import FAILURES
from .health import HEALTH
from .job import JOB
from .jobs import JOBS
from .queues import PAUSE, QUEUE, QUEUES, RESUME
from .settings import SETTINGS
from .status import STATUS
from .token import TOKEN
from .workers import WORKERS

__all__ = ["PARTS", "SUBCOMMANDS"]

PARTS = {
    "See": (STATUS, HEALTH, QUEUES, WORKERS, JOBS, JOB, DLQ, FAILURES, CIRCUITS, AUDIT),
    "Act on jobs": (RESURRECT, RUN_AGAIN, EDIT, CANCEL, REMOVE, PURGE, RESTORE, BULK),
    "Act on what runs them": (PAUSE, RESUME, QUEUE, SETTINGS, TOKEN),
    "Examine": (DOCTOR, BENCH),
}
"""The help, part by part."""
SUBCOMMANDS = tuple(subcommand for part in PARTS.values() for subcommand in part)
