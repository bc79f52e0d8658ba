"""What each option of the setting may be: one check per option, and the defaults that a preset changes.

A check returns the clean value, or raises an error whose message reads on from the option's name ("must be ...").
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import time
from types import MappingProxyType
from typing import Any
from zoneinfo import ZoneInfo

from .job.backoff import Exponential
from .job.definition import CircuitPolicy, nearest, positive_int
from .job.durations import to_seconds
from .job.failures import FailureReason
from .options import (
    DAY,
    MINUTE,
    ExecutionOptions,
    HealthOptions,
    RecoveryOptions,
    RetentionOptions,
    RetryOptions,
    Window,
    WorkerOptions,
)

__all__ = ["NEXJOB", "QUEUE", "SECTIONS", "TOP", "Check", "clean_window"]

Check = Callable[[Any], Any]

NEXJOB: Mapping[str, Mapping[str, Any]] = {
    "WORKER": {"poll_interval": 15.0, "idle_poll_interval": 15.0},
    "EXECUTION": {"heartbeat_min": 30.0, "heartbeat_max": 30.0},
    # 9 ** 4 + 15 seconds after the ninth failure: an hour would cut the curve short.
    "RETRY": {"max_attempts": 10, "max_delay": DAY, "jitter": 30.0},
    "RECOVERY": {"worker_timeout": 90.0, "zombie_timeout": 5 * MINUTE, "crash_policy": "retry"},
    "RETENTION": {"archive": 7 * DAY, "dlq": 30 * DAY},
    "HEALTH": {"lag_degraded": 30.0, "lag_unhealthy": MINUTE},  # above the poll, or every quiet queue would be late
}


def _optional(check: Check) -> Check:
    return lambda value: None if value is None else check(value)


def _span(value: object) -> float:
    return to_seconds(value, zero=True)


def _flag(value: object) -> bool:
    if not isinstance(value, bool):
        raise TypeError(f"must be True or False, got {value!r}")
    return value


def _one_of(*allowed: str) -> Check:
    def check(value: object) -> object:
        if value not in allowed:
            raise ValueError(f"must be {' or '.join(map(repr, allowed))}, got {value!r}{nearest(value, allowed)}")
        return value

    return check


def _alias(value: object) -> str:
    if not isinstance(value, str) or not value:
        raise TypeError(f"must be the name of a database in DATABASES, got {value!r}")
    return value


def _prefetch(value: object) -> int | str:
    if value == "auto" or (value == 0 and not isinstance(value, bool)):
        return "auto" if value == "auto" else 0
    try:
        return positive_int(value)
    except (TypeError, ValueError):
        raise ValueError(f"must be 'auto' or an integer of at least 0, got {value!r}") from None


def _multiplier(value: object) -> float:
    return Exponential(base=0, multiplier=value).multiplier  # type: ignore[arg-type]


def _paths(value: object) -> tuple[str, ...]:
    if not isinstance(value, (list, tuple)) or not all(isinstance(path, str) and "." in path for path in value):
        raise TypeError(f"must be a list of dotted paths such as 'shop.middleware.tenant', got {value!r}")
    return tuple(value)


def _by_reason(value: object) -> Mapping[FailureReason, float | None]:
    if not isinstance(value, Mapping):
        raise TypeError(f"must be a dict of failure reason to duration, got {value!r}")
    found = dict(RetentionOptions().dlq_by_reason)
    for name, keep in value.items():
        try:
            reason = FailureReason.parse(name)
        except ValueError:
            raise ValueError(
                f"has an unknown failure reason {name!r}{nearest(name, [r.label for r in FailureReason])}"
            ) from None
        try:
            found[reason] = None if keep is None else to_seconds(keep)
        except (TypeError, ValueError) as error:
            raise type(error)(f"[{name!r}] {error}") from None
    return MappingProxyType(found)


_WINDOW = re.compile(r"(\d{1,2}:\d{2})\s*-\s*(\d{1,2}:\d{2})\s+(\S+)")


def clean_window(value: object) -> Window:
    """A window as the setting says it: ``22:00-06:00 Europe/Berlin``; ``ValueError`` for anything else."""
    match = _WINDOW.fullmatch(value.strip()) if isinstance(value, str) else None
    if match is None:
        raise ValueError(f"must be text such as '22:00-06:00 Europe/Berlin', got {value!r}")
    try:
        start, end = (time(int(hour), int(minute)) for hour, minute in (match[i].split(":") for i in (1, 2)))
    except ValueError:
        raise ValueError(f"must have times from 00:00 to 23:59, got {value!r}") from None
    if start == end:
        raise ValueError(f"must not start and end at the same time, got {value!r}; leave it out to run all day")
    try:
        ZoneInfo(match[3])
    except (KeyError, ValueError, OSError):
        raise ValueError(f"must name a time zone such as 'Europe/Berlin' or 'UTC', got {match[3]!r}") from None
    return Window(start, end, match[3])


SECTIONS: Mapping[str, tuple[type[Any], Mapping[str, Check]]] = {
    "WORKER": (
        WorkerOptions,
        {
            "CONCURRENCY": positive_int,
            "ASYNC_CONCURRENCY": positive_int,
            "PROCESSES": positive_int,
            "PREFETCH": _prefetch,
            "FETCH_BATCH": positive_int,
            "SETTLE_BATCH": positive_int,
            "WAKE_UP": _one_of("auto", "poll"),
            "LISTEN_DATABASE": _optional(_alias),
            "POLL_INTERVAL": to_seconds,
            "IDLE_POLL_INTERVAL": to_seconds,
            "SHUTDOWN_GRACE": _span,
            "CANCEL_GRACE": _span,
            "MAX_JOBS": _optional(positive_int),
            "MAX_RSS_MB": _optional(positive_int),
        },
    ),
    "EXECUTION": (
        ExecutionOptions,
        {
            "TIMEOUT": to_seconds,
            "HEARTBEAT_MIN": to_seconds,
            "HEARTBEAT_MAX": to_seconds,
            "HEARTBEAT_FAILURES": positive_int,
            "CANCEL_ON_HEARTBEAT_FAILURE": _flag,
            "UNKNOWN_TYPE_GRACE": _span,
        },
    ),
    "RETRY": (
        RetryOptions,
        {
            "MAX_ATTEMPTS": positive_int,
            "BASE_DELAY": _span,
            "MULTIPLIER": _multiplier,
            "MAX_DELAY": _span,
            "JITTER": _span,
            "MAX_AGE": _optional(to_seconds),
        },
    ),
    "RECOVERY": (
        RecoveryOptions,
        {
            "WORKER_TIMEOUT": to_seconds,
            "FETCHED_TIMEOUT": to_seconds,
            "ZOMBIE_TIMEOUT": to_seconds,
            "SCAN_INTERVAL": to_seconds,
            "CRASH_POLICY": _one_of("dlq", "retry"),
            "CRASH_LIMIT": positive_int,
        },
    ),
    "CIRCUIT": (
        CircuitPolicy,
        {
            "FAILURES": positive_int,
            "WINDOW": to_seconds,
            "BREAK": to_seconds,
            "PROBES": positive_int,
            "PROBE_TIMEOUT": to_seconds,
        },
    ),
    "RETENTION": (
        RetentionOptions,
        {
            "ARCHIVE": _optional(to_seconds),
            "DLQ": _optional(to_seconds),
            "DLQ_BY_REASON": _by_reason,
            "TRASH": _optional(to_seconds),
            "BUCKETS": _optional(to_seconds),
        },
    ),
    "HEALTH": (
        HealthOptions,
        {
            "LAG_DEGRADED": to_seconds,
            "LAG_UNHEALTHY": to_seconds,
            "DEAD_PER_HOUR": _optional(positive_int),
        },
    ),
}
QUEUE: Mapping[str, Check] = {
    "MAX_WORKERS": _optional(positive_int),
    "EXECUTION_TIMEOUT": _optional(to_seconds),
    "ZOMBIE_TIMEOUT": _optional(to_seconds),
    "WINDOW": _optional(clean_window),
}
TOP: Mapping[str, Check] = {
    "DATABASE": _alias,
    "PRESET": _one_of("chokaq", "nexjob"),
    "MAX_PAYLOAD_BYTES": positive_int,
    "MIDDLEWARE": _paths,
}
