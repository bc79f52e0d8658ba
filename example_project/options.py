"""``CHOKAQ`` from the environment: one variable for each option, ``CHOKAQ_<SECTION>_<NAME>``.

Only what the environment names is set, so that the package's own defaults hold for the rest. Durations are seconds.
``CHOKAQ_QUEUES`` is JSON: ``{"reports": {"MAX_WORKERS": 2, "EXECUTION_TIMEOUT": 3600}}``, and so are
the rules of retention, such as ``CHOKAQ_RETENTION_DLQ_BY_REASON``: ``{"Cancelled": 86400}``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import environ


def options_from_env(env: environ.Env) -> dict[str, Any]:
    """The ``CHOKAQ`` setting that the environment describes; a value of the wrong type raises ``ImproperlyConfigured``
    or ``ValueError`` from django-environ, naming nothing more than the value: the rest is checked by the package."""

    def number_or_auto(name: str) -> int | str:
        text: str = env.str(name)
        return text if text == "auto" else int(text)

    def optional(cast: Callable[[str], Any]) -> Callable[[str], Any]:
        """None for an empty value: the option's "off"."""
        return lambda name: cast(name) if env.str(name) else None

    readers: dict[str, dict[str, Callable[[str], Any]]] = {
        "": {
            "DATABASE": env.str,
            "PRESET": env.str,
            "MAX_PAYLOAD_BYTES": env.int,
            "MIDDLEWARE": env.list,
            "QUEUES": env.json,
        },
        "WORKER": {
            "CONCURRENCY": env.int,
            "ASYNC_CONCURRENCY": env.int,
            "PROCESSES": env.int,
            "PREFETCH": number_or_auto,
            "FETCH_BATCH": env.int,
            "SETTLE_BATCH": env.int,
            "WAKE_UP": env.str,
            "LISTEN_DATABASE": optional(env.str),
            "POLL_INTERVAL": env.float,
            "IDLE_POLL_INTERVAL": env.float,
            "SHUTDOWN_GRACE": env.float,
            "CANCEL_GRACE": env.float,
            "MAX_JOBS": optional(env.int),
            "MAX_RSS_MB": optional(env.int),
        },
        "EXECUTION": {
            "TIMEOUT": env.float,
            "HEARTBEAT_MIN": env.float,
            "HEARTBEAT_MAX": env.float,
            "HEARTBEAT_FAILURES": env.int,
            "CANCEL_ON_HEARTBEAT_FAILURE": env.bool,
            "UNKNOWN_TYPE_GRACE": env.float,
        },
        "RETRY": {
            "MAX_ATTEMPTS": env.int,
            "BASE_DELAY": env.float,
            "MULTIPLIER": env.float,
            "MAX_DELAY": env.float,
            "JITTER": env.float,
            "MAX_AGE": optional(env.float),
        },
        "RECOVERY": {
            "WORKER_TIMEOUT": env.float,
            "FETCHED_TIMEOUT": env.float,
            "ZOMBIE_TIMEOUT": env.float,
            "SCAN_INTERVAL": env.float,
            "CRASH_POLICY": env.str,
            "CRASH_LIMIT": env.int,
        },
        "CIRCUIT": {
            "FAILURES": env.int,
            "WINDOW": env.float,
            "BREAK": env.float,
            "PROBES": env.int,
            "PROBE_TIMEOUT": env.float,
        },
        "RETENTION": {
            "ARCHIVE": optional(env.float),
            "ARCHIVE_BY_QUEUE": env.json,
            "ARCHIVE_BY_TYPE": env.json,
            "DLQ": optional(env.float),
            "DLQ_BY_QUEUE": env.json,
            "DLQ_BY_TYPE": env.json,
            "DLQ_BY_REASON": env.json,
            "TRASH": optional(env.float),
            "BUCKETS": optional(env.float),
        },
        "HEALTH": {
            "LAG_DEGRADED": env.float,
            "LAG_UNHEALTHY": env.float,
            "DEAD_PER_HOUR": optional(env.int),
        },
        "DECK": {
            "LAG_WARNING": env.float,
            "LAG_CRITICAL": env.float,
            "TICK": env.float,
            "BULK_CHUNK": env.int,
            "CONFIRM_FROM": env.int,
            "READ_DATABASE": optional(env.str),
            "MASK_FIELDS": env.list,
        },
    }
    options: dict[str, Any] = {}
    for section, names in readers.items():
        found = {}
        for name, read in names.items():
            variable = "_".join(part for part in ("CHOKAQ", section, name) if part)
            if variable in env.ENVIRON:
                found[name] = read(variable)
        if section and found:
            options[section] = found
        else:
            options.update(found)
    return options
