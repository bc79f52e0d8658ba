"""Health of the job system: is anything stuck, late or failing?

Three different questions. *Live*: does this process still turn? Only a restart helps when it does not. *Ready*: can
this process accept jobs, or run them, now? *Healthy*: do jobs get done, in the whole fleet? :func:`check` answers the
last one with findings; the first two are asked of one process: ``chokaq_django.health_urls`` of a web process, and
``runworker --health-port`` of a worker.

Three checks, under stable names: ``chokaq_storage`` (the database answers, its tables are there), ``chokaq_worker``
(every open queue with work has a live worker), ``chokaq_queue_saturation`` (lag, deaths and circuits).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import TypeVar

from django.core.exceptions import ImproperlyConfigured
from django.db import DatabaseError, connections
from django.db import Error as AnyDatabaseError

from ..conf import get_options
from ..models import Circuit
from ..reading.fleet import read_workers
from ..reading.queues import read_queues
from ..reading.settings import follow_settings
from ..sentence import Sentence
from ..storage import StorageError, get_storage
from ..storage.missing import tables_missing
from .fleet import findings
from .report import CHECKS, SATURATION, STORAGE, WORKER, Finding, Report, State

__all__ = [
    "CHECKS",
    "SATURATION",
    "STORAGE",
    "WORKER",
    "Finding",
    "Report",
    "State",
    "cached",
    "check",
    "findings",
    "ready",
]

T = TypeVar("T")

_CHECK = Sentence("Run `manage.py check`.")


def check() -> Report:
    """Look at everything; never raises for a database or settings that do not work: that is a finding."""
    try:
        alias = get_options().database
    except ImproperlyConfigured as error:
        return Report([_unusable("settings", str(error), _CHECK)])
    try:
        report = Report(as_of=_once_more(alias, lambda: get_storage(alias).now()))
        now = report.as_of
        assert now is not None  # noqa: S101 - just set
        follow_settings()
        report.queues, report.workers = read_queues(alias, now), read_workers(alias, now)
        report.findings = findings(alias, now, report.queues, report.workers)
    except AnyDatabaseError as error:
        return Report([_database_finding(alias, error)])
    except (StorageError, ImproperlyConfigured) as error:
        return Report([_unusable("database", str(error), _CHECK)])
    return report


def ready() -> Finding | None:
    """Whether this process can accept jobs: None, or what stops it. One statement."""
    try:
        alias = get_options().database
        _once_more(alias, Circuit.objects.using(alias).filter(pk="").exists)
    except AnyDatabaseError as error:
        return _database_finding(alias, error)
    except (StorageError, ImproperlyConfigured) as error:
        return _unusable("settings", str(error), _CHECK)
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


def _unusable(code: str, message: str, hint: str) -> Finding:
    return Finding(STORAGE, code, State.UNHEALTHY, message, hint)


def _database_finding(alias: str, error: AnyDatabaseError) -> Finding:
    if isinstance(error, DatabaseError) and tables_missing(error):
        message = Sentence(
            "The job tables are missing in the database %(name)s, or older than the code.", name=repr(alias)
        )
        return _unusable("tables_missing", message, Sentence("Run `manage.py migrate`."))
    reason = (str(error) or repr(error)).strip().splitlines()[0]
    return _unusable(
        "database_unreachable",
        Sentence("The job database %(name)s does not answer: %(error)s", name=repr(alias), error=reason),
        Sentence("Enqueueing fails and workers wait; they go on by themselves once it is back."),
    )


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
