"""What a worker does with the rows it has leased, short of settling them. Each is one UPDATE of what it holds."""

# ruff: noqa: S608 - statements are composed of constants and column names of ours; every value is a parameter

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from django.db import Error as DatabaseError

from ..columns import HOT
from ..contract import Applied, HeartbeatReply, Lease, StartReply
from ..engine import Row
from ..text import storable
from .errors import is_partial
from .session import MSSQLSession
from .tsql import (
    CHANGED,
    CLOSED,
    FENCE,
    HELD,
    ID,
    LIST,
    LOCKED,
    NOT_WAITING,
    PASSING,
    UNLOCKED,
    WORKER,
    Batch,
    batch,
    later,
    rows_json,
    span,
    text_of,
)

START = batch(
    f"""
INSERT INTO @held (id, status, attempt)
SELECT h.id,
    CASE
        WHEN {CLOSED.format("h.queue")} THEN 0
        WHEN h.deadline_at < @now THEN 1
        ELSE 2
    END,
    h.attempt
{HELD.format(LOCKED)}
WHERE {FENCE.format(1)};
UPDATE @held SET attempt = attempt + 1 WHERE status = 2;
UPDATE h SET
    status = s.status, attempt = s.attempt, updated_at = @now,
    worker_id = CASE WHEN s.status = 0 THEN NULL ELSE h.worker_id END,
    started_at = CASE WHEN s.status = 2 THEN @now ELSE h.started_at END,
    heartbeat_at = CASE WHEN s.status = 2 THEN @now ELSE NULL END
FROM @held AS s INNER LOOP JOIN {HOT} AS h {CHANGED} ON h.id = s.id;
""",
    prepare=f"DECLARE @held TABLE (\n    id {ID} NOT NULL PRIMARY KEY, status int NOT NULL, attempt int NOT NULL);",
    after="SELECT s.id, s.status, s.attempt, @now FROM @held AS s;",
    worker=WORKER,
    leases=LIST,
)

RELEASE = batch(
    f"""
UPDATE h SET
    status = 0, worker_id = NULL, updated_at = @now,
    run_at = CASE WHEN @delayed = 1 THEN {later("@days", "@seconds", "@microseconds")} ELSE h.run_at END
OUTPUT inserted.id
{HELD.format(CHANGED)}
WHERE {FENCE.format(1)};
""",
    single=True,
    worker=WORKER,
    leases=LIST,
    delayed="bit",
    days="int",
    seconds="int",
    microseconds="int",
)

# Somebody's long transaction with one row must not stop what is told about all others: such a row is passed over.
HEARTBEAT = batch(
    f"""
UPDATE h SET heartbeat_at = @now, updated_at = @now
OUTPUT inserted.id, inserted.cancel_requested_at, inserted.cancel_requested_by
{HELD.format(UNLOCKED)}
WHERE {FENCE.format(2)};
""",
    single=True,
    worker=WORKER,
    leases=LIST,
)

# What is committed of those that were passed over.
STILL_HELD = batch(
    f"""
SELECT h.id, h.cancel_requested_at, h.cancel_requested_by
{HELD.format(NOT_WAITING)}
WHERE {FENCE.format(2)};
""",
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
    single=True,
    leases=LIST,
)

PROGRESS = batch(
    f"""
INSERT INTO @held (id)
SELECT h.id
FROM @note AS l INNER LOOP JOIN {HOT} AS h {UNLOCKED} ON h.id = l.id
WHERE {FENCE.format(2)};
UPDATE h SET progress = l.progress, progress_message = {text_of("message", "l")}, updated_at = @now
FROM @held AS s
INNER JOIN @note AS l ON l.id = s.id
INNER LOOP JOIN {HOT} AS h {CHANGED} ON h.id = l.id;
""",
    prepare=f"""
DECLARE @note TABLE (
    id {ID} NOT NULL PRIMARY KEY, claim_number int NOT NULL, progress int NULL,
    message_at int NULL, message_length int NULL);
INSERT INTO @note (id, claim_number, progress, message_at, message_length)
SELECT j.id, j.claim_number, j.progress, j.message_at, j.message_length
FROM OPENJSON(@notes) WITH (
    id nvarchar(26), claim_number int, progress int, message_at int, message_length int) AS j;
DECLARE @held TABLE (id {ID} NOT NULL PRIMARY KEY);
""",
    after="SELECT s.id FROM @held AS s;",
    worker=WORKER,
    notes=LIST,
    texts=LIST,
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
        beaten = {row[0] for row in rows}
        others = [lease for lease in leases if lease.id not in beaten]
        try:
            found = self._once(STILL_HELD, leases=leases_json(others), worker=worker_id)[0] if others else []
            busy = {row[0] for row in found}
        except DatabaseError as error:
            if not is_partial(error):
                raise
            # Without row versioning nobody can tell whether one that is locked holds. None of them counts as lost.
            found, busy = [], {lease.id for lease in others}
        lost = {lease.id for lease in leases} - beaten - busy
        cancels = {job_id: by for job_id, asked, by in (*rows, *found) if asked is not None}
        return HeartbeatReply(lost, cancels, busy)

    def cancel_requests(self, leases: Sequence[Lease]) -> dict[str, str | None]:
        return dict(self._leased(CANCEL_REQUESTS, leases))

    def progress(self, worker_id: str, notes: Mapping[Lease, tuple[int, str | None]]) -> Applied:
        if not notes:
            return set()
        texts = self._texts()
        rows = []
        for lease in newest_leases(notes):
            percent, message = notes[lease]
            rows.append((lease.id, lease.claim_number, percent, *texts.place(storable(message))))
        listed = rows_json(("id", "claim_number", "progress", "message_at", "message_length"), rows)
        applied = self._alone(PROGRESS, worker=worker_id, notes=listed, texts=texts.value())[0]
        return {job_id for (job_id,) in applied}


def newest_leases(leases: Iterable[Lease]) -> list[Lease]:
    """The newest lease of each id, in the order of ids: an older one is lost in any case."""
    newest: dict[str, Lease] = {}
    for lease in leases:
        if lease.id not in newest or lease.claim_number > newest[lease.id].claim_number:
            newest[lease.id] = lease
    return sorted(newest.values(), key=lambda lease: lease.id)


def leases_json(leases: Iterable[Lease]) -> str:
    rows = [(lease.id, lease.claim_number) for lease in newest_leases(leases)]
    return rows_json(("id", "claim_number"), rows)
