"""Tables whose rows add up: what is written is inserted, or added to the row of the same key, by one upsert."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain

from django.db.models import Model

__all__ = ["Summed", "Values", "digest", "flat"]

MOST_VALUES = 656
"""Parameters of one upsert of several rows, where each value is one."""

Values = Sequence[object]
"""One row: the values of a table's ``columns``, in their order."""


@dataclass(frozen=True)
class Summed:
    """How rows of one table add up. The other columns than those named here stay as the first row had them."""

    model: type[Model]
    key: tuple[str, ...]
    columns: tuple[str, ...]
    """What a row brings."""
    sums: tuple[str, ...]
    greatest: tuple[str, ...] = ()
    least: tuple[str, ...] = ()
    latest: tuple[str, ...] = ()
    """Taken from the newer row by the first of ``greatest``, if it counts something in the last of ``sums``."""
    moments: tuple[str, ...] = ()
    """Instants among ``columns``, for which NULL means now."""
    tick: str | None = None
    """The column that is the start of the current ten seconds, which no row brings."""

    @property
    def table(self) -> str:
        return self.model._meta.db_table

    @property
    def inserted(self) -> tuple[str, ...]:
        """All columns of an INSERT."""
        return self.columns if self.tick is None else (self.tick, *self.columns)

    def values(self, given: Sequence[str], now: str, bucket: str) -> list[str]:
        """SQL of what ``inserted`` get; ``given``: SQL of what a row brings, by column."""
        values = [
            f"COALESCE({value}, {now})" if column in self.moments else value
            for column, value in zip(self.columns, given, strict=True)
        ]
        return values if self.tick is None else [bucket, *values]

    def changes(self, new: Callable[[str], str], old: Callable[[str], str] = str) -> list[str]:
        """Assignments that add a row to the one that is there; ``new`` and ``old``: SQL of a column of either."""

        def chosen(column: str, condition: str) -> str:
            return f"{column} = CASE WHEN {condition} THEN {new(column)} ELSE {old(column)} END"

        # MySQL sees in each assignment what those before it have changed: what others depend on comes behind them.
        newer = " AND ".join([f"{new(self.sums[-1])} > 0", *(f"{new(c)} >= {old(c)}" for c in self.greatest[:1])])
        return [
            *(chosen(column, newer) for column in self.latest),
            *(chosen(column, f"{new(column)} > {old(column)}") for column in self.greatest),
            *(chosen(column, f"{new(column)} < {old(column)}") for column in self.least),
            *(f"{column} = {old(column)} + {new(column)}" for column in self.sums),
        ]

    def portions(self, rows: Sequence[Values]) -> list[Sequence[Values]]:
        """``rows`` in as many statements as their parameters need."""
        size = max(1, MOST_VALUES // len(self.columns))
        return [rows[first : first + size] for first in range(0, len(rows), size)]


@functools.lru_cache(maxsize=4096)
def digest(*names: str) -> str:
    """The 32 hex digits that stand for these names in a key: several of them would not fit in one on SQL Server."""
    return hashlib.blake2b("\x1f".join(names).encode("utf-8", "backslashreplace"), digest_size=16).hexdigest()


def flat(rows: Sequence[Values]) -> list[object]:
    """The values of rows one after the other."""
    return list(chain.from_iterable(rows))
