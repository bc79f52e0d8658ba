"""Why a job is not running: every reason that holds, each with its number."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from dataclasses import dataclass

from ..conf import get_options
from ..job.registry import registry
from ..models import Circuit, JobHot, JobStatus
from ..sentence import Sentence
from .fleet import WorkerView, read_workers
from .job import JobView, Location
from .plans import waiting
from .queues import QueueFigures, read_queues

__all__ = ["Hold", "why_waiting"]


@dataclass(frozen=True, slots=True)
class Hold:
    """One reason, as a sentence that begins small. ``page`` (of the Deck: queue, circuits, fleet, job_edit) and
    ``name``: where one can change it; an empty page: nowhere, it ends by itself."""

    code: str
    text: Sentence
    page: str = ""
    name: str = ""

    def __str__(self) -> str:
        return self.text


def why_waiting(job: JobView, alias: str, now: dt.datetime) -> list[Hold]:
    """In the order in which they matter; none for a job that does not wait. ``now`` is the database's."""
    if job.location is not Location.HOT or job.status not in (JobStatus.PENDING, JobStatus.AWAITING):
        return []
    if job.status is JobStatus.AWAITING:
        return [Hold("parent", Sentence("It waits for another job to end."))]
    (figures,) = read_queues(alias, now, only=job.queue)
    workers = read_workers(alias, now)
    holds = [
        *_times(job, now),
        *_of_crashes(job),
        *_of_queue(figures, now),
        *_of_type(job, alias, now),
        *_of_fleet(job, workers),
    ]
    return holds or [_its_turn(job, alias, now, figures)]


def _seconds(until: dt.datetime, now: dt.datetime) -> float:
    """How far apart they are."""
    return abs((until - now).total_seconds())


def _times(job: JobView, now: dt.datetime) -> Iterator[Hold]:
    if job.run_at > now:
        time = _seconds(job.run_at, now)
        if job.attempt:
            yield Hold("retry", Sentence("its next attempt is in %(time)s.", time=time))
        elif job.due_at > now:
            yield Hold("due", Sentence("it is due in %(time)s.", time=time))
        else:
            yield Hold("put_off", Sentence("it was put off, for %(time)s more.", time=time))
    if job.deadline_at is not None and job.deadline_at <= now:
        time = _seconds(job.deadline_at, now)
        yield Hold("deadline", Sentence("its deadline passed %(time)s ago: it expires at the next look.", time=time))


def _of_crashes(job: JobView) -> Iterator[Hold]:
    if job.crash_count and job.crash_count >= get_options().recovery.crash_limit:
        text = Sentence(
            "it died with %(count)s workers: it waits for one that runs no other job that has died so.",
            count=job.crash_count,
        )
        yield Hold("crashes", text, "fleet")


def _of_queue(figures: QueueFigures, now: dt.datetime) -> Iterator[Hold]:
    if not figures.is_active:
        yield Hold("hidden", Sentence("the queue %(name)s is hidden.", name=figures.name), "queue", figures.name)
    if figures.is_paused:
        yield Hold("paused", Sentence("the queue %(name)s is paused.", name=figures.name), "queue", figures.name)
    if not figures.in_window and figures.window is not None:
        start, end, zone = figures.window
        text = Sentence(
            "the queue %(name)s runs from %(start)s to %(end)s %(zone)s only.",
            name=figures.name, start=f"{start:%H:%M}", end=f"{end:%H:%M}", zone=zone,
        )  # fmt: skip
        yield Hold("window", text, "queue", figures.name)
    running = figures.processing + figures.fetched
    if figures.max_workers is not None and running >= figures.max_workers:
        text = Sentence(
            "the queue %(name)s runs %(running)s jobs, and its cap is %(most)s.",
            name=figures.name, running=running, most=figures.max_workers,
        )  # fmt: skip
        yield Hold("cap", text, "queue", figures.name)


def _of_type(job: JobView, alias: str, now: dt.datetime) -> Iterator[Hold]:
    circuit = Circuit.objects.using(alias).filter(pk=job.type).exclude(state=Circuit.CLOSED).first()
    if circuit is None:
        return
    if circuit.forced:
        text = Sentence("the circuit of %(type)s is open until an operator closes it.", type=job.type)
    elif circuit.state == Circuit.OPEN and circuit.open_until is not None and circuit.open_until > now:
        text = Sentence(
            "the circuit of %(type)s is open for %(time)s more, then a probe tries it.",
            type=job.type, time=_seconds(circuit.open_until, now),
        )  # fmt: skip
    else:
        text = Sentence("the circuit of %(type)s is half open until its type works again.", type=job.type)
    yield Hold("circuit", text, "circuits", job.type)


def _of_fleet(job: JobView, workers: list[WorkerView]) -> Iterator[Hold]:
    alive = sum(worker.is_alive for worker in workers)
    takers = [worker for worker in workers if worker.takes(job.queue)]
    if not takers:
        text = Sentence(
            "no live worker takes jobs from the queue %(queue)s (%(alive)s alive).", queue=job.queue, alive=alive
        )
        yield Hold("no_worker", text, "fleet")
    elif not any(worker.knows(job.type) for worker in takers):
        text = Sentence(
            "none of the %(count)s live workers of its queue knows the type %(type)s: they leave it alone.",
            count=len(takers), type=job.type,
        )  # fmt: skip
        yield Hold("unknown_type", text, "fleet")
        return
    # What workers say of themselves decides; this code may be older than theirs.
    said = any(worker.types is not None for worker in takers)
    if not said and registry.get(job.type) is None:
        text = Sentence(
            "the code here does not know the type %(type)s; a worker with the same code leaves it alone.", type=job.type
        )
        yield Hold("unknown_type", text)


def _its_turn(job: JobView, alias: str, now: dt.datetime, figures: QueueFigures) -> Hold:
    ahead = waiting(JobHot.objects.using(alias)).filter(queue=job.queue, priority__gt=job.priority)
    if ahead.filter(run_at__lte=now).exists():
        text = Sentence(
            "nothing holds it back but jobs of higher priority and what was due before it: due in its queue: %(due)s.",
            due=figures.due,
        )
    else:
        text = Sentence("nothing holds it back but what was due before it: due in its queue: %(due)s.", due=figures.due)
    return Hold("turn", text, "queue", figures.name)
