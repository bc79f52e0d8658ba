"""Deleting what is old, rule by rule, each along the index that its jobs are found by.

A rule meets jobs that a more specific one keeps. It reads each of them once: it goes on from its mark, and not from the
oldest row again.
"""

# ruff: noqa: S608 - statements are composed of constants and column names of ours; every value is a parameter

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence

from .columns import names
from .engine import Row
from .moves import FORGOTTEN, MoveStatements
from .retention_marks import PLACES, MarkStatements
from .retention_rules import TrimRule, TrimStep, Walk

_INDEX = {None: "time", "queue": "queue", "type": "type", "failure_reason": "reason"}


class RetentionStatements(MoveStatements, MarkStatements):
    """Passes of rules over Archive and DLQ."""

    def trim(self, rule: TrimRule, limit: int, walk: Walk | None = None) -> TrimStep:
        until = self._old_until(rule)
        if until is None:
            return TrimStep(0, None)
        start = walk or self._unit(lambda: self._begin_pass(rule))
        # Read outside of the transaction, which on SQLite keeps all others from writing.
        rows = self._single(lambda: self._rows_along(rule, start, until, limit))
        return self._unit(lambda: self._trim_step(rule, start, until, rows, limit))

    def trim_due(self, rule: TrimRule, limit: int) -> tuple[int, bool]:
        until = self._old_until(rule)
        if until is None:
            return 0, False
        start = self._beginning(rule, self._single(lambda: self._mark_of(rule)))
        rows = self._single(lambda: self._rows_along(rule, start, until, limit))
        return sum(rule.covers(_job(row)) for row in rows), len(rows) == limit

    def _old_until(self, rule: TrimRule) -> dt.datetime | None:
        """What ended until then is old by this rule; None where nothing ever is."""
        if rule.age is None:
            return None
        try:
            return self.now() - dt.timedelta(seconds=rule.age)
        except OverflowError:
            return None

    def _rows_along(self, rule: TrimRule, after: Walk, until: dt.datetime, limit: int) -> list[Row]:
        """The rows that the rule's index has next: id, time, queue, type, reason (-1: none)."""
        table, ended = PLACES[rule.place]
        source = self._by_index(table, f"chokaq_{rule.place}_{_INDEX[rule.column]}")
        own = "" if rule.column is None else f"{rule.column} = %s AND "
        start, end = self._instant(after.at), self._instant(until)
        return self._query(
            f"SELECT {read_columns(rule)} FROM {source} WHERE {own}{ended} >= %s AND {ended} <= %s "
            f"AND ({ended} > %s OR id > %s) ORDER BY {ended}, id {self.LIMIT}",
            [*own_value(rule), start, end, start, after.job_id, limit],
        )

    def _trim_step(self, rule: TrimRule, walk: Walk, until: dt.datetime, rows: Sequence[Row], limit: int) -> TrimStep:
        # First, and so without a job in hand: who brings jobs back holds some when it writes on the mark.
        self._hold_mark(rule)
        mine = {row[0] for row in rows if rule.covers(_job(row))}
        removed = self._trim_rows(rule, mine, until)
        reached = walk
        for row in rows:
            held = reached.held or (row[0] in mine and row[0] not in removed)
            if held and not reached.held:
                # Somebody is writing it, or has taken it away: the next pass looks again from here.
                self._set_mark(rule, reached, until)
            reached = Walk(self._read_instant(row[1]), row[0], held)  # type: ignore[arg-type]
        done = len(rows) < limit
        if not reached.held:
            self._set_mark(rule, Walk(until, "") if done else reached, until)
        return TrimStep(len(removed), None if done else reached)

    def _trim_rows(self, rule: TrimRule, ids: set[str], until: dt.datetime) -> set[str]:
        """Delete those that are still there, still old and still this rule's; nobody is waited for."""
        if not ids:
            return set()
        table, ended = PLACES[rule.place]
        columns = FORGOTTEN[table]
        among, params = self._among("id", sorted(ids))
        rows = self._query(
            f"SELECT {names(columns)} FROM {self._by_key(table)} {self.HINT_SKIP} WHERE {among} AND {ended} <= %s "
            f"ORDER BY id {self.LOCK_SKIP}",
            [*params, self._instant(until)],
        )
        rows = [row for row in rows if rule.covers(dict(zip(columns, row, strict=True)))]
        self._forget_rows(table, rows)
        return {row[0] for row in rows}


def read_columns(rule: TrimRule) -> str:
    """What is read of a row on the way."""
    reason = "failure_reason" if rule.place == "dlq" else "-1"
    return f"id, {PLACES[rule.place][1]}, queue, type, {reason}"


def own_value(rule: TrimRule) -> list[str | int]:
    """The parameter that names the rule's own jobs, if it is not for all."""
    return [] if rule.value is None else [int(rule.value) if isinstance(rule.value, int) else rule.value]


def _job(row: Row) -> dict[str, str | int]:
    """The columns of a row that rules go by."""
    return {"queue": row[2], "type": row[3], "failure_reason": row[4]}
