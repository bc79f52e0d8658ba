"""Where the control row of a queue has other limits than the settings."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass, fields

from ..conf import Options, QueueOptions, Window
from ..models import Queue

__all__ = ["OtherLimits", "beside_settings", "other_limits"]


@dataclass(frozen=True, slots=True)
class OtherLimits:
    """A queue whose row has other limits: ``held``; ``said``: what the settings say.

    ``by``: who has set its limits, with whom it stays; None: nobody did, and workers that start change it.
    """

    queue: str
    held: QueueOptions
    said: QueueOptions
    by: str | None
    at: dt.datetime

    def options(self) -> list[str]:
        """Names of the attributes that differ. What the settings leave out they do not want otherwise once somebody
        has set the queue's limits."""
        names = [each.name for each in fields(QueueOptions)]
        return [
            name
            for name in names
            if getattr(self.held, name) != (said := getattr(self.said, name)) and (said is not None or self.by is None)
        ]


def other_limits(alias: str, options: Options) -> list[OtherLimits]:
    """These queues, by name. One statement."""
    found = (beside_settings(row, options) for row in Queue.objects.using(alias).order_by("name"))
    return [each for each in found if each.options()]


def beside_settings(row: Queue, options: Options) -> OtherLimits:
    """A queue's limits, other ones or not, and what the settings say of them."""
    return OtherLimits(
        row.name, _held(row), options.queues.get(row.name, QueueOptions()), row.updated_by, row.updated_at
    )


def _held(row: Queue) -> QueueOptions:
    start, end, zone = row.window_start, row.window_end, row.window_zone
    window = Window(start, end, zone) if start is not None and end is not None and zone else None
    return QueueOptions(row.max_workers, row.execution_timeout, row.zombie_timeout, window)
