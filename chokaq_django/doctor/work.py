"""Jobs that are not where they should be: stuck, too long at work, of a type that nobody knows, past their time."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from collections.abc import Iterator

from ..conf import Options
from ..job.registry import registry
from ..models import FailureReason, JobArchive, JobDLQ, JobHot, JobStatus, Queue
from ..reading.plans import live
from ..storage import get_storage
from .finding import Diagnosis, Severity

__all__ = ["findings", "types_without_handlers"]

LOOKED_AT = 5_000
"""Rows of one kind that are looked at."""
SLACK = 60.0
"""Seconds that recovery and expiry may be late."""
DAY = dt.timedelta(days=1)


def types_without_handlers() -> Iterator[Diagnosis]:
    """Types that can be enqueued and that no worker with this code can run."""
    bare = [job_type.key for job_type in registry.types() if job_type.handler is None]
    if bare:
        yield Diagnosis(
            "type_without_handler", Severity.ERROR, f"No handler is known for {_some(bare)}: workers with this code "
            "cannot run these jobs.",
            "Give the class a run method, or write @handles(...) in a handlers.py of an installed app.",
        )  # fmt: skip


def findings(alias: str, options: Options) -> Iterator[Diagnosis]:
    """Everything about single jobs."""
    now = get_storage(alias).now()
    yield from _unknown_types(alias, now)
    yield from _live_rows(alias, now, options)
    yield from _past_their_time(alias, now, options)


def _unknown_types(alias: str, now: dt.datetime) -> Iterator[Diagnosis]:
    waiting = JobHot.objects.using(alias).filter(status=JobStatus.PENDING).values_list("type", flat=True)[:LOOKED_AT]
    counts = Counter(key for key in waiting if registry.get(key) is None)
    if counts:
        named = _some([f"{key} ({count:,})" for key, count in counts.most_common()])
        yield Diagnosis(
            "unknown_type", Severity.WARNING, f"Jobs wait whose type the code here does not know: {named}.",
            "Deploy the code that knows them to the workers, register an alias for a renamed type, or cancel them: "
            "`chokaq cancel --type KEY --dry-run`. Without any, they end in the DLQ as UnknownType.",
        )  # fmt: skip
    buried = JobDLQ.objects.using(alias).filter(failure_reason=FailureReason.UNKNOWN_TYPE, failed_at__gte=now - DAY)
    types = Counter(buried.values_list("type", flat=True)[:LOOKED_AT])
    if types:
        yield Diagnosis(
            "unknown_type_buried", Severity.WARNING, f"Within a day, jobs of unknown types died: {_some(list(types))}.",
            "Once a worker knows them: `chokaq resurrect --failure UnknownType --dry-run`.",
        )  # fmt: skip


def _live_rows(alias: str, now: dt.datetime, options: Options) -> Iterator[Diagnosis]:
    limits = {row.name: row for row in Queue.objects.using(alias).all()[:LOOKED_AT]}
    rows = live(JobHot.objects.using(alias))
    columns = ("pk", "status", "queue", "type", "started_at", "heartbeat_at", "updated_at")
    stuck, long = [], []
    for pk, status, queue, type_key, started_at, heartbeat_at, updated_at in rows.values_list(*columns)[:LOOKED_AT]:
        limit = limits.get(queue)
        recovery = options.recovery
        if status == JobStatus.FETCHED:
            if _seconds(updated_at, now) > recovery.fetched_timeout + recovery.scan_interval + SLACK:
                stuck.append(pk)
            continue
        zombie = limit.zombie_timeout if limit is not None and limit.zombie_timeout else recovery.zombie_timeout
        if _seconds(heartbeat_at or updated_at, now) > zombie + recovery.scan_interval + SLACK:
            stuck.append(pk)
            continue
        job_type = registry.get(type_key)
        own = job_type.timeout if job_type is not None else None
        timeout = own or (limit.execution_timeout if limit is not None else None) or options.execution.timeout
        if started_at is not None and _seconds(started_at, now) > timeout + options.worker.cancel_grace + SLACK:
            long.append(pk)
    if stuck:
        yield Diagnosis(
            "job_stuck", Severity.ERROR, f"Jobs are at work without any sign of their worker, and nobody takes them "
            f"over: {_some(stuck)}.",
            "A live worker does that within RECOVERY.ZOMBIE_TIMEOUT; start one, and look at its log.",
        )  # fmt: skip
    if long:
        yield Diagnosis(
            "job_overlong", Severity.WARNING, f"Jobs run beyond their time limit: {_some(long)}.",
            "Their threads do not stop when they are told to. See `chokaq job ID`; restart their worker to be rid of "
            "them.",
        )  # fmt: skip


def _past_their_time(alias: str, now: dt.datetime, options: Options) -> Iterator[Diagnosis]:
    late = now - dt.timedelta(seconds=SLACK + options.recovery.scan_interval)
    expired = JobHot.objects.using(alias).filter(status=JobStatus.PENDING, deadline_at__lt=late)
    ids = list(expired.values_list("pk", flat=True)[:10])
    if ids:
        yield Diagnosis(
            "not_expired", Severity.WARNING, f"Jobs wait although their deadline has passed: {_some(ids)}.",
            "A live worker buries them as Expired within RECOVERY.SCAN_INTERVAL; start one.",
        )  # fmt: skip
    keep = options.retention.archive
    if keep is not None:
        limit = now - dt.timedelta(seconds=keep) - DAY
        oldest = JobArchive.objects.using(alias).order_by("finished_at").values_list("finished_at", flat=True).first()
        if oldest is not None and oldest < limit:
            yield Diagnosis(
                "retention_behind", Severity.WARNING,
                f"The archive holds jobs from {oldest:%Y-%m-%d}, older than RETENTION.ARCHIVE says ({keep / 86_400:g} "
                "days).",
                "A live worker trims it hourly; start one, and look at its log.",
            )  # fmt: skip


def _seconds(value: dt.datetime, now: dt.datetime) -> float:
    return (now - value).total_seconds()


def _some(names: list[str], most: int = 5) -> str:
    more = f" and {len(names) - most:,} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more
