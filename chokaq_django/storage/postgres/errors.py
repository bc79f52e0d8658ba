"""What an error of PostgreSQL means, by its SQLSTATE."""

from __future__ import annotations

from django.db import Error as DatabaseError
from django.db import InterfaceError, OperationalError

__all__ = ["StatementTimeoutError", "is_broken", "is_deadlock", "is_partial", "is_transient"]

DEADLOCK, READ_ONLY = "40P01", "25006"
_BROKEN = ("08", "57P")
UNPREPARED = "26000"
"""A prepared statement that the server does not have: one of a pipeline that an error ended before it was prepared. The
driver remembers it nevertheless, and asks for it again and again."""
_TRANSIENT = {"40001", DEADLOCK, "55P03", "53300", READ_ONLY, UNPREPARED}
"""Serialization failure, deadlock, lock not available, too many connections, read-only server (failover)."""
_PARTIAL = {"40001", DEADLOCK, "55P03", "57014", "53200"}
"""Serialization failure, deadlock, lock not available, statement timeout, out of memory."""
_TOO_MUCH = "54"
"""A limit of the server's program."""


class StatementTimeoutError(OperationalError):
    """The server did not answer within CLIENT_LIMIT; the connection was closed."""


def is_transient(error: BaseException) -> bool:
    """Whether another try can help."""
    if isinstance(error, StatementTimeoutError) or not isinstance(error, DatabaseError):
        return False
    state = _sqlstate(error)
    if state is None:
        return isinstance(error, (OperationalError, InterfaceError))
    return state in _TRANSIENT or state.startswith(_BROKEN)


def is_partial(error: BaseException) -> bool:
    """Whether a part of the statement might go through."""
    state = _sqlstate(error) or ""
    return state in _PARTIAL or state.startswith(_TOO_MUCH)


def is_deadlock(error: BaseException) -> bool:
    """Whether the server has undone the transaction, the victim of a deadlock."""
    return _sqlstate(error) == DEADLOCK


def is_broken(error: BaseException) -> bool:
    """Whether the connection is of no use any more, to this server or at all."""
    state = _sqlstate(error)
    return state is None or state in (READ_ONLY, UNPREPARED) or state.startswith(_BROKEN)


def _sqlstate(error: BaseException | None) -> str | None:
    """The SQLSTATE of a driver's error, or of the one that Django wrapped."""
    while error is not None:
        state = getattr(error, "sqlstate", None)
        if state:
            return str(state)
        error = error.__cause__
    return None
