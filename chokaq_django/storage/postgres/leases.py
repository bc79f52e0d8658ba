"""What a worker does with the rows it has leased, short of settling them."""

# ruff: noqa: S608 - statements are composed of constants and column names of ours; every value is a parameter

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..columns import HOT, QUEUE
from ..contract import Applied, HeartbeatReply, Lease, StartReply
from ..text import storable
from .session import PostgresSession, as_json
from .settle import fence

_NOW = PostgresSession.NOW

_CLOSED = f"h.queue = ANY(ARRAY(SELECT name FROM {QUEUE} WHERE is_paused OR NOT is_active))"
_LATE = f"h.deadline_at < {_NOW}"


def _starting(column: str, closed: str, late: str, started: str) -> str:
    return f"{column} = CASE WHEN {_CLOSED} THEN {closed} WHEN {_LATE} THEN {late} ELSE {started} END"


START = (
    f"UPDATE {HOT} h SET "
    + ", ".join(
        (
            _starting("status", "0", "1", "2"),
            _starting("worker_id", "NULL", "worker_id", "worker_id"),
            _starting("attempt", "attempt", "attempt", "attempt + 1"),
            _starting("started_at", "started_at", "started_at", _NOW),
            _starting("heartbeat_at", "NULL", "NULL", _NOW),
            f"updated_at = {_NOW}",
        )
    )
    + f" WHERE {fence(1)} RETURNING h.id, h.status, h.attempt, h.started_at"
)

RELEASE = (
    f"UPDATE {HOT} h SET status = 0, worker_id = NULL, updated_at = {_NOW}, run_at = CASE WHEN %(delay)s::float8 > 0 "
    f"THEN {_NOW} + make_interval(secs => %(delay)s::float8) ELSE run_at END WHERE {fence(1)} RETURNING h.id"
)

# The rows of the worker that nobody else is writing: somebody's long transaction with one of them must not stop what is
# told about all others. They are named by id, by which the UPDATE finds them even if they have changed since it began.
_RUNNING_FREE = f"id = ANY(ARRAY(SELECT h.id FROM {HOT} h WHERE {fence(2)} FOR NO KEY UPDATE SKIP LOCKED))"
_ASKED = "h.id, h.cancel_requested_at IS NOT NULL, h.cancel_requested_by"

HEARTBEAT = f"UPDATE {HOT} h SET heartbeat_at = {_NOW}, updated_at = {_NOW} WHERE h.{_RUNNING_FREE} RETURNING {_ASKED}"

STILL_HELD = f"SELECT {_ASKED} FROM {HOT} h WHERE {fence(2)}"

CANCEL_REQUESTS = (
    f"SELECT h.id, h.cancel_requested_by FROM {HOT} h WHERE h.id = ANY(%(ids)s::varchar[]) "
    f"AND h.claim_number = (%(claims)s::jsonb ->> h.id)::int AND h.status + 0 = 2 AND h.cancel_requested_at IS NOT NULL"
)

PROGRESS = (
    f"UPDATE {HOT} h SET progress = (%(notes)s::jsonb -> h.id ->> 0)::int, "
    f"progress_message = (%(notes)s::jsonb -> h.id ->> 1), updated_at = {_NOW} WHERE h.{_RUNNING_FREE} "
    f"RETURNING h.id"
)


class PostgresLeases(PostgresSession):
    """Start, release, heartbeat, cancel requests, progress."""

    def _leased(self, sql: str, worker_id: str, leases: Sequence[Lease], **params: Any) -> list[tuple[Any, ...]]:
        if not leases:
            return []
        claims: dict[str, int] = {}
        for lease in leases:  # the newest lease of an id wins: an older one is lost in any case
            claims[lease.id] = max(lease.claim_number, claims.get(lease.id, lease.claim_number))
        params |= {"ids": list(claims), "claims": as_json(claims), "worker": worker_id}
        return self._single(lambda: self._query(sql, params))

    def start(self, worker_id: str, leases: Sequence[Lease]) -> StartReply:
        reply = StartReply({}, set(), set())
        for job_id, status, attempt, started_at in self._leased(START, worker_id, leases):
            if status == 2:
                reply.started[job_id] = (attempt, started_at)
            else:
                (reply.expired if status == 1 else reply.released).add(job_id)
        return reply

    def release(self, worker_id: str, leases: Sequence[Lease], delay: float = 0.0) -> Applied:
        return {row[0] for row in self._leased(RELEASE, worker_id, leases, delay=float(delay))}

    def heartbeat(self, worker_id: str, leases: Sequence[Lease]) -> HeartbeatReply:
        rows = self._leased(HEARTBEAT, worker_id, leases)
        beaten = {row[0] for row in rows}
        others = self._leased(STILL_HELD, worker_id, [lease for lease in leases if lease.id not in beaten])
        busy = {row[0] for row in others}
        lost = {lease.id for lease in leases} - beaten - busy
        return HeartbeatReply(lost, {job_id: by for job_id, asked, by in (*rows, *others) if asked}, busy)

    def cancel_requests(self, leases: Sequence[Lease]) -> dict[str, str | None]:
        return dict(self._leased(CANCEL_REQUESTS, "", leases))

    def progress(self, worker_id: str, notes: Mapping[Lease, tuple[int, str | None]]) -> Applied:
        ordered = sorted(notes.items(), key=lambda note: note[0].claim_number)  # the newest lease of an id wins
        texts = {lease.id: (percent, storable(message)) for lease, (percent, message) in ordered}
        return {row[0] for row in self._leased(PROGRESS, worker_id, list(notes), notes=as_json(texts))}
