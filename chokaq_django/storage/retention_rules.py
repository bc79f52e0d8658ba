"""The rules of retention, most specific first: whose jobs each of them deletes, and when."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from ..conf.options import RetentionOptions
from ..job.failures import FailureReason
from .summed import digest

__all__ = ["TrimRule", "TrimStep", "Walk", "less_specific", "trim_rules"]

_BY = {"failure_reason": "REASON", "type": "TYPE", "queue": "QUEUE"}
"""Columns that rules go by, from the most specific to the least, and what their options are called."""
_PLACES = {"archive": ("type", "queue"), "dlq": ("failure_reason", "type", "queue")}

Value = str | int


@dataclass(frozen=True, slots=True)
class TrimRule:
    """Delete the jobs of ``place`` ("archive" or "dlq") that have ``value`` in ``column`` (None: all jobs) ``age``
    seconds after they ended (None: never), but those that a more specific rule goes for.

    ``name``: as the option is called, ``RETENTION.DLQ_BY_QUEUE.mail``. ``but``: column -> values of more specific
    rules.
    """

    name: str
    place: str
    column: str | None
    value: Value | None
    age: float | None
    but: Mapping[str, frozenset[Value]]

    @property
    def label(self) -> str:
        """Whose jobs they are, as people say it; empty: all."""
        if isinstance(self.value, FailureReason):
            return self.value.label
        return "" if self.value is None else str(self.value)

    def covers(self, job: Mapping[str, Value]) -> bool:
        """Whether this is the rule of a job with these columns."""
        if self.column is not None and job[self.column] != self.value:
            return False
        return not any(job[column] in values for column, values in self.but.items())

    @property
    def others(self) -> str:
        """Stands for the more specific rules: when it changes, jobs that were theirs may be this rule's."""
        return digest(*(f"{column}={value}" for column in self.but for value in sorted(self.but[column], key=str)))


class Walk(NamedTuple):
    """Where a pass is: all that ended before, and at that instant up to the job, has been seen. ``held``: some of it
    could not be deleted, and is looked at again by the next pass."""

    at: dt.datetime
    job_id: str
    held: bool = False


class TrimStep(NamedTuple):
    """What a step deleted, and where the next one begins; None: nothing that is old is left."""

    removed: int
    walk: Walk | None


def less_specific(rule: TrimRule, rules: Sequence[TrimRule]) -> list[TrimRule]:
    """Rules that would go for jobs of ``rule`` if that were not there."""
    order = [*_PLACES[rule.place], None]
    return [
        other for other in rules
        if other.place == rule.place and order.index(other.column) > order.index(rule.column)
    ]  # fmt: skip


def trim_rules(retention: RetentionOptions) -> list[TrimRule]:
    """All rules for Archive and DLQ, those too that keep for ever."""
    rules = []
    for place, columns in _PLACES.items():
        option = f"RETENTION.{place.upper()}"
        but: dict[str, frozenset[Value]] = {}
        for column in columns:
            by = _BY[column]
            kept: Mapping[Value, float | None] = getattr(retention, f"{place}_by_{by.lower()}")
            for value, age in kept.items():
                rule = TrimRule("", place, column, value, age, dict(but))
                rules.append(replace(rule, name=f"{option}_BY_{by}.{rule.label}"))
            if kept:
                but[column] = frozenset(kept)
        rules.append(TrimRule(option, place, None, None, getattr(retention, place), but))
    return rules
