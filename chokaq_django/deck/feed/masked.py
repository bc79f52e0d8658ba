"""What those see of the feed who may not see payloads: of what is told of jobs, only what is named here."""

from __future__ import annotations

from collections.abc import Collection

from .values import Section

__all__ = ["OPEN", "masked"]

OPEN = ("tiles", "queues", "queue", "circuits", "fleet", "bulk", "operation", "health")
"""Sections that tell nothing of what jobs wrote."""
_FRAME = frozenset({"as_of", "more", "order", "rows"})
"""What sections have around their rows."""
_PLAIN = {
    "matrix": frozenset({
        "id", "type", "queue", "status", "attempt", "max_attempts", "worker", "started_at", "cancelling", "progress",
    }),
    "job": frozenset({
        "id", "location", "status", "type", "queue", "attempt", "max_attempts", "generation", "revision", "priority",
        "progress", "duration_ms", "wait_ms", "error_type", "worker", "created_at", "run_at", "due_at", "deadline_at",
        "started_at", "heartbeat_at", "finished_at", "failed_at", "purged_at", "cancelling", "reason", "waiting",
    }),
    "groups": frozenset({
        "fingerprint", "reason", "error_type", "count", "first_seen", "last_seen", "last_hour", "trend", "queues",
        "types", "acknowledged", "came_again", "assignee", "replay_risk", "sample",
    }),
    "events": frozenset({
        "id", "at", "kind", "job", "type", "queue", "attempt", "duration_ms", "reason", "error_type", "action",
        "target", "by", "state", "forced",
    }),
}  # fmt: skip
"""Section -> what everybody sees of a row. The rest is there, and null."""


def masked(sections: dict[str, Section]) -> dict[str, Section]:
    """The same for those who may not see payloads."""
    return {
        name: section if name in OPEN else _plain(section, _PLAIN.get(name, ())) for name, section in sections.items()
    }


def _plain(section: Section, names: Collection[str]) -> Section:
    shown = {name: value if name in _FRAME or name in names else None for name, value in section.items()}
    match shown.get("rows"):
        case dict() as rows:
            shown["rows"] = {key: _plain(row, names) for key, row in rows.items()}
        case list() as rows:
            shown["rows"] = [_plain(row, names) for row in rows]
    return shown
