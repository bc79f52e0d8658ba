"""The claim: one batch, in the true order across queues. :mod:`.candidates` has the steps of the constrained claim.

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
from ..constrained import Candidate, Pair, in_order
from ..contract import Claim, ClaimedJob, ClaimRequest
from ..engine import Row
from .candidates import CANDIDATES, DEFER, FIRST, LEASE, LIVE_LEASES, NEXT_DUE, PAIRS, PENDING_QUEUES
from .levels import QUEUES, SOONEST, lease, next_level
from .session import MSSQLSession
from .tsql import (
    BULK,
    CHANGED,
    COMMITTED,
    ID,
    LIST,
    PASSING,
    UNLOCKED,
    WORKER,
    as_json,
    batch,
    lines,
    rows_json,
    span,
)  # fmt: skip

# The levels are (queue, priority) in the order of the queues when that is strict, else the priorities.
_LEVEL = {
    True: "SELECT @place = NULL, @level = NULL;\n"
    "{}SELECT TOP (1) @place = q.place, @level = q.priority FROM @queue AS q "
    "WHERE q.priority IS NOT NULL ORDER BY q.place;",
    False: "SELECT @level = MAX(q.priority) FROM @queue AS q;",
}
_THIS = {True: "q.place = @place AND q.priority = @level", False: "q.priority = @level"}

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


def _pick(most: str, queues: str, few: str, but: str = "") -> str:
    """Lock the first due rows of ``queues`` (SQL), ``most`` of each."""
    return f"""INSERT INTO @picked (id, deadline_at)
    SELECT due.id, due.deadline_at
    FROM (
        SELECT {queues}) AS q
    CROSS APPLY (
        SELECT TOP ({most}) h.id, h.deadline_at
        FROM {HOT} AS h {UNLOCKED}
        WHERE h.status = 0 AND h.queue = q.name AND h.priority = @level AND h.run_at <= @now{but}{few}
        ORDER BY h.run_at, h.id) AS due;
    SET @found = @@ROWCOUNT;
    SET @left = @left - @found;"""


def _picks(*, strict: bool, few: str) -> str:
    """Lock what is due of one level."""
    if strict:
        return _pick("@left", f"q.name FROM @queue AS q WHERE {_THIS[True]}", few)
    # Locking what is wanted in each of many queues would lock many times what is taken, and others would pass over it.
    return f"""
    -- What comes first, looked up without a lock: that is how many of each queue.
    DELETE FROM @first;
    INSERT INTO @first (place)
    SELECT TOP (@left) q.place
    FROM @queue AS q CROSS APPLY (
        SELECT TOP (@left) h.run_at, h.id FROM {HOT} AS h {PASSING}
        WHERE h.status = 0 AND h.queue = q.name AND h.priority = @level AND h.run_at <= @now{few}
        ORDER BY h.run_at, h.id) AS due
    WHERE q.priority = @level
    ORDER BY due.run_at, due.id;
    SET @looked = @@ROWCOUNT;
    {_pick("q.most", _SHARES, few)}
    -- Others hold some of them: instead whatever else is due, one queue after the other.
    SET @place = CASE WHEN @found < @looked THEN -1 END;
    WHILE @left > 0 AND @place IS NOT NULL
    BEGIN
        SELECT @place = MIN(q.place) FROM @queue AS q WHERE q.priority = @level AND q.place > @place;
        {textwrap.indent(_pick("@left", _ONE_QUEUE, few, _NOT_YET), "    ").strip()}
    END;
"""


_FEW = "\n            AND h.crash_count <= @crashes"
"""Not in the index of waiting rows: asked for only where a worker may not run what has crashed more often."""


def _claim(*, start: bool, strict: bool, few: bool) -> str:
    return f"""
{_LEVEL[strict].format("")}
WHILE @left > 0 AND @level IS NOT NULL
BEGIN
    -- deadline_at is not in the index of waiting rows: a row is locked there and in the table.
    {_picks(strict=strict, few=_FEW if few else "").strip()}
    {next_level(_THIS[strict]).strip()}
    {_LEVEL[strict].format("    ")}
END;
-- When there were fewer than wanted: the time until the next one.
SELECT CASE WHEN @left > 0 THEN {SOONEST.format("@pair")} END;
{lease(_FROM_PICKED, start).strip()}
"""


CLAIM = {
    (start, strict, few): batch(
        _claim(start=start, strict=strict, few=few),
        prepare=f"{QUEUES}{_PICKED}{'' if strict else 'DECLARE @first TABLE (place int NOT NULL);'}"
        f"\nDECLARE @left int = @limit, @level int, @place int, @found int{'' if strict else ', @looked int'};",
        worker=WORKER,
        queues=LIST,
        limit="int",
        **({"crashes": "int"} if few else {}),  # type: ignore[arg-type]  # no flag of batch is called so
    )
    for start in (True, False)
    for strict in (True, False)
    for few in (True, False)
}

CLAIMED_BY = batch(
    f"""
SELECT {lines((f"h.{column}" for column in CLAIMED_COLUMNS), 7)}, @now
FROM {HOT} AS h {COMMITTED}
WHERE h.status IN (1, 2) AND h.queue > N'' AND h.worker_id = @worker
ORDER BY h.priority DESC, h.run_at, h.id;
""",
    single=True,
    worker=WORKER,
)


class MSSQLClaim(MSSQLSession):
    """Claims."""

    def claimed_by(self, worker_id: str) -> list[ClaimedJob]:
        return [self._claimed(row) for row in self._alone(CLAIMED_BY, worker=worker_id)[0]]

    def _claim_fast(self, request: ClaimRequest) -> Claim:
        few = {} if request.max_crashes is None else {"crashes": request.max_crashes}
        ((ahead,),), rows = self._alone(
            CLAIM[request.start, request.strict, bool(few)],
            worker=request.worker_id, queues=as_json(list(request.queues)), limit=request.limit, **few,
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

    def _candidates(self, wanted: Sequence[tuple[str, int, int]], max_crashes: int) -> list[Candidate]:
        if sum(most for _, _, most in wanted) > BULK:
            rows = self._inside(FIRST, pairs=as_json(wanted), crashes=max_crashes)[0]
            first = Counter((name, priority) for name, priority in rows)
            wanted = [(name, priority, count) for (name, priority), count in first.items()]
        return [self._candidate(row) for row in self._inside(CANDIDATES, pairs=as_json(wanted), crashes=max_crashes)[0]]

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
