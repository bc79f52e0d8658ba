"""Column lists, derived once from the models, so that moves between tables never forget a column."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import fields

from django.db.models import Model

from ..models import JobArchive, JobBase, JobDLQ, JobHot, JobTrash
from .contract import ClaimedJob

HOT, ARCHIVE, DLQ, TRASH = "chokaq_job_hot", "chokaq_job_archive", "chokaq_job_dlq", "chokaq_job_trash"
QUEUE, WORKER, CIRCUIT = "chokaq_queue", "chokaq_worker", "chokaq_circuit"
LEASE = "chokaq_leader_lease"
GROUP, GROUP_TOTAL = "chokaq_failure_group", "chokaq_failure_total"
BUCKET, ROLLUP, COUNTER = "chokaq_metric_bucket", "chokaq_metric_rollup", "chokaq_counter"
PAYLOAD_VERSION, MARK = "chokaq_payload_version", "chokaq_retention_mark"
SETTING = "chokaq_setting"
BULK_OPERATION, BULK_ITEM = "chokaq_bulk_operation", "chokaq_bulk_item"


def columns_of(model: type[Model]) -> tuple[str, ...]:
    """Column names of ``model`` in the order of its fields."""
    return tuple(str(field.column) for field in model._meta.concrete_fields)


HOT_COLUMNS = columns_of(JobHot)
ARCHIVE_COLUMNS = columns_of(JobArchive)
DLQ_COLUMNS = columns_of(JobDLQ)
TRASH_COLUMNS = columns_of(JobTrash)
_names = {field.name for field in JobBase._meta.fields}
BASE_COLUMNS = tuple(column for column in HOT_COLUMNS if column in _names)
"""What a job keeps wherever it is."""

CLAIMED_COLUMNS = tuple(field.name for field in fields(ClaimedJob) if field.name != "expired")
"""Hot columns that a claim returns: the fields of ClaimedJob in their order; ``expired`` follows from ``status``."""


def names(columns: Iterable[str], prefix: str = "") -> str:
    """``a, b`` or, with a prefix, ``h.a, h.b``."""
    return ", ".join(f"{prefix}.{column}" if prefix else column for column in columns)


def select(columns: Iterable[str], changed: Mapping[str, str], prefix: str = "") -> str:
    """The select list that fills ``columns``: each by its SQL in ``changed``, else by the column of the same name."""
    return ", ".join(changed.get(column) or (f"{prefix}.{column}" if prefix else column) for column in columns)
