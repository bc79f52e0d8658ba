"""Runs one execution: payload, middleware, handler, outcome."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable
from contextlib import nullcontext
from contextvars import copy_context
from functools import partial
from typing import Any, cast

from asgiref.sync import sync_to_async
from django.db import connections, transaction

from ..conf import Options
from ..job import codec
from ..job.context import JobContext, reset_current, set_current
from ..job.failures import CancelReason, PayloadError
from ..job.middleware import load_middleware, wrap, wrap_async
from ..observability.events import Event, log_event
from ..observability.job_logs import current_log
from ..storage import Applied, Outcome, Storage, get_storage
from .connections import tidy_connections
from .execution import Execution, Phase
from .outcomes import OutcomeTable, UndoneError
from .settle import REFUSED
from .slots import interrupt_thread

logger = logging.getLogger("chokaq.worker.run")

HOUSEKEEPING = 30.0
TIDY_LIMIT = 5.0
FRESH = 1.0
"""Seconds for which the connections of a slot need no second look before its next job."""


class LeaseLostError(Exception):
    """The job was taken over by somebody else while an atomic handler ran: its writes are rolled back."""


class TransactionEndedError(Exception):
    """The transaction that an atomic handler was given had ended before the handler returned."""

    def __init__(self) -> None:
        super().__init__(
            "The transaction of this atomic job was ended while its handler ran: by a deadlock or another database "
            "error that the handler caught, or by a statement that ends it, such as COMMIT or ROLLBACK, and TRUNCATE "
            "or DDL on MySQL and MariaDB. What was written before is lost or committed already. The handler of an "
            "atomic job must let such errors out, and must not run such statements."
        )


def bound(execution: Execution, job: Any) -> Callable[[JobContext], Any]:
    """The type's handler with everything but the context filled in."""
    handler = cast("Callable[..., Any]", execution.type.handler)  # jobs without one are never dispatched
    if execution.type.wants_raw:
        return partial(handler, execution.job.type, job)
    return partial(handler, job)


class Runner:
    """Runs executions in whatever thread or task calls it.

    ``ended(execution, outcome)`` hands the outcome to the settle loop. ``settled(execution, outcome, applied)`` reports
    an outcome that an atomic job wrote in its own transaction.
    """

    def __init__(
        self,
        options: Options,
        table: OutcomeTable,
        ended: Callable[[Execution, Outcome], None],
        settled: Callable[[Execution, Outcome, bool], None],
        dropped: Callable[[Execution], None],
        started: Callable[[Execution], None],
        worker_id: str,
    ) -> None:
        self._alias = options.database
        self._table = table
        self._ended = ended
        self._settled = settled
        self._dropped = dropped
        self._started = started
        self._worker_id = worker_id
        self._middleware = load_middleware(options.middleware)
        self._thread = threading.local()
        self._housekeeping_at = 0.0
        self._awaited: set[Execution] = set()
        """Whose ``async def`` handler runs."""

    # -- threads -------------------------------------------------------------------------------------------------------

    def run(self, execution: Execution) -> None:
        """Run a ``def`` handler in the calling thread. Never raises.

        In a context of its own, as a task has one: what a job activates (a language, a time zone, the precision of
        decimals, whatever is kept in context variables) is not that of the next.
        """
        try:
            copy_context().run(self._run, execution)
        except BaseException as error:
            if execution.phase is Phase.ENDED:
                raise
            if execution.end():
                self._finish(execution, error)

    def _run(self, execution: Execution) -> None:
        job = self._decoded(execution)
        if job is None:
            return
        if execution.type.interrupt:
            execution.interrupt = interrupt_thread(threading.get_ident())
        if not execution.begin():
            self._never_ran(execution)
            return
        self._started(execution)
        token, log_token = set_current(execution.ctx), current_log.set(execution.log)
        try:
            if execution.ran_from - getattr(self._thread, "tidied", 0.0) > FRESH:
                tidy_connections()
            if execution.type.atomic:
                self._settled(execution, self._run_atomic(execution, job), True)
                return
            result = self._call(execution, job)
            finished = execution.end()
        except LeaseLostError:
            if execution.end():
                self._dropped(execution)
            return
        except BaseException as error:  # noqa: BLE001 - SystemExit, JobCancelled, an interrupt: the slot survives all
            if execution.end():
                self._finish(execution, error)
            return
        finally:
            reset_current(token)
            current_log.reset(log_token)
            tidy_connections()
            self._thread.tidied = time.monotonic()
        if finished:
            self._hand_in(execution, self._table.succeeded(execution, result))

    def _run_atomic(self, execution: Execution, job: Any) -> Outcome:
        """Handler and settle in one transaction; the job's row is locked last, just before the commit."""
        connection = connections[self._alias]
        committed: list[Outcome] = []
        handling = False
        try:
            self._prepare(connection)
            with transaction.atomic(using=self._alias, durable=True):
                # The first hook of all: whatever fails after it, fails after the commit.
                transaction.on_commit(lambda: committed.append(outcome), using=self._alias)
                storage = get_storage(self._alias)
                mark = storage.mark_transaction()
                execution.connection = connection.connection
                handling = True
                result = self._call(execution, job)
                handling = False
                if not execution.end():
                    raise LeaseLostError(execution.job.id)
                if not storage.is_marked(mark):
                    raise TransactionEndedError
                outcome = self._table.succeeded(execution, result)
                applied = self._settle_within(storage, execution, outcome, mark)
                if applied is None:
                    raise TransactionEndedError
                if not applied:
                    raise LeaseLostError(execution.job.id)
        except BaseException as error:
            if not committed:
                # While the handler had the transaction, all but a lost connection is its own: how it locks, for one.
                if self._is_transient(error) and (not handling or self._lost(connection, execution)):
                    raise UndoneError from error
                raise
            log_event(
                logger, logging.WARNING, Event.COMMIT_HOOK_FAILED,
                "Job %s (%s) has succeeded, but an on_commit hook of it failed: %s",
                execution.job.id, execution.job.type, error, exc_info=error,
            )  # fmt: skip
        execution.connection = None
        return outcome

    def _settle_within(self, storage: Storage, execution: Execution, outcome: Outcome, mark: object) -> Applied | None:
        """Settle in the transaction that is open; without the result if the database refuses it. None: it has not
        this mark, and nothing was written."""
        if outcome.result is None:  # nothing that could be refused, and so no savepoint to pay for
            return storage.settle_marked(self._worker_id, outcome, mark)
        try:
            with transaction.atomic(using=self._alias) if storage.errors_doom_transactions else nullcontext():
                return storage.settle_marked(self._worker_id, outcome, mark)
        except REFUSED as error:
            return storage.settle_marked(self._worker_id, execution.refused(outcome, error), mark)

    def _lost(self, connection: Any, execution: Execution) -> bool:
        """Whether the connection is gone that the job had; Django opens another at the end of the transaction."""
        return connection.connection is not execution.connection or not connection.is_usable()

    def _is_transient(self, error: BaseException) -> bool:
        """Whether this error, or one that led to it, is the database's."""
        storage, chain = get_storage(self._alias), [error]
        while (cause := chain[-1].__cause__ or chain[-1].__context__) is not None and cause not in chain:
            chain.append(cause)
        return any(storage.is_transient(each) for each in chain)

    def _prepare(self, connection: Any) -> None:
        connection.ensure_connection()
        if connection.vendor == "sqlite":
            # A deferred transaction fails at once when it upgrades behind another writer: take the lock first.
            connection.transaction_mode = connection.transaction_mode or "IMMEDIATE"

    # -- the event loop ------------------------------------------------------------------------------------------------

    async def run_async(self, execution: Execution) -> None:
        """Run an ``async def`` handler in the calling task. Never raises."""
        try:
            await self._run_async(execution)
        except BaseException as error:
            if execution.phase is Phase.ENDED:
                raise
            if execution.end():
                self._finish(execution, error)

    async def _run_async(self, execution: Execution) -> None:
        job = self._decoded(execution)
        if job is None:
            return
        if not execution.begin():
            self._never_ran(execution)
            return
        self._started(execution)
        token, log_token = set_current(execution.ctx), current_log.set(execution.log)
        try:
            result = await self._acall(execution, job)
        except BaseException as error:  # noqa: BLE001 - as above, and CancelledError: the loop survives all
            if execution.end():
                self._finish(execution, error)
            await self._tidy_connections()
            return
        finally:
            reset_current(token)
            current_log.reset(log_token)
        if execution.end():
            self._hand_in(execution, self._table.succeeded(execution, result))
        if time.monotonic() > self._housekeeping_at:
            await self._tidy_connections()

    async def _tidy_connections(self) -> None:
        """In the thread in which ``sync_to_async`` runs the ORM for async handlers."""
        self._housekeeping_at = time.monotonic() + HOUSEKEEPING
        tidying = asyncio.ensure_future(sync_to_async(lambda: tidy_connections(shared=bool(self._awaited)))())
        # A job whose own call stands still in that thread must not keep the places of all others.
        await asyncio.wait({tidying}, timeout=TIDY_LIMIT)

    # -- the handler inside its middleware ---------------------------------------------------------------------------

    def _call(self, execution: Execution, job: Any) -> Any:
        handler = bound(execution, job)
        return (wrap(self._middleware, handler) if self._middleware else handler)(execution.ctx)

    async def _acall(self, execution: Execution, job: Any) -> Any:
        handler = bound(execution, job)
        self._awaited.add(execution)
        try:
            return await (wrap_async(self._middleware, handler) if self._middleware else handler)(execution.ctx)
        finally:
            self._awaited.discard(execution)

    # -- shared --------------------------------------------------------------------------------------------------------

    def _decoded(self, execution: Execution) -> Any:
        """What the handler gets; None when the payload was refused and the outcome handed in."""
        job, job_type = execution.job, execution.type
        if job_type.wants_raw:
            return job.payload
        try:
            return codec.decode(job_type, job.payload, job.schema_version)
        except (PayloadError, RecursionError) as error:
            if execution.leave():
                self._hand_in(execution, self._table.undecodable(execution, error))
            return None

    def _never_ran(self, execution: Execution) -> None:
        """Stopped before its slot was free: what the reason says, without having run."""
        if not execution.leave():
            return  # handed back already, or lost
        reason = execution.ctx.cancel_reason
        if reason is CancelReason.LEASE_LOST or reason is None:
            self._dropped(execution)
        elif reason is CancelReason.SHUTDOWN:
            self._hand_in(execution, self._table.interrupted(execution))
        else:
            self._hand_in(execution, self._table.stopped(execution, reason, None))

    def _finish(self, execution: Execution, error: BaseException) -> None:
        if execution.lost:
            self._dropped(execution)
        else:
            self._hand_in(execution, self._table.failed(execution, error))

    def _hand_in(self, execution: Execution, outcome: Outcome) -> None:
        if execution.lost:
            self._dropped(execution)
        else:
            self._ended(execution, outcome)
