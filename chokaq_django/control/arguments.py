"""Arguments that several verbs take, checked: ``EnvelopeError`` names the one that is bad."""

from __future__ import annotations

from typing import Any, Literal

from ..job.envelope import EnvelopeError
from ..sentence import Sentence, shown

__all__ = [
    "LEAST_PER_SECOND",
    "MOST_PER_SECOND",
    "KeyConflict",
    "clean_flag",
    "clean_key_conflict",
    "clean_positive",
    "clean_rate",
    "clean_seconds",
    "clean_share",
    "clean_whole",
    "missing_one",
    "need_one",
]

KeyConflict = Literal["skip", "drop"]
"""A job whose idempotency key another active job holds stays where it is, or goes without its key."""
LEAST_PER_SECOND, MOST_PER_SECOND = 0.00001, 10_000.0
"""The least is about one a day: what takes for ever has no time at which it ends."""


def clean_key_conflict(value: object) -> KeyConflict:
    if value not in ("skip", "drop"):
        raise EnvelopeError("on_key_conflict", Sentence("must be 'skip' or 'drop', got %(value)s", value=shown(value)))
    return value


def unusual_policy(on_key_conflict: object) -> dict[str, str]:
    """The policy as audits and operations keep it: nothing where it is what holds without it."""
    policy = clean_key_conflict(on_key_conflict)
    return {} if policy == "skip" else {"on_key_conflict": policy}


def clean_rate(value: object) -> float | None:
    """Jobs a second; None: as fast as it goes."""
    if value is None:
        return None
    number = clean_positive("rate", value)
    if number > MOST_PER_SECOND:
        raise EnvelopeError(
            "rate",
            Sentence(
                "must be at most %(most_per_second)s a second, got %(number)s",
                most_per_second=f"{MOST_PER_SECOND:,.0f}",
                number=f"{number:g}",
            ),
        )
    if number < LEAST_PER_SECOND:
        raise EnvelopeError(
            "rate",
            Sentence(
                "must be at least %(least_per_second)s a second, got %(number)s",
                least_per_second=f"{LEAST_PER_SECOND:f}",
                number=f"{number:g}",
            ),
        )
    return number


def need_one(**given: Any) -> None:
    """``EnvelopeError`` of the first argument where none of these is given."""
    if all(value is None for value in given.values()):
        raise missing_one(*given)


def missing_one(*names: str) -> EnvelopeError:
    """That none of these arguments is given."""
    return EnvelopeError(
        names[0], Sentence("is missing: one of %(names)s must say what is to change", names=", ".join(names))
    )


def clean_flag(name: str, value: object) -> bool:
    if not isinstance(value, bool):
        raise EnvelopeError(name, Sentence("must be True or False, got %(value)s", value=shown(value)))
    return value


def clean_seconds(name: str, value: object) -> float:
    """How long somebody waits: 0 or more."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1e9:
        raise EnvelopeError(name, Sentence("must be seconds, 0 or more, got %(value)s", value=shown(value)))
    return float(value)


def clean_positive(name: str, value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 1e9:
        raise EnvelopeError(name, Sentence("must be a number above 0, got %(value)s", value=shown(value)))
    return float(value)


def clean_share(name: str, value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
        raise EnvelopeError(name, Sentence("must be a share from 0 to 1, got %(value)s", value=shown(value)))
    return float(value)


def clean_whole(name: str, value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= 1_000_000:
        raise EnvelopeError(
            name, Sentence("must be a whole number from 1 to 1,000,000, got %(value)s", value=shown(value))
        )
    return value
