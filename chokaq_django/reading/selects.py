"""Many small SELECTs as few statements, in the engine's dialect. Each is a seek, so that a look costs the same whatever
the tables hold."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from typing import Any

from django.db import connections

from ..models.fields import UTCDateTimeField, readable_instant

__all__ = ["Select", "Selects"]

AT_ONCE = 100
"""Parts of one statement."""

Select = tuple[str, list[Any]]
"""A SELECT without a limit of its own at its end, and its parameters."""


class Selects:
    """What the readers share."""

    def __init__(self, alias: str) -> None:
        self._connection = connections[alias]
        self._field = UTCDateTimeField()

    def limited(self, limit: int) -> tuple[str, str]:
        """What stands before the columns, and at the end, of a SELECT of the first ``limit`` rows."""
        return (f"TOP ({limit}) ", "") if self._connection.vendor == "microsoft" else ("", f" LIMIT {limit}")

    def parameter(self, value: dt.datetime) -> Any:
        return self._field.get_db_prep_value(value, self._connection)

    def readable(self, sql: str) -> str:
        """An instant as it is selected, for :meth:`instant`."""
        return readable_instant(sql, self._connection)

    def instant(self, value: Any) -> dt.datetime | None:
        found: dt.datetime | None = self._field.from_db_value(value, None, self._connection)
        return found

    def run(self, selects: Sequence[Select]) -> list[tuple[Any, ...]]:
        """The rows of all of them, in no order that one may rely on."""
        found: list[tuple[Any, ...]] = []
        for start in range(0, len(selects), AT_ONCE):
            part = selects[start : start + AT_ONCE]
            sql = " UNION ALL ".join(text for text, _ in part)
            params = [value for _, values in part for value in values]
            with self._connection.cursor() as cursor:
                cursor.execute(sql, params)
                found += cursor.fetchall()
        return found
