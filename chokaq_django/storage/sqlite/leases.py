"""What a worker does with its leases while it has them: start, release, heartbeat, progress.

Leases are checked once at the start of a transaction. After that nobody else can write, and rows go by their rowid.
"""

# ruff: noqa: S608 - statements are composed of constants and column names of ours; every value is a parameter

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ...models.fields import to_text
from ..columns import HOT
from ..contract import Applied, HeartbeatReply, Lease, StartReply
from ..moves import FETCHED, PENDING, PROCESSING
from ..settling import CANCEL_REQUEST
from ..text import storable
from .claim import closed
from .session import ROWS, SQLiteSession, as_json, later

_EXPIRED = "h.deadline_at IS NOT NULL AND h.deadline_at < %s"
_PROGRESS = (
    f"UPDATE {HOT} SET progress = json_extract(j.value, '$[1]'), progress_message = json_extract(j.value, '$[2]'), "
    f"updated_at = {SQLiteSession.NOW} "
    f"FROM json_each(%s) j WHERE {HOT}.rowid = json_extract(j.value, '$[0]')"
)


class LeaseStatements(SQLiteSession):
    """Writes of executions that end nothing."""

    def _leases(
        self, worker_id: str, ids: Iterable[str], extra: str = "NULL", params: Sequence[Any] = ()
    ) -> dict[str, Any]:
        """The Hot rows of this worker among ``ids``: id -> [rowid, claim number, status, ``extra``...]."""
        rows = self._one_json(
            f"SELECT json_group_array(json_array(h.id, h.rowid, h.claim_number, h.status, {extra})) "
            f"FROM json_each(%s) j CROSS JOIN {HOT} h WHERE h.id = j.value AND h.worker_id = %s",
            [*params, as_json(list(ids)), worker_id],
        )
        return {job_id: values for job_id, *values in rows}

    def _held(
        self, worker_id: str, leases: Sequence[Lease], status: int, extra: str = "NULL", params: Sequence[Any] = ()
    ) -> dict[str, Any]:
        """The leases that hold, in this status: id -> [rowid, ``extra``...]."""
        rows = self._leases(worker_id, [lease.id for lease in leases], extra, params)
        held = {}
        for lease in leases:
            row = rows.get(lease.id)
            if row is not None and row[1] == lease.claim_number and row[2] == status:
                held[lease.id] = [row[0], *row[3:]]
        return held

    # -- from the buffer ----------------------------------------------------------------------------------------------

    def start(self, worker_id: str, leases: Sequence[Lease]) -> StartReply:
        return self._unit(lambda: self._start(worker_id, leases)) if leases else StartReply({}, set(), set())

    def _start(self, worker_id: str, leases: Sequence[Lease]) -> StartReply:
        now = dt.datetime.now(dt.UTC)
        text = to_text(now)
        extra = f"h.attempt, {_EXPIRED}, EXISTS ({closed('h.queue')})"
        reply = StartReply({}, set(), set())
        starting, going_back = [], []
        for job_id, row in self._held(worker_id, leases, FETCHED, extra, [text]).items():
            place, attempt, expired, shut = row
            if shut:
                reply.released.add(job_id)
                going_back.append(place)
            elif expired:
                reply.expired.add(job_id)
            else:
                reply.started[job_id] = (attempt + 1, now)
                starting.append(place)
        if starting:
            self._execute(
                f"UPDATE {HOT} SET status = {PROCESSING}, attempt = attempt + 1, started_at = %s, heartbeat_at = %s, "
                f"updated_at = %s WHERE {ROWS}",
                [text, text, text, as_json(starting)],
            )
        self._give_back(going_back, 0.0)
        return reply

    def release(self, worker_id: str, leases: Sequence[Lease], delay: float = 0.0) -> Applied:
        return self._unit(lambda: self._release(worker_id, leases, delay)) if leases else set()

    def _release(self, worker_id: str, leases: Sequence[Lease], delay: float) -> Applied:
        held = self._held(worker_id, leases, FETCHED)
        self._give_back([place for place, _ in held.values()], delay)
        return set(held)

    def _give_back(self, places: Sequence[int], delay: float) -> None:
        if not places:
            return
        now = dt.datetime.now(dt.UTC)
        run_at = to_text(later(now, delay)) if delay > 0 else None
        self._execute(
            f"UPDATE {HOT} SET status = {PENDING}, worker_id = NULL, run_at = COALESCE(%s, run_at), updated_at = %s "
            f"WHERE {ROWS}",
            [run_at, to_text(now), as_json(places)],
        )

    # -- running ------------------------------------------------------------------------------------------------------

    def heartbeat(self, worker_id: str, leases: Sequence[Lease]) -> HeartbeatReply:
        return self._unit(lambda: self._heartbeat(worker_id, leases)) if leases else HeartbeatReply(set(), {})

    def _heartbeat(self, worker_id: str, leases: Sequence[Lease]) -> HeartbeatReply:
        held = self._held(worker_id, leases, PROCESSING, CANCEL_REQUEST)
        if held:
            places = as_json([row[0] for row in held.values()])
            self._execute(f"UPDATE {HOT} SET heartbeat_at = {self.NOW}, updated_at = {self.NOW} WHERE {ROWS}", [places])
        lost = {lease.id for lease in leases if lease.id not in held}
        return HeartbeatReply(lost, {job_id: by for job_id, (_, asked, by) in held.items() if asked})

    def cancel_requests(self, leases: Sequence[Lease]) -> dict[str, str | None]:
        if not leases:
            return {}
        sql = (
            f"SELECT h.id, h.claim_number, h.cancel_requested_by FROM json_each(%s) j CROSS JOIN {HOT} h "
            f"WHERE h.id = j.value AND h.status + 0 = {PROCESSING} AND h.cancel_requested_at IS NOT NULL"
        )
        ids = as_json([lease.id for lease in leases])
        found = {row[0]: row for row in self._single(lambda: self._query(sql, [ids]))}
        return {
            lease.id: found[lease.id][2]
            for lease in leases
            if lease.id in found and found[lease.id][1] == lease.claim_number
        }

    def progress(self, worker_id: str, notes: Mapping[Lease, tuple[int, str | None]]) -> Applied:
        return self._unit(lambda: self._progress(worker_id, notes)) if notes else set()

    def _progress(self, worker_id: str, notes: Mapping[Lease, tuple[int, str | None]]) -> Applied:
        held = self._held(worker_id, list(notes), PROCESSING)
        ordered = sorted(notes.items(), key=lambda note: note[0].claim_number)  # the newest lease of an id wins
        by_id = {lease.id: note for lease, note in ordered if lease.id in held}
        if by_id:
            table = [[held[job_id][0], percent, storable(message)] for job_id, (percent, message) in by_id.items()]
            self._execute(_PROGRESS, [as_json(table)])
        return set(by_id)
