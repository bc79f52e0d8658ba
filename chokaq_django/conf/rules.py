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

from ..job.backoff import Exponential
from ..job.definition import CircuitPolicy, nearest, positive_int
from ..job.durations import LONGEST_DELAY, to_seconds
from ..job.envelope import EnvelopeError, clean_queue, clean_type
from ..job.failures import FailureReason
from ..sentence import shown
from .options import (
    DAY,
    MINUTE,
    DeckOptions,
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

MOST = 2**31 - 1
"""What an integer column holds on every engine."""

NEXJOB: Mapping[str, Mapping[str, Any]] = {
    "WORKER": {"poll_interval": 15.0, "idle_poll_interval": 15.0},
    "EXECUTION": {"heartbeat_min": 30.0, "heartbeat_max": 30.0},
    # 9 ** 4 + 15 seconds after the ninth failure: an hour would cut the curve short.
    "RETRY": {"max_attempts": 10, "max_delay": DAY, "jitter": 30.0},
    "RECOVERY": {"worker_timeout": 90.0, "zombie_timeout": 5 * MINUTE, "crash_policy": "retry"},
    "RETENTION": {"archive": 7 * DAY, "dlq": 30 * DAY},
    "HEALTH": {"lag_degraded": 30.0, "lag_unhealthy": MINUTE},  # above the poll, or every quiet queue would be late
    "DECK": {"lag_warning": 30.0, "lag_critical": MINUTE},
}


def _optional(check: Check) -> Check:
    return lambda value: None if value is None else check(value)


def _seconds(value: object, *, zero: bool = False) -> float:
    seconds = to_seconds(value, zero=zero)
    if seconds > LONGEST_DELAY:
        raise ValueError(f"must be at most 100 years, got {shown(value, 60)}")
    return seconds


def _span(value: object) -> float:
    return _seconds(value, zero=True)


def _count(value: object) -> int:
    count = positive_int(value)
    if count > MOST:
        raise ValueError(f"must be at most {MOST:,}")
    return count


def _flag(value: object) -> bool:
    if not isinstance(value, bool):
        raise TypeError(f"must be True or False, got {shown(value)}")
    return value


def _one_of(*allowed: str) -> Check:
    def check(value: object) -> object:
        if value not in allowed:
            raise ValueError(f"must be {' or '.join(map(repr, allowed))}, got {shown(value)}{nearest(value, allowed)}")
        return value

    return check


def _alias(value: object) -> str:
    if not isinstance(value, str) or not value:
        raise TypeError(f"must be the name of a database in DATABASES, got {shown(value)}")
    return value


def _prefetch(value: object) -> int | str:
    if value == "auto" or (value == 0 and not isinstance(value, bool)):
        return "auto" if value == "auto" else 0
    try:
        return _count(value)
    except (TypeError, ValueError):
        raise ValueError(f"must be 'auto' or an integer of at least 0, got {shown(value)}") from None


def _multiplier(value: object) -> float:
    return Exponential(base=0, multiplier=value).multiplier  # type: ignore[arg-type]


def _paths(value: object) -> tuple[str, ...]:
    if not isinstance(value, (list, tuple)) or not all(isinstance(path, str) and "." in path for path in value):
        raise TypeError(f"must be a list of dotted paths such as 'shop.middleware.tenant', got {shown(value)}")
    return tuple(value)


def _patterns(value: object) -> tuple[str, ...]:
    if not isinstance(value, (list, tuple)) or not all(isinstance(item, str) and item.strip() for item in value):
        raise TypeError(f"must be a list of name patterns such as '*password*', got {shown(value)}")
    return tuple(item.strip() for item in value)


def _reason(name: object) -> FailureReason:
    try:
        return FailureReason.parse(name)
    except ValueError:
        labels = [reason.label for reason in FailureReason]
        raise ValueError(f"has an unknown failure reason {name!r}{nearest(name, labels)}") from None


def _name(what: str, clean: Callable[[object], str]) -> Callable[[object], str]:
    def check(name: object) -> str:
        try:
            if clean(name) != name:
                raise EnvelopeError("", f"must not begin or end with blanks, got {name!r}")
        except EnvelopeError as error:
            raise ValueError(f"has {name!r}, which is no {what} (it {error.message})") from None
        return name

    return check


def _kept_by(key: Callable[[Any], Any], what: str, given: Mapping[Any, float | None] | None = None) -> Check:
    """A dict of how long to keep what, beside those that are ``given``."""

    def check(value: object) -> Mapping[Any, float | None]:
        if not isinstance(value, Mapping):
            raise TypeError(f"must be a dict of {what} to duration, got {shown(value)}")
        found = dict(given or {})
        for name, keep in value.items():
            clean = key(name)
            try:
                found[clean] = None if keep is None else _seconds(keep)
            except (TypeError, ValueError) as error:
                raise type(error)(f"[{name!r}] {error}") from None
        return MappingProxyType(found)

    return check


_BY_QUEUE = _kept_by(_name("queue name", clean_queue), "queue name")
_BY_TYPE = _kept_by(_name("type key", clean_type), "type key")
_BY_REASON = _kept_by(_reason, "failure reason", RetentionOptions().dlq_by_reason)

_WINDOW = re.compile(r"(\d{1,2}:\d{2})\s*-\s*(\d{1,2}:\d{2})\s+(\S+)")


def clean_window(value: object) -> Window:
    """A window as the setting says it: ``22:00-06:00 Europe/Berlin``; ``ValueError`` for anything else."""
    match = _WINDOW.fullmatch(value.strip()) if isinstance(value, str) else None
    if match is None:
        raise ValueError(f"must be two times and a zone, such as '22:00-06:00 Europe/Berlin', got {shown(value)}")
    try:
        start, end = (time(int(hour), int(minute)) for hour, minute in (match[i].split(":") for i in (1, 2)))
    except ValueError:
        raise ValueError(f"must have times from 00:00 to 23:59, got {shown(value)}") from None
    if start == end:
        raise ValueError(f"must not start and end at the same time, got {shown(value)}; leave it out to run all day")
    try:
        ZoneInfo(match[3])
    except (KeyError, ValueError, OSError):
        raise ValueError(f"must name a time zone such as 'Europe/Berlin' or 'UTC', got {match[3]!r}") from None
    return Window(start, end, match[3])


SECTIONS: Mapping[str, tuple[type[Any], Mapping[str, Check]]] = {
    "WORKER": (
        WorkerOptions,
        {
            "CONCURRENCY": _count,
            "ASYNC_CONCURRENCY": _count,
            "PROCESSES": _count,
            "PREFETCH": _prefetch,
            "FETCH_BATCH": _count,
            "SETTLE_BATCH": _count,
            "WAKE_UP": _one_of("auto", "poll"),
            "LISTEN_DATABASE": _optional(_alias),
            "POLL_INTERVAL": _seconds,
            "IDLE_POLL_INTERVAL": _seconds,
            "SHUTDOWN_GRACE": _span,
            "CANCEL_GRACE": _span,
            "MAX_JOBS": _optional(_count),
            "MAX_RSS_MB": _optional(_count),
        },
    ),
    "EXECUTION": (
        ExecutionOptions,
        {
            "TIMEOUT": _seconds,
            "HEARTBEAT_MIN": _seconds,
            "HEARTBEAT_MAX": _seconds,
            "HEARTBEAT_FAILURES": _count,
            "CANCEL_ON_HEARTBEAT_FAILURE": _flag,
            "UNKNOWN_TYPE_GRACE": _span,
        },
    ),
    "RETRY": (
        RetryOptions,
        {
            "MAX_ATTEMPTS": _count,
            "BASE_DELAY": _span,
            "MULTIPLIER": _multiplier,
            "MAX_DELAY": _span,
            "JITTER": _span,
            "MAX_AGE": _optional(_seconds),
        },
    ),
    "RECOVERY": (
        RecoveryOptions,
        {
            "WORKER_TIMEOUT": _seconds,
            "FETCHED_TIMEOUT": _seconds,
            "ZOMBIE_TIMEOUT": _seconds,
            "SCAN_INTERVAL": _seconds,
            "CRASH_POLICY": _one_of("dlq", "retry"),
            "CRASH_LIMIT": _count,
        },
    ),
    "CIRCUIT": (
        CircuitPolicy,
        {
            "FAILURES": _count,
            "WINDOW": _seconds,
            "BREAK": _seconds,
            "PROBES": _count,
            "PROBE_TIMEOUT": _seconds,
        },
    ),
    "RETENTION": (
        RetentionOptions,
        {
            "ARCHIVE": _optional(_seconds),
            "ARCHIVE_BY_QUEUE": _BY_QUEUE,
            "ARCHIVE_BY_TYPE": _BY_TYPE,
            "DLQ": _optional(_seconds),
            "DLQ_BY_QUEUE": _BY_QUEUE,
            "DLQ_BY_TYPE": _BY_TYPE,
            "DLQ_BY_REASON": _BY_REASON,
            "TRASH": _optional(_seconds),
            "BUCKETS": _optional(_seconds),
        },
    ),
    "HEALTH": (
        HealthOptions,
        {
            "LAG_DEGRADED": _seconds,
            "LAG_UNHEALTHY": _seconds,
            "DEAD_PER_HOUR": _optional(_count),
        },
    ),
    "DECK": (
        DeckOptions,
        {
            "LAG_WARNING": _seconds,
            "LAG_CRITICAL": _seconds,
            "TICK": _seconds,
            "BULK_CHUNK": _count,
            "CONFIRM_FROM": _count,
            "READ_DATABASE": _optional(_alias),
            "MASK_FIELDS": _patterns,
        },
    ),
}
QUEUE: Mapping[str, Check] = {
    "MAX_WORKERS": _optional(_count),
    "EXECUTION_TIMEOUT": _optional(_seconds),
    "ZOMBIE_TIMEOUT": _optional(_seconds),
    "WINDOW": _optional(clean_window),
}
TOP: Mapping[str, Check] = {
    "DATABASE": _alias,
    "PRESET": _one_of("chokaq", "nexjob"),
    "MAX_PAYLOAD_BYTES": _count,
    "MIDDLEWARE": _paths,
}
