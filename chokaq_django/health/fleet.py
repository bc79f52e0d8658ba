"""What is not well in the fleet, by its figures and by what else the database says."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence

from django.utils.translation import gettext_noop

from ..conf import Options, get_options
from ..models import Circuit, JobDLQ, JobHot
from ..reading.fleet import WorkerView, serves
from ..reading.plans import waiting
from ..reading.queues import QueueFigures
from ..sentence import Sentence
from ..worker.migrations import pending
from .report import SATURATION, STORAGE, WORKER, Finding, State

__all__ = ["findings"]

HOUR = dt.timedelta(hours=1)
MOST_NAMED = 10
MOST_WAITING = 5_000
"""Waiting jobs that are looked at for one of an open circuit."""


def findings(
    alias: str, now: dt.datetime, queues: Sequence[QueueFigures], workers: Sequence[WorkerView]
) -> list[Finding]:
    """What is not well by these figures and what else the database says, the worst first. Its errors are raised."""
    options = get_options()
    found = [
        *_worker_findings(queues, workers, options), *_lag_findings(queues, now, options),
        *_circuit_findings(alias, now), *_death_findings(alias, now, options), *_migration_findings(alias),
    ]  # fmt: skip
    return sorted(found, key=lambda finding: -finding.state)


def _migration_findings(alias: str) -> list[Finding]:
    missing = pending(alias)
    if not missing:
        return []
    message = Sentence("Migrations are not applied: %(names)s.", names=", ".join(missing))
    hint = Sentence("Run `manage.py migrate`; workers that start now wait for it.")
    return [Finding(STORAGE, "migrations_pending", State.DEGRADED, message, hint)]


def _worker_findings(queues: Sequence[QueueFigures], workers: Sequence[WorkerView], options: Options) -> list[Finding]:
    found = []
    alive = [worker for worker in workers if worker.is_alive]
    stuck = [figures for figures in queues if figures.is_open and figures.due and not serves(workers, figures.name)]
    if not alive:
        found.append(
            Finding(
                WORKER,
                "no_worker",
                State.UNHEALTHY,
                Sentence("No worker is alive: due jobs that wait: %(count)s.", count=sum(f.due for f in stuck))
                if stuck
                else Sentence("No worker is alive: nothing would run."),
                Sentence("Start one: `manage.py runworker`."),
                value=0,
            )
        )
    else:
        found += [
            Finding(
                WORKER,
                "queue_without_worker",
                State.UNHEALTHY,
                Sentence(
                    "No live worker takes jobs from the queue %(name)s, in which jobs are due: %(count)s.",
                    name=figures.name,
                    count=figures.due,
                ),
                Sentence("Start one: `manage.py runworker --queues=%(name)s`, or pause the queue.", name=figures.name),
                figures.name,
                figures.due,
            )
            for figures in stuck[:MOST_NAMED]
        ]
    silent = [worker for worker in workers if not worker.is_alive]
    found += [
        Finding(
            WORKER,
            "worker_silent",
            State.DEGRADED,
            Sentence("The worker %(name)s was last seen %(time)s ago.", name=worker.row.pk, time=float(worker.silent)),
            Sentence(
                "It died, hangs, or cannot reach the database; another worker takes over its jobs and removes it after "
                "RECOVERY.WORKER_TIMEOUT (%(time)s).",
                time=float(options.recovery.worker_timeout),
            ),
            worker.row.pk,
            worker.silent,
        )
        for worker in silent[:MOST_NAMED]
    ]
    return found


def _lag_findings(queues: Sequence[QueueFigures], now: dt.datetime, options: Options) -> list[Finding]:
    found = []
    late = options.health
    for figures in queues:
        lag = figures.lag(now)
        if lag < late.lag_degraded:
            continue
        state = State.UNHEALTHY if lag >= late.lag_unhealthy else State.DEGRADED
        found.append(
            Finding(
                SATURATION,
                "queue_lag",
                state,
                Sentence(
                    "The queue %(name)s is %(time)s behind; due jobs: %(count)s+."
                    if figures.capped
                    else "The queue %(name)s is %(time)s behind; due jobs: %(count)s.",
                    name=figures.name,
                    time=float(lag),
                    count=figures.due,
                ),
                Sentence(
                    "Add workers or concurrency, raise its cap, or look at what runs: "
                    "`chokaq jobs --status processing`."
                ),
                figures.name,
                lag,
            )
        )
    return sorted(found, key=lambda finding: -(finding.value or 0))[:MOST_NAMED]


_IDLE = gettext_noop("The circuit of %(name)s is open; none of its jobs waits.")
_OPEN = gettext_noop("The circuit of %(name)s is open: its jobs wait.")
_CIRCUIT = {
    (Circuit.OPEN, True): gettext_noop("The circuit of %(name)s is open, by an operator: its jobs wait."),
    (Circuit.HALF_OPEN, False): gettext_noop("The circuit of %(name)s is half open: its jobs wait."),
}


def _circuit_findings(alias: str, now: dt.datetime) -> list[Finding]:
    """Circuits that hold jobs back, or have just opened. One that is past its break stays open until a job of its type
    comes to probe: for ever where none does, and nothing is wrong then."""
    rows = list(Circuit.objects.using(alias).exclude(state=Circuit.CLOSED).order_by("type"))
    if not rows:
        return []
    holds = _those_waiting(alias, {row.type for row in rows})
    found = []
    for row in rows:
        if row.type not in holds and not _in_break(row, now):
            continue
        sentence = _CIRCUIT.get((row.state, row.forced), _OPEN) if row.type in holds else _IDLE
        hint = (
            Sentence("Once its cause is gone: `chokaq circuits close %(name)s`.", name=row.type)
            if row.forced
            else Sentence("See why they fail: `chokaq dlq`.")
        )
        message = Sentence(sentence, name=row.type)
        found.append(Finding(SATURATION, "circuit_open", State.DEGRADED, message, hint, row.type, row.failures))
    return found[:MOST_NAMED]


def _in_break(row: Circuit, now: dt.datetime) -> bool:
    return row.state == Circuit.OPEN and not row.forced and row.open_until is not None and row.open_until > now


def _those_waiting(alias: str, types: set[str]) -> set[str]:
    """Those of ``types`` of which jobs wait. Behind a longer backlog than is looked at, each may be one."""
    found = list(waiting(JobHot.objects.using(alias)).values_list("type", flat=True)[: MOST_WAITING + 1])
    return types if len(found) > MOST_WAITING else types.intersection(found)


def _death_findings(alias: str, now: dt.datetime, options: Options) -> list[Finding]:
    """Of what was brought back nothing is left to look at, unless it dies anew."""
    most = options.health.dead_per_hour
    if most is None:
        return []
    count = JobDLQ.objects.using(alias).filter(failed_at__gte=now - HOUR).values("pk")[: 10 * most].count()
    if count < most:
        return []
    many = count >= 10 * most
    message = Sentence(
        "Jobs that died within an hour and are still dead: %(count)s+."
        if many
        else "Jobs that died within an hour and are still dead: %(count)s.",
        count=count,
    )
    hint = Sentence("See why: `chokaq dlq --since 1h`.")
    return [Finding(SATURATION, "dlq_growth", State.DEGRADED, message, hint, value=count)]
