"""The setting ``CHOKAQ`` as it was written, read into options. Everything wrong with it is reported at once.

Durations are seconds in options, whatever the setting said.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from ..job.backoff import Backoff, Exponential, Polynomial
from ..job.definition import nearest
from ..job.envelope import EnvelopeError, clean_queue
from .options import Options, QueueOptions, RetryOptions, WorkerOptions
from .rules import NEXJOB, QUEUE, SECTIONS, TOP, Check

__all__ = ["OptionProblem", "parse_option", "parse_options"]


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
        self, raw: Mapping[Any, Any], checks: Mapping[str, Check], path: str, also: Iterable[str] = ()
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
            queues[name] = QueueOptions(**self.values(self.mapping(options, path), QUEUE, path))
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
        degraded, unhealthy = options.health.lag_degraded, options.health.lag_unhealthy
        demand(
            degraded < unhealthy,
            "HEALTH.LAG_DEGRADED",
            "HEALTH.LAG_UNHEALTHY",
            f"({degraded:g} s) must be below HEALTH.LAG_UNHEALTHY ({unhealthy:g} s)",
        )
        warning, critical = options.deck.lag_warning, options.deck.lag_critical
        demand(
            warning < critical,
            "DECK.LAG_WARNING",
            "DECK.LAG_CRITICAL",
            f"({warning:g} s) must be below DECK.LAG_CRITICAL ({critical:g} s)",
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
    top = parser.values(given, TOP, "", also=(*SECTIONS, "QUEUES"))
    preset = NEXJOB if top.get("preset") == "nexjob" else {}
    sections: dict[str, Any] = {}
    retry_given: dict[str, Any] = {}
    for name, (cls, checks) in SECTIONS.items():
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


def parse_option(section: str, option: str, value: object) -> list[OptionProblem]:
    """What is wrong with ``value`` for this one option, whatever the others are."""
    parser = _Parser()
    parser.values({option: value}, {option: SECTIONS[section][1][option]}, section)
    return parser.problems
