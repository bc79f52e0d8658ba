"""The storage contract: what every engine does, with the same guards and the same answers.

Rules that hold for every operation (the reasons are in ``docs/explanation/storage.md``):

* Times that are compared are written and compared by the database server. Durations are float seconds.
* Every write of an execution carries its :class:`Lease` and the status it expects; the answer says which rows applied.
  A row that did not is a conflict: its lease is gone.
* Every operation takes many jobs. One that cannot apply never stops the others.
* Moves between tables are one transaction.
* Where the storage owns the transaction, transient errors (deadlock, busy, connection lost) are retried as a whole;
  inside the caller's transaction nothing is retried.

- :mod:`.execution`: producing, claiming, running, settling
- :mod:`.fleet`: workers, queues, circuits
- :mod:`.upkeep`: recovery and retention
- :mod:`.verbs`: what operators do, bulk operations too
"""

from __future__ import annotations

import datetime as dt
import math
from abc import abstractmethod

from ..act_records import (
    AGAIN_HEADER,
    BulkCount,
    BulkResult,
    BulkStep,
    Conflict,
    Copies,
    EditResult,
    GroupDrift,
    JobEdit,
    Note,
    NotRenewedError,
    Renew,
    StoredPayload,
)
from ..fleet_records import (
    CircuitAct,
    CircuitPolicy,
    CircuitReport,
    CircuitRow,
    ClockReading,
    LiveRow,
    QueueRow,
    RescueAction,
    WorkerOrders,
    WorkerRow,
)
from ..records import (
    Applied,
    Claim,
    ClaimedJob,
    ClaimRequest,
    Enqueued,
    HeartbeatReply,
    Lease,
    NewJob,
    Outcome,
    OutcomeKind,
    StartReply,
)
from ..retention_rules import TrimRule, TrimStep, Walk
from .execution import Execution
from .fleet import Fleet
from .upkeep import Upkeep
from .verbs import Verbs

__all__ = [
    "AGAIN_HEADER",
    "Applied",
    "BulkCount",
    "BulkResult",
    "BulkStep",
    "CircuitAct",
    "CircuitPolicy",
    "CircuitReport",
    "CircuitRow",
    "Claim",
    "ClaimRequest",
    "ClaimedJob",
    "ClockReading",
    "Conflict",
    "Copies",
    "EditResult",
    "Enqueued",
    "GroupDrift",
    "HeartbeatReply",
    "JobEdit",
    "Lease",
    "LiveRow",
    "NewJob",
    "NotRenewedError",
    "Note",
    "Outcome",
    "OutcomeKind",
    "QueueRow",
    "Renew",
    "RescueAction",
    "StartReply",
    "Storage",
    "StorageError",
    "StoredPayload",
    "TrimRule",
    "TrimStep",
    "Walk",
    "WorkerOrders",
    "WorkerRow",
]


class StorageError(Exception):
    """The database cannot do what is asked; the message says what to do."""


class Storage(Execution, Fleet, Upkeep, Verbs):
    """One job database, reached over one connection. Not thread safe: one object per thread."""

    alias: str
    deadlock_spares_savepoints = False
    """Whether a deadlock undoes what came after the last savepoint, and not the whole transaction."""
    errors_doom_transactions = False
    """Whether a statement that fails leaves a transaction of which nothing more can be done, but for a savepoint."""

    @property
    @abstractmethod
    def errors(self) -> int:
        """How many errors so far did not end a call, because it was tried again or gave a part of the answer."""

    @abstractmethod
    def hurry(self, longest_pause: float, patience: float = math.inf) -> None:
        """Rest no longer than ``longest_pause`` (seconds) between two tries of a call. A try that has waited for
        ``patience`` seconds, for its connection or for the answer to a statement, is given up, and its connection with
        it: either the call goes on with a new one, or its error comes out and the next call does.

        Never more patience than without, and more than that for a server that is known to be slow
        (``storage/patience.py``)."""

    @abstractmethod
    def limit_lock_waits(self, seconds: float) -> None:
        """Wait no longer than this for what others have locked, before each of the tries of a call. For private
        storages, before their first statement; where a pooler gives the session away, the server's own limit holds."""

    @abstractmethod
    def now(self) -> dt.datetime:
        """The server's clock."""

    def is_transient(self, error: BaseException) -> bool:
        """Whether the error says that the database could not do what it was asked, and would perhaps do it now: lost
        connection, deadlock, lock timeout, busy."""
        return False

    def is_deadlock(self, error: BaseException) -> bool:
        """Whether the server has undone the transaction to end a deadlock, so that it may be run again: all of it, or
        what came after the last savepoint where ``deadlock_spares_savepoints``."""
        return False

    def is_partial(self, error: BaseException) -> bool:
        """Whether the error may be about some only of the rows that a call was to write, or about their number: some
        that others hold, a statement that took too long or was too large. Parts of the call may go through then."""
        return False

    @abstractmethod
    def close(self) -> None:
        """Close the connection (only of :func:`open_storage`)."""
