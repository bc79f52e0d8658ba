"""The failure groups with most jobs, and those that came last, by index, as they are at this moment.

What was folded is in one row a fingerprint, found by an index; the few rows that were not are read whole. A group of
which nothing new is known cannot be above those that the index finds first: so the first of both together are the first
of all. One statement sees both, and folding adds to both in one transaction: no job is seen twice or missed. (On SQL
Server this needs row versioning, READ_COMMITTED_SNAPSHOT, which a system check asks for; without it a figure may be off
while something is folded, until the next look.)
"""

# ruff: noqa: S608 - statements are composed of constants of this module; every value is a parameter

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from typing import Any

from ..models import FailureGroup, FailureTotal, FailureTriage
from ..storage.groups import FRESH_END
from .plans import by_index
from .selects import Selects

__all__ = ["GroupSum", "first_groups", "sum_of_all"]

_GROUP, _TOTAL, _TRIAGE = (model._meta.db_table for model in (FailureGroup, FailureTotal, FailureTriage))
_END = f"'{FRESH_END}'"
"""Literally: Django's driver for SQL Server rewrites statements with GROUP BY and parameters."""
_FRESH = f"FROM {_GROUP} WHERE series < {_END}"
_COLUMNS = {"dead": "count", "ever": "total", "first_at": "first_seen", "last_at": "last_seen"}
_ORDERS = {"count": ("count", "SUM(dead)"), "last_seen": ("last_seen", "MAX(last_at)")}


@dataclass(frozen=True, slots=True)
class GroupSum:
    """Jobs of one fingerprint: dead now, and ever; when the first and the last died."""

    fingerprint: str
    dead: int
    ever: int
    first_seen: dt.datetime
    last_seen: dt.datetime


def first_groups(alias: str, limit: int, order: str, acknowledged: bool | None = None) -> list[GroupSum]:
    """Groups with jobs in the DLQ, those first that have most of them (``order`` is "count") or came last
    ("last_seen")."""
    with by_index(alias):
        return _Reader(alias).first(limit, order, acknowledged)


def sum_of_all(alias: str) -> int:
    """How many jobs are in the DLQ."""
    with by_index(alias):
        return _Reader(alias).all()


class _Reader(Selects):
    def first(self, limit: int, order: str, acknowledged: bool | None) -> list[GroupSum]:
        column, place = _ORDERS[order]
        first, last = self.limited(limit)
        known = ""
        if acknowledged is not None:
            known = (
                f" AND {'' if acknowledged else 'NOT '}EXISTS (SELECT 1 FROM {_TRIAGE} k "
                f"WHERE k.fingerprint = {{}}.fingerprint AND k.acknowledged_at IS NOT NULL)"
            )
        hidden = "" if order == "count" else " + 0"  # from the planner, who would find those by it and sort them
        # A seek for each: an anti-join would be hashed, and all totals read, where PostgreSQL's statistics are old.
        folded = (
            f"SELECT {first}t.fingerprint, {_named('t')} FROM {_TOTAL} t WHERE t.count{hidden} > 0 AND "
            f"(SELECT MIN(n.series) FROM {_GROUP} n WHERE n.fingerprint = t.fingerprint) >= {_END}{known.format('t')} "
            f"ORDER BY t.{column} DESC, t.fingerprint DESC{last}"
        )
        both = (
            f"SELECT t.fingerprint, {_named('t')} FROM (SELECT fingerprint {_FRESH} GROUP BY fingerprint) f "
            f"INNER JOIN {_TOTAL} t ON t.fingerprint = f.fingerprint WHERE 1 = 1{known.format('t')}"
        )
        fresh = f"SELECT g.fingerprint, {_named('g')} FROM {_GROUP} g WHERE g.series < {_END}{known.format('g')}"
        sql = (
            f"SELECT {first}fingerprint, SUM(dead), SUM(ever), {self.readable('MIN(first_at)')}, "
            f"{self.readable('MAX(last_at)')} FROM (SELECT * FROM ({folded}) a UNION ALL {both} UNION ALL {fresh}) s "
            f"GROUP BY fingerprint HAVING SUM(dead) > 0 ORDER BY {place} DESC, fingerprint DESC{last}"
        )
        return [self._sum(row) for row in self.run([(sql, [])])]

    def _sum(self, row: tuple[Any, ...]) -> GroupSum:
        fingerprint, dead, ever, first, last = row
        first_seen, last_seen = self.instant(first), self.instant(last)
        assert first_seen is not None  # noqa: S101 - neither column has NULL
        assert last_seen is not None  # noqa: S101
        return GroupSum(fingerprint, int(dead), int(ever), first_seen, last_seen)

    def all(self) -> int:
        sql = (
            f"SELECT SUM(dead) FROM (SELECT SUM(count) AS dead FROM {_TOTAL} UNION ALL SELECT SUM(count) AS dead "
            f"{_FRESH}) s"
        )
        ((dead,),) = self.run([(sql, [])])
        return int(dead or 0)


def _named(table: str) -> str:
    return ", ".join(f"{table}.{column} AS {name}" for name, column in _COLUMNS.items())
