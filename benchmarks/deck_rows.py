"""Very many job rows, made by the database itself: a million in a minute or so."""

# ruff: noqa: S608 - statements of constants, for a database that is there to be filled

from __future__ import annotations

import datetime as dt
import hashlib
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from django.db import connection

from chokaq_django.models import (
    AuditEntry,
    Counter,
    FailureGroup,
    JobArchive,
    JobDLQ,
    JobHot,
    MetricBucket,
    MetricRollup,
    Queue,
    Worker,
)
from chokaq_django.storage import get_storage

CHUNK = 50_000
QUEUES, TYPES, WORKERS = 8, 20, 20
GROUPS, RARE = 60, 10_000
"""Failure groups with many jobs, and those that share one dead job in twenty."""
TICKS = 12
"""Ten second buckets that are not yet added up: a minute's, and what came until the next round."""
UNFOLDED = 200
"""Rows of failure groups that came since the last round."""
DAYS = 30


@dataclass(frozen=True, slots=True)
class Dialect:
    """How an engine writes what the rows are made of; each takes SQL and gives SQL."""

    text: Callable[[str, int], str]
    """A number with leading zeros."""
    join: Callable[..., str]
    ago: Callable[[str], str]
    """The instant so many seconds ago."""
    divided: str = "/"
    """Between integers whose quotient is one."""

    def part(self, number: str, by: int) -> str:
        """How often ``by`` is in ``number``."""
        return f"({number} {self.divided} {by})"


Extra = Callable[[Dialect, str], dict[str, str]]
"""Columns of one table beside those that all have, with their SQL."""

DIALECTS = {
    "sqlite": Dialect(
        lambda number, width: f"printf('%0{width}d', {number})",
        lambda *parts: " || ".join(parts),
        lambda seconds: f"strftime('%Y-%m-%d %H:%M:%f000', 'now', '-' || ({seconds}) || ' seconds')",
    ),
    "postgresql": Dialect(
        lambda number, width: f"lpad(({number})::text, {width}, '0')",
        lambda *parts: " || ".join(parts),
        lambda seconds: f"now() - make_interval(secs => {seconds})",
    ),
    "mysql": Dialect(
        lambda number, width: f"LPAD({number}, {width}, '0')",
        lambda *parts: f"CONCAT({', '.join(parts)})",
        lambda seconds: f"DATE_SUB(UTC_TIMESTAMP(6), INTERVAL ({seconds}) SECOND)",
        divided="DIV",
    ),
    "microsoft": Dialect(
        lambda number, width: f"RIGHT(REPLICATE('0', {width}) + CAST({number} AS varchar(20)), {width})",
        lambda *parts: " + ".join(parts),
        lambda seconds: f"DATEADD(second, -({seconds}), SYSUTCDATETIME())",
    ),
}


def numbers(first: int, count: int) -> str:
    """A table ``g`` of the numbers ``n`` from ``first`` on, without recursion, which engines limit."""
    digits = " UNION ALL ".join(f"SELECT {digit} AS d" for digit in range(10))
    places = " CROSS JOIN ".join(f"(SELECT d FROM ({digits}) x{place}) p{place}" for place in range(6))
    value = " + ".join(f"p{place}.d * {10**place}" for place in range(6))
    return f"(SELECT {first} + v.n AS n FROM (SELECT {value} AS n FROM {places}) v WHERE v.n < {count}) g"


def load(archived: int, dead: int, pending: int, say: Callable[[str], object]) -> None:
    """Insert so many rows beside those that are there, and the figures that whoever moves jobs would have kept."""
    for name, model, count, extra in (
        ("archived", JobArchive, archived, _archived),
        ("dead", JobDLQ, dead, _dead),
        ("pending", JobHot, pending, _pending),
    ):
        _load(name, model, count, extra, say)
    began = time.perf_counter()
    _figures(dead)
    say(f"figures, workers and queues in {time.perf_counter() - began:.1f} s")


def load_archived(count: int, say: Callable[[str], object]) -> None:
    """Insert so many archived rows, and nothing else."""
    _load("archived", JobArchive, count, _archived, say)


def _load(name: str, model: Any, count: int, extra: Extra, say: Callable[[str], object]) -> None:
    began = time.perf_counter()
    for first in range(0, count, CHUNK):
        _insert(model, name, first, min(CHUNK, count - first), count, extra)
    say(f"{count:,} {name} in {time.perf_counter() - began:.1f} s")


def _figures(dead: int) -> None:
    """What workers keep beside the jobs: who they are, what they have counted."""
    now = dt.datetime.now(dt.UTC)
    start = now.replace(minute=0, second=0, microsecond=0)
    kinds = [(f"queue-{key % QUEUES}", f"bench.type_{key:02}.v1") for key in range(TYPES)]
    Queue.objects.bulk_create(Queue(name=f"queue-{queue}", updated_at=now) for queue in range(QUEUES))
    workers = [f"bench-{number:02}" for number in range(WORKERS)]
    Worker.objects.bulk_create(
        Worker(
            id=name, host="bench", pid=number, version="0", queues="[]", concurrency=10, async_concurrency=100,
            state="running", started_at=now, last_seen=now,
        )
        for number, name in enumerate(workers)
    )  # fmt: skip
    counts = {"outcome": 0, "count": 50, "total_ms": 5_000, "max_ms": 800, "run_4": 50, "wait_2": 50}
    MetricBucket.objects.bulk_create(
        (
            MetricBucket(at=now.replace(microsecond=0) - dt.timedelta(seconds=now.second % 10 + 10 * tick),
                         series=_digest(worker, *kind), queue=kind[0], type=kind[1], shard=worker, **counts)
            for tick in range(TICKS) for worker in workers for kind in kinds
        ),
        batch_size=500,
    )  # fmt: skip
    rolled = now - dt.timedelta(seconds=10 * TICKS)
    for span, many in ((10, 150), (60, 180), (300, 2 * 288), (3600, 30 * 24)):
        last = int(rolled.timestamp()) // span * span
        MetricRollup.objects.bulk_create(
            (
                MetricRollup(span=span, at=dt.datetime.fromtimestamp(last - span * number, dt.UTC),
                             series=_digest(*kind),
                             queue=kind[0], type=kind[1], **counts)
                for number in range(many) for kind in kinds
            ),
            batch_size=500,
        )  # fmt: skip
    Counter.objects.bulk_create(
        Counter(series=_digest(*kind), queue=kind[0], type=kind[1], outcome=0, count=1_000_000) for kind in kinds
    )
    many, few = dead // GROUPS // 4, max(1, dead // 20 // RARE)
    _groups(((group, kind, many) for group in range(GROUPS) for kind in kinds[group % 5 :: 5][:4]), start, now)
    _groups(((GROUPS + group, kinds[group % TYPES], few) for group in range(RARE)), start, now)
    while get_storage().fold_groups(500):
        pass
    _groups(((GROUPS + group, kinds[group % TYPES], few) for group in range(UNFOLDED)), start, now)
    minute = dt.timedelta(minutes=1)
    AuditEntry.objects.bulk_create(
        (
            AuditEntry(id=f"01BU{number:022}", at=start - number * minute, action="cancel", target=f"{number:026}")
            for number in range(20_000)
        ),
        batch_size=500,
    )


def _groups(rows: Iterable[tuple[int, tuple[str, str], int]], first: dt.datetime, last: dt.datetime) -> None:
    """Failure groups: a number, queue and type, and how many jobs."""
    FailureGroup.objects.bulk_create(
        (
            FailureGroup(
                series=_digest(str(group), *kind), fingerprint=f"{group:032}", queue=kind[0], type=kind[1],
                shard="bench", reason=6, error_type="shop.partner.PartnerError", message="connection refused",
                sample_id="0" * 26, count=count, total=count, first_seen=first, last_seen=last,
            )
            for group, kind, count in rows
        ),
        batch_size=500,
    )  # fmt: skip


def _digest(*names: str) -> str:
    return hashlib.blake2b("|".join(names).encode(), digest_size=16).hexdigest()


def _insert(model: Any, name: str, first: int, count: int, total: int, extra: Extra) -> None:
    dialect = DIALECTS[connection.vendor]
    since = dialect.ago(f"g.n * {DAYS * 86_400}.0 / {total}")
    columns = {**_common(dialect, name, since), **extra(dialect, since)}
    names, values = ", ".join(columns), ", ".join(columns.values())
    sql = f"INSERT INTO {model._meta.db_table} ({names}) SELECT {values} FROM {numbers(first, count)}"
    with connection.cursor() as cursor:
        cursor.execute(sql)


def _common(dialect: Dialect, name: str, since: str) -> dict[str, str]:
    letter = {"archived": "A", "dead": "D", "pending": "P"}[name]
    return {
        "id": dialect.join(f"'01B{letter}'", dialect.text("g.n", 22)),
        "queue": dialect.join("'queue-'", dialect.text(f"g.n % {QUEUES}", 1)),
        "type": dialect.join("'bench.type_'", dialect.text(f"g.n % {TYPES}", 2), "'.v1'"),
        "schema_version": "1",
        "payload": """'{"number":1,"text":"a payload of usual length, as an order or an e-mail would have"}'""",
        "tags": """'["bench"]'""",
        "priority": "10",
        "attempt": "1",
        "max_attempts": "3",
        "crash_count": "0",
        "snooze_count": "0",
        "claim_number": "1",
        "generation": "0",
        "revision": "0",
        "created_at": since,
        "run_at": since,
        "due_at": since,
        "headers": "'{}'",
        "attempt_log": "'[]'",
    }


def _archived(dialect: Dialect, since: str) -> dict[str, str]:
    return {"finished_at": since, "duration_ms": "g.n % 3000", "wait_ms": "g.n % 500", "result": "'{}'"}


def _dead(dialect: Dialect, since: str) -> dict[str, str]:
    return {
        "failure_reason": "CASE WHEN g.n % 10 = 0 THEN 2 WHEN g.n % 10 < 3 THEN 6 ELSE 0 END",
        "error_type": "'shop.partner.PartnerError'",
        "error_details": "'Traceback of some length: connection refused'",
        "fingerprint": dialect.text(
            f"CASE WHEN g.n % 20 = 0 THEN {GROUPS} + {dialect.part('g.n', 20)} % {RARE} ELSE g.n % {GROUPS} END", 32
        ),
        "failed_at": since,
        "note": "''",
    }


def _pending(dialect: Dialect, since: str) -> dict[str, str]:
    return {"status": "0", "updated_at": since}
