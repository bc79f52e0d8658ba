"""Group commit: every outcome, release and progress note goes through one queue and one connection.

Whatever has gathered while the last transaction ran goes into the next one. Idle, that is a batch of one with no added
delay; loaded, hundreds of jobs per commit. What cannot be written is kept and tried again until it applies or its lease
is gone: a database error never turns a success into a failure.
"""

from __future__ import annotations

import logging
import threading
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING

from django.db import DataError, IntegrityError

from ..observability.events import Event, log_event
from ..storage import Lease, Outcome, Storage
from .service import Service

if TYPE_CHECKING:
    from collections.abc import Callable

    from .execution import Execution

logger = logging.getLogger("chokaq.worker.settle")

REFUSED = (DataError, IntegrityError, ValueError, TypeError, ArithmeticError)
"""What the database or its driver raises about the values of a row, not about its own state or its tables."""


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
        self._outcomes: list[tuple[Execution, Outcome]] = []
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
        return not self._outcomes and self._inbox.empty() and not self._progress and not self._releases

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
        if not self._outcomes and not self._progress and not self._releases:
            self._gather(None)
        elif len(self._outcomes) < self._batch and not self._inbox.empty():
            self._gather(0)
        self._write()

    def _write(self) -> None:
        if self._storage is None:
            self._storage = self._open()
        storage = self._storage
        if self._progress:
            self._write_progress(storage)
        if self._outcomes:
            self._write_outcomes(storage)
        self._after_batch(storage)  # atomic jobs settle by themselves and only wake this loop
        if self._releases:
            self._write_releases(storage)

    def _write_outcomes(self, storage: Storage) -> None:
        try:
            self._commit(storage, list(self._outcomes))
        except REFUSED:
            # One outcome that the database refuses must not hold up the others: they go one by one.
            while self._outcomes:
                self._write_alone(storage, *self._outcomes[0])

    def _write_alone(self, storage: Storage, execution: Execution, outcome: Outcome) -> None:
        try:
            self._commit(storage, [(execution, outcome)])
        except REFUSED as error:
            self._outcomes[0] = (execution, outcome := execution.refused(outcome, error))
            self._commit_at_last(storage, execution, outcome)

    def _commit_at_last(self, storage: Storage, execution: Execution, outcome: Outcome) -> None:
        """Without its texts; what is refused even so would be refused for ever, and all that comes after it with it."""
        try:
            self._commit(storage, [(execution, outcome)])
        except REFUSED as error:
            log_event(
                logger, logging.ERROR, Event.STORAGE_TROUBLE,
                "The outcome (%s) of job %s (%s) cannot be written; its crash policy decides: %s",
                outcome.kind.value, outcome.id, outcome.type, error, exc_info=error,
            )  # fmt: skip
            del self._outcomes[0]
            self._settled(execution, outcome, False)

    def _commit(self, storage: Storage, batch: list[tuple[Execution, Outcome]]) -> None:
        applied = storage.settle(self._worker_id, [outcome for _, outcome in batch])
        del self._outcomes[: len(batch)]
        for execution, outcome in batch:
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
