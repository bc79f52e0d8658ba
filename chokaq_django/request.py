"""What a caller asks for, checked and turned into rows."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, fields

from django.conf import settings
from django.utils import timezone

from .conf import Options
from .job.codec import encode
from .job.definition import UnregisteredJobError
from .job.durations import Duration
from .job.envelope import (
    EnvelopeError,
    clean_created_by,
    clean_delay,
    clean_headers,
    clean_key,
    clean_priority,
    clean_queue,
    clean_tags,
    clean_time,
)
from .job.ids import new_id
from .job.registry import registry
from .sentence import Sentence, shown
from .storage import NewJob

__all__ = ["Envelope", "Request", "chunks_of", "envelope_of", "row_of", "rows_of"]

CHUNK_ROWS = 5_000
"""Rows per round trip of ``enqueue_many``."""
CHUNK_CHARACTERS = 16_000_000
"""Payload characters after which a chunk is sent although it has fewer rows: a bound on memory and packet size."""
ATTEMPTS_LIMIT = 1_000_000


@dataclass(frozen=True, slots=True)
class Request:
    """A job with options of its own, for ``enqueue_many``; None leaves an option to the call, then to the job's type.

    The options are those of :func:`enqueue`.
    """

    job: object
    queue: str | None = None
    priority: int | None = None
    delay: Duration | None = None
    run_at: dt.datetime | None = None
    deadline: dt.datetime | None = None
    deadline_after: Duration | None = None
    idempotency_key: str | None = None
    tags: Iterable[str] | None = None
    created_by: str | None = None
    headers: Mapping[str, str] | None = None
    max_attempts: int | None = None


@dataclass(slots=True)
class Envelope:
    """Checked options of one call or request; None is left to the type."""

    queue: str | None
    priority: int | None
    delay: float | None
    run_at: dt.datetime | None
    deadline_at: dt.datetime | None
    deadline_after: float | None
    idempotency_key: str | None
    tags: str
    created_by: str | None
    headers: str
    max_attempts: int | None


def envelope_of(
    queue: str | None,
    priority: int | None,
    delay: Duration | None,
    run_at: dt.datetime | None,
    deadline: dt.datetime | None,
    deadline_after: Duration | None,
    idempotency_key: str | None,
    tags: Iterable[str],
    created_by: str | None,
    headers: Mapping[str, str] | None,
    max_attempts: int | None,
) -> Envelope:
    """The arguments of ``enqueue`` checked; ``EnvelopeError`` with the name of the first bad one."""
    if delay is not None and run_at is not None:
        raise EnvelopeError("run_at", Sentence("and delay exclude each other: give one of them"))
    if deadline is not None and deadline_after is not None:
        raise EnvelopeError("deadline", Sentence("and deadline_after exclude each other: give one of them"))
    return Envelope(
        None if queue is None else clean_queue(queue),
        None if priority is None else clean_priority(priority),
        None if delay is None else _seconds(delay, "delay"),
        None if run_at is None else _instant(run_at, "run_at"),
        None if deadline is None else _instant(deadline, "deadline"),
        None if deadline_after is None else _seconds(deadline_after, "deadline_after"),
        None if idempotency_key is None else clean_key(idempotency_key),
        "[]" if tags == () else clean_tags(tags),
        None if created_by is None else clean_created_by(created_by),
        "{}" if headers is None else clean_headers(headers),
        None if max_attempts is None else _attempts(max_attempts),
    )


def _seconds(value: Duration, field: str) -> float | None:
    delay = clean_delay(value, field)
    return None if delay is None else delay.total_seconds()


def _instant(value: dt.datetime, field: str) -> dt.datetime | None:
    if isinstance(value, dt.datetime) and value.utcoffset() is None and settings.USE_TZ:
        value = timezone.make_aware(value.replace(tzinfo=None))
    return clean_time(value, field)


def _attempts(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise EnvelopeError("max_attempts", Sentence("must be an integer, got %(value)s", value=shown(value)))
    if not 1 <= value <= ATTEMPTS_LIMIT:
        raise EnvelopeError(
            "max_attempts",
            Sentence(
                "must be from 1 to %(attempts_limit)s (total executions), got %(value)s",
                attempts_limit=ATTEMPTS_LIMIT,
                value=value,
            ),
        )
    return int(value)


def row_of(job: object, said: Envelope, options: Options) -> NewJob:
    """The row of ``job`` under a new id; what ``said`` leaves open is filled from the type, then from the settings."""
    try:
        job_type = registry.for_class(type(job))
    except UnregisteredJobError:
        if isinstance(job, type):
            raise TypeError(f"give a job, not its class: {job.__name__}(...)") from None
        raise
    key = said.idempotency_key
    if key is None and job_type.unique_key is not None:
        key = clean_key(job_type.unique_key(job), "unique_key")
    return NewJob(
        new_id(),
        said.queue or job_type.queue,
        job_type.key,
        encode(job_type, job),
        job_type.schema_version,
        said.tags,
        job_type.priority if said.priority is None else said.priority,
        said.max_attempts or job_type.max_attempts or options.retry.max_attempts,
        said.created_by,
        said.run_at,
        said.delay,
        said.deadline_at,
        said.deadline_after,
        key,
        None,
        said.headers,
    )


_REQUEST_OPTIONS = tuple(field.name for field in fields(Request) if field.name != "job")


def _over(common: Envelope, request: Request) -> Envelope:
    """The options of a request laid over those of the call. A time given by the request replaces the call's pair."""
    own = envelope_of(*(getattr(request, name) for name in _REQUEST_OPTIONS))
    starts = own if own.delay is not None or own.run_at is not None else common
    ends = own if own.deadline_at is not None or own.deadline_after is not None else common
    return Envelope(
        own.queue or common.queue,
        common.priority if own.priority is None else own.priority,
        starts.delay,
        starts.run_at,
        ends.deadline_at,
        ends.deadline_after,
        own.idempotency_key,
        common.tags if request.tags is None else own.tags,
        own.created_by or common.created_by,
        common.headers if request.headers is None else own.headers,
        own.max_attempts or common.max_attempts,
    )


def rows_of(jobs: Iterable[object], common: Envelope, options: Options) -> Iterator[NewJob]:
    """The rows of jobs and requests, in their order; an error's notes say which item it is about."""
    for number, item in enumerate(jobs):
        try:
            if isinstance(item, Request):
                yield row_of(item.job, _over(common, item), options)
            else:
                yield row_of(item, common, options)
        except Exception as error:
            error.add_note(f"item {number} of enqueue_many")
            raise


def chunks_of(rows: Iterator[NewJob]) -> Iterator[list[NewJob]]:
    """``rows`` in lists that are sent in one round trip each."""
    chunk: list[NewJob] = []
    characters = 0
    for row in rows:
        chunk.append(row)
        characters += len(row.payload)
        if len(chunk) >= CHUNK_ROWS or characters >= CHUNK_CHARACTERS:
            yield chunk
            chunk, characters = [], 0
    if chunk:
        yield chunk
