"""Indexes that are partial where the engine can filter, and lead with the filtered column where it cannot (MySQL)."""

from __future__ import annotations

from typing import Any

from django.db import models

NOTHING = "DO 0"
"""A statement of MySQL that does nothing."""


class StatusIndex(models.Index):
    """An index over the rows of some statuses.

    ``WHERE status IN (...)`` on PostgreSQL, SQLite and SQL Server; elsewhere ``status`` becomes the leading column, and
    one that is then the beginning of another is left out: a twentieth of the cost of each transition.
    It is not a ``condition`` of Django's: that would build the index without its filter on MySQL.
    """

    def __init__(self, *, statuses: tuple[int, ...], fields: list[str], name: str) -> None:
        super().__init__(fields=fields, name=name)
        self.statuses = tuple(statuses)

    def deconstruct(self) -> tuple[str, Any, dict[str, Any]]:
        path, args, kwargs = super().deconstruct()
        return path, args, {**kwargs, "statuses": self.statuses}

    def clone(self) -> StatusIndex:
        return StatusIndex(statuses=self.statuses, fields=list(self.fields), name=self.name)

    def create_sql(self, model: Any, schema_editor: Any, using: str = "", **kwargs: Any) -> Any:
        if schema_editor.connection.vendor == "microsoft":
            # Else SQL Server may look at the row itself to be sure of its status.
            kwargs["sql"] = "CREATE INDEX %(name)s ON %(table)s (%(columns)s) INCLUDE ([status])%(condition)s"
        if schema_editor.connection.features.supports_partial_indexes:
            return super().create_sql(model, schema_editor, using, **kwargs)
        if self._is_covered(model):
            return NOTHING
        return models.Index(fields=["status", *self.fields], name=self.name).create_sql(
            model, schema_editor, using, **kwargs
        )

    def remove_sql(self, model: Any, schema_editor: Any, **kwargs: Any) -> Any:
        if not schema_editor.connection.features.supports_partial_indexes and self._is_covered(model):
            return NOTHING
        return super().remove_sql(model, schema_editor, **kwargs)

    def _is_covered(self, model: Any) -> bool:
        """Whether, without filters, a longer one begins like this one: then it does for both."""
        return any(
            isinstance(other, StatusIndex)
            and len(other.fields) > len(self.fields)
            and other.fields[: len(self.fields)] == self.fields
            for other in model._meta.indexes
        )

    def _get_condition_sql(self, model: Any, schema_editor: Any) -> str:
        column = schema_editor.quote_name("status")
        if len(self.statuses) == 1:
            return f"{column} = {int(self.statuses[0])}"
        return f"{column} IN ({', '.join(str(int(status)) for status in self.statuses)})"


class SparseIndex(models.Index):
    """An index over the rows that have a value in its first column, or over all where the engine cannot filter."""

    def _get_condition_sql(self, model: Any, schema_editor: Any) -> str | None:
        if not schema_editor.connection.features.supports_partial_indexes:
            return None
        return f"{schema_editor.quote_name(self.fields[0])} IS NOT NULL"


class SparseUniqueIndex(SparseIndex):
    """Unique among the rows that have a value: a filtered unique index, or a plain one where NULLs never clash."""

    template = "CREATE UNIQUE INDEX %(name)s ON %(table)s (%(columns)s)%(condition)s"

    def create_sql(self, model: Any, schema_editor: Any, using: str = "", **kwargs: Any) -> Any:
        kwargs["sql"] = self.template
        return super().create_sql(model, schema_editor, using, **kwargs)
