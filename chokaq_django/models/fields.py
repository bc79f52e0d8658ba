"""Column types that mean the same on every engine.

Django's own fields differ where a job system must not: a CharField on PostgreSQL brings a second ``_like`` index and a
language collation, on MySQL and SQL Server it merges 'A', 'a' and 'a '; a DateTimeField on SQLite drops the fraction
when it is zero, so that two spellings of one instant compare unequal as text.
"""

from __future__ import annotations

import datetime as dt
import functools
import zoneinfo
from typing import Any

from django.core.checks import CheckMessage
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

    def check(self, **kwargs: Any) -> list[CheckMessage]:
        # Django warns of unique columns above 255 characters on MySQL, for MyISAM's sake. These tables need InnoDB,
        # where an index takes 768 characters of four bytes.
        return [message for message in super().check(**kwargs) if message.id != "mysql.W003"]

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

    def db_parameters(self, connection: BaseDatabaseWrapper) -> Any:
        # Not part of db_type: by that name alone Django knows a text on MySQL, whose default has to be an expression.
        parameters = super().db_parameters(connection)
        return {**parameters, "type": _any_character(parameters["type"], connection)}


def _any_character(plain: str | None, connection: BaseDatabaseWrapper) -> str | None:
    """A failure must be recorded also in a MySQL database of latin1, where its text would be an error otherwise."""
    return f"{plain} CHARACTER SET utf8mb4" if connection.vendor == "mysql" else plain


FIRST, LAST = dt.datetime.min.replace(tzinfo=dt.UTC), dt.datetime.max.replace(tzinfo=dt.UTC)
"""What is read in place of an instant that Python cannot hold: one before the year 1, and one after the year 9999."""
DAY = dt.timedelta(days=1)


class UTCDateTimeField(models.DateTimeField):  # type: ignore[type-arg]
    """An instant, always aware and in UTC in Python, with six digits of a second in every engine.

    An instant that somebody wrote by hand and no driver can read is read as FIRST or LAST; no row hides the others.
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

    def select_format(self, compiler: Any, sql: str, params: Any) -> tuple[str, Any]:
        readable = readable_instant(sql, compiler.connection)
        return readable, params if readable == sql else (*params, *params)

    def from_db_value(self, value: Any, expression: Any, connection: BaseDatabaseWrapper) -> Any:
        if isinstance(value, dt.datetime) and value.tzinfo is None and connection.vendor == "postgresql":
            # Without USE_TZ, Django has the server convert to TIME_ZONE and drops the zone.
            value = value.replace(tzinfo=zoneinfo.ZoneInfo(connection.timezone_name))
        found = from_db(value)
        return found if found is None or connection.vendor != "postgresql" else _from_local(found, connection)


def _from_local(value: dt.datetime, connection: BaseDatabaseWrapper) -> dt.datetime:
    """FIRST or LAST for what :func:`readable_instant` has put in their place: a list that pages on from there must know
    that everything unreadable stands there."""
    if connection.timezone_name == "UTC" or FIRST + DAY < value < LAST - DAY:
        return value
    return FIRST if value <= FIRST + DAY else LAST


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
    return _from_text(value) if isinstance(value, str) else as_utc(value)


@functools.lru_cache(maxsize=1024)
def _from_text(value: str) -> dt.datetime:
    # The instants of a job, and of jobs that were stored or started together, are mostly the same few texts.
    try:
        return as_utc(dt.datetime.fromisoformat(value))
    except (ValueError, OverflowError):  # the second: with an offset that leads out of Python's years
        return FIRST if value < "9999" else LAST  # SQLite compares them as text


def readable_instant(sql: str, connection: Any) -> str:
    """``sql`` of an instant that is selected, with what the driver cannot read replaced by FIRST or LAST.

    PostgreSQL holds infinity, years before Christ and beyond 9999; MySQL the days 0000-00-00 and 2026-02-00. Where
    ``sql`` is changed, it stands there twice.
    """
    if connection.vendor == "postgresql":
        # A day less where the server gives local times, which must be within these years too.
        days = ("01", "31") if connection.timezone_name == "UTC" else ("02", "30")
        low = f"'0001-01-{days[0]} 00:00:00+00'::timestamptz"
        high = f"'9999-12-{days[1]} 23:59:59.999999+00'::timestamptz"
        return f"CASE WHEN {sql} IS NOT NULL THEN LEAST(GREATEST({sql}, {low}), {high}) END"
    if connection.vendor == "mysql":
        # A day that does not exist cannot be added to.
        low = "TIMESTAMP'0001-01-01 00:00:00.000000'"
        return f"CASE WHEN {sql} IS NOT NULL THEN COALESCE({sql} + INTERVAL 0 SECOND, {low}) END"
    return sql


_FOR_MANY = {"postgresql": (FIRST, LAST), "sqlite": (FIRST, LAST), "mysql": (FIRST,)}


def stands_for_many(at: dt.datetime, vendor: str) -> bool:
    """Whether this is read in place of instants that differ, so that the server alone can tell what follows a row that
    has it. MySQL's years end as Python's do; SQL Server's begin so, too."""
    return at in _FOR_MANY.get(vendor, ())


def held_instant(sql: str, vendor: str) -> str:
    """``sql`` of an instant to be compared with one that cannot be read. As such, MySQL finds nothing in an index by a
    day that does not exist, unless somebody has turned its checks off."""
    return f"{sql} + 0" if vendor == "mysql" else sql
