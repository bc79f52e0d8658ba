"""Jobs in a worker's hands without a worker: claimed and started as its fetch loop does it."""

from __future__ import annotations

from collections.abc import Sequence

from chokaq_django.models import JobStatus
from chokaq_django.storage import ClaimedJob, ClaimRequest, Storage


def start_crashed(storage: Storage, worker_id: str, jobs: Sequence[ClaimedJob]) -> None:
    """Start what has crashed before among claimed jobs: a claim only leases it."""
    leased = [job for job in jobs if job.crash_count and job.status == JobStatus.FETCHED and not job.expired]
    reply = storage.start(worker_id, [job.lease for job in leased])
    for job in leased:
        job.status = JobStatus.PROCESSING
        job.attempt, job.started_at = reply.started[job.id]


def claim_and_start(
    storage: Storage, worker_id: str, limit: int = 1, queues: Sequence[str] = ("default",)
) -> list[ClaimedJob]:
    """The first due jobs of these queues, all of them running."""
    jobs = storage.claim(ClaimRequest(worker_id, queues, limit)).jobs
    start_crashed(storage, worker_id, jobs)
    return jobs
