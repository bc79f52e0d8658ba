"""What a worker does with the rows it has leased, short of settling them. Each is one UPDATE of what it holds."""

# ruff: noqa: S608 - statements are composed of constants and column names of ours; every value is a parameter

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ..columns import HOT
from ..contract import Applied, HeartbeatReply, Lease, StartReply
from ..engine import Row
from ..text import storable
from .session import MSSQLSession
from .tsql import FENCE, HELD, ID, LEASES, LIST, OPEN, PASSING, WORKER, Batch, batch, later, rows_json, span

_CLOSED = f"CASE WHEN {OPEN.format('h.queue')} THEN 0 ELSE 1 END"


def _starting(closed: str, late: str, started: str) -> str:
    return f"CASE WHEN q.closed = 1 THEN {closed} WHEN h.deadline_at < @now THEN {late} ELSE {started} END"


START = batch(
    f"""
UPDATE h SET
    status = {_starting("0", "1", "2")},
    worker_id = CASE WHEN q.closed = 1 THEN NULL ELSE h.worker_id END,
    attempt = {_starting("h.attempt", "h.attempt", "h.attempt + 1")},
    started_at = {_starting("h.started_at", "h.started_at", "@now")},
    heartbeat_at = {_starting("NULL", "NULL", "@now")},
    updated_at = @now
OUTPUT inserted.id, inserted.status, inserted.attempt, inserted.started_at
{HELD.format("WITH (ROWLOCK)")}
CROSS APPLY (SELECT {_CLOSED} AS closed) AS q
WHERE {FENCE.format(1)};
""",
    prepare=LEASES,
    single=True,
    worker=WORKER,
    leases=LIST,
)

RELEASE = batch(
    f"""
UPDATE h SET
    status = 0, worker_id = NULL, updated_at = @now,
    run_at = CASE WHEN @delayed = 1 THEN {later("@days", "@seconds", "@microseconds")} ELSE h.run_at END
OUTPUT inserted.id
{HELD.format("WITH (ROWLOCK)")}
WHERE {FENCE.format(1)};
""",
    prepare=LEASES,
    single=True,
    worker=WORKER,
    leases=LIST,
    delayed="bit",
    days="int",
    seconds="int",
    microseconds="int",
)

HEARTBEAT = batch(
    f"""
UPDATE h SET heartbeat_at = @now, updated_at = @now
OUTPUT inserted.id, inserted.cancel_requested_at, inserted.cancel_requested_by
{HELD.format("WITH (ROWLOCK)")}
WHERE {FENCE.format(2)};
""",
    prepare=LEASES,
    single=True,
    worker=WORKER,
    leases=LIST,
)

# A row that is being written now is passed over: its worker asks again in a moment.
CANCEL_REQUESTS = batch(
    f"""
SELECT h.id, h.cancel_requested_by
{HELD.format(PASSING)}
WHERE h.claim_number = l.claim_number AND h.status = 2 AND h.cancel_requested_at IS NOT NULL;
""",
    prepare=LEASES,
    single=True,
    leases=LIST,
)

PROGRESS = batch(
    f"""
UPDATE h SET progress = l.progress, progress_message = l.message, updated_at = @now
OUTPUT inserted.id
FROM @note AS l INNER LOOP JOIN {HOT} AS h WITH (ROWLOCK) ON h.id = l.id
WHERE {FENCE.format(2)};
""",
    prepare=f"""
DECLARE @note TABLE (
    id {ID} NOT NULL PRIMARY KEY, claim_number int NOT NULL, progress int NULL, message nvarchar(max) NULL);
INSERT INTO @note (id, claim_number, progress, message)
SELECT j.id, j.claim_number, j.progress, j.message
FROM OPENJSON(@notes) WITH (id nvarchar(26), claim_number int, progress int, message nvarchar(max)) AS j;
""",
    single=True,
    worker=WORKER,
    notes=LIST,
)


class MSSQLLeases(MSSQLSession):
    """Start, release, heartbeat, cancel requests, progress."""

    def _leased(self, batch: Batch, leases: Sequence[Lease], **values: Any) -> list[Row]:
        if not leases:
            return []
        return self._alone(batch, leases=leases_json(leases), **values)[0]

    def start(self, worker_id: str, leases: Sequence[Lease]) -> StartReply:
        reply = StartReply({}, set(), set())
        for job_id, status, attempt, started_at in self._leased(START, leases, worker=worker_id):
            if status == 2:
                reply.started[job_id] = (attempt, self._read_instant(started_at))  # type: ignore[assignment]
            else:
                (reply.expired if status == 1 else reply.released).add(job_id)
        return reply

    def release(self, worker_id: str, leases: Sequence[Lease], delay: float = 0.0) -> Applied:
        days, seconds, microseconds = span(max(0.0, delay))
        rows = self._leased(
            RELEASE, leases, worker=worker_id, delayed=delay > 0, days=days, seconds=seconds, microseconds=microseconds
        )
        return {job_id for (job_id,) in rows}

    def heartbeat(self, worker_id: str, leases: Sequence[Lease]) -> HeartbeatReply:
        rows = self._leased(HEARTBEAT, leases, worker=worker_id)
        lost = {lease.id for lease in leases} - {row[0] for row in rows}
        return HeartbeatReply(lost, {job_id: by for job_id, requested, by in rows if requested is not None})

    def cancel_requests(self, leases: Sequence[Lease]) -> dict[str, str | None]:
        return dict(self._leased(CANCEL_REQUESTS, leases))

    def progress(self, worker_id: str, notes: Mapping[Lease, tuple[int, str | None]]) -> Applied:
        if not notes:
            return set()
        newest = newest_leases(notes)
        rows = [
            (lease.id, lease.claim_number, notes[lease][0], storable(notes[lease][1])) for lease in newest
        ]  # fmt: skip
        text = rows_json(("id", "claim_number", "progress", "message"), rows)
        return {job_id for (job_id,) in self._alone(PROGRESS, worker=worker_id, notes=text)[0]}


def newest_leases(leases: Iterable[Lease]) -> list[Lease]:
    """The newest lease of each id: an older one is lost in any case."""
    newest: dict[str, Lease] = {}
    for lease in leases:
        if lease.id not in newest or lease.claim_number > newest[lease.id].claim_number:
            newest[lease.id] = lease
    return list(newest.values())


def leases_json(leases: Iterable[Lease]) -> str:
    rows = [(lease.id, lease.claim_number) for lease in newest_leases(leases)]
    return rows_json(("id", "claim_number"), rows)
