"""Health of the job system: is anything stuck, late or failing?

Three different questions. *Live*: does this process still turn? Only a restart helps when it does not. *Ready*: can
this process accept jobs, or run them, now? *Healthy*: do jobs get done, in the whole fleet? :func:`check` answers the
last one with findings; the first two are asked of one process: ``chokaq_django.health_urls`` of a web process, and
``runworker --health-port`` of a worker.

Three checks, under stable names: ``chokaq_storage`` (the database answers, its tables are there), ``chokaq_worker``
(every open queue with work has a live worker), ``chokaq_queue_saturation`` (lag, deaths and circuits).
"""

from __future__ import annotations

import datetime as dt
import enum
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from django.core.exceptions import ImproperlyConfigured
from django.db import DatabaseError, connections
from django.db import Error as AnyDatabaseError

from .conf import Options, get_options
from .models import Circuit, JobDLQ
from .reading.fleet import WorkerView, read_workers, serves
from .reading.queues import QueueFigures, read_queues
from .storage import StorageError, get_storage
from .storage.missing import tables_missing
from .worker.migrations import pending

__all__ = ["CHECKS", "Finding", "Report", "State", "cached", "check", "ready"]

T = TypeVar("T")

STORAGE, WORKER, SATURATION = CHECKS = ("chokaq_storage", "chokaq_worker", "chokaq_queue_saturation")
HOUR = dt.timedelta(hours=1)
MOST_NAMED = 10


class State(enum.IntEnum):
    """How bad it is; the worst of its findings is the report's."""

    HEALTHY = 0
    DEGRADED = 1
    UNHEALTHY = 2

    @property
    def label(self) -> str:
        return self.name.lower()


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is not well. ``code`` is stable, ``target`` what it is about: a queue, a worker, a type."""

    check: str
    code: str
    state: State
    message: str
    hint: str = ""
    target: str = ""
    value: float | None = None

    def document(self) -> dict[str, Any]:
        return {
            "check": self.check, "code": self.code, "state": self.state.label, "message": self.message,
            "hint": self.hint, "target": self.target, "value": self.value,
        }  # fmt: skip


@dataclass(slots=True)
class Report:
    """What was found at ``as_of`` (the database's clock; None when it did not answer)."""

    findings: list[Finding] = field(default_factory=list)
    as_of: dt.datetime | None = None
    queues: list[QueueFigures] = field(default_factory=list)
    workers: list[WorkerView] = field(default_factory=list)

    @property
    def state(self) -> State:
        return max((finding.state for finding in self.findings), default=State.HEALTHY)

    def checks(self) -> dict[str, str]:
        """The state of each check by its name; what could not be looked at is ``unknown``."""
        if self.as_of is None:
            return {STORAGE: State.UNHEALTHY.label, WORKER: "unknown", SATURATION: "unknown"}
        worst = dict.fromkeys(CHECKS, State.HEALTHY)
        for finding in self.findings:
            worst[finding.check] = max(worst[finding.check], finding.state)
        return {name: state.label for name, state in worst.items()}


def check() -> Report:
    """Look at everything; never raises for a database or settings that do not work: that is a finding."""
    try:
        options = get_options()
    except ImproperlyConfigured as error:
        return Report([_unusable("settings", str(error), "Run `manage.py check`.")])
    alias = options.database
    try:
        report = Report(as_of=_once_more(alias, lambda: get_storage(alias).now()))
        now = report.as_of
        assert now is not None  # noqa: S101 - just set
        report.queues, report.workers = read_queues(alias, now), read_workers(alias, now)
        report.findings += _worker_findings(report.queues, report.workers, options)
        report.findings += _lag_findings(report.queues, now, options)
        report.findings += _circuit_findings(alias)
        report.findings += _death_findings(alias, now, options)
        report.findings += _migration_findings(alias)
    except AnyDatabaseError as error:
        return Report([_database_finding(alias, error)])
    except (StorageError, ImproperlyConfigured) as error:
        return Report([_unusable("database", str(error), "Run `manage.py check`.")])
    report.findings.sort(key=lambda finding: -finding.state)
    return report


def ready() -> Finding | None:
    """Whether this process can accept jobs: None, or what stops it. One statement."""
    try:
        alias = get_options().database
        _once_more(alias, Circuit.objects.using(alias).filter(pk="").exists)
    except AnyDatabaseError as error:
        return _database_finding(alias, error)
    except (StorageError, ImproperlyConfigured) as error:
        return _unusable("settings", str(error), "Run `manage.py check`.")
    return None


def _once_more(alias: str, look: Callable[[], T]) -> T:
    """``look()``, and again if it failed on a connection that an earlier request has left: the server may have been
    restarted since, and answers."""
    connection = connections[alias]
    kept = connection.connection is not None and not connection.in_atomic_block
    try:
        return look()
    except AnyDatabaseError:
        if not kept or connection.is_usable():
            raise
        connection.close()
        return look()


# -- findings ----------------------------------------------------------------------------------------------------------


def _unusable(code: str, message: str, hint: str) -> Finding:
    return Finding(STORAGE, code, State.UNHEALTHY, message, hint)


def _database_finding(alias: str, error: AnyDatabaseError) -> Finding:
    if isinstance(error, DatabaseError) and tables_missing(error):
        message = f"The job tables are missing in the database {alias!r}, or older than the code."
        return _unusable("tables_missing", message, "Run `manage.py migrate`.")
    reason = (str(error) or repr(error)).strip().splitlines()[0]
    return _unusable(
        "database_unreachable",
        f"The job database {alias!r} does not answer: {reason}",
        "Enqueueing fails and workers wait; they go on by themselves once it is back.",
    )


def _migration_findings(alias: str) -> list[Finding]:
    missing = pending(alias)
    if not missing:
        return []
    message = f"Migrations are not applied: {', '.join(missing)}."
    hint = "Run `manage.py migrate`; workers that start now wait for it."
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
                "No worker is alive: "
                + (f"due jobs that wait: {sum(f.due for f in stuck):,}." if stuck else "nothing would run."),
                "Start one: `manage.py runworker`.",
                value=0,
            )
        )
    else:
        found += [
            Finding(
                WORKER,
                "queue_without_worker",
                State.UNHEALTHY,
                f"No live worker takes jobs from the queue {figures.name}, in which jobs are due: {figures.due:,}.",
                f"Start one: `manage.py runworker --queues={figures.name}`, or pause the queue.",
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
            f"The worker {worker.row.pk} was last seen {worker.silent:,.0f} s ago.",
            "It died, hangs, or cannot reach the database; another worker takes over its jobs and removes it after "
            f"RECOVERY.WORKER_TIMEOUT ({options.recovery.worker_timeout:g} s).",
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
        more = "+" if figures.capped else ""
        found.append(
            Finding(
                SATURATION,
                "queue_lag",
                state,
                f"The queue {figures.name} is {lag:,.0f} s behind; due jobs: {figures.due:,}{more}.",
                "Add workers or concurrency, raise its cap, or look at what runs: `chokaq jobs --status processing`.",
                figures.name,
                lag,
            )
        )
    return sorted(found, key=lambda finding: -(finding.value or 0))[:MOST_NAMED]


def _circuit_findings(alias: str) -> list[Finding]:
    rows = Circuit.objects.using(alias).exclude(state=Circuit.CLOSED).order_by("type")[:MOST_NAMED]
    return [
        Finding(
            SATURATION, "circuit_open", State.DEGRADED,
            f"The circuit of {row.type} is {row.get_state_display().lower()}"
            + (", by an operator" if row.forced else "") + ": its jobs wait.",
            f"Once its cause is gone: `chokaq circuits close {row.type}`." if row.forced else "See why they fail: "
            "`chokaq dlq`.",
            row.type, row.failures,
        )
        for row in rows
    ]  # fmt: skip


def _death_findings(alias: str, now: dt.datetime, options: Options) -> list[Finding]:
    most = options.health.dead_per_hour
    if most is None:
        return []
    count = JobDLQ.objects.using(alias).filter(failed_at__gte=now - HOUR).values("pk")[: 10 * most].count()
    if count < most:
        return []
    message = f"{count:,}{'+' if count >= 10 * most else ''} jobs died within an hour."
    return [
        Finding(SATURATION, "dlq_growth", State.DEGRADED, message, "See why: `chokaq dlq --since 1h`.", value=count)
    ]


# -- for probes --------------------------------------------------------------------------------------------------------


class _Cache:
    """The last report, for as long as it is fresh: probes of many kinds cost one look together."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._report: Report | None = None
        self._until = 0.0

    def get(self, seconds: float) -> Report:
        with self._lock:
            if self._report is None or time.monotonic() >= self._until:
                self._report = check()
                self._until = time.monotonic() + seconds
            return self._report

    def clear(self) -> None:
        self._until = 0.0


_cache = _Cache()


def cached(seconds: float = 5.0) -> Report:
    """A report that is at most ``seconds`` old, shared by all threads of the process."""
    return _cache.get(seconds)
