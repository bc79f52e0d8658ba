"""How statements are put together: a batch with declared variables, lists as JSON, texts side by side in one parameter,
spans of time as three integers."""

# ruff: noqa: S608 - statements are composed of constants and column names of ours; every value is a parameter

from __future__ import annotations

import datetime as dt
import functools
import re
import textwrap
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from ..columns import GROUP, HOT, QUEUE
from ..text import storable

BIN2 = "COLLATE Latin1_General_100_BIN2"
ID = f"nvarchar(26) {BIN2}"
NAME = f"nvarchar(510) {BIN2}"
"""A key: 255 characters, each of which may be two of SQL Server's."""
WORKER, LIST = "nvarchar(200)", "nvarchar(max)"
"""Types of variables: a worker's id, and a JSON text."""
BULK = 1_000
"""Rows of one statement: far below the 5,000 locks at which SQL Server takes the whole table."""

# FORCESEEK, wherever rows are found by a key or by an index. A plan made while the table was small would read all of
# it: it would lock rows that are not meant, and wait for the uncommitted jobs of somebody's long transaction.
FOUND = "WITH (FORCESEEK)"
"""Read rows found by their keys."""
CHANGED = "WITH (FORCESEEK, ROWLOCK)"
"""Change them. SQL Server takes this hint in the FROM clause of an UPDATE or DELETE, not at its target."""
LOCKED = "WITH (FORCESEEK, UPDLOCK, ROWLOCK)"
"""Lock them, waiting for rows that others have locked."""
UNLOCKED = "WITH (FORCESEEK, UPDLOCK, READPAST, ROWLOCK, READCOMMITTEDLOCK)"
"""Lock them, passing over rows that others have locked. With row versioning READPAST needs READCOMMITTEDLOCK."""
INSERTED = "WITH (ROWLOCK)"
"""Insert waiting rows: never a page of them, for which a claim would have to wait."""
PLACE = "WITH (FORCESEEK, UPDLOCK, HOLDLOCK, ROWLOCK)"
"""Lock the place of a key, so that nobody inserts it, and no other place."""
PASSING = "WITH (FORCESEEK, READPAST, ROWLOCK, READCOMMITTEDLOCK)"
"""Read what is committed, passing over rows that others are writing just now: it waits for nobody. READPAST passes over
locked rows and waits for locked pages, hence ROWLOCK in every hint."""
NOT_WAITING = "WITH (FORCESEEK, NOWAIT)"
"""Read what is committed: with row versioning whoever writes it, without an error (1222) where somebody does."""
COMMITTED = "WITH (FORCESEEK, ROWLOCK, READCOMMITTEDLOCK)"
"""Read what is committed, waiting for rows that others are writing just now, with row versioning too."""

CLOSED = f"""EXISTS (
    SELECT 1 FROM {QUEUE} AS s {FOUND}
    WHERE s.name = {{}} AND (s.is_paused = 1 OR s.is_active = 0))"""
"""That a queue is paused or hidden. Who changes the switch is waited for; with row versioning the old state counts."""

FENCE = "h.claim_number = l.claim_number AND h.worker_id = @worker AND h.status = {}"
"""That the lease ``l`` still holds the row ``h``."""

HELD = f"""FROM OPENJSON(@leases) WITH (id nvarchar(26), claim_number int) AS l
INNER LOOP JOIN {HOT} AS h {{}}
    ON h.id = l.id {BIN2}"""
"""From few leases to their rows: one seek for each, in the order of ids, whatever the plan was made on."""


MOST_TAKEN = 100
"""Times in a row that somebody may be faster: a duplicate that no look finds must not hold the server for ever."""


def again_if_taken(insert: str, then: str = "BREAK;", *, times: str, index: str = "") -> str:
    """Statements that insert rows which they have just not found, done again when somebody else was faster: he has
    committed, and they are found. No place is locked for it, so that nobody waits who writes something else.

    ``then``: what follows on success. ``times``: a variable that counts. ``index``: the one whose duplicates are meant,
    if the table has others.

    Such an error undoes its own statement only; where XACT_ABORT has it end the transaction (a worker's connection), it
    is raised, and the transaction is done again as a whole.
    """
    other = f" OR CHARINDEX(N'{index}', ERROR_MESSAGE()) = 0" if index else ""
    return f"""BEGIN TRY
{textwrap.indent(insert.strip(), "    ")}
    {then}
END TRY
BEGIN CATCH
    SET {times} += 1;
    IF ERROR_NUMBER() NOT IN (2601, 2627){other} OR XACT_STATE() = -1 OR {times} > {MOST_TAKEN} THROW;
END CATCH;"""


def by_ids(table: str, alias: str, hint: str = FOUND) -> str:
    """From the ids of ``@ids`` to their rows of ``table``."""
    return (
        f"FROM OPENJSON(@ids) WITH (id nvarchar(26) '$') AS j\n"
        f"INNER LOOP JOIN {table} AS {alias} {hint} ON {alias}.id = j.id {BIN2}"
    )


NOW = "@now"
_CLOCK = "SYSUTCDATETIME()"
_TICK = "CAST('2020-01-01T00:00:00' AS datetime2(6))"
BUCKET = f"DATEADD(second, DATEDIFF(second, {_TICK}, @now) / 10 * 10,\n        {_TICK})"


def later(days: str, seconds: str, microseconds: str) -> str:
    """SQL of the instant so much after now. DATEADD takes integers only."""
    return f"DATEADD(day, {days}, DATEADD(second, {seconds}, DATEADD(microsecond, {microseconds}, @now)))"


AFTER = later("%s", "%s", "%s")
_LONGEST, _SHORTEST = dt.timedelta(days=2_500_000), dt.timedelta(days=-700_000)


def span(seconds: float) -> tuple[int, int, int]:
    """Days, seconds, microseconds; at most some thousand years, so that no instant leaves the calendar."""
    try:
        delta = dt.timedelta(seconds=float(seconds))
    except OverflowError:
        delta = _LONGEST if seconds > 0 else _SHORTEST
    delta = max(_SHORTEST, min(_LONGEST, delta))
    return delta.days, delta.seconds, delta.microseconds


# -- batches -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Batch:
    """Statements sent together. ``given``: variable -> type; their values are the parameters.

    ``prepare`` fills table variables, ``work`` is what must be one transaction, ``after`` reads what came of it.
    ``single``: ``work`` is one statement, which needs no transaction around it.
    """

    given: tuple[tuple[str, str], ...]
    work: str
    prepare: str = ""
    after: str = ""
    single: bool = False

    @functools.cached_property
    def inside(self) -> str:
        """For an open transaction."""
        return self._text(own=False)

    @functools.cached_property
    def alone(self) -> str:
        """As a transaction of its own. XACT_ABORT: whatever fails, all of it is rolled back and nothing more is run."""
        return self._text(own=not self.single)

    def _text(self, *, own: bool) -> str:
        variables = [f"    @now datetime2(6) = {_CLOCK}"]
        variables += [f"    @{name} {kind} = %s" for name, kind in self.given]
        parts = [
            "SET NOCOUNT, XACT_ABORT ON;" if own else "SET NOCOUNT ON;",
            "DECLARE\n" + ",\n".join(variables) + ";",
            self.prepare,
            "BEGIN TRANSACTION;" if own else "",
            self.work,
            "COMMIT TRANSACTION;" if own else "",
            self.after,
        ]
        return "\n".join(part.strip("\n") for part in parts if part)


def batch(work: str, *, prepare: str = "", after: str = "", single: bool = False, **given: str) -> Batch:
    """A batch whose parameters are the variables ``given``: name=type."""
    return Batch(tuple(given.items()), work, prepare, after, single)


_BY_KEY = "(?=(?:id|job_id|operation_id|name|type|series|fingerprint) (?:=|IN) )"
_UPDATE = re.compile(rf"UPDATE (\w+) SET (.*) WHERE {_BY_KEY}", re.DOTALL)
_DELETE = re.compile(rf"DELETE FROM (\w+) WHERE {_BY_KEY}")
_SELECT = re.compile(rf"FROM (\w+) +WHERE {_BY_KEY}")
_KEYED = re.compile(rf"FROM {HOT} WHERE (?=idempotency_key IN )")
_PASSED = re.compile(rf"FROM ({HOT}|{GROUP}) WHERE (?=status = 0 AND queue = |series > )")


def sought(sql: str) -> str:
    """A portable statement that finds rows by their keys, or waiting rows by their index, with a hint to do so. Waiting
    rows, and those of groups that are looked through, are not waited for."""
    for change, form in ((_UPDATE, rf"UPDATE h SET \2 FROM \1 AS h {CHANGED} WHERE h."),
                         (_DELETE, rf"DELETE h FROM \1 AS h {CHANGED} WHERE h.")):  # fmt: skip
        if change.match(sql):
            return change.sub(form, sql, count=1)
    # The index of idempotency keys serves whoever says its filter.
    sql = _KEYED.sub(f"FROM {HOT} {FOUND} WHERE idempotency_key IS NOT NULL AND ", sql)
    return _PASSED.sub(rf"FROM \1 {PASSING} WHERE ", _SELECT.sub(rf"FROM \1 {FOUND} WHERE ", sql))


def statement(sql: str, *, count: bool) -> str:
    """One portable statement as a batch; with ``count`` it answers how many rows it changed."""
    sql = sought(sql)
    declare = f"DECLARE @now datetime2(6) = {_CLOCK};\n" if NOW in sql else ""
    return f"SET NOCOUNT ON;\n{declare}{sql};" + ("\nSELECT @@ROWCOUNT;" if count else "")


def lines(items: Iterable[str], indent: int = 4) -> str:
    """Items separated by commas, in lines of a readable length."""
    text = ",\x00".join(item.replace(" ", "\x01") for item in items).replace("\x00", " ")
    wrapped = textwrap.wrap(text, 116 - indent, break_long_words=False, break_on_hyphens=False)
    return ("\n" + " " * indent).join(wrapped).replace("\x01", " ")


# -- values ------------------------------------------------------------------------------------------------------------

_encoder = msgspec.json.Encoder()
_SIZES = (250, 1000, 4000)


def as_json(value: object) -> str:
    """JSON for OPENJSON."""
    return _filled(_encoder.encode(value).decode())


def _filled(text: str) -> str:
    """``text`` filled up with blanks to one of few lengths: drivers declare a parameter with its length, and the server
    keeps a plan for each declaration that it sees."""
    for size in _SIZES:
        if len(text) <= size:
            return text.ljust(size)
    return text


class Texts:
    """Long texts of many rows in one parameter, ``@texts``; the list of the rows says where each begins. Nothing in
    them is escaped or parsed, and what several rows have alike travels once.

    ``wide()``: whether the server counts a character beyond U+FFFF as two, which the database's collation decides.
    """

    def __init__(self, wide: Callable[[], bool]) -> None:
        self._wide = wide
        self._parts: list[str] = []
        self._places: dict[str, tuple[int, int]] = {}
        self._end = 1

    def place(self, text: str | None) -> tuple[int | None, int | None]:
        """Where it begins, and its length."""
        if text is None:
            return None, None
        found = self._places.get(text)
        if found is None:
            length = len(text)
            if not text.isascii() and max(text) > "\uffff" and self._wide():
                length = len(text.encode("utf-16-le")) // 2
            found = self._places[text] = (self._end, length)
            self._parts.append(text)
            self._end += length
        return found

    def value(self) -> str:
        return _filled("".join(self._parts))


def text_fields(names: Iterable[str]) -> dict[str, str]:
    """The fields of a row in JSON that say where its texts are."""
    return {f"{name}_{what}": "int" for name in names for what in ("at", "length")}


def text_of(name: str, row: str) -> str:
    """SQL of a text of ``row``."""
    return f"SUBSTRING(@texts, {row}.{name}_at, {row}.{name}_length)"


def rows_json(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """Rows as a JSON list of objects; what is NULL is left out, and reads as NULL."""
    return as_json(
        [{name: value for name, value in zip(columns, row, strict=True) if value is not None} for row in rows]
    )


def instant_text(value: dt.datetime) -> str:
    """An aware instant as datetime2 reads it from text: UTC, without a zone."""
    return value.astimezone(dt.UTC).replace(tzinfo=None).isoformat("T", "microseconds")


def fit(text: str | None, limit: int) -> str | None:
    """``text`` made storable and cut to ``limit`` as SQL Server counts: characters beyond U+FFFF are two."""
    text = storable(text, limit)
    if text is None or len(text) <= limit // 2:
        return text
    units = text.encode("utf-16-le")
    return text if len(units) <= 2 * limit else units[: 2 * limit].decode("utf-16-le", "ignore")
