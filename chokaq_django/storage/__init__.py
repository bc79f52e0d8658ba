"""The only SQL: one contract (:mod:`.contract`), one module per engine, opened by :func:`get_storage`."""

from __future__ import annotations

from .contract import (
    Applied,
    BulkCount,
    BulkResult,
    BulkStep,
    CircuitAct,
    Claim,
    ClaimedJob,
    ClaimRequest,
    Conflict,
    Copies,
    EditResult,
    Enqueued,
    HeartbeatReply,
    JobEdit,
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
    "BulkCount",
    "BulkResult",
    "BulkStep",
    "CircuitAct",
    "Claim",
    "ClaimRequest",
    "ClaimedJob",
    "Conflict",
    "Copies",
    "EditResult",
    "Enqueued",
    "HeartbeatReply",
    "JobEdit",
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
