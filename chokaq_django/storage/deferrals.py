"""Rows of blocked types that stand at the head: moved out of the way, and brought back when the block has ended."""

# ruff: noqa: S608 - statements are composed of constants and column names of ours; every value is a parameter

from __future__ import annotations

from collections.abc import Collection, Sequence

from .circuit_rows import CircuitStatements
from .columns import HOT
from .engine import Row, chunks

LONGEST_SPREAD = 300.0
"""Seconds over which a long blocked head is spread, at most."""
PAGE, LOOKED_AT = 1_000, 20_000
"""Rows in one look for deferred ones, and in all looks of one call. What they do not reach comes back by itself."""


class DeferralStatements(CircuitStatements):
    """A deferral moves ``run_at`` and leaves ``due_at``, the time for which the job was asked."""

    def _defer(self, delays: Sequence[tuple[str, float]]) -> None:
        """Move ``run_at`` of locked Pending rows to so many seconds from now; ``due_at`` stays. Rows with nearly equal
        delays may share one."""
        ordered = sorted(delays, key=lambda item: item[1])
        steps = 1 if ordered[0][1] == ordered[-1][1] else 8
        size = -(-len(ordered) // steps)
        for first in range(0, len(ordered), size):
            step = ordered[first : first + size]
            among, params = self._among("id", [job_id for job_id, _ in step])
            self._execute(
                f"UPDATE {self._by_key(HOT)} SET run_at = {self._after()}, updated_at = {self.NOW} WHERE {among}",
                [step[-1][1], *params],
            )

    def advance(self, queues: Sequence[str], types: Collection[str], within: float, limit: int) -> int:
        moved = 0
        left = LOOKED_AT
        for pair in sorted(self._single(lambda: self._pairs(queues)), key=lambda pair: -pair[1]):
            after: Row | None = None
            while left > 0 and moved < limit:
                size = PAGE if after else min(PAGE, limit - moved)
                page = self._page(pair, sorted(types), within + LONGEST_SPREAD, after, size)
                left -= len(page)
                ids = [job_id for _, job_id, movable in page if movable][: limit - moved]
                if ids:
                    moved += self._unit(lambda ids=ids: self._move_back(ids))  # type: ignore[misc]
                if len(page) < size:
                    break
                after = page[-1]
        return moved

    def _page(
        self, pair: tuple[str, int], types: Sequence[str], within: float, after: Row | None, size: int
    ) -> list[Row]:
        """The next rows of the pair that will be due within so many seconds: when, which, and whether a deferral moved
        it and nothing else. Looked at without locks, and few at a time: most may wait for reasons of their own."""
        among, params = self._among("type", types)
        # A row with an attempt or a snooze behind it may wait for its own time.
        movable = f"CASE WHEN due_at <= {self.NOW} AND attempt = 0 AND snooze_count = 0 AND {among} THEN 1 ELSE 0 END"
        params += [*pair, within]
        beyond = ""
        if after is not None:
            # One deferral gives many rows the same instant.
            beyond = "AND run_at >= %s AND (run_at > %s OR id > %s)"
            instant = self._instant(self._read_instant(after[0]))
            params += [instant, instant, after[1]]
        return self._single(lambda: self._query(
            f"SELECT run_at, id, {movable} FROM {HOT} WHERE status = 0 AND queue = %s AND priority = %s "
            f"AND run_at > {self.NOW} AND run_at <= {self._after()} {beyond} ORDER BY run_at, id {self.LIMIT}",
            [*params, size],
        ))  # fmt: skip

    def _move_back(self, ids: Sequence[str]) -> int:
        """Give those of these rows their place back that still wait for it, and that nobody else has locked."""
        moved = 0
        for part in chunks(ids):
            among, params = self._among("id", sorted(part))
            rows = self._query(
                f"SELECT id FROM {self._by_key(HOT)} {self.HINT_SKIP} WHERE {among} AND status = 0 "
                f"AND run_at > {self.NOW} AND attempt = 0 AND snooze_count = 0 ORDER BY id {self.LOCK_SKIP}",
                params,
            )
            if rows:
                among, params = self._among("id", [row[0] for row in rows])
                changed = f"run_at = due_at, updated_at = {self.NOW}"
                self._execute(f"UPDATE {self._by_key(HOT)} SET {changed} WHERE {among}", params)
            moved += len(rows)
        return moved
