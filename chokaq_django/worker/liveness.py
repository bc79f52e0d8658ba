"""Whether a worker process lives and is ready, as it knows itself: what its probes are told."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from ..conf import Options
from .registry import Registrar
from .service import Service

SILENT = 10.0
"""Seconds without a write of its row, at least, after which a process is not ready."""
HUNG = 120.0
"""Seconds beyond its own rest after which a loop that has not begun another step hangs."""


class Liveness:
    """``services``: all loops. ``turning``: those that may not rest for as long as they like, until there is something
    to settle or until the next hour. ``leaving()``: whether the process stops."""

    def __init__(
        self,
        options: Options,
        services: Sequence[Service],
        turning: Sequence[Service],
        registrar: Registrar,
        leaving: Callable[[], bool],
    ) -> None:
        self._services, self._turning, self._registrar, self._leaving = services, turning, registrar, leaving
        self._rest = max(options.worker.idle_poll_interval, options.execution.heartbeat_max)

    def hanging(self) -> str:
        """Name of a loop that has ended or does not come back from its step; empty when all is well. Statements have a
        time limit, so that no trouble of the database keeps a loop for so long."""
        if self._leaving():
            return ""
        latest = time.monotonic() - HUNG - self._rest
        ended = (service.name for service in self._services if not service.alive())
        stuck = (service.name for service in self._turning if service.turned < latest)
        return next(ended, "") or next(stuck, "")

    def is_ready(self) -> bool:
        """Registered, in touch with the database, and taking jobs."""
        registrar = self._registrar
        if self._leaving() or registrar.wrote_at is None or registrar.failures:
            return False
        return time.monotonic() - registrar.wrote_at <= max(3 * registrar.interval, SILENT)
