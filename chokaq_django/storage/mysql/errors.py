"""Error numbers of MariaDB, MySQL and their clients: which of them another try can cure."""

from __future__ import annotations

from django.db import Error as DatabaseError
from django.db import InterfaceError

DUPLICATE_KEY, DEADLOCK, NO_SAVEPOINT = 1062, 1213, 1305

BROKEN = frozenset({
    1053,  # server shutdown in progress
    1152, 1158, 1159, 1160, 1161, 1184,  # aborted connection, errors while packets are read or written
    1290, 1792, 1836,  # read-only server: a primary that has become a replica
    1927,  # connection was killed (MariaDB)
    2002, 2003, 2005,  # cannot connect; unknown host
    2006, 2013, 2055,  # gone away; lost connection during a query, at a read or write
    2012, 2014, 2026,  # handshake, commands out of sync, TLS
    3032, 3168,  # a server in offline mode; one that is not available yet or any more (MySQL)
    4031,  # closed by the server because it was idle (MySQL)
})  # fmt: skip
"""The connection is of no use any more; a new one may be."""

TRANSIENT = BROKEN | frozenset({
    1020,  # record has changed since last read (MariaDB, innodb_snapshot_isolation)
    1040, 1203, 1226,  # too many connections, of all or of this user
    1047,  # a Galera node that is not ready
    1180,  # error during COMMIT: certification failed on another Galera node
    1205,  # lock wait timeout
    DEADLOCK,  # its victim
    1317,  # somebody killed the query
    1412,  # table definition has changed
    1637,  # too many active transactions
    3101,  # group replication rolled back the commit
})  # fmt: skip


PARTIAL = frozenset({
    1205,  # lock wait timeout
    DEADLOCK,
    1206, 1317,  # more locks than there is room for; somebody killed the query
    1153,  # packet too large
    1969, 3024,  # statement timeout (MariaDB, MySQL)
})  # fmt: skip
"""A part of what was asked may go through."""


def code_of(error: BaseException | None) -> int | None:
    """The number of a driver's error, or of the one that Django wrapped; 0 for a connection that is closed."""
    while error is not None:
        code = error.args[0] if error.args else None
        if isinstance(code, int):
            return code
        error = error.__cause__
    return None


def is_transient(error: BaseException) -> bool:
    """Whether another try can help."""
    code = code_of(error)
    return isinstance(error, DatabaseError) and (code in TRANSIENT or (isinstance(error, InterfaceError) and not code))


def is_partial(error: BaseException) -> bool:
    """Whether a part of what was asked might go through."""
    return isinstance(error, DatabaseError) and code_of(error) in PARTIAL


def is_deadlock(error: BaseException) -> bool:
    """Whether the server has undone the transaction, the victim of a deadlock."""
    return isinstance(error, DatabaseError) and code_of(error) == DEADLOCK


def is_broken(error: BaseException) -> bool:
    """Whether the connection is of no use any more."""
    return not code_of(error) or code_of(error) in BROKEN


def is_duplicate(error: DatabaseError) -> bool:
    """Whether a key other than the primary one exists already."""
    # The name of the key stands at the end: 'PRIMARY' or, since MySQL 8.0.19, 'chokaq_job_hot.PRIMARY'.
    return code_of(error) == DUPLICATE_KEY and not str(error).rstrip("\")' ").endswith("PRIMARY")
