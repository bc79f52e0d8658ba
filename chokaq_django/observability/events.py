"""Log events with stable ids, in ``extra["event_id"]``, on loggers named ``chokaq.*``.

Families: 1000 worker, 2000 execution, 2100 transitions, 3000 enqueue, 4000 rescue, 5000 storage, 6000 operator.
"""

from __future__ import annotations

import logging
from enum import IntEnum


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


def log_event(
    logger: logging.Logger, level: int, event: Event, message: str, *args: object, exc_info: object = None
) -> None:
    """Log ``message % args`` with the event's id and name in the record."""
    if logger.isEnabledFor(level):
        extra = {"event_id": int(event), "event_name": event.name}
        logger.log(level, message, *args, extra=extra, exc_info=exc_info, stacklevel=2)  # type: ignore[arg-type]
