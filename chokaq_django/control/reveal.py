"""A verb that changes nothing and is written down all the same."""

from __future__ import annotations

from ..conf import get_options
from ..job.ids import clean_id
from ..reading.job import JobView, find_job
from ..storage import BulkResult
from .acts import Operator, act_transaction, audit, authorised, log_act

__all__ = ["reveal"]


def reveal(job_id: str, *, by: str | Operator, reason: str = "") -> JobView | None:
    """The job, to be shown with the values that ``DECK.MASK_FIELDS`` hides; None when there is none with this id.

    Needs ``chokaq.view_payload``. Leaves an audit entry.
    """
    actor = authorised(by, "view_payload")
    alias = get_options().database
    clean = clean_id(job_id)
    if clean is None:
        return None
    with act_transaction(alias):
        job = find_job(clean, alias)
        if job is not None:
            audit(alias, "reveal", {job.id: {"location": job.location.value, "revision": job.revision}}, actor, reason)
    if job is not None:
        log_act("reveal", actor, BulkResult(applied=[job.id]))
    return job
