"""What a worker does with its leases while it has them: start, release, heartbeat, progress.

Each is one transaction: lock the rows in the order of their ids, check the leases, write those that hold.
"""

# ruff: noqa: S608 - statements are composed of constants and column names of ours; every value is a parameter

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ..columns import HOT, QUEUE
from ..contract import Applied, HeartbeatReply, Lease, StartReply
from ..engine import Row, chunks
from ..moves import FETCHED, PENDING, PROCESSING
from ..settling import CANCEL_REQUEST
from ..text import storable
from .session import MySQLSession, as_json
from .tables import TEXT, outcomes

_NOW = MySQLSession.NOW
_UPDATE = f"UPDATE {HOT} FORCE INDEX (PRIMARY) SET "
_CLOSED = f"EXISTS (SELECT 1 FROM {QUEUE} s WHERE s.name = h.queue AND (s.is_paused OR NOT s.is_active))"
_STARTING = f"h.attempt, COALESCE(h.deadline_at < {_NOW}, 0), {_CLOSED}, {_NOW}"
_PROGRESS = (
    f"UPDATE {outcomes(percent='INT', message=TEXT)} STRAIGHT_JOIN {HOT} h FORCE INDEX (PRIMARY) ON h.id = j.id "
    f"SET h.progress = j.percent, h.progress_message = j.message, h.updated_at = {_NOW}"
)


class LeaseStatements(MySQLSession):
    """Writes of executions that end nothing."""

    def _leases(
        self, worker_id: str, ids: Iterable[str], extra: str = "NULL", lock: str = MySQLSession.LOCK
    ) -> dict[str, Row]:
        """Lock the Hot rows of this worker among ``ids``: id -> (id, claim number, status, ``extra``...)."""
        found: dict[str, Row] = {}
        for part in chunks(sorted(set(ids))):
            among, params = self._among("h.id", part)
            rows = self._query(
                f"SELECT h.id, h.claim_number, h.status, {extra} FROM {HOT} h FORCE INDEX (PRIMARY) WHERE {among} "
                f"AND h.worker_id = %s ORDER BY h.id {lock}",
                [*params, worker_id],
            )
            found |= {row[0]: row for row in rows}
        return found

    def _held(
        self, worker_id: str, leases: Iterable[Lease], status: int, extra: str = "NULL", lock: str = MySQLSession.LOCK
    ) -> dict[str, Row]:
        """Lock the leases that hold, in this status: id -> ``extra``."""
        leases = list(leases)
        rows = self._leases(worker_id, [lease.id for lease in leases], extra, lock)
        return {
            lease.id: rows[lease.id][3:]
            for lease in leases
            if lease.id in rows and rows[lease.id][1:3] == (lease.claim_number, status)
        }

    def _change(self, ids: Iterable[str], assignments: str, params: Sequence[Any] = ()) -> None:
        """Update rows that this transaction has locked."""
        for part in chunks(sorted(ids)):
            among, id_params = self._among("id", part)
            self._execute(f"{_UPDATE}{assignments} WHERE {among}", [*params, *id_params])

    # -- from the buffer ----------------------------------------------------------------------------------------------

    def start(self, worker_id: str, leases: Sequence[Lease]) -> StartReply:
        return self._unit(lambda: self._start(worker_id, leases)) if leases else StartReply({}, set(), set())

    def _start(self, worker_id: str, leases: Sequence[Lease]) -> StartReply:
        rows = self._leases(worker_id, [lease.id for lease in leases], _STARTING)
        reply = StartReply({}, set(), set())
        now = None
        for lease in leases:
            if lease.id not in rows:
                continue
            _, number, status, attempt, expired, closed, now = rows[lease.id]
            if (number, status) != (lease.claim_number, FETCHED):
                continue
            if closed:
                reply.released.add(lease.id)
            elif expired:
                reply.expired.add(lease.id)
            else:
                reply.started[lease.id] = (attempt + 1, self._read_instant(now))  # type: ignore[assignment]
        self._change(
            reply.started,
            f"status = {PROCESSING}, attempt = attempt + 1, started_at = %s, heartbeat_at = %s, updated_at = %s",
            [now, now, now],
        )
        self._give_back(reply.released, 0.0)
        return reply

    def release(self, worker_id: str, leases: Sequence[Lease], delay: float = 0.0) -> Applied:
        return self._unit(lambda: self._release(worker_id, leases, delay)) if leases else set()

    def _release(self, worker_id: str, leases: Sequence[Lease], delay: float) -> Applied:
        held = set(self._held(worker_id, leases, FETCHED))
        self._give_back(held, delay)
        return held

    def _give_back(self, ids: Iterable[str], delay: float) -> None:
        back = f"status = {PENDING}, worker_id = NULL, updated_at = {_NOW}"
        if delay > 0:
            self._change(ids, f"{back}, run_at = {self._after()}", [delay])
        else:
            self._change(ids, back)

    # -- running ------------------------------------------------------------------------------------------------------

    # Somebody's long transaction with one row must not stop what is told about all others: such a row is passed over.

    def heartbeat(self, worker_id: str, leases: Sequence[Lease]) -> HeartbeatReply:
        if not leases:
            return HeartbeatReply(set(), {})
        held = self._unit(lambda: self._heartbeat(worker_id, leases))
        others = [lease for lease in leases if lease.id not in held]
        # What is committed of these says whether they are ours.
        busy = self._single(lambda: self._held(worker_id, others, PROCESSING, CANCEL_REQUEST, lock=""))
        lost = {lease.id for lease in leases} - held.keys() - busy.keys()
        cancels = {job_id: by for job_id, (asked, by) in (*held.items(), *busy.items()) if asked}
        return HeartbeatReply(lost, cancels, set(busy))

    def _heartbeat(self, worker_id: str, leases: Sequence[Lease]) -> dict[str, Row]:
        held = self._held(worker_id, leases, PROCESSING, CANCEL_REQUEST, self.LOCK_SKIP)
        self._change(held, f"heartbeat_at = {_NOW}, updated_at = {_NOW}")
        return held

    def cancel_requests(self, leases: Sequence[Lease]) -> dict[str, str | None]:
        answer: dict[str, str | None] = {}
        for part in chunks(leases):
            among, params = self._among("h.id", [lease.id for lease in part])
            sql = (
                f"SELECT h.id, h.claim_number, h.cancel_requested_by FROM {HOT} h FORCE INDEX (PRIMARY) WHERE {among} "
                f"AND h.status = {PROCESSING} AND h.cancel_requested_at IS NOT NULL"
            )
            rows = self._single(lambda sql=sql, params=params: self._query(sql, params))  # type: ignore[misc]
            found = {Lease(job_id, number): by for job_id, number, by in rows}
            answer |= {lease.id: found[lease] for lease in part if lease in found}
        return answer

    def progress(self, worker_id: str, notes: Mapping[Lease, tuple[int, str | None]]) -> Applied:
        return self._unit(lambda: self._progress(worker_id, notes)) if notes else set()

    def _progress(self, worker_id: str, notes: Mapping[Lease, tuple[int, str | None]]) -> Applied:
        held = self._held(worker_id, notes, PROCESSING, lock=self.LOCK_SKIP)
        ordered = sorted(notes.items(), key=lambda note: note[0].claim_number)  # the newest lease of an id wins
        by_id = {lease.id: note for lease, note in ordered if lease.id in held}
        if by_id:
            table = [[job_id, percent, storable(message)] for job_id, (percent, message) in sorted(by_id.items())]
            self._execute(_PROGRESS, [as_json(table)])
        return set(by_id)
