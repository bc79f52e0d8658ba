"""When to try again: the delay after the n-th failure."""

from __future__ import annotations

import math
import random
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from .durations import Duration, to_seconds

__all__ = ["Backoff", "Explicit", "Exponential", "Polynomial"]

A_YEAR = 365 * 86400.0


@runtime_checkable
class Backoff(Protocol):
    """Anything that can say how long to wait after a failure."""

    def delay(self, n: int) -> float:
        """Seconds to wait after the ``n``-th failure, counted from 1."""


def _option(policy: object, name: str, value: object) -> float:
    try:
        return to_seconds(value, zero=True)
    except (TypeError, ValueError) as error:
        raise type(error)(f"{type(policy).__name__}: {name} {error}") from None


def _number(policy: object, name: str, value: object, *, least: float) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise TypeError(f"{type(policy).__name__}: {name} must be a number, got {value!r}")
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not (math.isfinite(number) and number >= least):
        raise ValueError(f"{type(policy).__name__}: {name} must be finite and at least {least:g}, got {value!r:.60}")
    return number


def _jittered(seconds: float, jitter: float) -> float:
    return seconds + random.uniform(0, jitter) if jitter else seconds  # noqa: S311 - no secret


@dataclass(frozen=True, slots=True, init=False)
class Exponential:
    """``min(base * multiplier ** (n - 1), max)`` plus up to ``jitter``: 3 s, 6 s, 12 s, ... 1 h by default."""

    base: float
    multiplier: float
    max: float
    jitter: float

    def __init__(
        self,
        base: Duration = 3.0,
        multiplier: float = 2.0,
        max: Duration = 3600.0,  # noqa: A002 - the formula's own word
        jitter: Duration = 1.0,
    ) -> None:
        for name, value in (("base", base), ("max", max), ("jitter", jitter)):
            object.__setattr__(self, name, _option(self, name, value))
        object.__setattr__(self, "multiplier", _number(self, "multiplier", multiplier, least=1))
        if self.max < self.base:
            raise ValueError(f"Exponential: max ({self.max:g} s) must not be below base ({self.base:g} s)")

    def delay(self, n: int) -> float:
        """Seconds to wait after the ``n``-th failure; finite for any ``n``."""
        try:
            seconds = self.base * self.multiplier ** (n - 1 if n > 1 else 0)
        except OverflowError:
            seconds = self.max if self.base else 0.0
        return _jittered(min(seconds, self.max), self.jitter)


@dataclass(frozen=True, slots=True, init=False)
class Polynomial:
    """``n ** power + offset``, at most ``max``, plus up to ``jitter``: 16 s, 31 s, 96 s, 271 s, ... by default."""

    power: float
    offset: float
    jitter: float
    max: float

    def __init__(
        self,
        power: float = 4.0,
        offset: Duration = 15.0,
        jitter: Duration = 30.0,
        max: Duration = A_YEAR,  # noqa: A002 - the formula's own word
    ) -> None:
        for name, value in (("offset", offset), ("jitter", jitter), ("max", max)):
            object.__setattr__(self, name, _option(self, name, value))
        object.__setattr__(self, "power", _number(self, "power", power, least=0))

    def delay(self, n: int) -> float:
        """Seconds to wait after the ``n``-th failure; finite for any ``n``."""
        try:
            seconds = float(n if n > 1 else 1) ** self.power + self.offset
        except OverflowError:
            seconds = self.max
        return _jittered(min(seconds, self.max), self.jitter)


@dataclass(frozen=True, slots=True, init=False)
class Explicit:
    """The delays one by one, the last one for every failure after it."""

    delays: tuple[float, ...]
    jitter: float

    def __init__(self, delays: Iterable[Duration], jitter: Duration = 0.0) -> None:
        if isinstance(delays, (str, bytes)) or not isinstance(delays, Iterable):
            raise TypeError(f"Explicit: delays must be a list of timedeltas or seconds, got {delays!r}")
        seconds = tuple(_option(self, f"delays[{i}]", value) for i, value in enumerate(delays))
        if not seconds:
            raise ValueError("Explicit: delays must hold at least one delay")
        object.__setattr__(self, "delays", seconds)
        object.__setattr__(self, "jitter", _option(self, "jitter", jitter))

    def delay(self, n: int) -> float:
        """Seconds to wait after the ``n``-th failure."""
        return _jittered(self.delays[min(max(n, 1), len(self.delays)) - 1], self.jitter)
