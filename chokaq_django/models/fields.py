"""Column types that mean the same on every engine.

Django's own fields differ where a job system must not: a CharField on PostgreSQL brings a second ``_like`` index and a
language collation, on MySQL and SQL Server it merges 'A', 'a' and 'a '; a DateTimeField on SQLite drops the fraction
when it is zero, so that two spellings of one instant compare unequal as text.
"""

from __future__ import annotations

import datetime as dt
import zoneinfo
from typing import Any

from django.db import models
from django.db.backends.base.base import BaseDatabaseWrapper


class KeyField(models.CharField):  # type: ignore[type-arg]
    """Text compared byte by byte: ids, queue names, type keys, idempotency keys."""

    def db_type(self, connection: BaseDatabaseWrapper) -> str | None:
        plain = super().db_type(connection)
        if connection.vendor == "postgresql":
            # Not spelled "varchar": Django gives a unique column of that name a second index for LIKE, which "C" makes
            # superfluous and which every job would pay for.
            return f'character varying({self.max_length}) COLLATE "C"'
        if connection.vendor == "mysql":
            return f"{plain} CHARACTER SET utf8mb4 COLLATE {_no_pad(connection)}"
        if connection.vendor == "microsoft":
            # It counts in UTF-16, where a character beyond U+FFFF is two.
            return f"nvarchar({2 * self.max_length}) COLLATE Latin1_General_100_BIN2"  # type: ignore[operator]
        return plain

    def cast_db_type(self, connection: BaseDatabaseWrapper) -> str | None:
        return super().db_type(connection)

    def db_parameters(self, connection: BaseDatabaseWrapper) -> Any:
        # The collation is part of db_type, so that ALTER statements repeat it.
        return {"type": self.db_type(connection), "check": None, "collation": None}


def _no_pad(connection: Any) -> str:
    """The binary collation that tells 'a' from 'a ', which each server calls by a name of its own."""
    if connection.mysql_is_mariadb:
        return "utf8mb4_nopad_bin"
    return "utf8mb4_0900_bin" if connection.mysql_version >= (8, 0, 17) else "utf8mb4_bin"


class ULIDField(KeyField):
    """A 26 character ULID."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        kwargs.setdefault("max_length", 26)
        super().__init__(*args, **kwargs)

    def db_type(self, connection: BaseDatabaseWrapper) -> str | None:
        if connection.vendor == "microsoft":
            return f"nvarchar({self.max_length}) COLLATE Latin1_General_100_BIN2"  # ASCII
        return super().db_type(connection)


class CharField(models.CharField):  # type: ignore[type-arg]
    """A short text that may hold any character, whatever character set the database was made with."""

    def db_type(self, connection: BaseDatabaseWrapper) -> str | None:
        return _any_character(super().db_type(connection), connection)

    def cast_db_type(self, connection: BaseDatabaseWrapper) -> str | None:
        return super().db_type(connection)


class TextField(models.TextField):  # type: ignore[type-arg]
    """A long text that may hold any character, whatever character set the database was made with."""

    def db_type(self, connection: BaseDatabaseWrapper) -> str | None:
        return _any_character(super().db_type(connection), connection)


def _any_character(plain: str | None, connection: BaseDatabaseWrapper) -> str | None:
    """A failure must be recorded also in a MySQL database of latin1, where its text would be an error otherwise."""
    return f"{plain} CHARACTER SET utf8mb4" if connection.vendor == "mysql" else plain


class UTCDateTimeField(models.DateTimeField):  # type: ignore[type-arg]
    """An instant, always aware and in UTC in Python, with six digits of a second in every engine.

    It does not depend on USE_TZ: job times are compared by the database clock and mean the same in every project.
    Expressions are stored and compared as the engine makes them; SQLite's ``Now()`` has three digits only, so values
    are compared with it to the millisecond.
    """

    def get_internal_type(self) -> str:
        return "UTCDateTimeField"

    def db_type(self, connection: BaseDatabaseWrapper) -> str:
        return {
            "postgresql": "timestamp with time zone",
            "sqlite": "text",
            "mysql": "datetime(6)",
            "microsoft": "datetime2(6)",
        }[connection.vendor]

    def get_db_prep_value(self, value: Any, connection: BaseDatabaseWrapper, prepared: bool = False) -> Any:
        if not prepared:
            value = self.get_prep_value(value)
        if not isinstance(value, dt.datetime):
            return value
        value = as_utc(value)
        if connection.vendor == "postgresql":
            return value
        return to_text(value) if connection.vendor == "sqlite" else value.replace(tzinfo=None)

    def get_prep_value(self, value: Any) -> Any:
        value = models.Field.get_prep_value(self, value)
        return self.to_python(value)

    def to_python(self, value: Any) -> Any:
        if isinstance(value, dt.datetime):
            return as_utc(value)
        value = super().to_python(value)
        return as_utc(value) if isinstance(value, dt.datetime) else value

    def from_db_value(self, value: Any, expression: Any, connection: BaseDatabaseWrapper) -> Any:
        if isinstance(value, dt.datetime) and value.tzinfo is None and connection.vendor == "postgresql":
            # Without USE_TZ, Django has the server convert to TIME_ZONE and drops the zone.
            value = value.replace(tzinfo=zoneinfo.ZoneInfo(connection.timezone_name))
        return from_db(value)


def as_utc(value: dt.datetime) -> dt.datetime:
    """The same instant in UTC; a naive value is taken as UTC already."""
    return value.replace(tzinfo=dt.UTC) if value.tzinfo is None else value.astimezone(dt.UTC)


def to_text(value: dt.datetime) -> str:
    """The one form in which SQLite stores an instant: ``2026-01-31 23:59:59.000000``, UTC, compared as text."""
    return as_utc(value).isoformat(" ", "microseconds")[:26]  # without the offset


def from_db(value: Any) -> dt.datetime | None:
    """An instant as any engine returns it (aware, naive UTC, or SQLite text) as an aware datetime."""
    if value is None:
        return None
    if isinstance(value, str):
        value = dt.datetime.fromisoformat(value)
    return as_utc(value)
