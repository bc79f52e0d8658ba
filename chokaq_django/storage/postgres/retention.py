"""Deleting what is old: how PostgreSQL is kept on the index of a rule."""

# ruff: noqa: S608 - statements are composed of constants and column names of ours; every value is a parameter

from __future__ import annotations

import datetime as dt

from ..engine import Row
from ..retention import own_value, read_columns
from ..retention_marks import PLACES
from ..retention_rules import TrimRule, Walk
from .session import PostgresSession


class PostgresRetention(PostgresSession):
    """Passes of rules over Archive and DLQ."""

    def _rows_along(self, rule: TrimRule, after: Walk, until: dt.datetime, limit: int) -> list[Row]:
        # Rows are compared as a whole. With "queue = ..." the planner would know the queue to be the same in all rows,
        # and might take the index of times, where it reads other queues' rows until it has met enough of this one.
        table, ended = PLACES[rule.place]
        columns = f"{ended}, id" if rule.column is None else f"{rule.column}, {ended}, id"
        key = columns.removesuffix(", id")
        own = own_value(rule)
        marks = ", ".join(["%s"] * (len(own) + 1))
        return self._query(
            f"SELECT {read_columns(rule)} FROM {table} WHERE ({columns}) > ({marks}, %s) AND ({key}) <= ({marks}) "
            f"ORDER BY {columns} LIMIT %s",
            [*own, after.at, after.job_id, *own, until, limit],
        )
