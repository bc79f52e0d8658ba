"""Jobs that are not where they should be: stuck, too long at work, of a type that nobody knows, past their time."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

from django.db import connections
from django.db.models import DateTimeField

from ..conf import Options
from ..job.registry import registry
from ..models import FailureReason, JobDLQ, JobHot, JobStatus, Queue
from ..reading.plans import live, waiting
from ..sentence import Sentence
from ..storage import get_storage
from ..storage.retention_rules import trim_rules
from .finding import Diagnosis, Severity

__all__ = ["findings", "types_without_handlers"]

LOOKED_AT = 5_000
"""Rows of one kind that are looked at."""
SLACK = 60.0
"""Seconds that recovery and expiry may be late."""
DAY = dt.timedelta(days=1)
MOST_TIMES = 100_000
"""Active jobs whose times are looked at."""
MANY_QUEUES = {"postgresql": 1_000, "sqlite": 1_000}
"""Queues with waiting jobs from which claims are slow: each looks at all of them."""
MANY_QUEUES_ELSEWHERE = 300
MOST_RULES = 20
"""Rules of retention that are looked at."""


def types_without_handlers() -> Iterator[Diagnosis]:
    """Types that can be enqueued and that no worker with this code can run."""
    bare = [job_type.key for job_type in registry.types() if job_type.handler is None]
    if bare:
        yield Diagnosis(
            "type_without_handler", Severity.ERROR, Sentence(
                "No handler is known for %(bare)s: workers with this code cannot run these jobs.",
                bare=_some(bare),
            ),
            Sentence("Give the class a run method, or write @handles(...) in a handlers.py of an installed app."),
        )  # fmt: skip


def findings(alias: str, options: Options) -> Iterator[Diagnosis]:
    """Everything about single jobs."""
    now = get_storage(alias).now()
    yield from _many_queues(alias)
    yield from _times(alias)
    yield from _unknown_types(alias, now)
    yield from _live_rows(alias, now, options)
    yield from _past_their_time(alias, now, options)
    yield from _groups(alias)


def _many_queues(alias: str) -> Iterator[Diagnosis]:
    """What looks like a queue for each customer."""
    count = len(get_storage(alias).pending_queues())
    if count >= MANY_QUEUES.get(connections[alias].vendor, MANY_QUEUES_ELSEWHERE):
        yield Diagnosis(
            "many_queues", Severity.WARNING,
            Sentence(
                "Jobs wait in %(count)s queues, and each claim of a worker looks at all of its queues.",
                count=f"{count:,}",
            ),
            Sentence(
                "Tell customers apart by tags, not by queues; or give each worker its share of the queues by "
                "`runworker --queues`.",
            ),
        )  # fmt: skip


def _times(alias: str) -> Iterator[Diagnosis]:
    """Active jobs with times that no program can read, which PostgreSQL can hold, among the first MOST_TIMES."""
    if connections[alias].vendor != "postgresql":
        return
    table = JobHot._meta.db_table
    columns = [field.column for field in JobHot._meta.concrete_fields if isinstance(field, DateTimeField)]
    wrong = " OR ".join(f"{column} NOT BETWEEN '0001-01-01+00' AND '9999-12-31 23:59:59+00'" for column in columns)
    sql = f"SELECT id, queue FROM (SELECT * FROM {table} LIMIT {MOST_TIMES}) j WHERE {wrong} LIMIT 20"  # noqa: S608 - names of ours
    with connections[alias].cursor() as cursor:
        cursor.execute(sql)
        rows = cursor.fetchall()
    if rows:
        yield Diagnosis(
            "unreadable_time", Severity.WARNING,
            Sentence(
                "Times of active jobs are infinite, or of years that no program can count: %(value)s. "
                "Workers take the nearest time that they can read; pages mark them.",
                value=_some([f'{job_id} ({queue})' for job_id, queue in rows]),
            ),
            Sentence("Somebody wrote them by hand: set these columns right, or delete the rows, by SQL."),
        )  # fmt: skip


def _unknown_types(alias: str, now: dt.datetime) -> Iterator[Diagnosis]:
    found = waiting(JobHot.objects.using(alias)).values_list("type", flat=True)[:LOOKED_AT]
    counts = Counter(key for key in found if registry.get(key) is None)
    if counts:
        named = _some([f"{key} ({count:,})" for key, count in counts.most_common()])
        yield Diagnosis(
            "unknown_type", Severity.WARNING, Sentence(
                "Jobs wait whose type the code here does not know: %(named)s.",
                named=named,
            ),
            Sentence(
                "Deploy the code that knows them to the workers, register an alias for a renamed type, or "
                "cancel them: `chokaq cancel --type KEY --dry-run`. Without any, they end in the DLQ as "
                "UnknownType.",
            ),
        )  # fmt: skip
    buried = JobDLQ.objects.using(alias).filter(failure_reason=FailureReason.UNKNOWN_TYPE, failed_at__gte=now - DAY)
    types = Counter(buried.values_list("type", flat=True)[:LOOKED_AT])
    if types:
        yield Diagnosis(
            "unknown_type_buried", Severity.WARNING, Sentence(
                "Within a day, jobs of unknown types died: %(types)s.",
                types=_some(list(types)),
            ),
            Sentence("Once a worker knows them: `chokaq resurrect --failure UnknownType --dry-run`."),
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
            "job_stuck", Severity.ERROR, Sentence(
                "Jobs are at work without any sign of their worker, and nobody takes them over: "
                "%(stuck)s.",
                stuck=_some(stuck),
            ),
            Sentence("A live worker does that within RECOVERY.ZOMBIE_TIMEOUT; start one, and look at its log."),
        )  # fmt: skip
    if long:
        yield Diagnosis(
            "job_overlong", Severity.WARNING, Sentence(
                "Jobs run beyond their time limit: %(long)s.",
                long=_some(long),
            ),
            Sentence(
                "Their threads do not stop when they are told to. See `chokaq job ID`; restart their "
                "worker to be rid of them.",
            ),
        )  # fmt: skip


def _past_their_time(alias: str, now: dt.datetime, options: Options) -> Iterator[Diagnosis]:
    late = now - dt.timedelta(seconds=SLACK + options.recovery.scan_interval)
    expired = JobHot.objects.using(alias).filter(status=JobStatus.PENDING, deadline_at__lt=late)
    ids = list(expired.values_list("pk", flat=True)[:10])
    if ids:
        yield Diagnosis(
            "not_expired", Severity.WARNING, Sentence(
                "Jobs wait although their deadline has passed: %(ids)s.",
                ids=_some(ids),
            ),
            Sentence("A live worker buries them as Expired within RECOVERY.SCAN_INTERVAL; start one."),
        )  # fmt: skip
    late_rules = [
        rule.name
        for rule in trim_rules(options.retention)[:MOST_RULES]
        if rule.age is not None
        and get_storage(alias).trim_due(replace(rule, age=rule.age + DAY.total_seconds()), 100)[0]
    ]
    if late_rules:
        yield Diagnosis(
            "retention_behind", Severity.WARNING,
            Sentence(
                "There are jobs that should have been deleted a day ago or earlier, by: %(late_rules)s.",
                late_rules=_some(late_rules),
            ),
            Sentence("A live worker trims them hourly; start one, and look at its log."),
        )  # fmt: skip


def _groups(alias: str) -> Iterator[Diagnosis]:
    storage = get_storage(alias)
    differing = set(storage.group_drift())
    if differing:
        # What differs stays the same while jobs move; what only looked so, because a move was under way, does not.
        differing &= set(storage.group_drift())
    counts: list[tuple[int, int]] = []
    for column in ("fingerprint", "queue", "type"):
        missing = [each.missing for each in differing if each.column == column]
        counts.append((sum(count for count in missing if count > 0), -sum(count for count in missing if count < 0)))
    missed, spare = max(counts)
    if missed or spare:
        said = [f"{missed:,} dead jobs are not counted"] * bool(missed) + [f"{spare:,} too many are"] * bool(spare)
        yield Diagnosis(
            "groups_differ", Severity.WARNING,
            Sentence("The failure groups do not count what the DLQ holds: %(said)s.", said=', '.join(said)),
            Sentence(
                "Jobs that died before there were groups, or that somebody changed in the tables, are "
                "counted by `chokaq doctor --recount`, at any time.",
            ),
        )  # fmt: skip


def _seconds(value: dt.datetime, now: dt.datetime) -> float:
    return (now - value).total_seconds()


def _some(names: list[str], most: int = 5) -> str:
    more = f" and {len(names) - most:,} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more
