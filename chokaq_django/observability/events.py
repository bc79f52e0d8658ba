"""Log events with stable ids, in ``extra["event_id"]``, on loggers named ``chokaq.*``.

Families: 1000 worker, 2000 execution, 2100 transitions, 3000 enqueue, 4000 rescue, 5000 storage, 6000 operator.
"""

from __future__ import annotations

import logging
from enum import IntEnum
from numbers import Number

from .harmless import one_line

LONGEST = 10_000
"""Characters of one argument of a message."""


class Event(IntEnum):
    """One kind of log record; the number never changes its meaning."""

    WORKER_STARTED = 1000
    WORKER_STOPPED = 1001
    WORKER_LOOP_CRASHED = 1002
    WORKER_CAPACITY_CHANGED = 1004
    WORKER_DRAINING = 1012
    WORKER_SHUTDOWN_TIMED_OUT = 1015
    WORKER_CHILD_DIED = 1020
    WORKER_RECYCLED = 1021
    WORKER_GAVE_UP = 1022
    WORKER_PROBED = 1023
    WORKER_QUEUE_UNKNOWN = 1024
    JOB_CANCEL_REQUESTED = 2000
    JOB_CONFLICT = 2002
    JOB_SUCCEEDED = 2003
    HEARTBEAT_DEGRADED = 2008
    JOB_RETRYING = 2010
    JOB_BURIED = 2011
    JOB_LEASE_LOST = 2013
    JOB_ABANDONED = 2014
    JOB_TYPE_UNKNOWN = 2015
    RESULT_NOT_STORED = 2017
    SIGNAL_RECEIVER_FAILED = 2018
    COMMIT_HOOK_FAILED = 2019
    BACKOFF_FAILED = 2020
    LOOP_REPLACED = 2021
    CALL_ABANDONED = 2022
    THREAD_REFUSED = 2023
    CIRCUIT_CHANGED = 2100
    ENQUEUE_OUTSIDE_TRANSACTION = 3002
    RESCUED = 4000
    WORKERS_SWEPT = 4001
    STORAGE_TROUBLE = 5000
    STORAGE_RECOVERED = 5001
    WAKE_UP_TROUBLE = 5002
    OPERATOR_ACT = 6000
    BULK_ENDED = 6001
    BULK_FAILED = 6002
    FEED_BROKE_OFF = 6010


def log_event(
    logger: logging.Logger, level: int, event: Event, message: str, *args: object, exc_info: object = None
) -> None:
    """Log ``message % args`` with the event's id and name in the record.

    What the arguments say is made harmless, for every handler: names, keys and texts of errors come from outside, and
    would forge further records or move a terminal's cursor. As they came they are the record's ``event_args``.
    """
    if logger.isEnabledFor(level):
        raw = tuple(map(_plain, args))
        shown = [one_line(value, LONGEST) if isinstance(value, str) else value for value in raw]
        extra = {"event_id": int(event), "event_name": event.name, "event_args": raw}
        logger.log(level, message, *shown, extra=extra, exc_info=exc_info, stacklevel=2)  # type: ignore[arg-type]


def _plain(value: object) -> object:
    """A number, or the text of anything else: handlers that send records to other processes pickle them."""
    if isinstance(value, Number):
        return value
    try:
        return str(value)
    except Exception:  # noqa: BLE001 - somebody else's exception may not even be able to say what it is
        return f"<{type(value).__name__} without a text>"
