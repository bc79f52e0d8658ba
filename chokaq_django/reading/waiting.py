"""Why a job is not running: every reason that holds, each with its number."""

from __future__ import annotations

import datetime as dt

from ..control.view import JobView, Location
from ..job.registry import registry
from ..models import Circuit, JobHot, JobStatus
from .fleet import read_workers, serves
from .queues import QueueFigures, read_queues

__all__ = ["why_waiting"]


def why_waiting(job: JobView, alias: str, now: dt.datetime) -> list[str]:
    """Sentences, in the order in which they matter; none for a job that does not wait. ``now`` is the database's."""
    if job.location is not Location.HOT or job.status not in (JobStatus.PENDING, JobStatus.AWAITING):
        return []
    if job.status is JobStatus.AWAITING:
        return ["It waits for another job to end."]
    reasons = []
    if job.run_at > now:
        seconds = f"{(job.run_at - now).total_seconds():,.0f} s"
        if job.attempt:
            reasons.append(f"its next attempt is in {seconds}.")
        else:
            reasons.append(f"it is due in {seconds}." if job.due_at > now else f"it was put off, for {seconds} more.")
    (figures,) = read_queues(alias, now, only=job.queue)
    reasons += _queue_reasons(figures)
    circuit = Circuit.objects.using(alias).filter(pk=job.type).exclude(state=Circuit.CLOSED).first()
    if circuit is not None:
        held = "an operator closes it" if circuit.forced else "its type works again"
        reasons.append(f"the circuit of {job.type} is {circuit.get_state_display().lower()} until {held}.")
    if registry.get(job.type) is None:
        reasons.append(f"the code here does not know the type {job.type}; a worker with the same code leaves it alone.")
    workers = read_workers(alias, now)
    if not serves(workers, job.queue):
        alive = sum(worker.is_alive for worker in workers)
        reasons.append(f"no live worker takes jobs from the queue {job.queue} ({alive} alive).")
    elif not reasons:
        ahead = JobHot.objects.using(alias).filter(status=JobStatus.PENDING, queue=job.queue, priority__gt=job.priority)
        first = "jobs of higher priority and " if ahead.filter(run_at__lte=now).exists() else ""
        reasons.append(
            f"nothing holds it back but {first}what was due before it: {figures.due:,} are due in its queue."
        )
    return reasons


def _queue_reasons(figures: QueueFigures) -> list[str]:
    name, reasons = figures.name, []
    if not figures.is_active:
        reasons.append(f"the queue {name} is hidden.")
    if figures.is_paused:
        reasons.append(f"the queue {name} is paused.")
    if not figures.in_window and figures.window is not None:
        start, end, zone = figures.window
        reasons.append(f"the queue {name} runs from {start:%H:%M} to {end:%H:%M} {zone} only.")
    running = figures.processing + figures.fetched
    if figures.max_workers is not None and running >= figures.max_workers:
        reasons.append(f"the queue {name} runs {running} jobs, and its cap is {figures.max_workers}.")
    return reasons
