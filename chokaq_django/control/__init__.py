"""The operator's verbs. Admin, commands and APIs call these and nothing else.

Every verb takes ``by``, who acts: a user object, whose permission is checked here and now (``PermissionDenied``), or a
name for which the calling code vouches. Every act leaves an audit entry in the transaction that makes it.

Verbs answer with a :class:`BulkResult`: what applied, what was only requested of a worker, and what was refused, each
with its reason. Long lists of ids are worked off in chunks, each a transaction of its own unless one is open already.
"""

from __future__ import annotations

from ..storage import BulkResult, Conflict
from .acts import Operator
from .fleet import clean_limits, pause_queue, resume_queue, set_queue, stop_worker
from .jobs import cancel, get, resurrect
from .view import JobView, Location

__all__ = [
    "BulkResult",
    "Conflict",
    "JobView",
    "Location",
    "Operator",
    "cancel",
    "clean_limits",
    "get",
    "pause_queue",
    "resume_queue",
    "resurrect",
    "set_queue",
    "stop_worker",
]
