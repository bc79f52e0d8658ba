"""The operator's verbs. Admin, commands and APIs call these and nothing else.

Every verb takes ``by``, who acts: a user object, whose permission is checked here and now (``PermissionDenied``), or a
name for which the calling code vouches. Every act leaves an audit entry in the transaction that makes it.

Verbs answer with a :class:`BulkResult`: what applied, what was only requested of a worker, and what was refused, each
with its reason. Lists of ids are worked off in chunks, each a transaction of its own unless one is open already.
"""

from __future__ import annotations

from ..models import BulkAction, BulkItemState, BulkState
from ..reading.selection import JobFilter
from ..storage import BulkCount, BulkResult, Conflict, Copies
from .acts import Operator
from .bulk import bulk_cancel, bulk_edit, bulk_purge, bulk_remove, bulk_restore, bulk_resurrect
from .bulk_acts import BulkRefusedError, bulk_abort, bulk_pause, bulk_resume, bulk_run, bulk_undo, bulk_wait
from .bulk_filters import BulkPreview, bulk_preview
from .bulk_view import BulkView, bulk_counts, bulk_get, bulk_items, bulk_list, bulk_of_job
from .circuits import close_circuit, open_circuit, reset_circuit
from .edits import edit, run_again
from .jobs import cancel, get, resurrect
from .listing import JobPage, JobSummary, list_jobs
from .queues import clean_limits, hide_queue, pause_queue, resume_queue, set_queue, show_queue
from .trash import purge, remove, restore
from .view import JobView, Location
from .workers import drain_worker, set_concurrency, stop_worker

__all__ = [
    "BulkAction",
    "BulkCount",
    "BulkItemState",
    "BulkPreview",
    "BulkRefusedError",
    "BulkResult",
    "BulkState",
    "BulkView",
    "Conflict",
    "Copies",
    "JobFilter",
    "JobPage",
    "JobSummary",
    "JobView",
    "Location",
    "Operator",
    "bulk_abort",
    "bulk_cancel",
    "bulk_counts",
    "bulk_edit",
    "bulk_get",
    "bulk_items",
    "bulk_list",
    "bulk_of_job",
    "bulk_pause",
    "bulk_preview",
    "bulk_purge",
    "bulk_remove",
    "bulk_restore",
    "bulk_resume",
    "bulk_resurrect",
    "bulk_run",
    "bulk_undo",
    "bulk_wait",
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
