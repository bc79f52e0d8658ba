"""Jobs, queues, workers and the rest as documents for programs: what ``--json`` prints and the JSON API answers.

Times are ISO 8601 in UTC, durations seconds unless the name ends with ``_ms``.
"""

from __future__ import annotations

from .bulk import (
    BulkDocument,
    CountDocument,
    ItemDocument,
    OutcomesDocument,
    PatchExampleDocument,
    PatchPreviewDocument,
    PatchRefusalDocument,
    Refusal,
    bulk_document,
    count_document,
    item_document,
    outcomes_document,
    patch_preview_document,
    refusal,
)
from .fleet import (
    CIRCUIT_STATES,
    CircuitDocument,
    QueueDocument,
    WorkerDocument,
    circuit_document,
    queue_document,
    until_probe,
    worker_document,
)
from .house import AuditDocument, GroupDocument, audit_document, group_document
from .jobs import JobDocument, JobLine, instant, job_document, job_line, reason_name, status_name

__all__ = [
    "CIRCUIT_STATES",
    "AuditDocument",
    "BulkDocument",
    "CircuitDocument",
    "CountDocument",
    "GroupDocument",
    "ItemDocument",
    "JobDocument",
    "JobLine",
    "OutcomesDocument",
    "PatchExampleDocument",
    "PatchPreviewDocument",
    "PatchRefusalDocument",
    "QueueDocument",
    "Refusal",
    "WorkerDocument",
    "audit_document",
    "bulk_document",
    "circuit_document",
    "count_document",
    "group_document",
    "instant",
    "item_document",
    "job_document",
    "job_line",
    "outcomes_document",
    "patch_preview_document",
    "queue_document",
    "reason_name",
    "refusal",
    "status_name",
    "until_probe",
    "worker_document",
]
