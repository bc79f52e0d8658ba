"""What operators have set while everything runs, for the processes that follow it.

Workers look at every beat of their registration; web processes when a page, a verb or the live feed asks, once in
:data:`FRESH` seconds. In between :func:`~chokaq_django.conf.get_options` answers from memory.
"""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Iterable

from django.db import Error as DatabaseError
from django.db import connections

from ..conf import override_options, project_options
from ..models import Setting
from ..observability.harmless import one_line

__all__ = ["FRESH", "follow_settings", "take_overrides"]

logger = logging.getLogger("chokaq.settings")

FRESH = 5.0
"""Seconds for which a process does not look again."""


class _Known:
    """What this process has last seen."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.read_at = float("-inf")
        self.refused: dict[str, str] = {}


_known = _Known()


def follow_settings(fresh: float | None = None) -> None:
    """Have the options of this process be those of the job database, if it looked more than ``fresh`` seconds ago (0:
    in any case).

    One small statement on the calling thread's connection. While the database is in trouble what is known stays.
    """
    now, limit = time.monotonic(), FRESH if fresh is None else fresh
    if limit and now - _known.read_at < limit:
        return
    _known.read_at = max(now, _known.read_at)
    alias = project_options().database
    try:
        rows = list(Setting.objects.using(alias).order_by().values_list("name", "value"))
    except DatabaseError as error:
        if connections[alias].in_atomic_block:
            raise  # the caller's transaction is lost
        logger.info("The options that operators have set could not be read: %s", error)
        return
    take_overrides(rows)


def take_overrides(rows: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Lay the options that operators have set, as stored, over the project's. What cannot be is left out and answered:
    its name -> why."""
    values, refused = {}, {}
    for name, text in sorted(rows):
        try:
            values[name] = json.loads(text)
        except (ValueError, RecursionError):
            refused[name] = "is stored as something that is no JSON"
    with _known.lock:
        refused |= override_options(values)
        news = {name: why for name, why in refused.items() if _known.refused.get(name) != why}
        _known.refused = refused
    for name, why in news.items():
        logger.warning("The option %s that an operator has set is not followed: %s", one_line(name), one_line(why))
    return refused
