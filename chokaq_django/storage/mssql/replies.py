"""Claims and starts whose answer was lost: the server committed them, and the connection ended before it said so.

Without this, such jobs would stay Processing under a worker that does not know of them, until they count as dead.
"""

# ruff: noqa: S608 - statements are composed of constants and column names of ours; every value is a parameter

from __future__ import annotations

import datetime as dt
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from ..columns import CLAIMED_COLUMNS, HOT
from ..contract import Claim, ClaimedJob, ClaimRequest, Lease, StartReply
from .claim import MSSQLClaim
from .leases import MSSQLLeases, leases_json
from .tsql import BIN2, COMMITTED, FENCE, HELD, LIST, WORKER, as_json, batch, lines

STARTED = batch(
    f"SELECT h.id, h.attempt, h.started_at\n{HELD.format(COMMITTED)}\nWHERE {FENCE.format(2)};",
    single=True,
    worker=WORKER,
    leases=LIST,
)

# "+ 0": were the two conditions on the status made one, the filter of the index would not stand there any more.
UNHEARD = batch(
    f"""
SELECT {lines((f"h.{column}" for column in CLAIMED_COLUMNS), 7)}, @now
FROM {HOT} AS h {COMMITTED}
WHERE h.status IN (1, 2) AND h.queue > N'' AND h.status + 0 = 2
    AND h.worker_id = @worker
    AND (@newest IS NULL OR h.started_at > @newest)
    AND h.id NOT IN (SELECT j.item {BIN2} FROM OPENJSON(@known) WITH (item nvarchar(26) '$') AS j)
ORDER BY h.priority DESC, h.run_at, h.id;
""",
    single=True,
    worker=WORKER,
    newest="datetime2(6)",
    known=LIST,
)


class MSSQLReplies(MSSQLClaim, MSSQLLeases):
    """One worker's claims and starts go through one object. Whatever it started after the newest start that it heard
    of, it has not heard of."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._newest: dt.datetime | None = None
        self._doubt = False
        # Id -> start of what was heard of while in doubt. It proves nothing about what was started before it.
        self._since: dict[str, dt.datetime | None] = {}

    def claim(self, request: ClaimRequest) -> Claim:
        with self._doubting():
            claim = super().claim(request)
        if self._doubt:
            claim.jobs[:0] = self._unheard(request.worker_id, [job.id for job in claim.jobs])
            self._doubt = False
        self._heard({job.id: job.started_at for job in claim.jobs if job.status == 2})
        return claim

    def start(self, worker_id: str, leases: Sequence[Lease]) -> StartReply:
        with self._doubting():
            reply = super().start(worker_id, leases)
        if self._doubt:
            told = {*reply.started, *reply.expired, *reply.released}
            untold = leases_json(lease for lease in leases if lease.id not in told)
            for job_id, attempt, started_at in self._alone(STARTED, worker=worker_id, leases=untold)[0]:
                reply.started[job_id] = (attempt, self._read_instant(started_at))  # type: ignore[assignment]
        self._heard({job_id: started_at for job_id, (_, started_at) in reply.started.items()})
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

    def _heard(self, started: Mapping[str, dt.datetime | None]) -> None:
        self._since.update(started)
        if self._doubt:
            return
        known = [instant for instant in (self._newest, *self._since.values()) if instant is not None]
        self._newest = max(known, default=None)
        self._since.clear()

    def _unheard(self, worker_id: str, but: Collection[str]) -> list[ClaimedJob]:
        """Jobs that are Processing by this worker although no answer named them."""
        rows = self._alone(UNHEARD, worker=worker_id, newest=self._instant(self._newest), known=as_json(list(but)))[0]
        jobs = [self._claimed(row) for row in rows]
        return [job for job in jobs if job.id not in self._since or self._since[job.id] != job.started_at]
