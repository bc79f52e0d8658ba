"""Times that PostgreSQL holds and Python cannot read: infinity, years beyond 9999, years before Christ.

Nothing of ours writes them. One that somebody wrote by hand must not have every claim of its queue fail.
"""

from __future__ import annotations

import datetime as dt
import struct
from typing import Any

from psycopg import Cursor
from psycopg.adapt import Buffer, Loader, Transformer
from psycopg.pq import Format

from ..engine import Row

__all__ = ["readable_rows"]

_EPOCH = dt.datetime(2000, 1, 1, tzinfo=dt.UTC)
_EARLIEST, _LATEST = dt.datetime(1970, 1, 1, tzinfo=dt.UTC), dt.datetime(9000, 1, 1, tzinfo=dt.UTC)
"""What stands for them: times with which one can still count, in any time zone."""


class _NearestLoader(Loader):
    """The nearest time that can be read."""

    format = Format.BINARY

    def load(self, data: Buffer) -> dt.datetime:
        (micros,) = struct.unpack("!q", bytes(data))
        try:
            return min(max(_EPOCH + dt.timedelta(microseconds=micros), _EARLIEST), _LATEST)
        except OverflowError:
            return _EARLIEST if micros < 0 else _LATEST


def readable_rows(cursor: Cursor[Any]) -> list[Row]:
    """The rows of the statement that the cursor has run, with the nearest time for each that cannot be read."""
    cursor.adapters.register_loader("timestamptz", _NearestLoader)
    reader, result = Transformer(cursor), cursor.pgresult
    assert result is not None  # noqa: S101 - there were rows that could not be read
    reader.set_pgresult(result)
    return reader.load_rows(0, result.ntuples, tuple)
