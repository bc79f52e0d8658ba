"""The steps of the constrained claim: what waits, the candidates, their leases."""

# ruff: noqa: S608 - statements are composed of constants and column names of ours; every value is a parameter

from __future__ import annotations

from collections.abc import Sequence

from ..columns import HOT
from ..constrained import CANDIDATE_COLUMNS
from .levels import QUEUES, SOONEST, lease, next_level
from .tsql import BIN2, BULK, CHANGED, COMMITTED, LIST, NAME, PASSING, UNLOCKED, WORKER, batch, by_ids, later, lines

__all__ = ["CANDIDATES", "DEFER", "FIRST", "LEASE", "LIVE_LEASES", "NEXT_DUE", "PAIRS", "PENDING_QUEUES"]

_PAIRS = f"""(
    SELECT j.name {BIN2} AS name, j.priority, j.most
    FROM OPENJSON(@pairs) WITH (name nvarchar(510) '$[0]', priority int '$[1]', most int '$[2]') AS j)"""


def _due(columns: Sequence[str], hints: str, told: str) -> str:
    """``told`` of the due jobs of each pair, as many as it names, in the order in which they run."""
    return f"""
SELECT {told}
FROM {_PAIRS} AS p CROSS APPLY (
    SELECT TOP (p.most) {lines((f"h.{column}" for column in columns), 11)}
    FROM {HOT} AS h {hints}
    WHERE h.status = 0 AND h.queue = p.name AND h.priority = p.priority AND h.run_at <= @now
        AND h.crash_count <= @crashes
    ORDER BY h.run_at, h.id) AS due
ORDER BY due.run_at, due.id;
"""


PAIRS = batch(
    f"""
WHILE EXISTS (SELECT 1 FROM @queue AS q WHERE q.priority IS NOT NULL)
BEGIN
    {next_level("q.priority IS NOT NULL").strip()}
END;
SELECT p.name, p.priority FROM @pair AS p;
""",
    prepare=QUEUES,
    single=True,
    queues=LIST,
)
NEXT_DUE = batch(
    f"SELECT {SOONEST.format(_PAIRS)};",
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
    _due(("run_at", "id"), PASSING, f"TOP ({BULK}) p.name, p.priority"),
    single=True,
    pairs=LIST,
    crashes="int",
)
CANDIDATES = batch(
    _due(CANDIDATE_COLUMNS, UNLOCKED, f"{lines((f'due.{column}' for column in CANDIDATE_COLUMNS), 7)}, @now"),
    single=True,
    pairs=LIST,
    crashes="int",
)
LEASE = {
    start: batch(lease(by_ids(HOT, "h", CHANGED), start), single=True, worker=WORKER, ids=LIST)
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
