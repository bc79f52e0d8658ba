"""Workers, queues, settings and the leader lease: small tables, the same statements on every engine."""

# ruff: noqa: S608 - statements are composed of constants and column names of ours; every value is a parameter

from __future__ import annotations

import datetime as dt
import time
from collections.abc import Sequence
from dataclasses import astuple, fields, replace
from typing import Any

from ..models import BulkState
from .columns import BULK_OPERATION, LEASE, QUEUE, SETTING, WORKER, names
from .contract import ClockReading, QueueRow, WorkerOrders, WorkerRow
from .engine import Engine, Row, chunks

_WORKER_COLUMNS = tuple(field.name for field in fields(WorkerRow))
_BEATING = tuple(column for column in _WORKER_COLUMNS if column not in ("id", "types", "desired_concurrency"))
BULK_AWAKE = f"state IN ('{BulkState.PREPARING.value}', '{BulkState.RUNNING.value}')"
"""That a bulk operation is to be worked on."""
FOR_ALL = (
    f"(SELECT COUNT(*) FROM {BULK_OPERATION} WHERE {BULK_AWAKE}), (SELECT COUNT(*) FROM {SETTING}), "
    f"(SELECT MAX(updated_at) FROM {SETTING})"
)
"""What operators want of all workers: bulk operations to be worked on, options set, when the last one was set."""
_LIMIT_COLUMNS = (
    "max_workers", "zombie_timeout", "execution_timeout", "window_start", "window_end", "window_zone",
)  # fmt: skip
_QUEUE_COLUMNS = ("name", "is_paused", "is_active", *_LIMIT_COLUMNS)


class FleetStatements(Engine):
    """What a worker says about itself, who leads, and the control rows of queues."""

    def _orders(self) -> str:
        """What :meth:`_returning` gets of a worker's row. What is wanted of all workers is looked for in the same
        statement, because an idle worker has few, and so is the server's clock."""
        return f"desired_concurrency, stop_requested, {FOR_ALL}, {self.NOW}"

    def _insert_unless_there(self, table: str, columns: Sequence[str], values: str, params: Sequence[object]) -> bool:
        """Insert one row (``values``: the SQL of its values) unless its key exists; whether it was inserted."""
        first, last = self.INSERT_IGNORE
        return self._execute(f"{first} {table} ({names(columns)}) VALUES ({values}) {last}", params) > 0

    # -- workers ------------------------------------------------------------------------------------------------------

    def register(self, row: WorkerRow) -> WorkerOrders:
        return self._unit(lambda: self._register(row))

    def _register(self, row: WorkerRow) -> WorkerOrders:
        changes = ", ".join(f"{column} = %s" for column in _BEATING)
        sent = time.time()
        orders = self._returning(
            f"UPDATE {WORKER} SET {changes}, last_seen = {self.NOW} WHERE id = %s",
            self._orders(),
            [*(getattr(row, column) for column in _BEATING), row.id],
        )
        if orders:
            desired, stop, *wanted = orders[0]
            operations, options, last_set, now = self._wanted_of_all(wanted)
            clock = self._clock(sent, now)
            return WorkerOrders(desired, bool(stop), bool(operations), f"{options} {last_set}", clock)
        sent = time.time()
        clock = self._clock(sent, self._query(f"SELECT {self.NOW}")[0][0])
        values = astuple(replace(row, clock_offset=clock.offset, clock_doubt=clock.doubt))
        columns = (*_WORKER_COLUMNS, "stop_requested", "started_at", "last_seen")
        marks = ", ".join(["%s"] * (len(values) + 1))
        self._insert_unless_there(WORKER, columns, f"{marks}, {self.NOW}, {self.NOW}", [*values, False])
        return WorkerOrders(row.desired_concurrency, False, clock=clock)

    def _wanted_of_all(self, found: Sequence[Any]) -> Sequence[Any]:
        """The values of FOR_ALL and the server's clock, where :meth:`_orders` has not ``found`` them."""
        return found

    def _clock(self, sent: float, now: Any) -> ClockReading:
        """This machine's clock against ``now``, which statements have read that were ``sent`` then and have just been
        answered."""
        doubt = abs(time.time() - sent) / 2
        return ClockReading(sent + doubt - self._read_instant(now).timestamp(), doubt)  # type: ignore[union-attr]

    def unregister(self, worker_id: str) -> None:
        self.sweep_workers([worker_id])

    def workers_seen(self) -> dict[str, dt.datetime]:
        rows = self._single(lambda: self._query(f"SELECT id, last_seen FROM {WORKER}"))
        return {row[0]: self._read_instant(row[1]) for row in rows}  # type: ignore[misc]

    def sweep_workers(self, ids: Sequence[str]) -> None:
        for part in chunks(sorted(ids)):
            condition, params = self._among("id", part)
            self._unit(lambda c=condition, p=params: self._execute(f"DELETE FROM {WORKER} WHERE {c}", p))  # type: ignore[misc]

    # -- leader lease -------------------------------------------------------------------------------------------------

    def lead(self, name: str, holder: str, ttl: float) -> bool:
        return self._unit(lambda: self._lead(name, holder, ttl))

    def _lead(self, name: str, holder: str, ttl: float) -> bool:
        # "term" comes before "holder": MySQL evaluates assignments in their order and would compare with the new one.
        taken = self._execute(
            f"UPDATE {LEASE} SET term = CASE WHEN holder = %s THEN term ELSE term + 1 END, holder = %s, "
            f"expires_at = {self._after()} WHERE name = %s AND (holder = %s OR expires_at <= {self.NOW})",
            [holder, holder, ttl, name, holder],
        )
        return bool(taken) or self._insert_unless_there(
            LEASE, ("name", "holder", "term", "expires_at"), f"%s, %s, 1, {self._after()}", [name, holder, ttl]
        )

    def resign(self, name: str, holder: str) -> None:
        # The row stays: its term must go on growing.
        sql = f"UPDATE {LEASE} SET expires_at = {self.NOW} WHERE name = %s AND holder = %s"
        self._unit(lambda: self._execute(sql, [name, holder]))

    # -- queues -------------------------------------------------------------------------------------------------------

    def queues(self) -> list[QueueRow]:
        rows = self._single(lambda: self._query(f"SELECT {names(_QUEUE_COLUMNS)} FROM {QUEUE} ORDER BY name"))
        return [self._queue_row(row) for row in rows]

    def _queue_row(self, row: Row) -> QueueRow:
        start, end, zone = self._read_time(row[6]), self._read_time(row[7]), row[8]
        window = (start, end, zone) if start is not None and end is not None and zone else None
        return QueueRow(row[0], bool(row[1]), bool(row[2]), row[3], row[4], row[5], window)

    def seed_queue(self, row: QueueRow) -> bool:
        columns = (*_QUEUE_COLUMNS, "updated_at")
        marks = ", ".join(["%s"] * len(_QUEUE_COLUMNS))
        params = [row.name, row.is_paused, row.is_active, *self._limits(row)]
        return self._unit(lambda: self._insert_unless_there(QUEUE, columns, f"{marks}, {self.NOW}", params))

    def renew_queue(self, row: QueueRow) -> bool:
        changes = ", ".join(f"{column} = %s" for column in _LIMIT_COLUMNS)
        # Whoever sets limits of a queue signs for them; workers do not.
        sql = f"UPDATE {QUEUE} SET {changes}, updated_at = {self.NOW} WHERE name = %s AND updated_by IS NULL"
        return self._unit(lambda: self._execute(sql, [*self._limits(row), row.name]) > 0)

    def _limits(self, row: QueueRow) -> list[object]:
        """The values of the limits' columns."""
        start, end, zone = row.window or (None, None, None)
        limits = [row.max_workers, row.zombie_timeout, row.execution_timeout]
        return [*limits, self._time(start), self._time(end), zone]

    def _time(self, value: dt.time | None) -> object:
        return self.connection.ops.adapt_timefield_value(value)

    # -- settings -----------------------------------------------------------------------------------------------------

    def settings(self) -> list[tuple[str, str]]:
        rows = self._single(lambda: self._query(f"SELECT name, value FROM {SETTING}"))
        return [(name, value) for name, value in rows]
