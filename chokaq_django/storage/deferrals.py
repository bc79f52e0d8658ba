"""Rows of blocked types that stand at the head: moved out of the way, and brought back when the block has ended."""

# ruff: noqa: S608 - statements are composed of constants and column names of ours; every value is a parameter

from __future__ import annotations

from collections.abc import Collection, Sequence

from .circuit_rows import CircuitStatements
from .columns import HOT

LONGEST_SPREAD = 300.0
"""Seconds over which a long blocked head is spread, at most."""


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
        return self._unit(lambda: self._advance(queues, sorted(types), within + LONGEST_SPREAD, limit))

    def _advance(self, queues: Sequence[str], types: Sequence[str], within: float, limit: int) -> int:
        pairs = sorted(self._pairs(queues), key=lambda pair: -pair[1])
        moved = 0
        for queue, priority in pairs:
            if moved >= limit:
                break
            ids = self._deferred(queue, priority, types, within, limit - moved)
            if ids:
                among, params = self._among("id", ids)
                changed = f"run_at = due_at, updated_at = {self.NOW}"
                self._execute(f"UPDATE {self._by_key(HOT)} SET {changed} WHERE {among}", params)
            moved += len(ids)
        return moved

    def _deferred(self, queue: str, priority: int, types: Sequence[str], within: float, limit: int) -> list[str]:
        """Rows of these types that a deferral moved, locked. A row with an attempt or a snooze behind it may wait for
        reasons of its own: it is left where it is."""
        among, params = self._among("type", types)
        rows = self._query(
            f"SELECT id FROM {HOT} {self.HINT_SKIP} WHERE status = 0 AND queue = %s AND priority = %s "
            f"AND run_at > {self.NOW} AND run_at <= {self._after()} AND due_at <= {self.NOW} AND {among} "
            f"AND attempt = 0 AND snooze_count = 0 ORDER BY run_at, id {self.LIMIT} {self.LOCK_SKIP}",
            [queue, priority, within, *params, limit],
        )
        return [row[0] for row in rows]
