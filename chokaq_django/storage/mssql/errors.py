"""What a SQL Server error means, by SQLSTATE, by its number, and by its text.

pyodbc tells the SQLSTATE and the number; mssql-python tells neither, but a text for the SQLSTATE and the server's
message. Servers that speak the protocol without being SQL Server have other numbers. So all three are looked at.
"""

from __future__ import annotations

import enum
import re

from django.db import Error as DjangoError

from ..columns import HOT


class Transient(enum.Enum):
    """Errors after which another try can help."""

    LOST = "lost"  # the connection is gone, or the server is going: connect again
    BUSY = "busy"  # deadlock victim, lock or query timeout, throttled: the connection is good
    RACE = "race"  # a unique violation: another transaction has inserted the same key meanwhile


_LOST_NUMBERS = {
    20, 64, 121, 233, 10053, 10054, 10060,  # the network under the connection
    596, 6005,  # session killed, shutdown in progress
    921, 922, 976, 983, 3906, 4221,  # database not recovered yet, secondary replica, read-only: a failover
    4060, 40197, 40613,  # Azure: database moves to another node
}  # fmt: skip
_BUSY_NUMBERS = {
    -2,  # the client's timeout
    1204, 1205, 1222, 3960, 3961,  # out of locks, deadlock, lock timeout, snapshot conflicts
    701, 8628, 8645, 8651,  # no memory for the statement now, no time to plan it
    10928, 10929, 10936, 40501, 49918, 49919, 49920,  # Azure: limits and throttling
}  # fmt: skip
_UNIQUE_NUMBERS = {2601, 2627}

_LOST_STATES = ("08",)
_BUSY_STATES = {"40001", "HYT00", "HYT01"}

_STATES = {
    "Serialization failure": "40001",
    "Timeout expired": "HYT00",
    "Connection timeout expired": "HYT01",
    "Communication link failure": "08S01",
    "Client unable to establish connection": "08001",
    "Connection not open": "08003",
    "Server rejected the connection": "08004",
    "Connection failure during transaction": "08007",
    "Disconnect error": "01002",
    "Integrity constraint violation": "23000",
}
"""mssql-python's texts of the SQLSTATEs that matter here."""

_LOST_TEXTS = (
    "communication link failure", "transport-level error", "tcp provider", "named pipes provider",
    "connection is broken", "connection reset", "broken pipe", "closed connection", "connection is closed",
    "connection was closed", "connection has been closed", "connection may have been terminated", "not connected to",
    "session is in the kill state",
    "shutdown is in progress", "server closed the connection", "terminating connection", "is starting up",
    "the connection is no longer usable", "login timeout expired", "unable to complete login process",
    "is not currently available", "login to read-secondary failed", "database is read-only", "cannot open database",
    "service has encountered an error processing your request",
)  # fmt: skip
_BUSY_TEXTS = (
    "was deadlocked on", "deadlock victim", "deadlock detected", "could not serialize access",
    "lock request time out", "lock timeout", "query timeout expired", "statement timeout", "could not obtain lock",
    "snapshot isolation transaction aborted", "service is currently busy", "not enough resources",
    "insufficient system memory", "waiting for memory resources", "waiting to optimize the query",
)  # fmt: skip
_UNIQUE_TEXTS = (
    "cannot insert duplicate key", "violation of primary key constraint", "violation of unique key constraint",
    "duplicate key value violates unique constraint",
)  # fmt: skip

_NUMBER = re.compile(r"\((-?\d+)\)(?= \(SQL|; \[|\s*$)")
"""The server's number at the end of each message of pyodbc's text. Values in brackets stand elsewhere in it."""
_STATE = re.compile(r"^\[?([0-9A-Z]{5})\]?$|^\[([0-9A-Z]{5})\]|SQLSTATE code: ([0-9A-Z]{5})")

KEY_INDEX = "chokaq_hot_key"
_JOB_TABLES = HOT.removesuffix("hot")


def transient(error: BaseException | None) -> Transient | None:
    """What another try could help against; None for what would fail again."""
    for link in _chain(error):
        found = _transient(link)
        if found is not None:
            return found
    return None


def is_deadlock(error: BaseException | None) -> bool:
    """Whether the server has undone the transaction, the victim of a deadlock; 1205, however the driver says it."""
    texts = ("was deadlocked on", "deadlock victim", "deadlock detected")
    return any(1205 in _numbers(link) or any(text in _text(link) for text in texts) for link in _chain(error))


def is_partial(error: BaseException | None) -> bool:
    """Whether a part of what was asked might go through."""
    return transient(error) is Transient.BUSY


def is_unique_violation(error: BaseException | None) -> bool:
    """Whether it is a duplicate key, and not another constraint."""
    return any(_is_unique(_states(link), _numbers(link), _text(link)) for link in _chain(error))


def _chain(error: BaseException | None) -> list[BaseException]:
    """Django's error and the driver's under it. Anything that is no database error is none of ours."""
    links: list[BaseException] = []
    while error is not None and error not in links:
        if isinstance(error, DjangoError) or type(error).__module__.split(".")[0] in ("pyodbc", "mssql_python"):
            links.append(error)
        error = error.__cause__
    return links


def _transient(error: BaseException) -> Transient | None:
    states, numbers, text = _states(error), _numbers(error), _text(error)
    if _is_unique(states, numbers, text):
        # A job's id that exists is a caller's mistake, and not a race.
        return Transient.RACE if KEY_INDEX in text or _JOB_TABLES not in text else None
    if numbers & _LOST_NUMBERS or any(state.startswith(_LOST_STATES) for state in states):
        return Transient.LOST
    if numbers & _BUSY_NUMBERS:
        return Transient.BUSY
    if any(part in text for part in _LOST_TEXTS):
        return Transient.LOST
    if states & _BUSY_STATES or any(part in text for part in _BUSY_TEXTS):
        return Transient.BUSY
    return None


def _is_unique(states: set[str], numbers: set[int], text: str) -> bool:
    if numbers & _UNIQUE_NUMBERS:
        return True
    # With another number, or none at all, the text has to say so: 23000 is any constraint.
    return (not states or "23000" in states or "23505" in states) and any(part in text for part in _UNIQUE_TEXTS)


def _states(error: BaseException) -> set[str]:
    found = set()
    for argument in error.args:
        match = _STATE.search(argument) if isinstance(argument, str) else None
        if match:
            found.add(next(group for group in match.groups() if group))
    told = getattr(error, "driver_error", None) or _driver_error(error)
    if told in _STATES:
        found.add(_STATES[told])
    return found


def _driver_error(error: BaseException) -> str:
    """The part of mssql-python's text that stands for the SQLSTATE: Django's error has the text only."""
    text = str(error.args[0]) if error.args else ""
    head, mark, rest = text.partition("Driver Error: ")
    return rest.partition("; DDBC Error: ")[0] if mark and not head else ""


def _numbers(error: BaseException) -> set[int]:
    if len(error.args) < 2:  # mssql-python: what stands in brackets there is the message's own
        return set()
    return {int(number) for argument in error.args if isinstance(argument, str) for number in _NUMBER.findall(argument)}


def _text(error: BaseException) -> str:
    return " ".join(str(argument) for argument in error.args).lower()
