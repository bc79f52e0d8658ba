"""What is in the set of a bulk operation, by queue, type and age, as JSON: added up while the set is frozen, so that
whoever looks at it later counts nothing."""

from __future__ import annotations

import datetime as dt
import json
from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

from .contract import BulkCount

__all__ = ["AGES", "Kind", "Seen", "added", "counted", "kinds_of", "read_kinds", "reasons_of"]

AGES = (("hour", 3_600), ("day", 86_400), ("week", 604_800))
"""Names and seconds of the ages that are told apart; what is older than all of them is "older"."""


class Kind(NamedTuple):
    """Jobs of one queue, type and failure reason (None: they are not dead). ``younger``: how many were younger than
    each of AGES."""

    queue: str
    type: str
    reason: int | None
    jobs: int
    oldest: dt.datetime
    newest: dt.datetime
    younger: tuple[int, ...]

    def count_of(self) -> BulkCount:
        younger = [0, *self.younger]
        ages = {name: younger[i + 1] - younger[i] for i, (name, _) in enumerate(AGES)}
        return BulkCount(
            self.queue, self.type, self.jobs, self.oldest, self.newest, {**ages, "older": self.jobs - younger[-1]}
        )

    def __add__(self, other: Kind) -> Kind:  # type: ignore[override]
        return self._replace(
            jobs=self.jobs + other.jobs,
            oldest=min(self.oldest, other.oldest),
            newest=max(self.newest, other.newest),
            younger=tuple(a + b for a, b in zip(self.younger, other.younger, strict=True)),
        )


Seen = tuple[str, str, int | None, dt.datetime]
"""Queue, type, failure reason and time of a job."""


def counted(jobs: Iterable[Seen], now: dt.datetime) -> list[Kind]:
    """The jobs added up; their ages at the instant ``now``."""
    since = [now - dt.timedelta(seconds=seconds) for _, seconds in AGES]
    moments: dict[tuple[str, str, int | None], list[dt.datetime]] = {}
    for queue, key, reason, moment in jobs:
        moments.setdefault((queue, key, reason), []).append(moment)
    return [
        Kind(*kind, len(found), min(found), max(found), tuple(sum(at > limit for at in found) for limit in since))
        for kind, found in moments.items()
    ]


def added(text: str | None, found: Iterable[Kind]) -> str:
    """The JSON with what was found added to it."""
    kinds = {(kind.queue, kind.type, kind.reason): kind for kind in read_kinds(text)}
    for kind in found:
        key = (kind.queue, kind.type, kind.reason)
        kinds[key] = kinds[key] + kind if key in kinds else kind
    rows = [
        [kind.queue, kind.type, kind.reason, kind.jobs, kind.oldest.isoformat(), kind.newest.isoformat(), kind.younger]
        for kind in kinds.values()
    ]
    return json.dumps(rows, ensure_ascii=False, separators=(",", ":"))


def kinds_of(found: Iterable[Kind]) -> list[BulkCount]:
    """By queue and type, in their order."""
    kinds: dict[tuple[str, str], Kind] = {}
    for kind in found:
        key = (kind.queue, kind.type)
        kinds[key] = kinds[key] + kind if key in kinds else kind
    return [kinds[key].count_of() for key in sorted(kinds)]


def reasons_of(found: Iterable[Kind]) -> Counter[int]:
    """How many of the dead ones died of which reason."""
    reasons: Counter[int] = Counter()
    for kind in found:
        if kind.reason is not None:
            reasons[kind.reason] += kind.jobs
    return reasons


def read_kinds(text: str | None) -> list[Kind]:
    """What :func:`added` wrote."""
    return [
        Kind(queue, key, reason, count, dt.datetime.fromisoformat(oldest), dt.datetime.fromisoformat(newest),
             tuple(younger))
        for queue, key, reason, count, oldest, newest, younger in json.loads(text or "[]")
    ]  # fmt: skip
