"""What has become of a job that an operation brought back, said by the database: where the job is now."""

from __future__ import annotations

from typing import Any

from django.db.models import Case, Exists, F, OuterRef, Q, When

from ..models import BulkItemState, FailureReason, JobArchive, JobBase, JobDLQ, JobHot

__all__ = ["BECAME"]


def _is_in(model: type[JobBase], **columns: Any) -> Q:
    """Whether the job is in this table."""
    return Q(Exists(model._default_manager.filter(pk=OuterRef("job_id"), **columns).order_by()))


BECAME = Case(
    When(~Q(state=BulkItemState.APPLIED) | _is_in(JobHot), then=F("state")),
    When(_is_in(JobArchive), then=BulkItemState.SUCCEEDED.value),
    When(_is_in(JobDLQ, failure_reason=FailureReason.CANCELLED), then=BulkItemState.GONE.value),
    When(_is_in(JobDLQ), then=BulkItemState.DIED.value),
    default=BulkItemState.GONE.value,
)
"""The state of an item; of one that was applied, and that nobody watched to its end, by where its job is."""
