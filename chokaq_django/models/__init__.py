"""The tables, described for migrations, admin and reads; only :mod:`chokaq_django.storage` writes the job tables."""

from __future__ import annotations

from .audit import AuditEntry
from .bulk import BulkAction, BulkItem, BulkItemState, BulkOperation, BulkState
from .fleet import Circuit, LeaderLease, Worker
from .jobs import FailureReason, JobArchive, JobBase, JobDLQ, JobHot, JobStatus, JobTrash, PayloadVersion
from .metrics import HISTOGRAM_BINS, BucketOutcome, MetricBucket
from .queue import Queue

__all__ = [
    "HISTOGRAM_BINS",
    "AuditEntry",
    "BucketOutcome",
    "BulkAction",
    "BulkItem",
    "BulkItemState",
    "BulkOperation",
    "BulkState",
    "Circuit",
    "FailureReason",
    "JobArchive",
    "JobBase",
    "JobDLQ",
    "JobHot",
    "JobStatus",
    "JobTrash",
    "LeaderLease",
    "MetricBucket",
    "PayloadVersion",
    "Queue",
    "Worker",
]
