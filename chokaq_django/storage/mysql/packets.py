"""Statements larger than the server takes. It hangs up, and all that the driver says is that it has gone away."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from django.db import Error as DatabaseError
from django.db.backends.base.base import BaseDatabaseWrapper

from ..contract import StorageError
from .errors import code_of

CUT_OFF = frozenset({1153, 2006, 2013})
"""Packet too large, gone away, lost during a query."""
LEAST = 65_536
"""Bytes below which a statement is not suspected: no server in use takes less."""
_ESCAPED = (b'"', b"'", b"\\", b"\n", b"\r", b"\0", b"\x1a")


class TooLargeError(StorageError, ValueError):
    """A statement, with what it is to store, is larger than the server takes."""


def too_large(alias: str, length: int, limit: int) -> TooLargeError:
    """The error for a statement of so many bytes."""
    return TooLargeError(
        f"A statement of {length:,} bytes is more than the server of the job database {alias!r} takes "
        f"(max_allowed_packet is {limit:,}): set that higher on the server, or store less in one job."
    )


def bytes_of(sql: str, params: Sequence[Any] | Mapping[str, Any]) -> int:
    """How large a statement is, by its texts; of one that cannot have LEAST bytes only the characters are counted."""
    texts = [v for v in (params.values() if isinstance(params, Mapping) else params) if isinstance(v, str)]
    characters = len(sql) + sum(map(len, texts))
    return characters if characters < LEAST // 4 else len(sql) + sum(map(_sent, texts))


def too_large_error(
    connection: BaseDatabaseWrapper, error: BaseException, sql: str, params: Sequence[Any] | Mapping[str, Any]
) -> TooLargeError | None:
    """What to say instead of ``error`` if the size of the statement is why. The server is asked only then, over another
    connection."""
    if code_of(error) not in CUT_OFF:
        return None
    length = bytes_of(sql, params)
    limit = _limit(connection) if length >= LEAST else None
    return None if limit is None or length < limit else too_large(connection.alias, length, limit)


def _sent(text: str) -> int:
    """Bytes that a text has in a statement."""
    data = text.encode(errors="surrogatepass")
    return len(data) + sum(data.count(each) for each in _ESCAPED)


def _limit(connection: BaseDatabaseWrapper) -> int | None:
    other = connection.copy()
    try:
        with other.cursor() as cursor:
            cursor.execute("SELECT @@max_allowed_packet")
            return int(cursor.fetchone()[0])
    except DatabaseError:
        return None  # it has really gone away
    finally:
        other.close()
