"""The operator's verbs. Admin, commands and APIs call these and nothing else.

Every verb takes ``by``, who acts: a user object, whose permission is checked here and now (``PermissionDenied``), or a
name for which the calling code vouches. Every act leaves an audit entry in the transaction that makes it.

Verbs answer with a :class:`BulkResult`: what applied, what was only requested of a worker, and what was refused, each
with its reason. Long lists of ids are worked off in chunks, each a transaction of its own unless one is open already.
"""

from __future__ import annotations

from ..storage import BulkResult, Conflict, Copies
from .acts import Operator
from .circuits import close_circuit, open_circuit, reset_circuit
from .edits import edit, run_again
from .jobs import cancel, get, resurrect
from .listing import JobPage, JobSummary, list_jobs
from .queues import clean_limits, hide_queue, pause_queue, resume_queue, set_queue, show_queue
from .trash import purge, remove, restore
from .view import JobView, Location
from .workers import drain_worker, set_concurrency, stop_worker

__all__ = [
    "BulkResult",
    "Conflict",
    "Copies",
    "JobPage",
    "JobSummary",
    "JobView",
    "Location",
    "Operator",
    "cancel",
    "clean_limits",
    "close_circuit",
    "drain_worker",
    "edit",
    "get",
    "hide_queue",
    "list_jobs",
    "open_circuit",
    "pause_queue",
    "purge",
    "remove",
    "reset_circuit",
    "restore",
    "resume_queue",
    "resurrect",
    "run_again",
    "set_concurrency",
    "set_queue",
    "show_queue",
    "stop_worker",
]
