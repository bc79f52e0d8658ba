"""What has happened lately: the newest rows of history, by seeks into the indexes on time."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from ..models import AuditEntry, Circuit, JobArchive, JobDLQ
from ..models.fields import as_utc

__all__ = ["MOST", "Happening", "ended_lately", "happened_lately"]

MOST = 50
"""Happenings of one look."""
ENDED = 15
"""Jobs that succeeded, and that died, among them: they must not crowd out what operators did."""
ACTS = 15
CIRCUITS = 5


@dataclass(frozen=True, slots=True)
class Happening:
    """One thing that happened. ``id`` tells it from all others; ``facts``: what its kind says, names, ids, numbers."""

    id: str
    at: dt.datetime
    kind: str
    facts: dict[str, Any]


def happened_lately(alias: str, circuits: list[Circuit]) -> list[Happening]:
    """The newest of each kind, newest first, :data:`MOST` at most. ``circuits``: the rows, which the caller has."""
    found = [*_archived(alias), *_died(alias), *_acts(alias), *_circuits(circuits)]
    return sorted(found, key=lambda happening: (happening.at, happening.id), reverse=True)[:MOST]


def ended_lately(alias: str, queue: str) -> list[Happening]:
    """The newest jobs of one queue that succeeded or died, newest first."""
    found = [*_archived(alias, queue), *_died(alias, queue)]
    return sorted(found, key=lambda happening: (happening.at, happening.id), reverse=True)


def _archived(alias: str, queue: str | None = None) -> Iterator[Happening]:
    rows = JobArchive.objects.using(alias)
    # By queue there is an index on its time, without the id: the order within an instant is left to chance.
    rows = rows.order_by("-finished_at", "-id") if queue is None else rows.filter(queue=queue).order_by("-finished_at")
    columns = ("id", "finished_at", "type", "queue", "attempt", "duration_ms")
    for pk, at, type_key, name, attempt, duration in rows.values_list(*columns)[:ENDED]:
        facts = {"job": pk, "type": type_key, "queue": name, "attempt": attempt, "duration_ms": duration}
        yield Happening(f"archived:{pk}", at, "archived", facts)


def _died(alias: str, queue: str | None = None) -> Iterator[Happening]:
    rows = JobDLQ.objects.using(alias)
    rows = rows.order_by("-failed_at", "-id") if queue is None else rows.filter(queue=queue).order_by("-failed_at")
    columns = ("id", "failed_at", "type", "queue", "attempt", "failure_reason", "error_type", "generation")
    for pk, at, type_key, name, attempt, reason, error_type, generation in rows.values_list(*columns)[:ENDED]:
        facts = {
            "job": pk, "type": type_key, "queue": name, "attempt": attempt, "reason": reason, "error_type": error_type,
        }  # fmt: skip
        yield Happening(f"failed:{pk}:{generation}", at, "failed", facts)


def _acts(alias: str) -> Iterator[Happening]:
    rows = AuditEntry.objects.using(alias).order_by("-at", "-id")
    for pk, at, by, action, target, reason in rows.values_list("id", "at", "by", "action", "target", "reason")[:ACTS]:
        facts = {"action": action, "target": target, "by": by, "reason": reason}
        yield Happening(f"operator:{pk}", at, "operator", facts)


def _circuits(rows: list[Circuit]) -> Iterator[Happening]:
    """The last change of those that are not closed; what an operator did to one is in the audit too."""
    changed = [(row.opened_at or row.updated_at, row) for row in rows if row.state != Circuit.CLOSED]
    for at, row in sorted(changed, key=lambda pair: pair[0], reverse=True)[:CIRCUITS]:
        facts = {"type": row.type, "state": row.state, "forced": row.forced, "by": row.updated_by}
        yield Happening(f"circuit:{row.type}:{as_utc(at).timestamp():.3f}:{row.state}", at, "circuit", facts)
