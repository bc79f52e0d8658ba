"""What a job has to do with: copies of it, bulk operations that it was in, the payloads that it had before."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass

from ...conf import get_options
from ...control import BulkView, JobView, bulk_of_job
from ...control.acts import clean_id
from ...models import AuditEntry, BulkItem, BulkItemState, PayloadVersion
from ...sentence import in_words
from ...storage.contract import AGAIN_HEADER

__all__ = ["Membership", "children_of", "operations_of", "parent_of", "version_of", "versions_of"]

MOST = 20


def parent_of(job: JobView) -> str | None:
    """The job that this one is a copy of."""
    return clean_id(job.headers.get(AGAIN_HEADER))


def children_of(job: JobView) -> list[str]:
    """The newest jobs that were made of this one."""
    rows = AuditEntry.objects.using(get_options().database).filter(target=job.id, action="run_again")
    return list(_copies(rows.order_by("-at", "-id").values_list("details", flat=True)[:MOST]))


def _copies(details: object) -> Iterator[str]:
    for text in details:  # type: ignore[attr-defined]
        try:
            new = clean_id(json.loads(text).get("new"))
        except (ValueError, AttributeError, RecursionError):  # an entry that no code of ours wrote
            continue
        if new is not None:
            yield new


@dataclass(frozen=True, slots=True)
class Membership:
    """A bulk operation that a job was selected by, and what became of the job in it."""

    operation: BulkView
    item: BulkItem

    @property
    def state(self) -> str:
        return str(BulkItemState(self.item.state).label)

    @property
    def why(self) -> str:
        """Why the operation did not act on it, in the active language."""
        return in_words(self.item.why)


def operations_of(job: JobView) -> list[Membership]:
    """The newest ones first."""
    found = [Membership(operation, item) for operation, item in bulk_of_job(job.id)]
    return found[::-1][:MOST]


def versions_of(job: JobView) -> list[PayloadVersion]:
    """Payloads that edits replaced, the newest first, without their text."""
    rows = PayloadVersion.objects.using(get_options().database).filter(job_id=job.id)
    return list(rows.order_by("-revision").defer("payload")[:MOST])


def version_of(job: JobView, revision: int) -> tuple[PayloadVersion, str] | None:
    """One of them, and the payload that took its place."""
    rows = PayloadVersion.objects.using(get_options().database).filter(job_id=job.id, revision__gte=revision)
    found = list(rows.order_by("revision")[:2])
    if not found or found[0].revision != revision:
        return None
    return found[0], found[1].payload if len(found) > 1 else job.payload
