"""Where each rule of retention is: see :class:`~..models.RetentionMark`."""

# ruff: noqa: S608 - statements are composed of constants and column names of ours; every value is a parameter

from __future__ import annotations

import datetime as dt
from collections.abc import Collection, Sequence

from .columns import ARCHIVE, DLQ, MARK
from .engine import Row
from .fleet import FleetStatements
from .retention_rules import TrimRule, Walk

PLACES = {"archive": (ARCHIVE, "finished_at"), "dlq": (DLQ, "failed_at")}
"""Table, and the column that says since when its jobs are there."""
BEGINNING = Walk(dt.datetime(1970, 1, 1, tzinfo=dt.UTC), "")
LAG = dt.timedelta(minutes=10)
"""A mark stays so far behind: a transaction that ends late may still bring a row with an earlier time."""

_NEW = ("name", "place", "others", "job_id", "removed", "total")
_NEW_VALUES = "%s, %s, '', '', 0, 0"


class MarkStatements(FleetStatements):
    """Reading marks, and setting them."""

    def trimmed(self, name: str, place: str, removed: int) -> None:
        def work() -> None:
            self._insert_unless_there(MARK, _NEW, _NEW_VALUES, [name, place])
            self._execute(
                f"UPDATE {MARK} SET passed_at = {self.NOW}, removed = %s, total = total + %s WHERE name = %s",
                [removed, removed, name],
            )

        self._unit(work)

    def forget_rules(self, but: Collection[str]) -> None:
        def work() -> None:
            gone = {name for (name,) in self._query(f"SELECT name FROM {MARK}")}.difference(but, PLACES)
            if gone:
                self._delete(MARK, sorted(gone), "name")

        self._unit(work)

    def _mark_of(self, rule: TrimRule, *, lock: bool = False) -> list[Row]:
        hint, end = (self.HINT, self.LOCK) if lock else ("", "")
        columns = "others, at, job_id, again_at"
        return self._query(f"SELECT {columns} FROM {MARK} {hint} WHERE name = %s {end}", [rule.name])

    def _beginning(self, rule: TrimRule, mark: Sequence[Row]) -> Walk:
        """Where a pass of a rule with this mark begins."""
        if not mark or mark[0][0] != rule.others:
            return BEGINNING
        at, again = (self._read_instant(value) for value in (mark[0][1], mark[0][3]))
        if at is None:
            return BEGINNING
        return Walk(at, mark[0][2]) if again is None or again > at else Walk(again, "")

    def _begin_pass(self, rule: TrimRule) -> Walk:
        """The beginning of a pass, which the mark is set to."""
        mark = self._mark_of(rule)
        if not mark or mark[0][1] is None:
            self._take_turn(rule.place)
        mark = self._mark_of(rule, lock=True)
        if not mark:
            self._insert_unless_there(MARK, _NEW, _NEW_VALUES, [rule.name, rule.place])
        walk = self._beginning(rule, mark)
        if not mark or mark[0][0] != rule.others or mark[0][3] is not None:
            self._execute(
                f"UPDATE {MARK} SET others = %s, at = %s, job_id = %s, again_at = NULL WHERE name = %s",
                [rule.others, self._instant(walk.at), walk.job_id, rule.name],
            )
        return walk

    def _set_mark(self, rule: TrimRule, reached: Walk, until: dt.datetime) -> None:
        safe = until - LAG
        walk = reached if reached.at < safe else Walk(safe, "")
        self._execute(
            f"UPDATE {MARK} SET at = %s, job_id = %s WHERE name = %s",
            [self._instant(walk.at), walk.job_id, rule.name],
        )

    def _hold_mark(self, rule: TrimRule) -> None:
        """Lock the mark until the transaction ends."""
        self._mark_of(rule, lock=True)

    def _take_turn(self, place: str) -> None:
        """Hold, until the transaction ends, what both hold: whoever brings jobs back to ``place``, and a pass of a rule
        that has no mark to write that on. The pass begins with the jobs, or is found by its mark."""
        if not self._execute(f"UPDATE {MARK} SET total = total + 1 WHERE name = %s", [place]) and not (
            self._insert_unless_there(MARK, _NEW, _NEW_VALUES, [place, ""])
        ):
            self._execute(f"UPDATE {MARK} SET total = total + 1 WHERE name = %s", [place])

    def _came_back(self, place: str, ids: Sequence[str]) -> None:
        """Have rules look again at jobs that are in ``place`` with the time of an earlier stay, or that another rule
        goes for now."""
        if not ids:
            return
        self._take_turn(place)
        table, ended = PLACES[place]
        among, params = self._among("id", ids)
        oldest = self._read_instant(self._query(f"SELECT MIN({ended}) FROM {table} WHERE {among}", params)[0][0])
        rules = [name for (name,) in self._query(f"SELECT name FROM {MARK} WHERE place = %s", [place])]
        if oldest is None or not rules:
            return
        among, params = self._among("name", rules)
        self._execute(
            f"UPDATE {self._by_key(MARK)} SET again_at = CASE WHEN again_at < %s THEN again_at ELSE %s END "
            f"WHERE {among}",
            [self._instant(oldest), self._instant(oldest), *params],
        )
