"""Group commit: every outcome, release and progress note goes through one queue and one connection.

Whatever has gathered while the last transaction ran goes into the next one. Idle, that is a batch of one with no added
delay; loaded, hundreds of jobs per commit. What cannot be written is kept and tried again until it applies or its lease
is gone: a database error never turns a success into a failure.

A batch may fail for a few of its outcomes, whose rows somebody's long transaction has locked, or for being too much at
once. Those of locked rows are put by until nobody writes there; without any, the batch goes in halves. An outage
divides nothing: five hundred singles are no help to a server that is away.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING

from django.db import DataError, IntegrityError
from django.db import Error as DatabaseError

from ..observability.events import Event, log_event
from ..storage import Lease, Outcome, Storage
from .service import LOCK_WAIT, Service

if TYPE_CHECKING:
    from collections.abc import Callable

    from .execution import Execution

logger = logging.getLogger("chokaq.worker.settle")

REFUSED = (DataError, IntegrityError, ValueError, TypeError, ArithmeticError)
"""What the database or its driver raises about the values of a row, not about its own state or its tables."""

LOOK = 1.0
"""Seconds between looks whether the row of an outcome that was put by is free."""
LONGEST = 60.0
"""Seconds until an outcome that fails by itself is tried again, at most."""
SHARE = 10
"""How many times as long as its try took it is left alone, so that the others keep nearly all of the time."""

Batch = list[tuple["Execution", Outcome]]


class Settler(Service):
    """The settle loop.

    ``settled(execution, outcome, applied)`` is called in this thread for each outcome after its commit; ``after_batch``
    after each batch and each wake-up, with the storage.
    """

    name = "settle"

    def __init__(
        self,
        open_storage: Callable[[], Storage],
        worker_id: str,
        batch: int,
        settled: Callable[[Execution, Outcome, bool], None],
        after_batch: Callable[[Storage], None],
    ) -> None:
        super().__init__()
        self._open = open_storage
        self._storage: Storage | None = None
        self._worker_id = worker_id
        self._batch = batch
        self._settled = settled
        self._after_batch = after_batch
        self._inbox: SimpleQueue[tuple[Execution, Outcome] | None] = SimpleQueue()
        self._outcomes: Batch = []
        self._parts: deque[Batch] = deque()
        """Of batches that failed as a whole."""
        self._put_by: list[tuple[float, Execution, Outcome]] = []
        """What cannot be written by itself either, and when (monotonic) it is looked at again."""
        self._lock = threading.Lock()
        self._progress: dict[Lease, tuple[int, str | None]] = {}
        self._releases: list[tuple[Lease, float]] = []
        self._releasing: list[tuple[Lease, float]] = []
        """Those of the batch under way."""
        self.gave_up = False

    def put(self, execution: Execution, outcome: Outcome) -> None:
        """Hand an outcome in; any thread."""
        self._inbox.put((execution, outcome))

    def progress(self, lease: Lease, percent: int, message: str | None) -> None:
        """Store the newest progress of a running job with the next batch."""
        with self._lock:
            self._progress[lease] = (percent, message)
        self.wake()

    def release(self, lease: Lease, delay: float = 0.0) -> None:
        """Give a Fetched job back with the next batch."""
        with self._lock:
            self._releases.append((lease, delay))
        self.wake()

    def giving_back(self) -> set[Lease]:
        """Of all that :meth:`release` was given and that may not have been written yet."""
        with self._lock:
            return {lease for lease, _ in (*self._releases, *self._releasing)}

    def wake(self) -> None:
        self._inbox.put(None)

    def wait(self, timeout: float | None) -> None:
        self._gather(timeout)

    def idle(self) -> bool:
        """Nothing waits to be written."""
        waiting = self._outcomes or self._parts or self._put_by or self._progress or self._releases
        return not waiting and self._inbox.empty()

    def _gather(self, timeout: float | None) -> None:
        """Move what has arrived into the current batch, waiting for the first item if there is nothing yet."""
        outcomes, inbox = self._outcomes, self._inbox
        try:
            item = inbox.get(timeout=timeout)
            while True:
                if item is not None:
                    outcomes.append(item)
                if len(outcomes) >= self._batch:
                    return
                item = inbox.get_nowait()
        except Empty:
            return

    def step(self) -> None:
        if not self._outcomes and not self._parts and not self._progress and not self._releases:
            self._gather(self._rest())
        elif len(self._outcomes) < self._batch and not self._inbox.empty():
            self._gather(0)
        self._write()

    def _write(self) -> None:
        if self._storage is None:
            self._storage = self._open()
            self._storage.limit_lock_waits(LOCK_WAIT)
        storage = self._storage
        if self._progress:
            self._write_progress(storage)
        if self._outcomes or self._parts or self._put_by:
            self._write_outcomes(storage)
        self._after_batch(storage)  # atomic jobs settle by themselves and only wake this loop
        if self._releases:
            self._write_releases(storage)

    def _rest(self) -> float | None:
        """Seconds until something that was put by is looked at again; None without any."""
        if not self._put_by:
            return None
        return max(0.0, min(due for due, _, _ in self._put_by) - time.monotonic())

    def _write_outcomes(self, storage: Storage) -> None:
        """The new ones, then parts up to the first that fails: each may take as long as the database lets it, and
        meanwhile there are new ones."""
        if self._outcomes:
            self._write_batch(storage, self._outcomes)
        self._take_up(storage)
        while self._parts:
            written = self._write_batch(storage, self._parts[0])
            self._parts = deque(part for part in self._parts if part)
            if not written:
                return

    def _write_batch(self, storage: Storage, batch: Batch) -> bool:
        """Write the batch, or divide it; in both cases nothing of it is left. False if it was divided."""
        began = time.monotonic()
        try:
            self._write_whole(storage, batch)
        except DatabaseError as error:
            if not storage.is_partial(error):
                raise
            self._divide(storage, batch, error, time.monotonic() - began)
            return False
        return True

    def _divide(self, storage: Storage, batch: Batch, error: DatabaseError, took: float) -> None:
        """What is written by others just now is put by, and the rest is a part. With nothing of that kind there are two
        halves; one outcome alone is put by."""
        busy = self._busy(storage, batch)  # raises in an outage
        now = time.monotonic()
        free = [item for item in batch if item[1].id not in busy]
        self._put_by += [(now + LOOK, *item) for item in batch if item[1].id in busy]
        if busy:
            parts = [free]
        elif len(free) > 1:
            parts = [free[: len(free) // 2], free[len(free) // 2 :]]
        else:
            parts = []
            self._put_by += [(now + min(LONGEST, max(LOOK, SHARE * took)), *item) for item in free]
        self._parts.extend(part for part in parts if part)
        log_event(
            logger, logging.WARNING, Event.STORAGE_TROUBLE,
            "A settle of %d outcomes failed after %.1f s: %d wait for what others write, the rest goes in parts: %s",
            len(batch), took, len(busy), error,
        )  # fmt: skip
        batch.clear()

    def _busy(self, storage: Storage, batch: Batch) -> set[str]:
        """Whose rows somebody else is writing. A heartbeat tells, and what waits here needs one."""
        leases = [Lease(outcome.id, outcome.claim_number) for _, outcome in batch]
        return storage.heartbeat(self._worker_id, leases).busy

    def _take_up(self, storage: Storage) -> None:
        """What was put by and whose time has come becomes a part, if its row is free."""
        now = time.monotonic()
        due: Batch = [(execution, outcome) for at, execution, outcome in self._put_by if at <= now]
        if not due:
            return
        busy = self._busy(storage, due)
        free = [item for item in due if item[1].id not in busy]
        if free:
            self._parts.append(free)  # first, as is asked from other threads whether anything waits
        later = [entry for entry in self._put_by if entry[0] > now]
        again = time.monotonic() + LOOK  # after the look, however long it took
        self._put_by = later + [(again, *item) for item in due if item[1].id in busy]

    def _write_whole(self, storage: Storage, batch: Batch) -> None:
        try:
            self._commit(storage, batch, len(batch))
        except REFUSED:
            # One outcome that the database refuses must not hold up the others: they go one by one.
            while batch:
                self._write_alone(storage, batch)

    def _write_alone(self, storage: Storage, batch: Batch) -> None:
        """The first of them."""
        try:
            self._commit(storage, batch, 1)
        except REFUSED as error:
            execution, outcome = batch[0]
            batch[0] = (execution, execution.refused(outcome, error))
            self._commit_at_last(storage, batch)

    def _commit_at_last(self, storage: Storage, batch: Batch) -> None:
        """Without its texts; what is refused even so would be refused for ever, and all that comes after it with it."""
        try:
            self._commit(storage, batch, 1)
        except REFUSED as error:
            execution, outcome = batch[0]
            log_event(
                logger, logging.ERROR, Event.STORAGE_TROUBLE,
                "The outcome (%s) of job %s (%s) cannot be written; its crash policy decides: %s",
                outcome.kind.value, outcome.id, outcome.type, error, exc_info=error,
            )  # fmt: skip
            del batch[0]
            self._settled(execution, outcome, False)

    def _commit(self, storage: Storage, batch: Batch, count: int) -> None:
        """Write the first ``count`` of them, which are then no longer there."""
        items = batch[:count]
        applied = storage.settle(self._worker_id, [outcome for _, outcome in items])
        del batch[:count]
        for execution, outcome in items:
            self._settled(execution, outcome, outcome.id in applied)

    def _write_progress(self, storage: Storage) -> None:
        with self._lock:
            notes, self._progress = self._progress, {}
        try:
            storage.progress(self._worker_id, notes)
        except BaseException:
            with self._lock:
                self._progress = {**notes, **self._progress}
            raise

    def _write_releases(self, storage: Storage) -> None:
        with self._lock:
            waiting, self._releases = self._releases, []
            self._releasing = waiting
        by_delay: dict[float, list[Lease]] = {}
        for lease, delay in waiting:
            by_delay.setdefault(delay, []).append(lease)
        try:
            for delay, leases in by_delay.items():
                applied = storage.release(self._worker_id, leases, delay)
                for lease in leases:
                    if lease.id not in applied:
                        log_event(
                            logger, logging.WARNING, Event.JOB_CONFLICT,
                            "Job %s could not be released: its lease is gone", lease.id,
                        )  # fmt: skip
        except BaseException:
            with self._lock:
                self._releases = waiting + self._releases
            raise
        finally:
            with self._lock:
                self._releasing = []

    def goes_on(self) -> bool:
        # Stopping loses nothing that was handed in, unless the process gives up on a database that does not answer.
        return not self.stopping or not (self.gave_up or self.idle())

    def give_up(self) -> None:
        """End although outcomes are left; their leases will be rescued."""
        self.gave_up = True
        self.wake()

    def closed(self) -> None:
        if self._storage is not None:
            self._storage.close()
