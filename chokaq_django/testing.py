"""For the tests of a project: run a job here and now, without a worker and without job tables.

How to use it, and when a real worker is the better test: ``docs/how-to/test-your-jobs.md``.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Mapping
from contextlib import nullcontext
from functools import partial
from typing import Any

from asgiref.sync import async_to_sync
from django.db import transaction

from .conf import get_options
from .job import codec
from .job.context import JobContext, reset_current, set_current
from .job.middleware import load_middleware, wrap, wrap_async
from .job.registry import autodiscover, registry
from .request import envelope_of, row_of

__all__ = ["run_job"]


class _Alone:
    """Whom the context tells of progress and heartbeats where no worker is: nobody."""

    def progress(self, ctx: JobContext, percent: int, message: str) -> None:
        pass

    def heartbeat(self, ctx: JobContext) -> None:
        pass


def run_job(
    job: object,
    *,
    attempt: int = 1,
    max_attempts: int | None = None,
    queue: str | None = None,
    priority: int | None = None,
    tags: Iterable[str] = (),
    created_by: str | None = None,
    headers: Mapping[str, str] | None = None,
) -> Any:
    """Run ``job`` in the calling thread as a worker would, and return what its handler returned.

    The payload is encoded and decoded on the way, so that what ``enqueue`` would refuse is refused here
    (``PayloadError``) and the handler gets the record that a worker would give it. Middleware is around it, and a job
    with ``atomic=True`` has its transaction. ``attempt`` and the others are what ``ctx`` says. Nothing is stored, tried
    again or timed out: an exception of the handler comes out as it is.
    """
    options = get_options()
    said = envelope_of(queue, priority, None, None, None, None, None, tags, created_by, headers, max_attempts)
    row = row_of(job, said, options)
    autodiscover(handlers=True)
    job_type = registry.for_class(type(job))
    if job_type.handler is None:
        raise LookupError(
            f"no handler is known for {job_type.key}: give {type(job).__name__} a run method, or write "
            f"@handles({type(job).__name__}) in a handlers.py of an installed app"
        )
    now = dt.datetime.now(dt.UTC)
    ctx = JobContext(
        _Alone(),
        id=row.id,
        type=row.type,
        queue=row.queue,
        attempt=attempt,
        max_attempts=row.max_attempts,
        priority=row.priority,
        created_at=now,
        run_at=now,
        due_at=now,
        created_by=row.created_by,
        tags=row.tags,
        headers=row.headers,
    )
    handler = partial(job_type.handler, codec.decode(job_type, row.payload, row.schema_version))
    middleware = load_middleware(options.middleware)
    token = set_current(ctx)
    try:
        if job_type.is_async:
            return async_to_sync(wrap_async(middleware, handler))(ctx)
        with transaction.atomic(using=options.database) if job_type.atomic else nullcontext():
            return wrap(middleware, handler)(ctx)
    finally:
        reset_current(token)
