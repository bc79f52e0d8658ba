"""The tables, described for migrations, admin and reads; only :mod:`chokaq_django.storage` writes the job tables."""

from __future__ import annotations

from .audit import AuditEntry
from .bulk import TOLD, BulkAction, BulkItem, BulkItemState, BulkOperation, BulkState
from .deck import Deck
from .fleet import Circuit, LeaderLease, Worker
from .groups import FailureGroup, FailureTotal, FailureTriage
from .jobs import FailureReason, JobArchive, JobBase, JobDLQ, JobHot, JobStatus, JobTrash, PayloadVersion
from .metrics import (
    BUCKETS_KEPT,
    FIVE_MINUTES,
    HISTOGRAM_BINS,
    HISTOGRAM_LIMITS,
    HOUR,
    MINUTE,
    TICK,
    TICKS_KEPT,
    BucketOutcome,
    Counter,
    MetricBucket,
    MetricRollup,
)
from .queue import Queue
from .retention import RetentionMark
from .setting import Setting

__all__ = [
    "BUCKETS_KEPT",
    "FIVE_MINUTES",
    "HISTOGRAM_BINS",
    "HISTOGRAM_LIMITS",
    "HOUR",
    "MINUTE",
    "TICK",
    "TICKS_KEPT",
    "TOLD",
    "AuditEntry",
    "BucketOutcome",
    "BulkAction",
    "BulkItem",
    "BulkItemState",
    "BulkOperation",
    "BulkState",
    "Circuit",
    "Counter",
    "Deck",
    "FailureGroup",
    "FailureReason",
    "FailureTotal",
    "FailureTriage",
    "JobArchive",
    "JobBase",
    "JobDLQ",
    "JobHot",
    "JobStatus",
    "JobTrash",
    "LeaderLease",
    "MetricBucket",
    "MetricRollup",
    "PayloadVersion",
    "Queue",
    "RetentionMark",
    "Setting",
    "Worker",
]
