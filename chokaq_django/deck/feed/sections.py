"""What each topic shows: sections as JSON, made of one look. Their shapes: ``docs/reference/deck-feed.md``.

Instants are seconds since 1970. Names, messages and errors are as jobs and people wrote them: browsers show them as
text and nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from ...health import State
from ...models import Circuit
from ...reading.bulk import BulkView
from ...reading.fleet import WorkerView
from ...reading.groups import GroupView
from ...reading.happenings import Happening, ended_lately
from ...sentence import recovered
from .figures import queue, queues, tiles
from .jobs import job, matrix, overview_matrix
from .look import FEW_GROUPS, MANY_GROUPS, Look
from .values import Section, instant, keyed, reason, said

__all__ = ["build"]

MOST_WORKERS = 200
FINDINGS = 20
NAMED = 20
"""Queues, and types, that a failure group names: those with most of its jobs."""
_CIRCUIT = {Circuit.CLOSED: "closed", Circuit.OPEN: "open", Circuit.HALF_OPEN: "half_open"}


def build(topic: str, look: Look) -> dict[str, Section]:
    """The sections of a topic; none for one that there is not."""
    kind, _, name = topic.partition(":")
    if kind == "overview":
        return {section: make(look) for section, make in _OVERVIEW.items()}
    if kind == "queue":
        return {
            "queue": queue(name, look),
            "matrix": matrix(look, look.leased_of(name), None),
            "events": _events(look, ended_lately(look.alias, name)),
        }
    if kind == "job":
        return {"job": job(name, look)}
    if kind == "bulk":
        return {"operation": _operation(name, look)} if name else {"bulk": _bulk(look)}
    if kind == "failures":
        return {"groups": _groups(look, MANY_GROUPS)}
    return {}


def _groups(look: Look, most: int) -> Section:
    shown = look.groups[:most]
    return keyed(look, {view.fingerprint: _group(view, look) for view in shown}, max(0, look.group_count - len(shown)))


def _group(view: GroupView, look: Look) -> Section:
    return {
        "fingerprint": view.fingerprint,
        "reason": reason(view.reason),
        "error_type": view.error_type,
        "message": view.message,
        "count": view.count,
        "first_seen": instant(view.first_seen),
        "last_seen": instant(view.last_seen),
        "last_hour": view.last_hour,
        "trend": view.trend(look.now),
        "queues": list(view.queues)[:NAMED],
        "types": list(view.types)[:NAMED],
        "acknowledged": view.acknowledged,
        "came_again": view.came_again,
        "assignee": view.assignee,
        "replay_risk": view.risk.value,
        "sample": view.sample_id,
    }


def _circuits(look: Look) -> Section:
    return keyed(
        look,
        {
            row.type: {
                "type": row.type,
                "state": _CIRCUIT.get(row.state, str(row.state)),
                "failures": row.failures,
                "opened_at": instant(row.opened_at),
                "open_until": instant(row.open_until),
                "forced": row.forced,
                "by": row.updated_by,
            }
            for row in look.circuits
        },
    )


def _fleet(look: Look) -> Section:
    shown = look.workers
    if len(shown) > MOST_WORKERS:  # the silent ones first: they want a look
        shown = sorted(shown, key=lambda worker: worker.is_alive)[:MOST_WORKERS]
    rows = {worker.row.pk: _worker(worker) for worker in shown}
    return keyed(look, rows, len(look.workers) - len(rows))


def _worker(worker: WorkerView) -> Section:
    row = worker.row
    return {
        "id": row.pk,
        "host": row.host,
        "pid": row.pid,
        "version": row.version,
        "queues": list(worker.queues),
        "state": worker.state,
        "busy": row.busy,
        "slots": row.concurrency + row.async_concurrency,
        "concurrency": row.concurrency,
        "buffered": row.buffered,
        "rss_mb": None if row.rss_mb is None else round(row.rss_mb, 1),
        "clock_offset": None if row.clock_offset is None else round(row.clock_offset, 2),
        "clock_doubt": None if row.clock_doubt is None else round(row.clock_doubt, 2),
        "clock_is_off": worker.clock_is_off,
        "last_seen": instant(row.last_seen),
        "silent": not worker.is_alive,
        "started_at": instant(row.started_at),
        "desired_concurrency": row.desired_concurrency,
        "succeeded": row.succeeded,
        "failed": row.failed,
        "retried": row.retried,
    }


def _bulk(look: Look) -> Section:
    return keyed(look, {view.id: _operation_row(view) for view in look.operations})


def _operation(operation_id: str, look: Look) -> Section:
    view = look.operation(operation_id)
    return {"as_of": instant(look.now), **(_operation_row(view) if view is not None else {"id": operation_id})}


def _operation_row(view: BulkView) -> Section:
    return {
        "id": view.id,
        "action": str(view.action),
        "state": str(view.state),
        "message": view.message,
        "said": said(recovered(view.message)),
        "by": view.by,
        **{name: getattr(view, name) for name in _OPERATION_PLAIN},
        "started_at": instant(view.started_at),
        "ended_at": instant(view.ended_at),
    }


_OPERATION_PLAIN = (
    "total", "done", "applied", "refused", "left_alone", "requested", "died", "succeeded", "gone", "rate", "canary",
    "canary_decision", "watches", "awaits_go",
)  # fmt: skip


def _events(look: Look, happenings: Iterable[Happening]) -> Section:
    rows = [
        {"id": happening.id, "at": instant(happening.at), "kind": happening.kind, **_facts(happening)}
        for happening in happenings
    ]
    return {"as_of": instant(look.now), "rows": rows}


def _facts(happening: Happening) -> Section:
    if happening.kind == "failed":
        return {**happening.facts, "reason": reason(happening.facts["reason"])}
    if happening.kind == "circuit":
        return {**happening.facts, "state": _CIRCUIT.get(happening.facts["state"], str(happening.facts["state"]))}
    return happening.facts


def _health(look: Look) -> Section:
    findings = look.findings
    return {
        "as_of": instant(look.found_at),
        "state": max((finding.state for finding in findings), default=State.HEALTHY).label,
        "more": max(0, len(findings) - FINDINGS),
        "findings": [
            {
                "code": one.code,
                "state": one.state.label,
                "message": str(one.message),
                "hint": str(one.hint),
                "said": said(one.message),
                "said_hint": said(one.hint),
                "target": one.target,
            }
            for one in findings[:FINDINGS]
        ],
    }


_OVERVIEW: dict[str, Callable[[Look], Section]] = {
    "tiles": tiles,
    "queues": queues,
    "matrix": overview_matrix,
    "groups": lambda look: _groups(look, FEW_GROUPS),
    "circuits": _circuits,
    "fleet": _fleet,
    "bulk": _bulk,
    "events": lambda look: _events(look, look.happenings),
    "health": _health,
}
