"""The claim in one statement, in the true order across queues."""

# ruff: noqa: S608 - statements are composed of constants and column names of ours; every value is a parameter

from __future__ import annotations

from ..columns import CLAIMED_COLUMNS, HOT, names
from ..constrained import in_order
from ..contract import Claim, ClaimedJob, ClaimRequest
from ..engine import Row
from .session import PAIRS, PostgresSession

_NOW = PostgresSession.NOW


def claim_statement(assignments: str, *, strict: bool) -> str:
    """Claim ``%(n)s`` rows of ``%(queues)s`` for ``%(worker)s``; when fewer were due, also say when the next is.

    Each (queue, priority) is probed on its own, so that future rows and other queues are never read. The rows of one
    priority are merged across queues; only the priorities that are needed are looked at.
    """
    first = "s.ord, s.priority DESC" if strict else "s.priority DESC"
    order = "ord, priority DESC" if strict else "priority DESC"
    return (
        f"{PAIRS}, c AS (UPDATE {HOT} SET {assignments} WHERE ctid = ANY(ARRAY("
        f"SELECT j.ctid FROM (SELECT * FROM p WHERE priority IS NOT NULL ORDER BY {order}) s CROSS JOIN LATERAL ("
        f"SELECT h.ctid, h.run_at, h.id FROM {HOT} h WHERE h.queue = s.queue AND h.priority = s.priority "
        f"AND h.status = 0 AND h.run_at <= {_NOW} ORDER BY h.run_at, h.id LIMIT %(n)s::bigint "
        f"FOR UPDATE OF h SKIP LOCKED) j ORDER BY {first}, j.run_at, j.id LIMIT %(n)s::bigint)) "
        f"RETURNING {names(CLAIMED_COLUMNS)}, (deadline_at < {_NOW}) IS TRUE AS late) "
        f"SELECT c.*, d.next_due FROM (SELECT CASE WHEN (SELECT count(*) FROM c) < %(n)s::bigint THEN ({NEXT_DUE}) END "
        f"AS next_due) d LEFT JOIN c ON true"
    )


NEXT_DUE = (
    f"SELECT extract(epoch FROM min(f.run_at) - {_NOW})::float8 FROM p CROSS JOIN LATERAL ("
    f"SELECT h.run_at FROM {HOT} h WHERE h.queue = p.queue AND h.priority = p.priority AND h.status = 0 "
    f"AND h.run_at > {_NOW} ORDER BY h.run_at LIMIT 1) f"
)


class PostgresClaim(PostgresSession):
    """Claims."""

    def _claim_fast(self, request: ClaimRequest) -> Claim:
        sql = _STATEMENTS[request.start, request.strict]
        params = {"queues": list(request.queues), "worker": request.worker_id, "n": request.limit}
        rows = self._single(lambda: self._query(sql, params))
        jobs = [_job(row) for row in rows if row[0] is not None]
        in_order(jobs, request)
        return Claim(jobs, rows[0][-1])


def _job(row: Row) -> ClaimedJob:
    job = ClaimedJob(*row[:-1])
    job.expired = job.expired and job.status == 1  # a row that was started is not late, whatever the clock says by now
    return job


_STATEMENTS = {
    (start, strict): claim_statement(PostgresSession._lease_assignments(start, "%(worker)s"), strict=strict)
    for start in (True, False)
    for strict in (True, False)
}
