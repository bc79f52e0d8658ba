"""The set of a bulk operation: jobs by a filter, counted, and frozen by the server from table to table."""

# ruff: noqa: S608 - statements are composed of constants and column names of ours; every value is a parameter

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Sequence
from typing import Any

from ..models import BulkItemState
from . import bulk_rules as rules
from .bulk_rules import Operation
from .columns import ARCHIVE, BULK_ITEM, BULK_OPERATION, DLQ, HOT
from .contract import BulkCount
from .edits import EditStatements

FREEZE_CHUNK = 5_000
"""Rows of one INSERT ... SELECT."""

_TIME = {"hot": "created_at", "archive": "finished_at", "dlq": "failed_at"}
_TABLE = {"hot": HOT, "archive": ARCHIVE, "dlq": DLQ}
_EQUAL = {"queue", "type", "failure_reason", "fingerprint"}
_CONTAINS = {
    # LIKE ignores case on some engines, and gives a meaning to characters that a tag may hold.
    "sqlite": "instr(tags, %s) > 0",
    "postgresql": "strpos(tags, %s) > 0",
    "mysql": "INSTR(tags, CAST(%s AS BINARY)) > 0",
    "microsoft": "CHARINDEX(%s, tags COLLATE Latin1_General_100_BIN2) > 0",
}
_TOUCHED = (BulkItemState.APPLIED, BulkItemState.SUCCEEDED, BulkItemState.DIED, BulkItemState.GONE)
_AGES = (("hour", 3_600), ("day", 86_400), ("week", 604_800))

Params = list[Any]


class BulkSets(EditStatements):
    """Freezing and counting. ``conditions`` are JSON lists of column, comparison and value, all of which must hold."""

    def _conditions(self, place: str, text: str, until: dt.datetime) -> tuple[str, Params]:
        """SQL of a filter, as far as the jobs of ``place`` were there at the instant ``until``."""
        parts, params = [f"{_TIME[place]} <= %s"], [self._instant(until)]
        for column, comparison, value in json.loads(text):
            if comparison == "=" and column == "status":
                parts.append(f"{column} = {int(value)}")  # literally, as the filters of the indexes have it
            elif comparison == "=" and column in _EQUAL:
                parts.append(f"{column} = %s")
                params.append(value)
            elif comparison == "in" and column == "failure_reason":
                parts.append(f"{column} IN ({', '.join(str(int(each)) for each in value)})")
            elif comparison == "from" and column == "fingerprint":
                parts.append(f"{column} >= %s AND {column} <= %s")
                params += [value, value.ljust(32, "f")]
            elif comparison in (">=", "<=", ">") and column in (_TIME[place], "run_at"):
                parts.append(f"{column} {comparison} %s")
                params.append(self._instant(dt.datetime.fromisoformat(value)))
            elif comparison == ">" and column == "attempt":
                parts.append(f"{column} > %s")
                params.append(int(value))
            elif comparison == "has" and column == "tags":
                parts.append(_CONTAINS[self.connection.vendor])
                params.append(value)
            else:
                raise ValueError(f"no condition of a bulk operation: {column!r} {comparison!r}")
        return " AND ".join(parts), params

    # -- freezing -----------------------------------------------------------------------------------------------------

    def _freeze(self, op: Operation, now: dt.datetime) -> float | None:
        """The next chunk of the set; seconds until the next step."""
        if op.undo_of:
            complete = self._freeze_items(op)
        elif op.place:
            complete = self._freeze_jobs(op)
        else:
            complete = True  # ids were written down when they were given
        if complete:
            rules.freeze_done(op, now)
        return rules.BREATH

    def _freeze_jobs(self, op: Operation) -> bool:
        where, params = self._conditions(op.place, op.conditions, op.created_at)
        # Hot has no index on a time; there the ids, which grow with the time of creation, are the order.
        moment = "" if op.place == "hot" else _TIME[op.place]
        if op.freeze_id:
            beyond, beyond_params = self._beyond(moment, op.freeze_at, op.freeze_id)
            where, params = f"{where} AND {beyond}", [*params, *beyond_params]
        order = f"{moment}, id" if moment else "id"
        chunk = (
            f"SELECT {order} FROM (SELECT {order} FROM {_TABLE[op.place]} WHERE {where} ORDER BY {order} "
            f"{self.LIMIT}) c"
        )
        backwards = f"{moment} DESC, id DESC" if moment else "id DESC"
        last = self._query(f"{chunk} ORDER BY {backwards} {self.LIMIT}", [*params, FREEZE_CHUNK, 1])
        if not last:
            return True
        *at, last_id = last[0]
        end = self._read_instant(at[0]) if moment else None
        after_end, end_params = self._beyond(moment, end, last_id)
        op.total += self._execute(
            f"INSERT INTO {BULK_ITEM} (operation_id, job_id, generation, state) "
            f"SELECT %s, id, generation, {BulkItemState.WAITING.value} FROM {_TABLE[op.place]} "
            f"WHERE {where} AND NOT ({after_end})",
            [op.id, *params, *end_params],
        )
        op.freeze_at, op.freeze_id = end, last_id
        return False

    def _beyond(self, moment: str, at: dt.datetime | None, job_id: str) -> tuple[str, Params]:
        """That a row comes after this one."""
        if not moment:
            return "id > %s", [job_id]
        # The first condition is for the index, which does not see that the second implies it.
        instant = self._instant(at)
        return f"{moment} >= %s AND ({moment} > %s OR id > %s)", [instant, instant, job_id]

    def _freeze_items(self, op: Operation) -> bool:
        """The jobs that another operation acted on."""
        done = ", ".join(str(state.value) for state in _TOUCHED)
        where = f"operation_id = %s AND job_id > %s AND state IN ({done})"
        params = [op.undo_of, op.freeze_id]
        last = self._query(
            f"SELECT job_id FROM (SELECT job_id FROM {BULK_ITEM} WHERE {where} ORDER BY job_id {self.LIMIT}) c "
            f"ORDER BY job_id DESC {self.LIMIT}",
            [*params, FREEZE_CHUNK, 1],
        )
        if not last:
            return True
        op.total += self._execute(
            f"INSERT INTO {BULK_ITEM} (operation_id, job_id, generation, state, note) "
            f"SELECT %s, job_id, NULL, {BulkItemState.WAITING.value}, note FROM {BULK_ITEM} "
            f"WHERE {where} AND job_id <= %s",
            [op.id, *params, last[0][0]],
        )
        op.freeze_id = last[0][0]
        return False

    # -- counting -----------------------------------------------------------------------------------------------------

    def bulk_count(self, place: str, conditions: str, limit: int) -> list[BulkCount]:
        now = self.now()
        where, params = self._conditions(place, conditions, now)
        moment = _TIME[place]
        order = "id" if place == "hot" else f"{moment}, id"
        found = (
            f"SELECT queue, type, {moment} AS moment FROM {_TABLE[place]} WHERE {where} ORDER BY {order} {self.LIMIT}"
        )
        return self._counted(found, [*params, limit], now)

    def bulk_frozen(self, operation_id: str) -> list[BulkCount]:
        now = self.now()
        parts = [
            f"SELECT j.queue, j.type, j.{moment} AS moment FROM {BULK_ITEM} i INNER JOIN {_TABLE[place]} j "
            f"ON j.id = i.job_id WHERE i.operation_id = %s"
            for place, moment in _TIME.items()
        ]
        return self._counted(" UNION ALL ".join(parts), [operation_id] * len(parts), now)

    def _counted(self, rows: str, params: Sequence[object], now: dt.datetime) -> list[BulkCount]:
        """Groups of the jobs that ``rows`` (queue, type, moment) finds."""
        # Not GROUP BY: Django's driver for SQL Server rewrites statements with these words.
        kind = "OVER (PARTITION BY queue, type)"
        ages = ", ".join(f"SUM(CASE WHEN moment > %s THEN 1 ELSE 0 END) {kind}" for _ in _AGES)
        since = [self._instant(now - dt.timedelta(seconds=seconds)) for _, seconds in _AGES]
        sql = (
            f"SELECT DISTINCT queue, type, COUNT(*) {kind}, MIN(moment) {kind}, MAX(moment) {kind}, {ages} "
            f"FROM ({rows}) f ORDER BY queue, type"
        )
        found = self._single(lambda: self._query(sql, [*since, *params]))
        return [self._count(row) for row in found]

    def _count(self, row: tuple[Any, ...]) -> BulkCount:
        younger = [0, *(int(value) for value in row[5:])]
        ages = {name: younger[i + 1] - younger[i] for i, (name, _) in enumerate(_AGES)}
        ages["older"] = int(row[2]) - younger[-1]
        return BulkCount(row[0], row[1], int(row[2]), self._read_instant(row[3]), self._read_instant(row[4]), ages)

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
