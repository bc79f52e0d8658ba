"""The claim in one statement, in the true order across queues; and the steps of the constrained claim."""

# ruff: noqa: S608 - statements are composed of constants and column names of ours; every value is a parameter

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from django.db import Error as DatabaseError
from django.db.backends.base.base import BaseDatabaseWrapper

from ...observability.events import Event, log_event
from ..columns import CLAIMED_COLUMNS, HOT, names
from ..constrained import CANDIDATE_COLUMNS, Candidate, Pair, crashes_of, in_order
from ..contract import Claim, ClaimedJob, ClaimRequest
from ..engine import Row
from .pairs import KnownPair, KnownPairs
from .session import OPEN, PAIRS, PostgresSession, as_json

logger = logging.getLogger("chokaq.storage")

_NOW = PostgresSession.NOW
_FAR = "TIMESTAMPTZ '9000-01-01 00:00:00+00'"
"""Somebody may have written infinity by hand, which cannot be subtracted from."""
_RETURNED = f"{names(CLAIMED_COLUMNS)}, (deadline_at < {_NOW}) IS TRUE AS late"


def _due(columns: str, limit: str, floor: str = "") -> str:
    """The first due rows of the pair ``s``, locked: one seek into the claim index, no row of any other pair read."""
    return (
        f"SELECT {columns} FROM {HOT} h WHERE h.queue = s.queue AND h.priority = s.priority AND h.status = 0 "
        f"AND h.run_at <= {_NOW} {floor} AND h.crash_count <= %(crashes)s::int "
        f"ORDER BY h.run_at, h.id LIMIT {limit} FOR UPDATE OF h SKIP LOCKED"
    )


def _soonest(pairs: str) -> str:
    """Seconds until the first future row of the pairs ``p``, which ``pairs`` names or makes."""
    return (
        f"SELECT extract(epoch FROM min(f.run_at) - {_NOW})::float8 FROM {pairs} CROSS JOIN LATERAL ("
        f"SELECT h.run_at FROM {HOT} h WHERE h.queue = p.queue AND h.priority = p.priority AND h.status = 0 "
        f"AND h.run_at > {_NOW} AND h.run_at < {_FAR} ORDER BY h.run_at LIMIT 1) f"
    )


def claim_statement(assignments: str, *, strict: bool, known: bool) -> str:
    """Claim ``%(n)s`` rows of ``%(queues)s`` for ``%(worker)s``; when fewer were due, also say when the next is.

    The rows of one priority are merged across queues; only the priorities that are needed are looked at. Rows of
    ``%(barred)s`` types take their place among the ``n`` but are left alone; how many there were comes after the next
    due time, and last the seconds until the rows were chosen. ``known``: the pairs are given, with their floors.
    """
    order = "ord, priority DESC" if strict else "priority DESC"
    merged = "s.ord, s.priority DESC" if strict else "s.priority DESC"
    due = _due("h.ctid, h.run_at, h.id, h.type", "%(n)s::bigint", "AND h.run_at >= s.floor" if known else "")
    return (
        f"{KNOWN if known else PAIRS}, head AS MATERIALIZED ("
        f"SELECT j.ctid AS place, j.type = ANY(%(barred)s::varchar[]) AS barred "
        f"FROM (SELECT * FROM p WHERE priority IS NOT NULL ORDER BY {order}) s CROSS JOIN LATERAL ({due}) j "
        f"ORDER BY {merged}, j.run_at, j.id LIMIT %(n)s::bigint), "
        f"c AS (UPDATE {HOT} SET {assignments} WHERE ctid = ANY(ARRAY(SELECT place FROM head WHERE NOT barred)) "
        f"RETURNING {_RETURNED}) "
        f"SELECT c.*, d.* FROM (SELECT "
        f"CASE WHEN (SELECT count(*) FROM head) < %(n)s::bigint THEN ({_soonest('p')}) END AS next_due, "
        f"(SELECT count(*) FROM head WHERE barred) AS barred, "
        f"extract(epoch FROM clock_timestamp() - {_NOW})::float8 AS seconds) d LEFT JOIN c ON true"
    )


KNOWN = (
    f"WITH p AS (SELECT u.* FROM unnest(%(pair_queues)s::varchar[], %(places)s::int[], %(priorities)s::int[], "
    f"%(floors)s::timestamptz[]) AS u(queue, ord, priority, floor) WHERE {OPEN.format('u.queue')})"
)
CLAIM = {
    (start, strict, known): claim_statement(
        PostgresSession._lease_assignments(start, "%(worker)s"), strict=strict, known=known
    )
    for start in (True, False)
    for strict in (True, False)
    for known in (True, False)
}
DISCOVER = (
    f"{PAIRS} SELECT p.queue, p.priority, (SELECT h.run_at FROM {HOT} h WHERE h.queue = p.queue "
    f"AND h.priority = p.priority AND h.status = 0 ORDER BY h.run_at LIMIT 1), "
    f"extract(epoch FROM clock_timestamp() - {_NOW})::float8 FROM p WHERE p.priority IS NOT NULL"
)

CANDIDATES = (
    f"SELECT j.*, {_NOW} FROM unnest(%(queues)s::varchar[], %(priorities)s::int[], %(limits)s::bigint[]) "
    f"AS s(queue, priority, n) CROSS JOIN LATERAL ({_due(names(CANDIDATE_COLUMNS, 'h'), 's.n')}) j "
    f"ORDER BY j.run_at, j.id"
)
LEASE = {
    start: f"UPDATE {HOT} SET {PostgresSession._lease_assignments(start, '%(worker)s')} "
    f"WHERE id = ANY(%(ids)s::varchar[]) RETURNING {_RETURNED}"
    for start in (True, False)
}
DEFER = (
    f"UPDATE {HOT} h SET run_at = {_NOW} + make_interval(secs => (%(delays)s::jsonb ->> h.id)::float8), "
    f"updated_at = {_NOW} WHERE h.id = ANY(%(ids)s::varchar[])"
)
NEXT_DUE = _soonest("unnest(%(queues)s::varchar[], %(priorities)s::int[]) AS p(queue, priority)")


class PostgresClaim(PostgresSession):
    """Claims."""

    def __init__(self, connection: BaseDatabaseWrapper, *, private: bool) -> None:
        super().__init__(connection, private=private)
        self._known = KnownPairs()

    def claim(self, request: ClaimRequest) -> Claim:
        barred = {*request.blocked, *request.probing}
        if not barred or (request.capped and request.start) or not request.queues or request.limit <= 0:
            return super().claim(request)
        # While nothing of a restricted type stands at the head, the one statement does.
        request = replace(request, queues=[name for name in request.queues if name not in request.capped], capped={})
        claim, met = self._claim_head(request, sorted(barred))
        if not met:
            return claim
        try:
            more = super().claim(replace(request, limit=request.limit - len(claim.jobs)))
        except DatabaseError as error:
            if not claim.jobs:
                raise
            # These are leased and must run; the next claim meets the same error again.
            self._retrier.errors += 1
            log_event(logger, logging.WARNING, Event.STORAGE_TROUBLE, "part of a claim failed: %s", error)
            return claim
        jobs = claim.jobs + more.jobs
        in_order(jobs, request)
        return replace(more, jobs=jobs)

    def _claim_fast(self, request: ClaimRequest) -> Claim:
        return self._claim_head(request, [])[0]

    def _claim_head(self, request: ClaimRequest, barred: Sequence[str]) -> tuple[Claim, int]:
        """Claim in one statement what is not barred; how many barred rows stood among the first ``limit``."""
        return self._single(lambda: self._claim_head_once(request, barred))

    def _claim_head_once(self, request: ClaimRequest, barred: Sequence[str]) -> tuple[Claim, int]:
        known = self._use_known(request.queues)
        params = {"worker": request.worker_id, "n": request.limit, "barred": barred, "crashes": crashes_of(request)}
        params |= self._known_params(request.queues) if known else {"queues": list(request.queues)}
        rows = self._query(CLAIM[request.start, request.strict, known], params)
        jobs = [self._claimed(row[:-3]) for row in rows if row[0] is not None]
        *_, next_due, met, seconds = rows[0]
        if known:
            if request.max_crashes is None:  # else something may wait before them
                self._known.claimed(jobs)
        else:
            self._known.looked(seconds, request.limit)
        in_order(jobs, request)
        return Claim(jobs, next_due), met

    # -- known pairs --------------------------------------------------------------------------------------------------

    def _use_known(self, queues: Sequence[str]) -> bool:
        known = self._known
        if known.active and not known.fresh(queues):
            rows = self._query(DISCOVER, {"queues": list(queues)})
            known.learn(
                queues, [KnownPair(*row[:3]) for row in rows if row[2]], max((row[3] for row in rows), default=0)
            )
        return known.active

    def _known_params(self, queues: Sequence[str]) -> dict[str, Any]:
        pairs = self._known.of(queues)
        return {
            "places": [place for place, _ in pairs],
            "pair_queues": [pair.queue for _, pair in pairs],
            "priorities": [pair.priority for _, pair in pairs],
            "floors": [pair.floor for _, pair in pairs],
        }

    # -- steps of the constrained claim -------------------------------------------------------------------------------

    def _claimed(self, row: Row) -> ClaimedJob:
        job = ClaimedJob(*row)
        job.expired = bool(job.expired) and job.status == 1  # what was started is not late, whatever the clock says now
        return job

    def _candidates(self, wanted: Sequence[tuple[str, int, int]], max_crashes: int) -> list[Candidate]:
        queues, priorities, limits = zip(*wanted, strict=True)
        params = {
            "queues": list(queues),
            "priorities": list(priorities),
            "limits": list(limits),
            "crashes": max_crashes,
        }
        return [self._candidate(row) for row in self._query(CANDIDATES, params)]

    def _lease(self, worker_id: str, ids: Sequence[str], *, start: bool) -> list[ClaimedJob]:
        return [self._claimed(row) for row in self._query(LEASE[start], {"worker": worker_id, "ids": list(ids)})]

    def _defer(self, delays: Sequence[tuple[str, float]]) -> None:
        by_id = dict(delays)
        self._query(DEFER, {"ids": list(by_id), "delays": as_json(by_id)})

    def _next_due(self, pairs: Sequence[Pair]) -> float | None:
        params: dict[str, Any] = {"queues": [queue for queue, _ in pairs], "priorities": [p for _, p in pairs]}
        return self._query(NEXT_DUE, params)[0][0] if pairs else None
