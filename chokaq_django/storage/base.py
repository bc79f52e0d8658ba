"""What every SQL engine shares. An engine module subclasses :class:`SQLStorage`.

It supplies the dialect (the hooks of :class:`~.engine.Engine`), its hot path (``enqueue``, ``_claim_fast``, ``start``,
``settle``, ``release``, ``heartbeat``, ``cancel_requests``, ``progress``, ``pending_queues``), and its own form of any
other operation or hook where that is faster.
"""

from __future__ import annotations

from .bulk import BulkStatements
from .constrained import ClaimStatements


class SQLStorage(ClaimStatements, BulkStatements):
    """Portable statements: claims under constraints, circuits, fleet, moves, sweeps, the operator's verbs."""
