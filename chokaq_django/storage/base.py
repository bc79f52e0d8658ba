"""What every SQL engine shares. An engine module subclasses :class:`SQLStorage`.

It supplies the dialect (the hooks of :class:`~.engine.Engine`), its hot path (``enqueue``, ``_claim_fast``, ``start``,
``settle``, ``release``, ``heartbeat``, ``cancel_requests``, ``progress``, ``pending_queues``), and its own form of any
other operation or hook where that is faster.
"""

from __future__ import annotations

from .annotations import AnnotationStatements
from .bulk import BulkStatements
from .constrained import ClaimStatements
from .erasure import ErasureStatements
from .retention import RetentionStatements
from .rollups import RollupStatements


class SQLStorage(
    ClaimStatements, BulkStatements, AnnotationStatements, RetentionStatements, ErasureStatements, RollupStatements
):
    """Portable statements: claims under constraints, circuits, fleet, sweeps, metrics, the operator's verbs."""
