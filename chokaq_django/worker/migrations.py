"""A worker started before the tables are there waits for them instead of failing."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from django.db import Error as DatabaseError
from django.db import connections
from django.db.migrations.executor import MigrationExecutor

from ..observability.events import Event, log_event

logger = logging.getLogger("chokaq.worker")

PAUSE = 1.0
REMIND_AFTER = 30.0


def pending(alias: str) -> list[str]:
    """Names of this app's migrations that the job database lacks."""
    executor = MigrationExecutor(connections[alias])
    targets = [node for node in executor.loader.graph.leaf_nodes() if node[0] == "chokaq"]
    return [f"{migration.app_label}.{migration.name}" for migration, _ in executor.migration_plan(targets)]


def wait_until_migrated(alias: str, rest: Callable[[float], None] = time.sleep) -> None:
    """Return once nothing is pending and the database answers; says what it waits for, at once and every 30 s.
    ``rest`` passes the seconds between two looks."""
    said_at = 0.0
    while True:
        try:
            missing = pending(alias)
            reason = f"run `manage.py migrate`: {', '.join(missing)} not applied" if missing else ""
        except DatabaseError as error:
            reason = f"the database {alias!r} does not answer: {error}"
        finally:
            connections[alias].close()
        if not reason:
            return
        if time.monotonic() - said_at >= REMIND_AFTER or not said_at:
            log_event(logger, logging.WARNING, Event.STORAGE_TROUBLE, "The worker waits; %s", reason)
            said_at = time.monotonic()
        rest(PAUSE)
