"""The operator's verbs. Admin, commands and APIs call these and nothing else.

Every verb takes ``by``, who acts: a user object, whose permission is checked here and now (``PermissionDenied``), or a
name for which the calling code vouches. Every act leaves an audit entry in the transaction that makes it.

Verbs answer with a :class:`BulkResult`: what applied, what was only requested of a worker, and what was refused, each
with its reason. Lists of ids are worked off in chunks, each a transaction of its own unless one is open already.
"""

from __future__ import annotations

from ..models import BulkAction, BulkItemState, BulkState
from ..reading.bulk import BulkView, bulk_get, bulk_list, bulk_of_job
from ..reading.bulk_items import BulkItemPage, BulkOutcomes, bulk_counts, bulk_items, bulk_outcomes, bulk_reasons
from ..reading.job import JobView, Location
from ..reading.job_summary import JobSummary
from ..reading.listing import JobPage, iter_jobs, list_jobs
from ..reading.patch_previews import PatchExample, PatchPreview, PatchRefusal
from ..reading.selection import JobFilter
from ..storage import BulkCount, BulkResult, Conflict, Copies
from .acts import Operator
from .bulk import bulk_cancel, bulk_edit, bulk_purge, bulk_remove, bulk_restore, bulk_resurrect
from .bulk_acts import (
    BulkRefusedError,
    bulk_abort,
    bulk_freeze,
    bulk_pause,
    bulk_resume,
    bulk_run,
    bulk_set_rate,
    bulk_skip_canary,
    bulk_undo,
    bulk_wait,
)
from .bulk_filters import BulkPreview, bulk_preview
from .circuits import close_circuit, open_circuit, reset_circuit
from .edits import edit
from .jobs import cancel, get, resurrect, run_again
from .patches import preview_patch
from .queues import hide_queue, pause_queue, reset_queue, resume_queue, set_queue, show_queue
from .reveal import reveal
from .settings import SettingView, list_settings, reset_setting, set_setting
from .trash import purge, remove, restore
from .triage import annotate, recount_groups, triage
from .workers import drain_worker, set_concurrency, stop_worker

__all__ = [
    "BulkAction",
    "BulkCount",
    "BulkItemPage",
    "BulkItemState",
    "BulkOutcomes",
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
    "PatchExample",
    "PatchPreview",
    "PatchRefusal",
    "SettingView",
    "annotate",
    "bulk_abort",
    "bulk_cancel",
    "bulk_counts",
    "bulk_edit",
    "bulk_freeze",
    "bulk_get",
    "bulk_items",
    "bulk_list",
    "bulk_of_job",
    "bulk_outcomes",
    "bulk_pause",
    "bulk_preview",
    "bulk_purge",
    "bulk_reasons",
    "bulk_remove",
    "bulk_restore",
    "bulk_resume",
    "bulk_resurrect",
    "bulk_run",
    "bulk_set_rate",
    "bulk_skip_canary",
    "bulk_undo",
    "bulk_wait",
    "cancel",
    "close_circuit",
    "drain_worker",
    "edit",
    "get",
    "hide_queue",
    "iter_jobs",
    "list_jobs",
    "list_settings",
    "open_circuit",
    "pause_queue",
    "preview_patch",
    "purge",
    "recount_groups",
    "remove",
    "reset_circuit",
    "reset_queue",
    "reset_setting",
    "restore",
    "resume_queue",
    "resurrect",
    "reveal",
    "run_again",
    "set_concurrency",
    "set_queue",
    "set_setting",
    "show_queue",
    "stop_worker",
    "triage",
]
