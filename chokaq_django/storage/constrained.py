"""The claim when something restricts it: capped queues, blocked types, half-open circuits.

One short READ COMMITTED transaction: lock the cap rows, *then* count what is live, *then* look at candidates. In one
statement the snapshot would be older than the lock, and a cap of three would let six through.
"""

# ruff: noqa: S608 - statements are composed of constants and column names of ours; every value is a parameter

from __future__ import annotations

import datetime as dt
from abc import abstractmethod
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from .circuits import CircuitState
from .columns import CLAIMED_COLUMNS, HOT, QUEUE, names
from .contract import Claim, ClaimedJob, ClaimRequest
from .deferrals import LONGEST_SPREAD, DeferralStatements
from .engine import Row

INSPECT = 1_000
"""Rows that a claim looks at beyond its limit, at most."""
FIRST_LOOK = 32
"""Rows beyond what is needed in the first look at a level; each further look doubles it."""
PERMIT_WAIT = 5.0
"""Seconds to leave alone what waits for a probe's answer."""

CANDIDATE_COLUMNS = ("id", "queue", "type", "priority", "run_at", "deadline_at", "due_at")

ANY_CRASHES = 2**31 - 1
"""More than a row can have."""

Pair = tuple[str, int]


@dataclass(slots=True)
class Candidate:
    """A due Pending row that this transaction has locked. ``overdue``: seconds since it was asked to run."""

    id: str
    queue: str
    type: str
    priority: int
    run_at: dt.datetime
    expired: bool
    overdue: float


@dataclass(slots=True)
class Gate:
    """What the claim may still take."""

    need: int
    free: dict[str, int]
    """Capped queue -> free slots."""
    blocked: dict[str, float]
    """Type -> seconds to leave it alone."""
    permits: dict[str, int]
    """Half-open type -> free probe permits."""
    probes: list[Candidate] = field(default_factory=list)

    def room(self, queue: str) -> int:
        return min(self.need, self.free.get(queue, self.need))

    def restricts_types(self) -> bool:
        return bool(self.blocked or self.permits)

    def admit(self, row: Candidate) -> bool | None:
        """True: take it; False: its type is blocked; None: no slot of its queue is left."""
        if self.room(row.queue) <= 0:
            return None
        if not row.expired:  # what will not run needs no permit
            if row.type in self.blocked:
                return False
            if row.type in self.permits:
                if self.permits[row.type] <= 0:
                    return False
                self.permits[row.type] -= 1
                self.probes.append(row)
        self.need -= 1
        if row.queue in self.free:
            self.free[row.queue] -= 1
        return True

    def deferrals(self, rows: Sequence[Candidate]) -> list[tuple[str, float]]:
        """Id -> seconds for blocked rows.

        A few come back when the block ends. A longer head is spread behind it in its order, the wider the longer it
        waits already: a type that stays blocked is then rewritten ever more rarely, and none comes back more than
        LONGEST_SPREAD too late.
        """
        by_type: dict[str, list[Candidate]] = defaultdict(list)
        for row in rows:
            by_type[row.type].append(row)
        answer = []
        for type_key, alike in by_type.items():
            wait = self.blocked.get(type_key, PERMIT_WAIT)
            for position, row in enumerate(alike):
                spread = min(LONGEST_SPREAD, max(0.0, row.overdue)) if len(alike) > FIRST_LOOK else 0.0
                answer.append((row.id, wait + spread * position / len(alike)))
        return answer


class ClaimStatements(DeferralStatements):
    """Claims; :meth:`_claim_fast` is the engine's own when nothing restricts."""

    def claim(self, request: ClaimRequest) -> Claim:
        if request.limit <= 0 or not request.queues:
            return Claim([])
        if not request.start and request.capped:
            uncapped = [name for name in request.queues if name not in request.capped]
            request = replace(request, queues=uncapped, capped={})
            if not uncapped:
                return Claim([])
        if (request.capped and request.start) or request.blocked or request.probing:
            return self._unit(lambda: self._claim_constrained(request))
        return self._claim_fast(request)

    def claimed_by(self, worker_id: str) -> list[ClaimedJob]:
        sql = (
            f"SELECT {self._claimed_list()} FROM {HOT} WHERE status IN (1, 2) AND worker_id = %s "
            "ORDER BY priority DESC, run_at, id"
        )
        return [self._claimed(row) for row in self._single(lambda: self._query(sql, [worker_id]))]

    @abstractmethod
    def _claim_fast(self, request: ClaimRequest) -> Claim:
        """A claim without caps and restricted types. It begins, commits and retries by itself (``_single``, ``_unit``);
        it passes over paused and inactive queues."""

    # -- hooks --------------------------------------------------------------------------------------------------------

    def _candidates(self, wanted: Sequence[tuple[str, int, int]], max_crashes: int) -> list[Candidate]:
        """For each (queue, priority, limit): its first due rows in the order (run_at, id), locked, passing over rows
        that others have locked and those with more crashes. All together in the order (run_at, id)."""
        found: list[Candidate] = []
        for queue, priority, limit in wanted:
            pair = f"status = 0 AND queue = %s AND priority = %s AND run_at <= {self.NOW} AND crash_count <= %s"
            rows = self._query(
                f"SELECT {names(CANDIDATE_COLUMNS)}, {self.NOW} FROM {HOT} {self.HINT_SKIP} WHERE {pair} "
                f"ORDER BY run_at, id {self.LIMIT} {self.LOCK_SKIP}",
                [queue, priority, max_crashes, limit],
            )
            found += map(self._candidate, rows)
        return sorted(found, key=lambda row: (row.run_at, row.id))

    def _candidate(self, row: Row) -> Candidate:
        """The candidate of a row of CANDIDATE_COLUMNS and the server's now."""
        run_at, deadline, due, now = (self._read_instant(value) for value in row[4:8])
        assert run_at and due and now  # noqa: S101, PT018 - these are never null
        expired = deadline is not None and deadline < now
        return Candidate(row[0], row[1], row[2], row[3], run_at, expired, (now - due).total_seconds())

    def _lease(self, worker_id: str, ids: Sequence[str], *, start: bool) -> list[ClaimedJob]:
        """Lease Pending rows that this transaction has locked: Processing with ``start``, else Fetched; rows whose
        deadline has passed and rows that have crashed before Fetched in any case."""
        among, params = self._among("id", ids)
        self._execute(
            f"UPDATE {self._by_key(HOT)} SET {self._lease_assignments(start)} WHERE {among}", [worker_id, *params]
        )
        return [
            self._claimed(row) for row in self._query(f"SELECT {self._claimed_list()} FROM {HOT} WHERE {among}", params)
        ]

    def _claimed_list(self) -> str:
        """The select (or RETURNING) list from which :meth:`_claimed` makes a job."""
        return f"{names(CLAIMED_COLUMNS)}, CASE WHEN deadline_at < {self.NOW} THEN 1 ELSE 0 END"

    @classmethod
    def _lease_assignments(cls, start: bool, worker: str = "%s") -> str:
        """SQL of the SET list that leases a row to ``worker``. What is late or has crashed before is not started."""
        common = f"worker_id = {worker}, claim_number = claim_number + 1, updated_at = {cls.NOW}"
        if not start:
            return f"status = 1, {common}"
        only = f"CASE WHEN deadline_at < {cls.NOW} OR crash_count > 0 THEN"
        return (
            f"status = {only} 1 ELSE 2 END, attempt = attempt + {only} 0 ELSE 1 END, {common}, "
            f"started_at = {only} started_at ELSE {cls.NOW} END, heartbeat_at = {only} NULL ELSE {cls.NOW} END"
        )

    def _claimed(self, row: Row) -> ClaimedJob:
        """The job of a row that was just leased."""
        # A row that was started although its deadline has passed by now is not expired.
        job = ClaimedJob(*row)
        job.expired = bool(row[-1]) and job.status == 1
        for name in ("created_at", "started_at", "run_at", "due_at", "deadline_at"):
            setattr(job, name, self._read_instant(getattr(job, name)))
        return job

    def _next_due(self, pairs: Sequence[Pair]) -> float | None:
        """Seconds until the earliest future row of these pairs, by one seek for each."""
        soonest: float | None = None
        for queue, priority in pairs:
            rows = self._query(
                f"SELECT run_at, {self.NOW} FROM {HOT} WHERE status = 0 AND queue = %s AND priority = %s "
                f"AND run_at > {self.NOW} ORDER BY run_at {self.LIMIT}",
                [queue, priority, 1],
            )
            for run_at, now in rows:
                seconds = (self._read_instant(run_at) - self._read_instant(now)).total_seconds()  # type: ignore[operator]
                soonest = seconds if soonest is None else min(soonest, seconds)
        return soonest

    # -- the constrained claim ----------------------------------------------------------------------------------------

    def _claim_constrained(self, request: ClaimRequest) -> Claim:
        free, contended = self._lock_caps(request)
        circuits, permits, now = self._lock_circuits(request)
        blocked = {key: wait for key, wait in request.blocked.items() if key not in permits}
        gate = Gate(request.limit, free, blocked, permits)
        pairs = self._pairs([name for name in request.queues if gate.room(name) > 0])
        jobs: list[ClaimedJob] = []
        deferred = 0
        budget = request.limit + INSPECT
        for level in levels(pairs, request):
            look = FIRST_LOOK
            while gate.need > 0 and budget > 0:
                extra = look if gate.restricts_types() else 0
                wanted = [(q, p, min(budget, gate.room(q) + extra)) for q, p in level if gate.room(q) > 0]
                rows = self._candidates(wanted, crashes_of(request))[:budget] if wanted else []
                budget -= len(rows)
                taken, refused = _sift(rows, gate)
                if taken:
                    jobs += self._lease(request.worker_id, [row.id for row in taken], start=request.start)
                if not refused:
                    break
                self._defer(gate.deferrals(refused))
                deferred += len(refused)
                look *= 2
            if gate.need <= 0 or budget <= 0:
                break
        self._lease_probes(request, gate.probes, circuits, now)
        in_order(jobs, request)
        short = len(jobs) < request.limit
        return Claim(jobs, self._next_due(pairs) if short else None, contended and short, deferred)

    def _lock_caps(self, request: ClaimRequest) -> tuple[dict[str, int], bool]:
        """Free slots of each capped queue; 0 where another worker holds the cap row, and whether that was so."""
        names_ = sorted(name for name in request.capped if name in set(request.queues)) if request.start else []
        free = dict.fromkeys(names_, 0)
        if not names_:
            return free, False
        among, params = self._among("name", names_)
        rows = f"{self._by_key(QUEUE)} {self.HINT_SKIP}"
        sql = f"SELECT name, max_workers FROM {rows} WHERE {among} ORDER BY name {self.LOCK_SKIP}"
        limits: dict[str, int | None] = dict(self._query(sql, params))
        if len(limits) < len(names_):
            # Most of them are only locked: on some engines an insert would wait for whoever holds them.
            there = {name for (name,) in self._query(f"SELECT name FROM {self._by_key(QUEUE)} WHERE {among}", params)}
            for name in sorted(set(names_) - there):
                self._insert_unless_there(
                    QUEUE, ("name", "is_paused", "is_active", "updated_at"), f"%s, %s, %s, {self.NOW}",
                    [name, False, True],
                )  # fmt: skip
        if limits:
            live = self._live_leases(sorted(limits))
            for name, limit in limits.items():
                # The row's own value is newer than the worker's; the request's counts where the row has none.
                free[name] = max(0, (request.capped[name] if limit is None else limit) - live.get(name, 0))
        return free, len(limits) < len(names_)

    def _live_leases(self, queues: Sequence[str]) -> dict[str, int]:
        """How many rows of each of these queues are leased, as of now and not of an older snapshot."""
        among, params = self._among("queue", queues)
        sql = f"SELECT queue, COUNT(*) FROM {HOT} WHERE status IN (1, 2) AND {among} GROUP BY queue"
        return dict(self._query(sql, params))

    def _lock_circuits(
        self, request: ClaimRequest
    ) -> tuple[dict[str, CircuitState], dict[str, int], dt.datetime | None]:
        """Lock the half-open circuits: state by type, free permits by type, and the server's now.

        A circuit that another worker has locked has no permit this time; one that has closed meanwhile has no limit.
        """
        if not request.probing:
            return {}, {}, None
        where, params = self._among("type", sorted(request.probing))
        locked = self._read_circuits(where, params, lock=self.LOCK_SKIP, hint=self.HINT_SKIP)
        circuits = {state.type: state for state, _ in locked}
        permits: dict[str, int] = {}
        for state, now in locked:
            free = state.free_permits(request.probing[state.type][0], now)
            if free is not None:
                permits[state.type] = free if request.start else 0
        rest = sorted(set(request.probing) - set(circuits))
        if rest:
            where, params = self._among("type", rest)
            permits |= {state.type: 0 for state, _ in self._read_circuits(where, params) if state.state}
        return circuits, permits, locked[0][1] if locked else None

    def _lease_probes(
        self, request: ClaimRequest, probes: Sequence[Candidate], circuits: dict[str, CircuitState],
        now: dt.datetime | None,
    ) -> None:  # fmt: skip
        for row in probes:
            assert now is not None  # noqa: S101 - a permit comes from a locked circuit
            circuits[row.type].lease_probe(row.id, request.probing[row.type][1], now)
        for type_key in sorted({row.type for row in probes}):
            self._write_circuit(circuits[type_key])


def crashes_of(request: ClaimRequest) -> int:
    """The most crashes that a row may have, as a number."""
    return ANY_CRASHES if request.max_crashes is None else request.max_crashes


def levels(pairs: Sequence[Pair], request: ClaimRequest) -> Iterator[list[Pair]]:
    """Groups of pairs, each of which comes wholly before the next: by priority, or by queue first when strict."""
    place = {name: index for index, name in enumerate(request.queues)}
    if request.strict:
        for pair in sorted(pairs, key=lambda pair: (place[pair[0]], -pair[1])):
            yield [pair]
        return
    by_priority: dict[int, list[Pair]] = defaultdict(list)
    for pair in sorted(pairs, key=lambda pair: place[pair[0]]):
        by_priority[pair[1]].append(pair)
    for priority in sorted(by_priority, reverse=True):
        yield by_priority[priority]


def _sift(rows: Sequence[Candidate], gate: Gate) -> tuple[list[Candidate], list[Candidate]]:
    """Candidates in order -> those to take and those of blocked types that stood before the last one taken."""
    taken, refused = [], []
    for row in rows:
        if gate.need <= 0:
            break
        admitted = gate.admit(row)
        if admitted:
            taken.append(row)
        elif admitted is False:
            refused.append(row)
    return taken, refused


def in_order(jobs: list[ClaimedJob], request: ClaimRequest) -> None:
    """Sort claimed jobs as they are to run: engines that return updated rows return them in any order."""
    if request.strict:
        place = {name: index for index, name in enumerate(request.queues)}
        jobs.sort(key=lambda job: (place[job.queue], -job.priority, job.run_at, job.id))
    else:
        jobs.sort(key=lambda job: (-job.priority, job.run_at, job.id))
