"""SQL Server: what a try may wait whose answer must come soon, over a driver that answers as it is told."""

from __future__ import annotations

import time
from typing import Any

import pytest

from .mssql_recorder import Recorder, private_storage

import pyodbc  # isort: skip - after the recorder, which skips where it cannot be

from chokaq_django.storage.mssql.session import STATEMENT_LIMIT  # isort: skip

pytestmark = pytest.mark.any_engine

SLOW = pyodbc.OperationalError("HYT00", "[HYT00] [Microsoft][ODBC Driver 18 for SQL Server]Query timeout expired (0)")


@pytest.fixture
def recorder() -> Recorder:
    return Recorder()


@pytest.fixture
def own(recorder: Recorder) -> Any:
    storage = private_storage(recorder)
    storage._retrier.sleep = lambda seconds: None
    return storage


def test_without_hurry_the_limits_are_the_workers_and_the_projects(own: Any) -> None:
    own.pending_queues()
    assert own.connection.connection.timeout == STATEMENT_LIMIT
    assert "connection_timeout" not in own.connection.settings_dict["OPTIONS"]


def test_the_login_and_each_statement_are_limited(own: Any) -> None:
    own.hurry(0.1, 6.5)
    own.pending_queues()
    assert own.connection.connection.timeout == 6
    options = own.connection.settings_dict["OPTIONS"]
    assert (options["connection_timeout"], options["connection_retries"]) == (6, 0)


def test_for_a_slower_server_the_same_connection_waits_longer(own: Any, recorder: Recorder) -> None:
    own.hurry(0.1, 6.5)
    own.pending_queues()
    own._retrier.patience.answered(5.0)
    own.pending_queues()
    assert own.connection.connection.timeout == 13
    assert recorder.opened == 1


def test_what_ran_out_is_tried_on_a_new_connection(
    own: Any, recorder: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    own.hurry(0.1, 6.5)
    own.pending_queues()
    clock = time.monotonic
    waited = iter([0.0])

    def late(sql: str, params: Any, run: Any = recorder.run) -> Any:
        if "DISTINCT" in sql or "chokaq_job_hot" in sql:
            for _ in waited:
                monkeypatch.setattr(time, "monotonic", lambda: clock() + 6)
                raise SLOW
        return run(sql, params)

    monkeypatch.setattr(recorder, "run", late)
    assert own.pending_queues() == []
    assert recorder.opened == 2, "the first may be dead"
    assert recorder.closed == 1


def test_a_timeout_that_came_before_its_time_leaves_the_connection(own: Any, recorder: Recorder) -> None:
    own.hurry(0.1, 6.5)
    own.pending_queues()
    recorder.fail("chokaq_job_hot", SLOW)
    assert own.pending_queues() == []
    assert recorder.opened == 1
