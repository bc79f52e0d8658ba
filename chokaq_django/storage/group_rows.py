"""The rows of failure groups: written by whatever moves jobs, folded, forgotten, and set right."""

# ruff: noqa: S608 - statements are composed of constants and column names of ours; every value is a parameter

from __future__ import annotations

import secrets
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any, ClassVar

from ..models.fields import FIRST
from .columns import DLQ, GROUP, GROUP_TOTAL, names
from .contract import GroupDrift, StorageError
from .engine import CHUNK, Engine, Row, chunks
from .groups import (
    BASE,
    FRESH_END,
    GROUP_COLUMNS,
    GROUPS,
    TOTALS,
    Grouped,
    GroupRow,
    GroupTally,
    base_series,
    fingerprint_of,
)
from .summed import Values, digest

RECOUNT = "recount"
"""Name of the lease of whoever sets the groups right: two at once would correct the same difference twice."""
RECOUNT_LEASE = 600.0


class GroupStatements(Engine):
    """Counting dead jobs by groups.

    Every writer has rows of its own (a shard), so that no transaction waits for another one's: neither workers that
    bury jobs of one group, nor a web request that cancels a job and goes on for seconds. :meth:`fold_groups` adds them
    up.
    """

    HINT_ALL: ClassVar[str] = ""
    """SQL after the names of both tables in a SELECT of all their rows that must see one state of them, where a
    statement does not do so by itself."""

    # -- counting -----------------------------------------------------------------------------------------------------

    def _add_groups(self, rows: Iterable[GroupRow]) -> None:
        """Add the rows, in the order of ``series``, to their groups."""
        self._add(GROUPS, [row.values(self._instant) for row in rows])

    def _move_groups(self, left: Mapping[str, Row] | None = None, back: Mapping[str, Row] | None = None) -> None:
        """Count dead jobs out of their groups, and others back into theirs. Both: id -> its GROUPED columns, as the
        database gave them, of rows that this transaction has locked."""
        tally = GroupTally(self._shard)
        for moved, count in ((left, -1), (back, 1)):
            for job_id, row in (moved or {}).items():
                job = Grouped(*row)
                failed_at = self._read_instant(job.failed_at) or FIRST  # a day that does not exist
                tally.moved(job_id, job._replace(failed_at=failed_at), count)
        self._add_groups(tally.rows())

    # -- folding and forgetting ---------------------------------------------------------------------------------------

    def fold_groups(self, limit: int) -> int:
        # A look first, which keeps nobody from writing: mostly there is nothing.
        return self._unit(lambda: self._fold_groups(limit)) if self._single(lambda: self._unfolded(1)) else 0

    def _fold_groups(self, limit: int) -> int:
        rows = self._locked_groups(self._unfolded(limit))
        if not rows:
            return 0
        base: dict[str, GroupRow] = {}
        for row in rows:
            series = base_series(row.fingerprint, row.queue, row.type)
            known = base.get(series)
            base[series] = replace(row, series=series, shard=BASE) if known is None else _together(known, row)
        self._add_groups(base[series] for series in sorted(base))
        self._add_totals(base.values())
        for part in chunks(rows):
            self._delete(GROUP, [row.series for row in part], "series")
        return len(rows)

    def _unfolded(self, limit: int) -> list[str]:
        """Rows that are not folded yet, by the beginning of the primary key: what is folded is not read again."""
        found = self._query(
            f"SELECT series FROM {GROUP} WHERE series > %s AND series < %s ORDER BY series {self.LIMIT}",
            ["", FRESH_END, limit],
        )
        return [series for (series,) in found]

    def _add_totals(self, rows: Iterable[GroupRow]) -> None:
        """Add rows that hold what is folded to the totals of their fingerprints."""
        totals: dict[str, GroupRow] = {}
        for row in rows:
            known = totals.get(row.fingerprint)
            totals[row.fingerprint] = row if known is None else _together(known, row)
        self._add(TOTALS, [self._total(name, totals[name]) for name in sorted(totals)])

    def _total(self, fingerprint: str, row: GroupRow) -> Values:
        return [fingerprint, row.count, row.total, self._instant(row.first_seen), self._instant(row.last_seen)]

    def trim_groups(self, older_than: float, limit: int) -> int:
        return self._unit(lambda: self._trim_groups(older_than, limit))

    def _trim_groups(self, older_than: float, limit: int) -> int:
        # Whole groups: a row of one shard that counts to nothing still knows how many have died, and since when.
        found = self._query(
            f"SELECT series FROM {GROUP} WHERE series > %s AND count = 0 "
            f"AND last_seen <= {self._after()} AND NOT EXISTS (SELECT 1 FROM {GROUP} o "
            f"WHERE o.fingerprint = {GROUP}.fingerprint AND (o.count <> 0 OR o.last_seen > {self._after()})) "
            f"ORDER BY series {self.LIMIT}",
            [FRESH_END, -older_than, -older_than, limit],
        )
        # One to which jobs came meanwhile stays.
        empty = [row for row in self._locked_groups([series for (series,) in found]) if not row.count]
        if not empty:
            return 0
        for part in chunks(empty):
            self._delete(GROUP, [row.series for row in part], "series")
        self._add_totals(replace(row, total=-row.total) for row in empty)
        self._drop_totals({row.fingerprint for row in empty})
        return len(empty)

    def _drop_totals(self, fingerprints: Iterable[str]) -> None:
        """Delete those of these totals that count nothing any more."""
        for part in chunks(sorted(fingerprints)):
            among, params = self._among("fingerprint", part)
            self._execute(f"DELETE FROM {GROUP_TOTAL} WHERE {among} AND count = 0 AND total = 0", params)

    def _locked_groups(self, series: Sequence[str]) -> list[GroupRow]:
        """These rows, locked, without those that somebody is writing now."""
        rows: list[Row] = []
        for part in chunks(series):
            among, params = self._among("series", part)
            rows += self._query(
                f"SELECT {names(GROUP_COLUMNS)} FROM {self._by_key(GROUP)} {self.HINT_SKIP} WHERE {among} "
                f"ORDER BY series {self.LOCK_SKIP}",
                params,
            )
        return [self._group_row(row) for row in rows]

    def _group_row(self, row: Row) -> GroupRow:
        known: dict[str, Any] = dict(zip(GROUP_COLUMNS, row, strict=True))
        known["details"] = known.pop("message")
        for name in ("first_seen", "last_seen"):
            known[name] = self._read_instant(known[name])
        return GroupRow(**known)

    # -- setting right ------------------------------------------------------------------------------------------------

    def group_drift(self) -> list[GroupDrift]:
        found = []
        for column in ("fingerprint", "queue", "type"):  # each by an index of the DLQ alone
            rows = self._single(lambda column=column: self._query(_drift(column)))  # type: ignore[misc]
            found += [GroupDrift(column, row[0], int(row[1]), int(row[2])) for row in rows]
        return found

    def recount_groups(self) -> int:
        holder = secrets.token_hex(8)
        if not self.lead(RECOUNT, holder, RECOUNT_LEASE):
            raise StorageError("Somebody is counting the failure groups already; it takes some minutes at most.")
        try:
            while self._unit(self._give_fingerprints) == CHUNK:
                pass
            rows = self._unit(lambda: self._query(_drift(_KIND, _SEEN, self.HINT_ALL)))
            for part in chunks(rows):
                self._unit(lambda part=part: self._correct(part))  # type: ignore[misc]
            self._unit(self._correct_totals)
        finally:
            self.resign(RECOUNT, holder)
        return len(rows)

    def _give_fingerprints(self) -> int:
        """Up to CHUNK dead jobs that have no fingerprint get one; how many."""
        rows = self._query(
            f"SELECT id, failure_reason, error_type FROM {DLQ} {self.HINT} WHERE fingerprint IS NULL "
            f"ORDER BY failed_at {self.LIMIT} {self.LOCK}",
            [CHUNK],
        )
        alike: dict[str, list[str]] = {}
        for job_id, reason, error_type in rows:
            alike.setdefault(fingerprint_of(_Unnamed(error_type), reason), []).append(job_id)
        for fingerprint, ids in alike.items():
            among, params = self._among("id", ids)
            self._execute(f"UPDATE {self._by_key(DLQ)} SET fingerprint = %s WHERE {among}", [fingerprint, *params])
        return len(rows)

    def _correct(self, drift: Sequence[Row]) -> None:
        """Add what is missing to the base rows of these groups; their jobs, or their other rows, say what each is
        about."""
        told = self._told(drift)
        rows = []
        for fingerprint, queue, type_key, dead, missing, first, last, _ in drift:
            kind = (fingerprint, queue, type_key)
            if kind not in told:  # its jobs have left meanwhile, and nothing else is known of it
                continue
            row = told[kind]
            if dead:
                row = replace(row, first_seen=self._read_instant(first), last_seen=self._read_instant(last))
            rows.append(replace(row, count=int(missing), total=max(0, int(missing))))
        self._add_groups(sorted(rows, key=lambda row: row.series))

    def _correct_totals(self) -> None:
        """Add what totals lack of what is folded. Folding adds to both at once, so that what differs stays the same."""
        # Django's driver for SQL Server rewrites statements with GROUP BY and parameters.
        rows = self._query(
            f"SELECT fingerprint, SUM(dead), SUM(ever), MIN(first_seen), MAX(last_seen) FROM ("
            f"SELECT fingerprint, count AS dead, total AS ever, first_seen, last_seen FROM {GROUP} {self.HINT_ALL} "
            f"WHERE series >= '{FRESH_END}' UNION ALL SELECT fingerprint, -count, -total, first_seen, last_seen "
            f"FROM {GROUP_TOTAL} {self.HINT_ALL}) g GROUP BY fingerprint HAVING SUM(dead) <> 0 OR SUM(ever) <> 0 "
            f"ORDER BY fingerprint"
        )
        given = self._read_instant
        self._add(TOTALS, [[name, int(dead), int(ever), self._instant(given(first)), self._instant(given(last))]
                           for name, dead, ever, first, last in rows])  # fmt: skip
        self._drop_totals(row[0] for row in rows)

    def _told(self, drift: Sequence[Row]) -> dict[tuple[str, str, str], GroupRow]:
        """Fingerprint, queue, type -> the base row to add to, as far as something is known of the group."""
        kinds: dict[str, tuple[str, str, str]] = {row[7]: row[:3] for row in drift if row[7] is not None}
        told = {}
        if kinds:
            among, params = self._among("id", sorted(kinds))
            sql = f"SELECT id, failure_reason, error_type, error_details, failed_at FROM {DLQ} WHERE {among}"
            for job_id, reason, error_type, details, failed_at in self._query(sql, params):
                at = self._read_instant(failed_at) or FIRST
                told[kinds[job_id]] = GroupRow(
                    digest(*kinds[job_id], BASE), *kinds[job_id], BASE, reason, error_type, job_id, at, at, details
                )
        if empty := sorted({row[0] for row in drift if row[:3] not in told} - {None}):
            among, params = self._among("fingerprint", empty)
            sql = f"SELECT {names(GROUP_COLUMNS)} FROM {GROUP} WHERE {among} ORDER BY last_seen"
            for row in map(self._group_row, self._query(sql, params)):
                kind = (row.fingerprint, row.queue, row.type)
                told.setdefault(kind, replace(row, series=digest(*kind, BASE), shard=BASE))
        return told


class _Unnamed:
    """A dead job of which no more than its error's type is known."""

    id = queue = type = ""
    error_details: str | None = None
    fingerprint: str | None = None

    def __init__(self, error_type: str | None) -> None:
        self.error_type = error_type


def _together(one: GroupRow, other: GroupRow) -> GroupRow:
    """Two rows of one group as one."""
    newer = max(one, other, key=lambda row: (row.total > 0, row.last_seen))
    return replace(
        newer,
        series=one.series,
        shard=one.shard,
        first_seen=min(row.first_seen for row in (one, other) if row.first_seen),
        last_seen=max(row.last_seen for row in (one, other) if row.last_seen),
        count=one.count + other.count,
        total=one.total + other.total,
    )


_KIND = "fingerprint, queue, type"
_SEEN = {"first_seen": "MIN(failed_at)", "last_seen": "MAX(failed_at)", "sample_id": "MAX(id)"}


def _drift(kind: str, seen: Mapping[str, str] = MappingProxyType({}), hint: str = "") -> str:
    """The query of what groups do not count as the DLQ holds it, by these columns, with how many are dead and missing;
    and what else is to be told of the dead: name -> SQL. One statement: every move changes both tables at once, so that
    what differs is the same at every moment."""
    told = "".join(f", {sql} AS {name}" for name, sql in seen.items())
    last = "".join(f", MAX({name})" if name != "first_seen" else f", MIN({name})" for name in seen)
    return (
        f"SELECT {kind}, SUM(dead), SUM(missing){last} FROM ("
        f"SELECT {kind}, COUNT(*) AS dead, COUNT(*) AS missing{told} FROM {DLQ} {hint} GROUP BY {kind} "
        f"UNION ALL SELECT {kind}, 0, -SUM(count){', NULL' * len(seen)} FROM {GROUP} {hint} GROUP BY {kind}) g "
        f"GROUP BY {kind} HAVING SUM(missing) <> 0 ORDER BY {kind}"
    )
