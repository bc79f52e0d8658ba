"""The set of a bulk operation: jobs by a filter, counted, and frozen by the server from table to table."""

# ruff: noqa: S608 - statements are composed of constants and column names of ours; every value is a parameter

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Sequence
from typing import Any

from ..models import BulkItemState
from ..models.fields import held_instant, readable_instant, stands_for_many
from . import bulk_rules as rules
from .bulk_counts import AGES, Kind, Seen, added, counted, kinds_of, read_kinds
from .bulk_rules import Operation
from .columns import ARCHIVE, BULK_ITEM, BULK_OPERATION, DLQ, HOT
from .contract import BulkCount
from .edits import EditStatements
from .engine import Row

FREEZE_CHUNK = 4_000
"""Rows of one INSERT ... SELECT. With 5,000 locks a statement on SQL Server takes the whole table instead."""

AHEAD = dt.timedelta(days=1)
"""No statement takes so long: a time that lies further ahead when it begins is not that of a job that came meanwhile,
but was written by hand, or by a clock that was set back since."""

OPERATION = "operation"
"""The place of a set that is what another operation acted on, as far as it is dead now."""

_TIME = {"hot": "created_at", "archive": "finished_at", "dlq": "failed_at"}
_TABLE = {"hot": HOT, "archive": ARCHIVE, "dlq": DLQ}
_EQUAL = {
    "queue", "type", "failure_reason", "fingerprint", "worker_id", "created_by", "idempotency_key", "concurrency_key",
}  # fmt: skip
_EXACTLY = {"mysql": "CAST(created_by AS BINARY) = CAST(%s AS BINARY)",
            "microsoft": "created_by COLLATE Latin1_General_100_BIN2 = %s"}  # fmt: skip
"""Where names of people are equal whatever their case."""
_STARTS = {"id": (26, "Z"), "fingerprint": (32, "f")}
"""Columns that are looked for by how they begin, their length and highest character."""
_TAGS = {"mysql": "CAST(tags AS BINARY)", "microsoft": "tags COLLATE Latin1_General_100_BIN2"}
"""Where texts are equal whatever their case."""
_FIND = {"sqlite": "instr", "postgresql": "strpos", "mysql": "INSTR", "microsoft": "CHARINDEX"}
"""Not LIKE: it ignores case on some engines, and gives a meaning to characters that a tag may hold."""
_COMMA = '","'
_ESCAPES = (("\\\\", "\n"), ('\\"', "\r"))
"""What JSON writes for a backslash and a quote, and characters that it never holds as they are."""
_TOUCHED = (BulkItemState.APPLIED, BulkItemState.SUCCEEDED, BulkItemState.DIED, BulkItemState.GONE)
_ACTED_ON = f"operation_id = %s AND job_id > %s AND state IN ({', '.join(str(state.value) for state in _TOUCHED)})"

_NO_REASON = -1
_REASON = {"hot": _NO_REASON, "archive": _NO_REASON, "dlq": "failure_reason"}

Params = list[Any]


def _of_jobs(place: str, where: str) -> str:
    """SQL of what is counted of jobs."""
    return (
        f"SELECT queue, type, {_REASON[place]} AS reason, {_TIME[place]} AS moment FROM {_TABLE[place]} WHERE {where}"
    )


def _of_items(place: str) -> str:
    """The same of the jobs of an operation."""
    return (
        f"SELECT j.queue, j.type, {_REASON[place]} AS reason, j.{_TIME[place]} AS moment FROM {BULK_ITEM} i "
        f"INNER JOIN {_TABLE[place]} j ON j.id = i.job_id WHERE i.operation_id = %s"
    )


def _tagged(tag: str, vendor: str) -> tuple[str, Params]:
    """That a tag, given as it stands in JSON, is one of a row's, which are a list without blanks between them.

    With the escaped quotes out of the way, every quote begins or ends a tag, and between any two that follow each other
    there is either a tag or the comma between two tags. So only a tag that is a comma has to be told from that one: it
    is all that there is, or it stands beside such a comma.
    """
    tags, given = _TAGS.get(vendor, "tags"), "CAST(%s AS BINARY)" if vendor == "mysql" else "%s"
    text, sought, escaped = tags, '",","' if tag == _COMMA else tag, Params()
    for escape, instead in _ESCAPES:
        text, sought = f"REPLACE({text}, {given}, {given})", sought.replace(escape, instead)
        escaped += [escape, instead]
    first = vendor == "microsoft"
    there, found = (
        f"{_FIND[vendor]}({', '.join([given, some] if first else [some, given])}) > 0" for some in (tags, text)
    )
    params = [sought, *escaped] if first else [*escaped, sought]
    if tag == _COMMA:
        found, params = f"({found} OR {tags} = {given})", [*params, f"[{tag}]"]
    return f"{there} AND {found}", [tag, *params]  # most rows need no more than the first look


class BulkSets(EditStatements):
    """Freezing and counting. ``conditions`` are JSON lists of column, comparison and value, all of which must hold."""

    def _there_at(self, place: str, until: dt.datetime, now: dt.datetime) -> list[tuple[str, Params]]:
        """That a job was there at the instant ``until``, and did not come since, nor while this is read. Of several
        conditions, what meets the second follows what meets the first."""
        came, ahead = f"{_TIME[place]} <= %s", f"{_TIME[place]} > %s"
        params = [self._instant(until), self._instant(now + AHEAD)]
        # Together where ids are the order. Along an index by time, PostgreSQL would rather sort all of two ranges.
        return [(f"({came} OR {ahead})", params)] if place == "hot" else [(came, params[:1]), (ahead, params[1:])]

    def _conditions(self, place: str, text: str) -> tuple[str, Params]:
        """SQL of a filter."""
        parts: list[str] = []
        params: Params = []
        for column, comparison, value in json.loads(text):
            if comparison == "=" and column == "status":
                parts.append(f"{column} = {int(value)}")  # literally, as the filters of the indexes have it
            elif comparison == "=" and column in _EQUAL:
                exactly = _EXACTLY.get(self.connection.vendor) if column == "created_by" else None
                parts.append(exactly or f"{column} = %s")
                params.append(value)
            elif comparison == "in" and column == "failure_reason":
                parts.append(f"{column} IN ({', '.join(str(int(each)) for each in value)})")
            elif comparison == "from" and column in _STARTS:
                parts.append(f"{column} >= %s AND {column} <= %s")
                params += [value, value.ljust(*_STARTS[column])]
            elif comparison in (">=", "<", "<=", ">") and column in (_TIME[place], "run_at"):
                parts.append(f"{column} {comparison} %s")
                params.append(self._instant(dt.datetime.fromisoformat(value)))
            elif comparison == ">" and column == "attempt":
                parts.append(f"{column} > %s")
                params.append(int(value))
            elif comparison == "has" and column == "tags":
                tagged, tag_params = _tagged(value, self.connection.vendor)
                parts.append(tagged)
                params += tag_params
            else:
                raise ValueError(f"no condition of a bulk operation: {column!r} {comparison!r}")
        return " AND ".join(parts) or "1 = 1", params

    # -- freezing -----------------------------------------------------------------------------------------------------

    def _freeze(self, op: Operation, now: dt.datetime) -> float | None:
        """The next chunk of the set; seconds until the next step."""
        if op.undo_of:
            complete = self._freeze_undone(op, op.undo_of)
        elif op.place == OPERATION:
            complete = self._freeze_dead(op, json.loads(op.conditions))
        elif op.place:
            complete = self._freeze_jobs(op, now)
        else:  # ids were written down when they were given
            complete = not op.held or self._count_items(op)
        if complete:
            rules.freeze_done(op, now)
        return rules.BREATH

    def _freeze_jobs(self, op: Operation, now: dt.datetime) -> bool:
        where, params = self._conditions(op.place, op.conditions)
        # Hot has no index on a time; there the ids, which grow with the time of creation, are the order.
        moment = "" if op.place == "hot" else _TIME[op.place]
        if op.freeze_id:
            beyond, beyond_params = self._beyond(op, moment)
            where, params = f"{where} AND {beyond}", [*params, *beyond_params]
        at = readable_instant(_TIME[op.place], self.connection)
        rows: Sequence[Row] = []
        for there, there_params in self._there_at(op.place, op.created_at, now):
            rows = rows or self._query(
                f"SELECT id, generation, queue, type, {_REASON[op.place]}, {at} FROM {_TABLE[op.place]} "
                f"WHERE {there} AND {where} ORDER BY {f'{moment}, id' if moment else 'id'} {self.LIMIT}",
                [*there_params, *params, FREEZE_CHUNK],
            )
        if rows and moment:
            op.freeze_at = self._read_instant(rows[-1][-1])
        return self._freeze_rows(op, rows)

    def _beyond(self, op: Operation, moment: str) -> tuple[str, Params]:
        """That a row comes after the last one that was frozen."""
        if not moment or op.freeze_at is None:
            return "id > %s", [op.freeze_id]
        vendor = self.connection.vendor
        # The first condition is for the index, which does not see that the second implies it.
        if not stands_for_many(op.freeze_at, vendor):
            instant = self._instant(op.freeze_at)
            return f"{moment} >= %s AND ({moment} > %s OR id > %s)", [instant, instant, op.freeze_id]
        # It is compared with what the server holds of that row. Where it is gone it begins anew.
        table, held = _TABLE[op.place], held_instant(moment, vendor)
        place = f"(SELECT {held} FROM {table} WHERE id = %s)"
        beyond = (
            f"{held} >= COALESCE({place}, (SELECT {held_instant(f'MIN({moment})', vendor)} FROM {table})) "
            f"AND ({held} > {place} OR id > %s OR {place} IS NULL) "
            f"AND NOT EXISTS (SELECT 1 FROM {BULK_ITEM} WHERE operation_id = %s AND job_id = {table}.id)"
        )
        return beyond, [*[op.freeze_id] * 4, op.id]

    def _freeze_dead(self, op: Operation, source: str) -> bool:
        """The jobs that another operation acted on and that are dead now."""
        failed_at = readable_instant("j.failed_at", self.connection)
        rows = self._query(
            f"SELECT job_id, j.generation, j.queue, j.type, j.failure_reason, {failed_at} FROM {BULK_ITEM} "
            f"INNER JOIN {DLQ} j ON j.id = job_id WHERE {_ACTED_ON} ORDER BY job_id {self.LIMIT}",
            [source, op.freeze_id, FREEZE_CHUNK],
        )
        return self._freeze_rows(op, rows)

    def _freeze_undone(self, op: Operation, source: str) -> bool:
        """The jobs that another operation acted on, with its notes on them."""
        last = self._query(
            f"SELECT job_id FROM (SELECT job_id FROM {BULK_ITEM} WHERE {_ACTED_ON} ORDER BY job_id {self.LIMIT}) c "
            f"ORDER BY job_id DESC {self.LIMIT}",
            [source, op.freeze_id, FREEZE_CHUNK, 1],
        )
        if not last:
            return True
        op.total += self._execute(
            f"INSERT INTO {BULK_ITEM} (operation_id, job_id, generation, state, note) "
            f"SELECT %s, job_id, NULL, {BulkItemState.WAITING.value}, note FROM {BULK_ITEM} "
            f"WHERE {_ACTED_ON} AND job_id <= %s",
            [op.id, source, op.freeze_id, last[0][0]],
        )
        op.freeze_id = last[0][0]
        return False

    def _freeze_rows(self, op: Operation, rows: Sequence[Row]) -> bool:
        """Freeze these jobs, and count them where somebody will look: id, generation, queue, type, failure reason and
        time. What is counted is what is frozen, though they move meanwhile. Whether there were none left."""
        if not rows:
            return True
        if self._is_counted(op):
            op.counts = added(op.counts, counted((self._seen(row) for row in rows), op.created_at))
        self._insert_items(op.id, rows)
        op.total += len(rows)
        op.freeze_id = rows[-1][0]
        return False

    def _insert_items(self, operation_id: str, rows: Sequence[Row]) -> None:
        """Write down jobs that an operation is to act on; the rows begin with id and generation."""
        self._execute(
            f"INSERT INTO {BULK_ITEM} (operation_id, job_id, generation, state) "
            f"SELECT %s, g.id, g.generation, {BulkItemState.WAITING.value} FROM {self.GENERATIONS}",
            [operation_id, json.dumps([row[:2] for row in rows])],
        )

    def _seen(self, row: Row) -> Seen:
        moment = self._read_instant(row[5])
        assert moment is not None  # noqa: S101 - no such column has NULL
        return row[2], row[3], None if row[4] == _NO_REASON else int(row[4]), moment

    # -- counting -----------------------------------------------------------------------------------------------------

    def _count_items(self, op: Operation) -> bool:
        """Count the next of the jobs that are written down; whether all of them are."""
        last = self._query(
            f"SELECT job_id FROM (SELECT job_id FROM {BULK_ITEM} WHERE operation_id = %s AND job_id > %s "
            f"ORDER BY job_id {self.LIMIT}) c ORDER BY job_id DESC {self.LIMIT}",
            [op.id, op.freeze_id, FREEZE_CHUNK, 1],
        )
        if not last:
            return True
        self._add_item_counts(op, last[0][0])
        op.freeze_id = last[0][0]
        return False

    def _add_item_counts(self, op: Operation, until: str) -> None:
        parts = [f"{_of_items(place)} AND i.job_id > %s AND i.job_id <= %s" for place in _TIME]
        self._add_counts(op, " UNION ALL ".join(parts), [op.id, op.freeze_id, until] * len(parts))

    @staticmethod
    def _is_counted(op: Operation) -> bool:
        """Whether somebody will look at the set before it is acted on, and nobody began to freeze it uncounted."""
        return bool(op.held and (op.counts is not None or not op.freeze_id))

    def _add_counts(self, op: Operation, rows: str, params: Params) -> None:
        """Count these of its jobs, if somebody will look at the set before it is acted on."""
        if self._is_counted(op):
            op.counts = added(op.counts, self._kinds(rows, params, op.created_at))

    def bulk_count(self, place: str, conditions: str, limit: int) -> list[BulkCount]:
        now = self.now()
        where, params = self._conditions(place, conditions)
        order = "id" if place == "hot" else f"{_TIME[place]}, id"
        found = f"{_of_jobs(place, where)} ORDER BY {order} {self.LIMIT}"
        return kinds_of(self._single(lambda: self._kinds(found, [*params, limit], now)))

    def bulk_frozen(self, operation_id: str) -> list[BulkCount]:
        known = self._single(lambda: self._query(f"SELECT counts FROM {BULK_OPERATION} WHERE id = %s", [operation_id]))
        if known and known[0][0]:
            return kinds_of(read_kinds(known[0][0]))
        now = self.now()
        found = " UNION ALL ".join(map(_of_items, _TIME))
        return kinds_of(self._single(lambda: self._kinds(found, [operation_id] * len(_TIME), now)))

    def _kinds(self, rows: str, params: Sequence[object], now: dt.datetime) -> list[Kind]:
        """The jobs that ``rows`` (queue, type, reason, moment) finds, added up; their ages at the instant ``now``."""
        # Django's driver for SQL Server rewrites statements with GROUP BY. MariaDB finds the least of a window anew for
        # each of its rows: minutes for some ten thousand.
        windows = self.connection.vendor == "microsoft"
        kind = " OVER (PARTITION BY queue, type, reason)" if windows else ""
        first, last = ("DISTINCT ", "") if windows else ("", "GROUP BY queue, type, reason ")
        ages = ", ".join(f"SUM(CASE WHEN moment > %s THEN 1 ELSE 0 END){kind}" for _ in AGES)
        since = [self._instant(now - dt.timedelta(seconds=seconds)) for _, seconds in AGES]
        ends = ", ".join(readable_instant(f"{end}(moment){kind}", self.connection) for end in ("MIN", "MAX"))
        sql = (
            f"SELECT {first}queue, type, reason, COUNT(*){kind}, {ends}, {ages} "
            f"FROM ({rows}) f {last}ORDER BY queue, type, reason"
        )
        return [self._kind(row) for row in self._query(sql, [*since, *params])]

    def _kind(self, row: tuple[Any, ...]) -> Kind:
        queue, type_key, reason, count, oldest, newest, *younger = row
        first, last = self._read_instant(oldest), self._read_instant(newest)
        assert first is not None  # noqa: S101 - neither column has NULL
        assert last is not None  # noqa: S101
        known = None if reason == _NO_REASON else int(reason)
        return Kind(queue, type_key, known, int(count), first, last, tuple(int(value) for value in younger))

    # -- forgetting ---------------------------------------------------------------------------------------------------

    def trim_bulk(self, older_than: float, limit: int) -> int:
        return self._unit(lambda: self._trim_bulk(older_than, limit))

    def _trim_bulk(self, older_than: float, limit: int) -> int:
        old = self._query(
            f"SELECT id FROM {BULK_OPERATION} WHERE ended_at <= {self._after()} ORDER BY id {self.LIMIT}",
            [-older_than, 1],
        )
        if not old:
            return 0
        operation_id = old[0][0]
        items = self._query(
            f"SELECT job_id FROM {BULK_ITEM} WHERE operation_id = %s ORDER BY job_id {self.LIMIT}",
            [operation_id, limit],
        )
        if items:
            self._execute(
                f"DELETE FROM {BULK_ITEM} WHERE operation_id = %s AND job_id <= %s", [operation_id, items[-1][0]]
            )
        if len(items) < limit:
            self._execute(f"DELETE FROM {BULK_OPERATION} WHERE id = %s", [operation_id])
        return limit  # there may be more: it is asked again until nothing is old
