"""The ``CHOKAQ`` setting as one frozen, typed object.

Durations are seconds here, whatever the setting said. Everything wrong with a setting is reported at once.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import time
from types import MappingProxyType
from typing import Any, Literal, NamedTuple
from zoneinfo import ZoneInfo

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.core.signals import setting_changed

from .job.backoff import Backoff, Exponential, Polynomial
from .job.definition import CircuitPolicy, nearest, positive_int
from .job.durations import to_seconds
from .job.envelope import EnvelopeError, clean_queue
from .job.failures import FailureReason

__all__ = ["OptionProblem", "Options", "QueueOptions", "Window", "get_options", "parse_options"]

_MINUTE, _HOUR, _DAY = 60.0, 3600.0, 86400.0


class Window(NamedTuple):
    """When a queue may run: from ``start`` to ``end`` in the IANA ``zone``, over midnight when end is before start."""

    start: time
    end: time
    zone: str


@dataclass(frozen=True, slots=True)
class WorkerOptions:
    concurrency: int = 10
    async_concurrency: int = 100
    processes: int = 1
    prefetch: int | Literal["auto"] = "auto"
    fetch_batch: int = 200
    settle_batch: int = 500
    wake_up: Literal["auto", "poll"] = "auto"
    listen_database: str | None = None
    poll_interval: float = 1.0
    idle_poll_interval: float = 5.0
    shutdown_grace: float = 30.0
    cancel_grace: float = 5.0
    max_jobs: int | None = None
    max_rss_mb: int | None = None


@dataclass(frozen=True, slots=True)
class ExecutionOptions:
    timeout: float = 15 * _MINUTE
    heartbeat_min: float = 8.0
    heartbeat_max: float = 12.0
    heartbeat_failures: int = 10
    cancel_on_heartbeat_failure: bool = False
    unknown_type_grace: float = 10 * _MINUTE


@dataclass(frozen=True, slots=True)
class RetryOptions:
    max_attempts: int = 3
    base_delay: float = 3.0
    multiplier: float = 2.0
    max_delay: float = _HOUR
    jitter: float = 1.0
    max_age: float | None = _DAY
    backoff: Backoff = field(default_factory=Exponential)
    """The policy of types that name none, made of the options above."""


@dataclass(frozen=True, slots=True)
class RecoveryOptions:
    worker_timeout: float = 30.0
    fetched_timeout: float = 10 * _MINUTE
    zombie_timeout: float = 10 * _MINUTE
    scan_interval: float = 10.0
    crash_policy: Literal["dlq", "retry"] = "dlq"
    crash_limit: int = 3


@dataclass(frozen=True, slots=True)
class RetentionOptions:
    """None keeps for ever."""

    archive: float | None = 30 * _DAY
    dlq: float | None = None
    dlq_by_reason: Mapping[FailureReason, float | None] = field(
        default_factory=lambda: MappingProxyType({FailureReason.EXPIRED: 7 * _DAY})
    )
    trash: float | None = 7 * _DAY
    buckets: float | None = 30 * _DAY


@dataclass(frozen=True, slots=True)
class QueueOptions:
    """First values of one queue; its row in the database wins once edited. None is not set."""

    max_workers: int | None = None
    execution_timeout: float | None = None
    zombie_timeout: float | None = None
    window: Window | None = None


@dataclass(frozen=True, slots=True)
class Options:
    """Everything ``CHOKAQ`` says, defaults filled in."""

    database: str = "default"
    preset: Literal["chokaq", "nexjob"] = "chokaq"
    max_payload_bytes: int = 1_000_000
    require_registered_types: bool = True
    middleware: tuple[str, ...] = ()
    worker: WorkerOptions = field(default_factory=WorkerOptions)
    execution: ExecutionOptions = field(default_factory=ExecutionOptions)
    retry: RetryOptions = field(default_factory=RetryOptions)
    recovery: RecoveryOptions = field(default_factory=RecoveryOptions)
    circuit: CircuitPolicy = field(default_factory=CircuitPolicy)
    queues: Mapping[str, QueueOptions] = field(default_factory=lambda: MappingProxyType({}))
    retention: RetentionOptions = field(default_factory=RetentionOptions)

    @property
    def strict_queue_order(self) -> bool:
        """Whether a worker's list of queues is an order by default, as in NexJob."""
        return self.preset == "nexjob"


@dataclass(frozen=True, slots=True)
class OptionProblem:
    """One thing wrong with the setting. ``path`` is where, as in ``WORKER.CONCURRENCY``; ``hint`` may be empty."""

    path: str
    message: str
    hint: str = ""

    @property
    def where(self) -> str:
        """The path as one writes it in Python: ``CHOKAQ['WORKER']['CONCURRENCY']``."""
        return "CHOKAQ" + "".join(f"[{part!r}]" for part in self.path.split(".") if part)

    def __str__(self) -> str:
        return f"{self.where} {self.message}{f' ({self.hint})' if self.hint else ''}"


_NEXJOB: Mapping[str, Mapping[str, Any]] = {
    "WORKER": {"poll_interval": 15.0, "idle_poll_interval": 15.0},
    "EXECUTION": {"heartbeat_min": 30.0, "heartbeat_max": 30.0},
    # 9 ** 4 + 15 seconds after the ninth failure: an hour would cut the curve short.
    "RETRY": {"max_attempts": 10, "max_delay": _DAY, "jitter": 30.0},
    "RECOVERY": {"worker_timeout": 90.0, "zombie_timeout": 5 * _MINUTE, "crash_policy": "retry"},
    "RETENTION": {"archive": 7 * _DAY, "dlq": 30 * _DAY},
}

# --- checks of one value: the clean value, or an error that reads on from the option's name --------------------------

_Check = Callable[[Any], Any]


def _optional(check: _Check) -> _Check:
    return lambda value: None if value is None else check(value)


def _span(value: object) -> float:
    return to_seconds(value, zero=True)


def _flag(value: object) -> bool:
    if not isinstance(value, bool):
        raise TypeError(f"must be True or False, got {value!r}")
    return value


def _one_of(*allowed: str) -> _Check:
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


def _window(value: object) -> Window:
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


_SECTIONS: Mapping[str, tuple[type[Any], Mapping[str, _Check]]] = {
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
}
_QUEUE: Mapping[str, _Check] = {
    "MAX_WORKERS": _optional(positive_int),
    "EXECUTION_TIMEOUT": _optional(to_seconds),
    "ZOMBIE_TIMEOUT": _optional(to_seconds),
    "WINDOW": _optional(_window),
}
_TOP: Mapping[str, _Check] = {
    "DATABASE": _alias,
    "PRESET": _one_of("chokaq", "nexjob"),
    "MAX_PAYLOAD_BYTES": positive_int,
    "REQUIRE_REGISTERED_TYPES": _flag,
    "MIDDLEWARE": _paths,
}


class _Parser:
    """One pass over the setting that gathers problems instead of stopping at the first."""

    def __init__(self) -> None:
        self.problems: list[OptionProblem] = []

    def add(self, path: str, message: str, hint: str = "") -> None:
        self.problems.append(OptionProblem(path, message, hint))

    def mapping(self, raw: object, path: str) -> Mapping[Any, Any]:
        if isinstance(raw, Mapping):
            return raw
        self.add(path, f"must be a dict, got {raw!r:.80}")
        return {}

    def values(
        self, raw: Mapping[Any, Any], checks: Mapping[str, _Check], path: str, also: Iterable[str] = ()
    ) -> dict[str, Any]:
        """The clean values of ``raw`` by attribute name; names in ``also`` are valid but read elsewhere."""
        clean: dict[str, Any] = {}
        prefix = f"{path}." if path else ""
        for name, value in raw.items():
            check = checks.get(name)
            if check is None:
                if name not in also:
                    valid = [*checks, *also]
                    near = nearest(name, valid).removeprefix("; ")
                    self.add(f"{prefix}{name}", "is not an option", near or f"valid are {', '.join(sorted(valid))}")
                continue
            try:
                clean[_attribute(name)] = check(value)
            except (TypeError, ValueError) as error:
                message, _, hint = str(error).rpartition(": ")[2].partition("; ")
                self.add(f"{prefix}{name}", message, hint)
        return clean

    def queues(self, raw: object) -> Mapping[str, QueueOptions]:
        queues: dict[str, QueueOptions] = {}
        for name, options in self.mapping(raw, "QUEUES").items():
            path = f"QUEUES.{name}"
            try:
                if clean_queue(name) != name:
                    raise EnvelopeError("queue", f"must not begin or end with blanks, got {name!r}")
            except EnvelopeError as error:
                self.add(path, f"is not a queue name: it {error.message}")
                continue
            queues[name] = QueueOptions(**self.values(self.mapping(options, path), _QUEUE, path))
        return MappingProxyType(queues)

    def contradictions(self, options: Options, retry_given: Iterable[str]) -> None:
        """What is wrong between options that are each right by themselves."""
        broken = {problem.path for problem in self.problems}
        execution, recovery, retry, worker = options.execution, options.recovery, options.retry, options.worker
        minimum, maximum = execution.heartbeat_min, execution.heartbeat_max

        def demand(holds: bool, path: str, other: str, message: str) -> None:
            if not holds and not broken & {path, other}:
                self.add(path, message)

        demand(
            minimum <= maximum,
            "EXECUTION.HEARTBEAT_MIN",
            "EXECUTION.HEARTBEAT_MAX",
            f"({minimum:g} s) must not be above EXECUTION.HEARTBEAT_MAX ({maximum:g} s)",
        )
        demand(
            maximum * 2 < recovery.worker_timeout,
            "EXECUTION.HEARTBEAT_MAX",
            "RECOVERY.WORKER_TIMEOUT",
            f"({maximum:g} s) must be less than half of RECOVERY.WORKER_TIMEOUT ({recovery.worker_timeout:g} s), "
            "or one late heartbeat makes a live worker count as dead",
        )
        for path, timeout in [
            ("RECOVERY.ZOMBIE_TIMEOUT", recovery.zombie_timeout),
            *((f"QUEUES.{name}.ZOMBIE_TIMEOUT", queue.zombie_timeout) for name, queue in options.queues.items()),
        ]:
            demand(
                timeout is None or maximum < timeout,
                path,
                "EXECUTION.HEARTBEAT_MAX",
                f"({timeout or 0:g} s) must be above EXECUTION.HEARTBEAT_MAX ({maximum:g} s)",
            )
        demand(
            worker.poll_interval <= worker.idle_poll_interval,
            "WORKER.IDLE_POLL_INTERVAL",
            "WORKER.POLL_INTERVAL",
            f"({worker.idle_poll_interval:g} s) must not be below WORKER.POLL_INTERVAL ({worker.poll_interval:g} s)",
        )
        if options.preset == "nexjob":
            for name in ("BASE_DELAY", "MULTIPLIER"):
                if name.lower() in retry_given:
                    self.add(
                        f"RETRY.{name}",
                        "has no effect with the nexjob preset, which waits attempt ** 4 + 15 s",
                        "leave it out, or give the types a backoff=Exponential(...)",
                    )
        else:
            demand(
                retry.base_delay <= retry.max_delay,
                "RETRY.MAX_DELAY",
                "RETRY.BASE_DELAY",
                f"({retry.max_delay:g} s) must not be below RETRY.BASE_DELAY ({retry.base_delay:g} s)",
            )


def _attribute(name: str) -> str:
    return "break_" if name == "BREAK" else name.lower()


def parse_options(raw: object) -> tuple[Options | None, list[OptionProblem]]:
    """``raw`` as options, and everything that is wrong with it; options are None when anything is.

    Whether database aliases exist and middleware can be imported is a matter of ``manage.py check``.
    """
    parser = _Parser()
    given = {} if raw is None else parser.mapping(raw, "")
    top = parser.values(given, _TOP, "", also=(*_SECTIONS, "QUEUES"))
    preset = _NEXJOB if top.get("preset") == "nexjob" else {}
    sections: dict[str, Any] = {}
    retry_given: dict[str, Any] = {}
    for name, (cls, checks) in _SECTIONS.items():
        values = parser.values(parser.mapping(given.get(name, {}), name), checks, name)
        merged = {**preset.get(name, {}), **values}
        if name == "RETRY":
            retry_given = values
        elif name == "WORKER" and "poll_interval" in values and "idle_poll_interval" not in values:
            idle = merged.get("idle_poll_interval", WorkerOptions().idle_poll_interval)
            merged["idle_poll_interval"] = max(idle, values["poll_interval"])
        sections[name.lower()] = cls(**merged)
    options = Options(**top, **sections, queues=parser.queues(given.get("QUEUES", {})))
    parser.contradictions(options, retry_given)
    if parser.problems:
        return None, parser.problems
    return dataclasses.replace(options, retry=_with_backoff(options)), []


def _with_backoff(options: Options) -> RetryOptions:
    retry = options.retry
    policy: Backoff
    if options.preset == "nexjob":
        policy = Polynomial(4, 15, retry.jitter, retry.max_delay)
    else:
        policy = Exponential(retry.base_delay, retry.multiplier, retry.max_delay, retry.jitter)
    return dataclasses.replace(retry, backoff=policy)


_options: Options | None = None


def get_options() -> Options:
    """The options of this project, read once. ``ImproperlyConfigured`` lists everything wrong with the setting."""
    global _options
    if _options is None:
        options, problems = parse_options(getattr(settings, "CHOKAQ", None))
        if options is None:
            raise ImproperlyConfigured("the CHOKAQ setting is wrong:\n" + "\n".join(f"- {p}" for p in problems))
        _options = options
    return _options


def _forget(*, setting: str, **kwargs: object) -> None:
    global _options
    if setting == "CHOKAQ":
        _options = None


setting_changed.connect(_forget)
