"""The claim: a look without a lock, a short transaction, and the rows read after it."""

# ruff: noqa: S608 - statements are composed of constants and column names of ours; every value is a parameter

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from typing import Any

from django.db import DataError

from ...models.fields import from_db, to_text
from ..columns import HOT, QUEUE, names
from ..constrained import CANDIDATE_COLUMNS, Candidate, crashes_of, in_order, levels
from ..contract import Claim, ClaimedJob, ClaimRequest
from ..engine import chunks
from .session import ROWS, SQLiteSession, as_json

Pair = tuple[str, int]

READ_AT_ONCE = 25
"""Jobs in one JSON text: each may be a megabyte."""


def closed(queue: str) -> str:
    """A query that has a row when the queue is paused or inactive."""
    return f"SELECT 1 FROM {QUEUE} s WHERE s.name = {queue} AND (s.is_paused OR NOT s.is_active)"


# The priorities present in each open queue by seeks: the highest, the highest below it, and so on; and the first due
# time of each. Jobs are never read, however many there are.
_PRIORITY = f"SELECT h.priority FROM {HOT} h WHERE h.status = 0"
_LOOK = f"""
WITH RECURSIVE p (queue, priority) AS (
  SELECT q.value, ({_PRIORITY} AND h.queue = q.value ORDER BY h.priority DESC LIMIT 1)
  FROM json_each(%s) q WHERE NOT EXISTS ({closed("q.value")})
  UNION ALL
  SELECT p.queue, ({_PRIORITY} AND h.queue = p.queue AND h.priority < p.priority ORDER BY h.priority DESC LIMIT 1)
  FROM p WHERE p.priority IS NOT NULL)
SELECT queue, priority, (
  SELECT h.run_at FROM {HOT} h WHERE h.status = 0 AND h.queue = p.queue AND h.priority = p.priority
  ORDER BY h.run_at LIMIT 1)
FROM p WHERE priority IS NOT NULL
"""
_NEXT_DUE = (
    "SELECT min(f) FROM (SELECT ("
    f"SELECT h.run_at FROM {HOT} h WHERE h.status = 0 AND h.queue = json_extract(j.value, '$[0]') "
    "AND h.priority = json_extract(j.value, '$[1]') AND h.run_at > %s ORDER BY h.run_at LIMIT 1"
    ") AS f FROM json_each(%s) j)"
)
_DUE = (
    "SELECT json_group_array(json_array(run_at, id, place)) FROM ("
    f"SELECT run_at, id, rowid AS place FROM {HOT} WHERE status = 0 AND queue = %s AND priority = %s AND run_at <= %s "
    f"AND crash_count <= %s AND NOT EXISTS ({closed('%s')}) ORDER BY run_at, id LIMIT %s)"
)
_CANDIDATES = (
    f"SELECT json_group_array(json_array({names(CANDIDATE_COLUMNS)}, {SQLiteSession.NOW})) FROM ("
    f"SELECT {names(CANDIDATE_COLUMNS)} FROM {HOT} WHERE status = 0 AND queue = %s AND priority = %s "
    f"AND run_at <= {SQLiteSession.NOW} AND crash_count <= %s ORDER BY run_at, id LIMIT %s)"
)
_PENDING_QUEUES = f"""
WITH RECURSIVE q (name) AS (
  SELECT (SELECT queue FROM {HOT} WHERE status = 0 ORDER BY queue LIMIT 1)
  UNION ALL
  SELECT (SELECT queue FROM {HOT} WHERE status = 0 AND queue > q.name ORDER BY queue LIMIT 1)
  FROM q WHERE q.name IS NOT NULL)
SELECT name FROM q WHERE name IS NOT NULL
"""


class ClaimStatements(SQLiteSession):
    """Claims. The constrained one is the portable one, behind the same look."""

    def claim(self, request: ClaimRequest) -> Claim:
        if request.capped or request.blocked or request.probing:
            pairs, next_due = self._look(request.queues)
            if not pairs:
                return Claim([], next_due)
        return super().claim(request)

    def _claim_fast(self, request: ClaimRequest) -> Claim:
        pairs, next_due = self._look(request.queues)
        if not pairs:
            return Claim([], next_due)
        jobs = self._read(request, self._unit(lambda: self._lease_due(request, pairs)))
        if len(jobs) >= request.limit:
            return Claim(jobs)
        return Claim(jobs, self._single(lambda: self._next_due(self._pairs(request.queues))))

    def _read(self, request: ClaimRequest, places: Sequence[int]) -> list[ClaimedJob]:
        """The rows just leased: read after the commit, when the file is free again for others. Nobody else can lease
        them; a worker that fails to read them asks for them as after every answer that got lost."""
        jobs = self._single(lambda: self._leased(request.worker_id, places))
        in_order(jobs, request)
        return jobs

    def _look(self, queues: Sequence[str]) -> tuple[list[Pair], float | None]:
        """The pairs that have due rows; if there are none, the seconds until the next row."""
        found = self._single(lambda: self._query(_LOOK, [as_json(list(queues))]))
        now = dt.datetime.now(dt.UTC)
        text = to_text(now)
        due = [(queue, priority) for queue, priority, first in found if first <= text]
        return due, None if due else _seconds(min((first for _, _, first in found), default=None), now)

    def _pairs(self, queues: Sequence[str]) -> list[Pair]:
        return [(queue, priority) for queue, priority, _ in self._query(_LOOK, [as_json(list(queues))])]

    def _lease_due(self, request: ClaimRequest, pairs: Sequence[Pair]) -> list[int]:
        """Lease the first due rows; their rowids."""
        now = to_text(dt.datetime.now(dt.UTC))
        places: list[int] = []
        for level in levels(pairs, request):
            need = request.limit - len(places)
            found = []
            for queue, priority in level:
                found += self._one_json(_DUE, [queue, priority, now, crashes_of(request), queue, need])
            places += [place for _, _, place in sorted(found)[:need]]
            if len(places) >= request.limit:
                break
        if places:
            self._execute(
                f"UPDATE {HOT} SET {self._lease_assignments(request.start)} WHERE {ROWS}",
                [request.worker_id, as_json(places)],
            )
        return places

    def _leased(self, worker_id: str, places: Sequence[int]) -> list[ClaimedJob]:
        if not places:
            return []
        rows = self._query(
            f"SELECT {self._claimed_list()} FROM {HOT} WHERE {ROWS} AND worker_id = %s AND status + 0 IN (1, 2)",
            [as_json(places), worker_id],
        )
        return [self._claimed(row) for row in rows]

    # -- the constrained claim ----------------------------------------------------------------------------------------

    def _candidates(self, wanted: Sequence[tuple[str, int, int]], max_crashes: int) -> list[Candidate]:
        found: list[Candidate] = []
        for queue, priority, limit in wanted:
            found += map(self._candidate, self._one_json(_CANDIDATES, [queue, priority, max_crashes, limit]))
        return sorted(found, key=lambda row: (row.run_at, row.id))

    def _lease(self, worker_id: str, ids: Sequence[str], *, start: bool) -> list[ClaimedJob]:
        among, params = self._among("id", ids)
        self._execute(f"UPDATE {HOT} SET {self._lease_assignments(start)} WHERE {among}", [worker_id, *params])
        return [job for part in chunks(ids, READ_AT_ONCE) for job in self._jobs(*self._among("id", part))]

    def _jobs(self, condition: str, params: Sequence[Any]) -> list[ClaimedJob]:
        """Leased rows as jobs, read while the file is locked."""
        columns = self._claimed_list()
        try:
            rows = self._one_json(
                f"SELECT json_group_array(json_array({columns})) FROM {HOT} WHERE {condition}", params
            )
        except DataError:  # together more than SQLite's longest text, a gigabyte
            rows = self._query(f"SELECT {columns} FROM {HOT} WHERE {condition}", params)
        return [self._claimed(row) for row in rows]

    # -- what there is ------------------------------------------------------------------------------------------------

    def _next_due(self, pairs: Sequence[Pair]) -> float | None:
        now = dt.datetime.now(dt.UTC)
        return _seconds(self._query(_NEXT_DUE, [to_text(now), as_json(pairs)])[0][0], now)

    def pending_queues(self) -> list[str]:
        return [name for (name,) in self._single(lambda: self._query(_PENDING_QUEUES))]


def _seconds(instant: str | None, now: dt.datetime) -> float | None:
    """From ``now`` to a stored instant."""
    until = from_db(instant)
    return None if until is None else (until - now).total_seconds()
