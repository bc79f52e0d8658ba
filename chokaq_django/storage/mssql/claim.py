"""The claim: one batch, in the true order across queues; and the steps of the constrained claim.

A claim looks at one priority at a time, the highest first, and stops when it is full. Rows are locked with UPDLOCK and
READPAST where they are chosen, by the index of Pending rows and then in the table itself (``deadline_at`` is not in the
index): whoever cancels such a row holds it in the table first, and the claim passes over it instead of waiting.
"""

# ruff: noqa: S608 - statements are composed of constants and column names of ours; every value is a parameter

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Sequence

from ..columns import CLAIMED_COLUMNS, HOT
from ..constrained import CANDIDATE_COLUMNS, Candidate, Pair, in_order
from ..contract import Claim, ClaimedJob, ClaimRequest
from ..engine import Row
from .session import MSSQLSession
from .tsql import (
    BIN2,
    BULK,
    CHANGED,
    CLOSED,
    COMMITTED,
    ID,
    LIST,
    NAME,
    PASSING,
    UNLOCKED,
    WORKER,
    as_json,
    batch,
    by_ids,
    later,
    lines,
    rows_json,
    span,
)

_HIGHEST = f"""SELECT TOP (1) h.priority FROM {HOT} AS h {PASSING}
        WHERE h.status = 0 AND h.queue = {{queue}}{{below}}
        ORDER BY h.priority DESC"""
_QUEUES = f"""
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


def _next_level(this: str) -> str:
    """Remember the level that was looked at, and find the next priority of its queues."""
    return f"""
    INSERT INTO @pair (name, priority)
    SELECT q.name, q.priority FROM @queue AS q WHERE {this};
    UPDATE q SET priority = (
        {_HIGHEST.format(queue="q.name", below=" AND h.priority < q.priority")})
    FROM @queue AS q WHERE {this};
"""


# The levels are (queue, priority) in the order of the queues when that is strict, else the priorities.
_LEVEL = {
    True: "SELECT @place = NULL, @level = NULL;\n"
    "{}SELECT TOP (1) @place = q.place, @level = q.priority FROM @queue AS q "
    "WHERE q.priority IS NOT NULL ORDER BY q.place;",
    False: "SELECT @level = MAX(q.priority) FROM @queue AS q;",
}
_THIS = {True: "q.place = @place AND q.priority = @level", False: "q.priority = @level"}

_SOONEST = f"""(
    SELECT MIN(DATEDIFF_BIG(microsecond, @now, ahead.run_at))
    FROM {{}} AS p CROSS APPLY (
        SELECT TOP (1) h.run_at FROM {HOT} AS h {PASSING}
        WHERE h.status = 0 AND h.queue = p.name AND h.priority = p.priority AND h.run_at > @now
        ORDER BY h.run_at) AS ahead)"""


def lease_assignments(start: bool, late: str) -> str:
    """The SET list that leases the row ``h`` to ``@worker``; ``late``: that its deadline has passed."""
    common = "worker_id = @worker, claim_number = h.claim_number + 1, updated_at = @now"
    if not start:
        return f"status = 1, {common}"
    return f"""status = CASE WHEN {late} THEN 1 ELSE 2 END,
    attempt = h.attempt + CASE WHEN {late} THEN 0 ELSE 1 END,
    started_at = CASE WHEN {late} THEN h.started_at ELSE @now END,
    heartbeat_at = CASE WHEN {late} THEN NULL ELSE @now END,
    {common}"""


CLAIMED = lines((f"inserted.{column}" for column in CLAIMED_COLUMNS), 7)


def _lease(source: str, start: bool) -> str:
    """Lease the locked rows of ``source`` (its FROM clause). What comes of it has no order."""
    return f"""
UPDATE h SET {lease_assignments(start, "h.deadline_at < @now")}
OUTPUT {CLAIMED}, @now
{source};
"""


_PICKED = f"""DECLARE @picked TABLE (
    id {ID} NOT NULL PRIMARY KEY,
    deadline_at datetime2(6) NULL);
"""
_SHARES = """q.name, (
            SELECT COUNT(*) FROM @first AS f WHERE f.place = q.place) AS most
        FROM @queue AS q WHERE q.priority = @level"""
_ONE_QUEUE = "q.name FROM @queue AS q WHERE q.place = @place"
_NOT_YET = "\n            AND NOT EXISTS (SELECT 1 FROM @picked AS p WHERE p.id = h.id)"
_FROM_PICKED = f"FROM @picked AS p INNER LOOP JOIN {HOT} AS h {CHANGED} ON h.id = p.id"


def _pick(most: str, queues: str, but: str = "") -> str:
    """Lock the first due rows of ``queues`` (SQL), ``most`` of each."""
    return f"""INSERT INTO @picked (id, deadline_at)
    SELECT due.id, due.deadline_at
    FROM (
        SELECT {queues}) AS q
    CROSS APPLY (
        SELECT TOP ({most}) h.id, h.deadline_at
        FROM {HOT} AS h {UNLOCKED}
        WHERE h.status = 0 AND h.queue = q.name AND h.priority = @level AND h.run_at <= @now{but}
        ORDER BY h.run_at, h.id) AS due;
    SET @found = @@ROWCOUNT;
    SET @left = @left - @found;"""


_PICKS = {
    True: f"""
    {_pick("@left", f"q.name FROM @queue AS q WHERE {_THIS[True]}")}
""",
    # Locking what is wanted in each of many queues would lock many times what is taken, and others would pass over it.
    False: f"""
    -- What comes first, looked up without a lock: that is how many of each queue.
    DELETE FROM @first;
    INSERT INTO @first (place)
    SELECT TOP (@left) q.place
    FROM @queue AS q CROSS APPLY (
        SELECT TOP (@left) h.run_at, h.id FROM {HOT} AS h {PASSING}
        WHERE h.status = 0 AND h.queue = q.name AND h.priority = @level AND h.run_at <= @now
        ORDER BY h.run_at, h.id) AS due
    WHERE q.priority = @level
    ORDER BY due.run_at, due.id;
    SET @looked = @@ROWCOUNT;
    {_pick("q.most", _SHARES)}
    -- Others hold some of them: instead whatever else is due, one queue after the other.
    SET @place = CASE WHEN @found < @looked THEN -1 END;
    WHILE @left > 0 AND @place IS NOT NULL
    BEGIN
        SELECT @place = MIN(q.place) FROM @queue AS q WHERE q.priority = @level AND q.place > @place;
        {textwrap.indent(_pick("@left", _ONE_QUEUE, _NOT_YET), "    ").strip()}
    END;
""",
}


def _claim(*, start: bool, strict: bool) -> str:
    return f"""
{_LEVEL[strict].format("")}
WHILE @left > 0 AND @level IS NOT NULL
BEGIN
    -- deadline_at is not in the index of waiting rows: a row is locked there and in the table.
    {_PICKS[strict].strip()}
    {_next_level(_THIS[strict]).strip()}
    {_LEVEL[strict].format("    ")}
END;
-- When there were fewer than wanted: the time until the next one.
SELECT CASE WHEN @left > 0 THEN {_SOONEST.format("@pair")} END;
{_lease(_FROM_PICKED, start).strip()}
"""


CLAIM = {
    (start, strict): batch(
        _claim(start=start, strict=strict),
        prepare=f"{_QUEUES}{_PICKED}{'' if strict else 'DECLARE @first TABLE (place int NOT NULL);'}"
        f"\nDECLARE @left int = @limit, @level int, @place int, @found int{'' if strict else ', @looked int'};",
        worker=WORKER,
        queues=LIST,
        limit="int",
    )
    for start in (True, False)
    for strict in (True, False)
}

_PAIRS = f"""(
    SELECT j.name {BIN2} AS name, j.priority, j.most
    FROM OPENJSON(@pairs) WITH (name nvarchar(510) '$[0]', priority int '$[1]', most int '$[2]') AS j)"""

PAIRS = batch(
    f"""
WHILE EXISTS (SELECT 1 FROM @queue AS q WHERE q.priority IS NOT NULL)
BEGIN
    {_next_level("q.priority IS NOT NULL").strip()}
END;
SELECT p.name, p.priority FROM @pair AS p;
""",
    prepare=_QUEUES,
    single=True,
    queues=LIST,
)

NEXT_DUE = batch(
    f"SELECT {_SOONEST.format(_PAIRS)};",
    single=True,
    pairs=LIST,
)

PENDING_QUEUES = batch(
    f"""
SELECT @name = MIN(h.queue) FROM {HOT} AS h {PASSING} WHERE h.status = 0 AND h.queue > @name;
WHILE @name IS NOT NULL
BEGIN
    INSERT INTO @found (name) VALUES (@name);
    SELECT @name = MIN(h.queue) FROM {HOT} AS h {PASSING} WHERE h.status = 0 AND h.queue > @name;
END;
SELECT f.name FROM @found AS f;
""",
    prepare=f"DECLARE @name nvarchar(510) = N'';\nDECLARE @found TABLE (name {NAME} NOT NULL);",
    single=True,
)

# How many candidates of each level are among the first of all, looked up without a lock.
FIRST = batch(
    f"""
SELECT TOP ({BULK}) p.name, p.priority
FROM {_PAIRS} AS p CROSS APPLY (
    SELECT TOP (p.most) h.run_at, h.id FROM {HOT} AS h {PASSING}
    WHERE h.status = 0 AND h.queue = p.name AND h.priority = p.priority AND h.run_at <= @now
    ORDER BY h.run_at, h.id) AS due
ORDER BY due.run_at, due.id;
""",
    single=True,
    pairs=LIST,
)

CANDIDATES = batch(
    f"""
SELECT {lines((f"due.{column}" for column in CANDIDATE_COLUMNS), 7)}, @now
FROM {_PAIRS} AS p CROSS APPLY (
    SELECT TOP (p.most) {lines((f"h.{column}" for column in CANDIDATE_COLUMNS), 11)}
    FROM {HOT} AS h {UNLOCKED}
    WHERE h.status = 0 AND h.queue = p.name AND h.priority = p.priority AND h.run_at <= @now
    ORDER BY h.run_at, h.id) AS due
ORDER BY due.run_at, due.id;
""",
    single=True,
    pairs=LIST,
)

LEASE = {
    start: batch(_lease(by_ids(HOT, "h", CHANGED), start), single=True, worker=WORKER, ids=LIST)
    for start in (True, False)
}

DEFER = batch(
    f"""
UPDATE h SET run_at = {later("d.days", "d.seconds", "d.microseconds")}, updated_at = @now
FROM OPENJSON(@delays) WITH (id nvarchar(26), days int, seconds int, microseconds int) AS d
INNER LOOP JOIN {HOT} AS h {CHANGED} ON h.id = d.id {BIN2};
""",
    single=True,
    delays=LIST,
)

# Live leases are few, and a cap must hold whatever is in doubt: this waits for a settle that is just being committed.
# With row versioning it reads what is locked and not an older version of it.
LIVE_LEASES = batch(
    f"""
SELECT q.name, (
    SELECT COUNT(*) FROM {HOT} AS h {COMMITTED}
    WHERE h.status IN (1, 2) AND h.queue = q.name {BIN2})
FROM OPENJSON(@queues) WITH (name nvarchar(510) '$') AS q;
""",
    single=True,
    queues=LIST,
)


class MSSQLClaim(MSSQLSession):
    """Claims."""

    def _claim_fast(self, request: ClaimRequest) -> Claim:
        ((ahead,),), rows = self._alone(
            CLAIM[request.start, request.strict],
            worker=request.worker_id, queues=as_json(list(request.queues)), limit=request.limit,
        )  # fmt: skip
        jobs = [self._claimed(row) for row in rows]
        in_order(jobs, request)
        return Claim(jobs, _seconds(ahead))

    def _pairs(self, queues: Sequence[str]) -> list[Pair]:
        return [(name, priority) for name, priority in self._inside(PAIRS, queues=as_json(list(queues)))[0]]

    def pending_queues(self) -> list[str]:
        return [name for (name,) in self._alone(PENDING_QUEUES)[0]]

    # -- steps of the constrained claim -------------------------------------------------------------------------------

    def _claimed(self, row: Row) -> ClaimedJob:
        *columns, now = row
        job = ClaimedJob(*columns, expired=False)  # type: ignore[misc]
        job.expired = job.status == 1 and job.deadline_at is not None and job.deadline_at < now
        for name in ("created_at", "started_at", "run_at", "due_at", "deadline_at"):
            setattr(job, name, self._read_instant(getattr(job, name)))
        return job

    def _candidates(self, wanted: Sequence[tuple[str, int, int]]) -> list[Candidate]:
        if sum(most for _, _, most in wanted) > BULK:
            first = Counter((name, priority) for name, priority in self._inside(FIRST, pairs=as_json(wanted))[0])
            wanted = [(name, priority, count) for (name, priority), count in first.items()]
        return [self._candidate(row) for row in self._inside(CANDIDATES, pairs=as_json(wanted))[0]]

    def _lease(self, worker_id: str, ids: Sequence[str], *, start: bool) -> list[ClaimedJob]:
        rows = self._inside(LEASE[start], worker=worker_id, ids=as_json(sorted(ids)))[0]
        return [self._claimed(row) for row in rows]

    def _defer(self, delays: Sequence[tuple[str, float]]) -> None:
        rows = [(job_id, *span(seconds)) for job_id, seconds in sorted(dict(delays).items())]
        self._inside(DEFER, delays=rows_json(("id", "days", "seconds", "microseconds"), rows))

    def _live_leases(self, queues: Sequence[str]) -> dict[str, int]:
        return dict(self._inside(LIVE_LEASES, queues=as_json(list(queues)))[0])

    def _next_due(self, pairs: Sequence[Pair]) -> float | None:
        return _seconds(self._inside(NEXT_DUE, pairs=as_json(pairs))[0][0][0]) if pairs else None


def _seconds(microseconds: int | None) -> float | None:
    return None if microseconds is None else microseconds / 1_000_000
