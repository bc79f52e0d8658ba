"""The only SQL: one contract (:mod:`.contract`), one module per engine, opened by :func:`get_storage`."""

from __future__ import annotations

from .contract import (
    Applied,
    BulkResult,
    Claim,
    ClaimedJob,
    ClaimRequest,
    Conflict,
    Enqueued,
    HeartbeatReply,
    Lease,
    NewJob,
    Outcome,
    OutcomeKind,
    StartReply,
    Storage,
    StorageError,
)
from .opening import get_storage, open_storage

__all__ = [
    "Applied",
    "BulkResult",
    "Claim",
    "ClaimRequest",
    "ClaimedJob",
    "Conflict",
    "Enqueued",
    "HeartbeatReply",
    "Lease",
    "NewJob",
    "Outcome",
    "OutcomeKind",
    "StartReply",
    "Storage",
    "StorageError",
    "get_storage",
    "open_storage",
]
