"""Whoever must be heard of soon gives up a try that is not answered, and goes on with a new connection."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Iterator
from typing import Any

import pytest
from django.db import OperationalError, connection

from chokaq_django.storage import Storage, open_storage
from chokaq_django.storage.listening import CONNECT_LIMIT, PostgresListener, connect_limit

from .support import committed

pytestmark = [
    committed,
    pytest.mark.skipif(connection.vendor not in ("postgresql", "mysql"), reason="another process is waited for"),
]

HOLD = {"postgresql": "SELECT pg_advisory_lock(4712)", "mysql": "SELECT GET_LOCK('hurried', 0)"}
WAIT = {"postgresql": "SELECT pg_advisory_xact_lock(4712)", "mysql": "SELECT GET_LOCK('hurried', 60)"}
SLOW = {"postgresql": "SELECT pg_sleep(3.2)", "mysql": "SELECT SLEEP(3.2)"}
LET_GO = {"postgresql": "SELECT pg_advisory_unlock(4712)", "mysql": "SELECT RELEASE_LOCK('hurried')"}
FOR_EVER = float("inf")


@pytest.fixture
def hurried() -> Iterator[Any]:
    storage = open_storage()
    storage.hurry(0.01, 2.0)
    yield storage
    storage.close()


@pytest.fixture
def silent() -> Iterator[int]:
    """The port of a server that takes connections, and never says anything."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


def reach(storage: Any, port: int) -> None:
    """Let its next connection go to this port of the machine."""
    storage.connection.settings_dict = {**storage.connection.settings_dict, "HOST": "127.0.0.1", "PORT": port}


def session_of(storage: Storage) -> int:
    ask = {"postgresql": "SELECT pg_backend_pid()", "mysql": "SELECT CONNECTION_ID()"}[connection.vendor]
    return int(storage._query(ask)[0][0])  # type: ignore[attr-defined]


def test_a_statement_that_is_not_answered_is_given_up_and_so_is_its_connection(hurried: Any) -> None:
    first = session_of(hurried)

    def wait() -> None:
        hurried._single(lambda: hurried._query(WAIT[connection.vendor]))

    with connection.cursor() as cursor:
        cursor.execute(HOLD[connection.vendor])
        for tries in (1, 2):
            assert hurried._patience == 2.0
            with pytest.raises(OperationalError):
                wait()
            second = session_of(hurried)
            assert second != first, f"after {tries}: the next statement has a new connection"
            first = second
        assert hurried._patience == FOR_EVER, "the server is taken for slow: the next try has the engine's own limits"
        cursor.execute(LET_GO[connection.vendor])
    wait()
    assert hurried._patience < FOR_EVER
    assert hurried.now() is not None


def test_a_server_that_is_only_slow_is_not_given_up_again_and_again(hurried: Any) -> None:
    """A heartbeat of very many leases, for one: given up each time, it would never be written."""

    def slow() -> None:
        hurried._single(lambda: hurried._query(SLOW[connection.vendor]))

    for _ in range(2):
        with pytest.raises(OperationalError):
            slow()
    for _ in range(2):
        slow()
        hurried.now()


def test_in_a_transaction_nothing_is_done_again_on_the_new_connection(hurried: Any) -> None:
    tries = []

    def work() -> None:
        tries.append(session_of(hurried))
        hurried._query(WAIT[connection.vendor])

    with connection.cursor() as cursor:
        cursor.execute(HOLD[connection.vendor])
        with pytest.raises(OperationalError):
            hurried._unit(work)
        cursor.execute(LET_GO[connection.vendor])
    assert len(tries) == 1
    hurried._unit(work)
    assert len(set(tries)) == 2


def test_a_server_that_does_not_even_say_hello_is_given_up(
    hurried: Any, silent: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hurried._retrier, "attempts", 1)
    reach(hurried, silent)
    began = time.monotonic()
    with pytest.raises(OperationalError):
        hurried.now()
    assert time.monotonic() - began < CONNECT_LIMIT


@pytest.mark.skipif(connection.vendor != "mysql", reason="its drivers learn their limits when they connect")
def test_for_a_slower_server_a_connection_is_replaced(hurried: Any) -> None:
    first = session_of(hurried)
    hurried._retrier.patience.answered(3.0)
    second = session_of(hurried)
    assert second != first
    assert hurried.connection.settings_dict["OPTIONS"]["read_timeout"] == 8
    assert session_of(hurried) == second


def test_every_service_waits_for_a_connection_for_seconds_only() -> None:
    storage: Any = open_storage()
    assert 2 <= int(storage.connection.settings_dict["OPTIONS"]["connect_timeout"]) <= 10


@pytest.mark.skipif(connection.vendor != "postgresql", reason="libpq's options")
def test_the_projects_own_limit_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PGCONNECT_TIMEOUT", raising=False)
    assert connect_limit({}) == connect_limit({"connect_timeout": 0}) == 10
    assert connect_limit({"connect_timeout": "30"}) == 30
    assert connect_limit({"connect_timeout": 30}, 6.2) == 6
    assert connect_limit({"connect_timeout": 3}, 6.2) == 3
    assert connect_limit({}, 1.0) == 2, "as libpq does"
    assert connect_limit({"connect_timeout": "soon"}) == "soon", "the driver says what is wrong"
    monkeypatch.setenv("PGCONNECT_TIMEOUT", "20")
    assert connect_limit({}) == 20
    assert os.environ["PGCONNECT_TIMEOUT"] == "20"


@pytest.mark.skipif(connection.vendor != "postgresql", reason="it has notices")
def test_nor_does_who_listens_wait_for_minutes(monkeypatch: pytest.MonkeyPatch) -> None:
    import psycopg

    def connect(**params: Any) -> Any:
        raise psycopg.OperationalError(f"for {params['connect_timeout']} s")

    monkeypatch.setattr(psycopg.Connection, "connect", connect)
    monkeypatch.delenv("PGCONNECT_TIMEOUT", raising=False)
    with pytest.raises(psycopg.OperationalError, match=r"for \d+ s"):
        PostgresListener("default")
