"""The claim: a look by seeks, then one short transaction that locks the rows at the head and leases them."""

# ruff: noqa: S608 - statements are composed of constants and column names of ours; every value is a parameter

from __future__ import annotations

import datetime as dt
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from ...models.fields import from_db
from ..columns import CLAIMED_COLUMNS, HOT
from ..constrained import CANDIDATE_COLUMNS, Candidate, in_order, levels
from ..contract import Claim, ClaimedJob, ClaimRequest
from ..engine import Row, chunks
from .floors import Pair
from .seeks import SELECTS, Seeks
from .session import MySQLSession, as_json
from .tables import outcomes

_NOW = MySQLSession.NOW


def _head(columns: str, max_crashes: int | None = None) -> str:
    """The first due rows of one pair. The index is named: a plan must not depend on statistics, which are those of an
    empty table when rows have just come."""
    few = "" if max_crashes is None else f"AND crash_count <= {int(max_crashes)} "
    return (
        f"SELECT {columns} FROM {HOT} FORCE INDEX (chokaq_hot_claim) WHERE status = 0 AND queue = %s "
        f"AND priority = %s AND run_at >= %s AND run_at <= {_NOW} {few}ORDER BY run_at, id LIMIT %s"
    )


def _first_slots(count: int, max_crashes: int | None) -> str:
    """Slot, due time and id of the first due rows of so many pairs together; from the index alone where crashes do not
    matter."""
    heads = " UNION ALL ".join(f"({_head(f'{slot} AS slot, run_at, id', max_crashes)})" for slot in range(count))
    return f"SELECT slot, run_at, id FROM ({heads}) u ORDER BY run_at, id LIMIT %s"


def _text(instant: str) -> str:
    """An instant as ISO text: Python reads it in a tenth of the time that the drivers take for their own form, and one
    that does not exist (2026-02-00) stays something that can be sorted."""
    return f"CONCAT({instant}, '+00:00')"


_INSTANTS = ("created_at", "started_at", "run_at", "due_at", "deadline_at")
_CLAIMED, _CANDIDATE = (
    ", ".join(_text(column) if column in _INSTANTS else column for column in columns)
    for columns in (CLAIMED_COLUMNS, CANDIDATE_COLUMNS)
)
_LATE = f"COALESCE(deadline_at < {_NOW}, 0)"
_TAKEN = f"{_CLAIMED}, {_LATE}, {_text(_NOW)}"
_LEASED = f"UPDATE {HOT} FORCE INDEX (PRIMARY) SET worker_id = %s, claim_number = claim_number + 1, updated_at = %s"
_FETCH = f"{_LEASED}, status = 1 WHERE "
SPARE = 16
"""Rows that a claim of several queues may lock without taking them; for more it first reads how many are where."""
_START = f"{_LEASED}, status = 2, attempt = attempt + 1, started_at = %s, heartbeat_at = %s WHERE "


def _locked(columns: str, max_crashes: int | None) -> str:
    """The same, locked."""
    return f"({_head(columns, max_crashes)} FOR UPDATE SKIP LOCKED)"


class ClaimStatements(Seeks):
    """Claims. The constrained one is the portable one, behind the same look."""

    def claim(self, request: ClaimRequest) -> Claim:
        claim = self._claim(request)
        if request.max_crashes is None:  # else something may wait before them
            self._floors.claimed(claim.jobs)
        return claim

    def _claim(self, request: ClaimRequest) -> Claim:
        if request.capped or request.blocked or request.probing:
            look = self._single(lambda: self._look(request.queues))
            if not look.due():
                return Claim([], look.next_due())
        return super().claim(request)

    # -- when nothing restricts ---------------------------------------------------------------------------------------

    def _claim_fast(self, request: ClaimRequest) -> Claim:
        look = self._single(lambda: self._look(request.queues))
        due = look.due()
        if not due:
            return Claim([], look.next_due())
        jobs = self._unit(lambda: self._take(request, due))
        in_order(jobs, request)
        if len(jobs) >= request.limit:
            return Claim(jobs)
        return Claim(jobs, self._single(lambda: self._next_due(list(look.until))))

    def _take(self, request: ClaimRequest, due: Sequence[Pair]) -> list[ClaimedJob]:
        """Lease the first due rows of these pairs."""
        rows: list[Row] = []
        for level in levels(due, request):
            rows += self._head_of(level, request.limit - len(rows), request.max_crashes)
            if len(rows) >= request.limit:
                break
        jobs = []
        for only in (False, True):
            group = [row for row in rows if bool(row[-2] or row[_CRASHES]) is only]
            if group:
                jobs += self._lease_rows(request.worker_id, group, start=request.start and not only)
        return jobs

    def _head_of(self, level: Sequence[Pair], need: int, max_crashes: int | None) -> list[Row]:
        """The first ``need`` due rows of these pairs together, locked, and few rows beyond them: others want those."""
        few = need * (len(level) - 1) <= SPARE
        shares = dict.fromkeys(level, need) if few else self._shares(level, need, max_crashes)
        if not shares:
            return []
        rows: list[Row] = []
        take = _locked(_TAKEN, max_crashes)
        for part in chunks(list(shares.items()), SELECTS):
            rows += self._query(" UNION ALL ".join([take] * len(part)), self._of_heads(part))
        return sorted(rows, key=_order)[:need] if len(rows) > need else rows

    def _of_heads(self, limits: Iterable[tuple[Pair, int]]) -> list[Any]:
        """The parameters of _head for each."""
        return [value for pair, limit in limits for value in (*pair, self._floors.of(pair), limit)]

    def _shares(self, level: Sequence[Pair], need: int, max_crashes: int | None) -> dict[Pair, int]:
        """How many of the first ``need`` due rows each pair has."""
        if len(level) <= SELECTS:
            sql = f"SELECT slot, COUNT(*) FROM ({_first_slots(len(level), max_crashes)}) t GROUP BY slot"
            rows = self._query(sql, [*self._of_heads((pair, need) for pair in level), need])
            return {level[slot]: share for slot, share in rows}
        ahead: list[tuple[Any, str, Pair]] = []
        for part in chunks(level, SELECTS):
            rows = self._query(
                _first_slots(len(part), max_crashes), [*self._of_heads((pair, need) for pair in part), need]
            )
            ahead += [(run_at, job_id, part[slot]) for slot, run_at, job_id in rows]
            ahead = sorted(ahead)[:need]
        return Counter(pair for _, _, pair in ahead)

    def _lease_rows(self, worker_id: str, rows: Sequence[Row], *, start: bool) -> list[ClaimedJob]:
        """Lease locked rows of _TAKEN. What the UPDATE makes of them is known without reading them again."""
        started = dt.datetime.fromisoformat(rows[-1][-1])
        now = self._instant(started)
        among, params = self._among("id", sorted(row[0] for row in rows))
        self._execute((_START if start else _FETCH) + among, [worker_id, now, *([now] * (2 * start)), *params])
        jobs = []
        for row in rows:
            job = self._claimed(row[:-1])
            job.claim_number += 1
            job.status = 2 if start else 1
            job.expired = bool(row[-2])
            if start:
                job.attempt += 1
                job.started_at = started
            jobs.append(job)
        return jobs

    def _claimed_list(self) -> str:
        return f"{_CLAIMED}, {_LATE}"

    def _claimed(self, row: Row) -> ClaimedJob:
        job = ClaimedJob(*row)
        job.expired = bool(job.expired) and job.status == 1  # what was started is not late, whatever the clock says now
        for name in _INSTANTS:
            text = getattr(job, name)
            if text is not None:
                setattr(job, name, from_db(text))
        return job

    # -- the constrained claim ----------------------------------------------------------------------------------------

    def _candidates(self, wanted: Sequence[tuple[str, int, int]], max_crashes: int) -> list[Candidate]:
        rows: list[Row] = []
        look = _locked(f"{_CANDIDATE}, {_NOW}", max_crashes)
        for part in chunks(wanted, SELECTS):
            params = self._of_heads(((queue, priority), limit) for queue, priority, limit in part)
            rows += self._query(" UNION ALL ".join([look] * len(part)), params)
        return sorted(map(self._candidate, rows), key=lambda row: (row.run_at, row.id))

    def _defer(self, delays: Sequence[tuple[str, float]]) -> None:
        self._execute(
            f"UPDATE {outcomes(delay='DOUBLE')} STRAIGHT_JOIN {HOT} h FORCE INDEX (PRIMARY) ON h.id = j.id "
            f"SET h.run_at = {self._after('j.delay')}, h.updated_at = {_NOW}",
            [as_json(sorted(delays))],
        )


_RUN_AT = CLAIMED_COLUMNS.index("run_at")
_CRASHES = CLAIMED_COLUMNS.index("crash_count")


def _order(row: Row) -> tuple[str, str]:
    """Sorts rows of _TAKEN of one level; all instants have the same form."""
    return row[_RUN_AT], row[0]
