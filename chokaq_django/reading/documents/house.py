"""Failure groups and the audit."""

from __future__ import annotations

import datetime as dt
import json
from typing import Any, TypedDict

from ...models import AuditEntry
from ..groups import GroupView
from ..seen import plain_details
from .jobs import instant, reason_name

__all__ = ["AuditDocument", "GroupDocument", "audit_document", "group_document"]


class GroupDocument(TypedDict):
    """Dead jobs of one fingerprint. `message`: what the error said; null for those who may not see texts of jobs.
    `trend`: `new`, `rising`, `steady`, `falling`, `quiet`. `replay_risk`: what a job that is run once more may already
    have done: `none`, `if_started`, `partly`, `likely`. `came_again`: jobs died of it after somebody had acknowledged
    it."""

    fingerprint: str
    count: int
    total: int
    first_seen: str | None
    last_seen: str | None
    reason: str | None
    error_type: str | None
    message: str | None
    sample_id: str
    queues: dict[str, int]
    types: dict[str, int]
    last_hour: int
    hour_before: int
    trend: str
    replay_risk: str
    acknowledged: bool
    acknowledged_by: str | None
    came_again: bool
    assignee: str | None
    note: str


def group_document(view: GroupView, now: dt.datetime) -> GroupDocument:
    triage = view.triage
    return {
        "fingerprint": view.fingerprint, "count": view.count, "total": view.total,
        "first_seen": instant(view.first_seen), "last_seen": instant(view.last_seen),
        "reason": reason_name(view.reason), "error_type": view.error_type, "message": view.message,
        "sample_id": view.sample_id, "queues": view.queues, "types": view.types, "last_hour": view.last_hour,
        "hour_before": view.hour_before, "trend": view.trend(now), "replay_risk": view.risk.value,
        "acknowledged": view.acknowledged, "acknowledged_by": triage.acknowledged_by if triage is not None else None,
        "came_again": view.came_again, "assignee": view.assignee, "note": triage.note if triage is not None else "",
    }  # fmt: skip


class AuditDocument(TypedDict):
    """An act of an operator."""

    id: str
    at: str | None
    by: str | None
    action: str
    target: str
    reason: str
    details: Any


def audit_document(entry: AuditEntry, *, may_see: bool) -> AuditDocument:
    """An act. ``may_see``: with all its details, which may quote payloads."""
    try:
        details: Any = json.loads(entry.details)
    except (ValueError, RecursionError):
        details = entry.details
    if not may_see:
        details = plain_details(details)
    return {
        "id": entry.pk, "at": instant(entry.at), "by": entry.by, "action": entry.action, "target": entry.target,
        "reason": entry.reason, "details": details,
    }  # fmt: skip
