"""What claims of both kinds are made of: the priorities that wait in each queue, and the lease itself."""

# ruff: noqa: S608 - statements are composed of constants and column names of ours; every value is a parameter

from __future__ import annotations

from ..columns import CLAIMED_COLUMNS, HOT
from .tsql import BIN2, CLOSED, NAME, PASSING, lines

__all__ = ["QUEUES", "SOONEST", "lease", "next_level"]

_HIGHEST = f"""SELECT TOP (1) h.priority FROM {HOT} AS h {PASSING}
        WHERE h.status = 0 AND h.queue = {{queue}}{{below}}
        ORDER BY h.priority DESC"""
QUEUES = f"""
-- The open queues in the order of the worker, and the highest priority that waits in each: one seek for a queue.
DECLARE @queue TABLE (
    place int NOT NULL PRIMARY KEY,
    name {NAME} NOT NULL,
    priority int NULL);
INSERT INTO @queue (place, name, priority)
SELECT q.place, q.name, (
        {_HIGHEST.format(queue="q.name", below="")})
FROM (
    SELECT CAST(j.[key] AS int) AS place, CAST(j.value AS nvarchar(510)) {BIN2} AS name
    FROM OPENJSON(@queues) AS j) AS q
WHERE NOT {CLOSED.format("q.name")};
DECLARE @pair TABLE (name {NAME} NOT NULL, priority int NOT NULL);
"""


def next_level(this: str) -> str:
    """Remember the level that was looked at, and find the next priority of its queues."""
    return f"""
    INSERT INTO @pair (name, priority)
    SELECT q.name, q.priority FROM @queue AS q WHERE {this};
    UPDATE q SET priority = (
        {_HIGHEST.format(queue="q.name", below=" AND h.priority < q.priority")})
    FROM @queue AS q WHERE {this};
"""


SOONEST = f"""(
    SELECT MIN(DATEDIFF_BIG(microsecond, @now, ahead.run_at))
    FROM {{}} AS p CROSS APPLY (
        SELECT TOP (1) h.run_at FROM {HOT} AS h {PASSING}
        WHERE h.status = 0 AND h.queue = p.name AND h.priority = p.priority AND h.run_at > @now
        ORDER BY h.run_at) AS ahead)"""


def _lease_assignments(start: bool) -> str:
    """The SET list that leases the row ``h`` to ``@worker``. What is late or has crashed before is not started."""
    common = "worker_id = @worker, claim_number = h.claim_number + 1, updated_at = @now"
    if not start:
        return f"status = 1, {common}"
    only = "h.deadline_at < @now OR h.crash_count > 0"
    return f"""status = CASE WHEN {only} THEN 1 ELSE 2 END,
    attempt = h.attempt + CASE WHEN {only} THEN 0 ELSE 1 END,
    started_at = CASE WHEN {only} THEN h.started_at ELSE @now END,
    heartbeat_at = CASE WHEN {only} THEN NULL ELSE @now END,
    {common}"""


_CLAIMED = lines((f"inserted.{column}" for column in CLAIMED_COLUMNS), 7)


def lease(source: str, start: bool) -> str:
    """Lease the locked rows of ``source`` (its FROM clause). What comes of it has no order."""
    return f"""
UPDATE h SET {_lease_assignments(start)}
OUTPUT {_CLAIMED}, @now
{source};
"""
