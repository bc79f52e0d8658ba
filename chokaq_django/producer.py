"""The way in: ``enqueue``, ``aenqueue`` and ``enqueue_many``.

A job is one INSERT in the caller's transaction when one is open on the job database's alias: it runs once that commits,
and a rollback, also of a savepoint, leaves nothing. Without one, the call commits by itself.
"""

from __future__ import annotations

import datetime as dt
import itertools
import logging
from collections.abc import Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING

from asgiref.sync import sync_to_async
from django.core.exceptions import SynchronousOnlyOperation
from django.db import DEFAULT_DB_ALIAS, connections, transaction
from django.db import Error as DatabaseError

from . import wake
from .conf import get_options
from .job.durations import Duration
from .job.registry import registry
from .job.signals import job_enqueued
from .observability.events import Event, log_event
from .request import Request, chunks_of, envelope_of, row_of, rows_of
from .storage import Enqueued, NewJob, StorageError, get_storage
from .storage.missing import tables_missing

if TYPE_CHECKING:
    from django.db.backends.base.base import BaseDatabaseWrapper

__all__ = ["Enqueued", "Request", "aenqueue", "enqueue", "enqueue_many"]

logger = logging.getLogger("chokaq.enqueue")


def enqueue(
    job: object,
    *,
    queue: str | None = None,
    priority: int | None = None,
    delay: Duration | None = None,
    run_at: dt.datetime | None = None,
    deadline: dt.datetime | None = None,
    deadline_after: Duration | None = None,
    idempotency_key: str | None = None,
    tags: Iterable[str] = (),
    created_by: str | None = None,
    headers: Mapping[str, str] | None = None,
    max_attempts: int | None = None,
) -> Enqueued:
    """Store ``job``, an instance of a registered type, to be run by a worker.

    ``queue``, ``priority`` (higher runs first) and ``max_attempts`` (total executions) override the type's. ``delay``
    (timedelta or seconds, by the database's clock) or ``run_at`` says when it may start; a ``run_at`` in the past means
    now. ``deadline`` or ``deadline_after`` (counted from now) is the latest time any attempt may start. Naive datetimes
    are taken in the current time zone when USE_TZ is on, else refused. ``headers`` are strings kept with the job.

    ``idempotency_key``: while an active job holds the key, nothing is added and the answer is that job's id with
    ``created=False``. Without it, the type's ``unique_key`` function gives the key.

    The id is known at once. The job belongs to the transaction that is open on the job database's alias; in another
    alias' transaction, and without one, it is committed before this returns. Wake-ups and the ``job_enqueued`` signal
    follow the commit. Under manual transaction management (autocommit off, no ``atomic``) nothing tells when that is:
    no signal is sent, and workers find the job at their next look.

    Raises ``UnregisteredJobError``, ``PayloadError`` (with the path of the bad value), ``EnvelopeError`` (with the name
    of the option), and ``StorageError`` when the job tables are missing. In async code use :func:`aenqueue`.
    """
    said = envelope_of(
        queue,
        priority,
        delay,
        run_at,
        deadline,
        deadline_after,
        idempotency_key,
        tags,
        created_by,
        headers,
        max_attempts,
    )
    options = get_options()
    row = row_of(job, said, options)
    connection = connections[options.database]
    inserted = _insert(connection, [row])
    _announce(connection, [row], inserted)
    return inserted[0]


async def aenqueue(
    job: object,
    *,
    queue: str | None = None,
    priority: int | None = None,
    delay: Duration | None = None,
    run_at: dt.datetime | None = None,
    deadline: dt.datetime | None = None,
    deadline_after: Duration | None = None,
    idempotency_key: str | None = None,
    tags: Iterable[str] = (),
    created_by: str | None = None,
    headers: Mapping[str, str] | None = None,
    max_attempts: int | None = None,
) -> Enqueued:
    """:func:`enqueue` for async code, where it commits by itself: a transaction cannot be open there.

    It runs in Django's thread for synchronous code; when it is cancelled, the job may have been stored all the same.
    """
    return await sync_to_async(enqueue, thread_sensitive=True)(
        job,
        queue=queue,
        priority=priority,
        delay=delay,
        run_at=run_at,
        deadline=deadline,
        deadline_after=deadline_after,
        idempotency_key=idempotency_key,
        tags=tags,
        created_by=created_by,
        headers=headers,
        max_attempts=max_attempts,
    )


def enqueue_many(
    jobs: Iterable[object],
    *,
    queue: str | None = None,
    priority: int | None = None,
    delay: Duration | None = None,
    run_at: dt.datetime | None = None,
    deadline: dt.datetime | None = None,
    deadline_after: Duration | None = None,
    tags: Iterable[str] = (),
    created_by: str | None = None,
    headers: Mapping[str, str] | None = None,
    max_attempts: int | None = None,
) -> list[Enqueued]:
    """Store many jobs, all of them or none; the answers are in the order of ``jobs``.

    ``jobs`` holds jobs, or :class:`Request` objects where one job needs options of its own; the options of this call
    hold for all others. Of a key that is met twice, the first job wins and the later ones get its id.

    A generator is read in chunks of a few thousand rows, one round trip each. What does not fit into one chunk is
    written in one transaction, in which the generator goes on running: let it not wait for anything. An error, also
    one raised by the generator, leaves nothing behind; its notes name the item. Otherwise as :func:`enqueue`.
    """
    said = envelope_of(
        queue, priority, delay, run_at, deadline, deadline_after, None, tags, created_by, headers, max_attempts
    )
    options = get_options()
    connection = connections[options.database]
    chunks = chunks_of(rows_of(jobs, said, options))
    first = next(chunks, None)
    if first is None:
        return []
    second = next(chunks, None)
    if second is None:
        inserted = _insert(connection, first)
        _announce(connection, first, inserted)
        return inserted
    answers: list[Enqueued] = []
    with transaction.atomic(using=options.database):
        for chunk in itertools.chain((first, second), chunks):
            inserted = _insert(connection, chunk)
            _announce(connection, chunk, inserted)
            answers += inserted
    return answers


# -- into the database -------------------------------------------------------------------------------------------------


def _insert(connection: BaseDatabaseWrapper, rows: list[NewJob]) -> list[Enqueued]:
    if logger.isEnabledFor(logging.DEBUG):
        _tell_transactions(connection)
    try:
        # As with the ORM's own writes: who catches the error inside atomic() cannot go on as if nothing had happened.
        # A deadlock, for one, has undone what the transaction wrote before it.
        with transaction.mark_for_rollback_on_error(using=connection.alias):
            return get_storage(connection.alias).enqueue(rows)
    except SynchronousOnlyOperation as error:
        raise SynchronousOnlyOperation(
            "enqueue() was called in async code: use 'await aenqueue(...)' there."
        ) from error
    except DatabaseError as error:
        if not tables_missing(error):
            raise
        database = "" if connection.alias == DEFAULT_DB_ALIAS else f" --database={connection.alias}"
        raise StorageError(
            f"The job tables are missing in database {connection.alias!r}, or older than this version: "
            f"run 'manage.py migrate{database}'."
        ) from error


def _tell_transactions(connection: BaseDatabaseWrapper) -> None:
    """Warn, for those who look at debug logs, that a transaction is open elsewhere: a rollback there keeps the job."""
    if connection.in_atomic_block:
        return
    others = [other.alias for other in connections.all(initialized_only=True) if other.in_atomic_block]
    if others:
        log_event(
            logger,
            logging.DEBUG,
            Event.ENQUEUE_OUTSIDE_TRANSACTION,
            "enqueue commits by itself: a transaction is open on %s, but jobs are stored in database %r",
            ", ".join(map(repr, others)),
            connection.alias,
        )


def _announce(connection: BaseDatabaseWrapper, rows: list[NewJob], inserted: list[Enqueued]) -> None:
    """Wake workers of this process and send the signal, after the commit; nothing when nobody listens."""
    alias = connection.alias
    if not (wake.listening(alias) or job_enqueued.receivers):
        return
    created = [row for row, answer in zip(rows, inserted, strict=True) if answer.created]
    if created and (connection.in_atomic_block or connection.get_autocommit()):
        # robust: whoever enqueued has committed, and must not fail because a listener does.
        transaction.on_commit(partial(_tell, alias, created), using=alias, robust=True)


def _tell(alias: str, created: list[NewJob]) -> None:
    wake.notify(alias, {row.queue for row in created})
    if job_enqueued.receivers:
        for row in created:
            job_type = registry.get(row.type)
            sender = None if job_type is None else job_type.cls
            job_enqueued.send_robust(sender=sender, job_id=row.id, type=row.type, queue=row.queue)
