"""Claims and starts whose answer was lost: the server committed them, and the connection ended before it said so.

Without this, such jobs would stay Processing under a worker that does not know of them, until they count as dead.
"""

# ruff: noqa: S608 - statements are composed of constants and column names of ours; every value is a parameter

from __future__ import annotations

import datetime as dt
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from ..columns import HOT
from ..contract import Claim, ClaimedJob, ClaimRequest, Lease, StartReply
from .claim import PostgresClaim
from .leases import PostgresLeases
from .settle import fence

_STARTED = f"SELECT h.id, h.attempt, h.started_at FROM {HOT} h WHERE {fence(2)}"


class PostgresReplies(PostgresClaim, PostgresLeases):
    """One worker's claims and starts go through one object. Whatever it started after the newest start that it heard
    of, it has not heard of."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._newest: dt.datetime | None = None
        self._doubt = False

    def claim(self, request: ClaimRequest) -> Claim:
        with self._doubting():
            claim = super().claim(request)
        if self._doubt:
            claim.jobs[:0] = self._unheard(request.worker_id, [job.id for job in claim.jobs])
            self._doubt = False
        self._heard([job.started_at for job in claim.jobs if job.status == 2])
        return claim

    def start(self, worker_id: str, leases: Sequence[Lease]) -> StartReply:
        with self._doubting():
            reply = super().start(worker_id, leases)
        if self._doubt:
            told = {*reply.started, *reply.expired, *reply.released}
            for job_id, *started in self._leased(_STARTED, worker_id, [x for x in leases if x.id not in told]):
                reply.started[job_id] = (started[0], started[1])
        self._heard([started_at for _, started_at in reply.started.values()])
        return reply

    @contextmanager
    def _doubting(self) -> Iterator[None]:
        """Doubt what a statement did when it, or an earlier try of it, ended with an error."""
        errors = self._retrier.errors
        try:
            yield
        except BaseException:
            self._doubt = True
            raise
        self._doubt = self._doubt or self._retrier.errors > errors

    def _heard(self, instants: Sequence[dt.datetime | None]) -> None:
        known = [instant for instant in (self._newest, *instants) if instant is not None]
        self._newest = max(known, default=None)

    def _unheard(self, worker_id: str, but: Collection[str]) -> list[ClaimedJob]:
        """Jobs that are Processing by this worker although no answer named them."""
        sql = (
            f"SELECT {self._claimed_list()} FROM {HOT} WHERE status = 2 AND worker_id = %(worker)s "
            f"AND id <> ALL(%(but)s::varchar[]) AND started_at > COALESCE(%(newest)s::timestamptz, '-infinity') "
            f"ORDER BY priority DESC, run_at, id"
        )
        params = {"worker": worker_id, "but": list(but), "newest": self._newest}
        return [self._claimed(row) for row in self._single(lambda: self._query(sql, params))]
