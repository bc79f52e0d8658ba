"""Fixtures that every folder of the suite may use."""

from __future__ import annotations

import platform
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import django
import pytest
from django.db import connection

from .helpers import WorkerProcess


@pytest.fixture(scope="session")
def engine() -> str:
    """The engine under test: ``sqlite``, ``postgresql``, ``mysql`` (MariaDB too), ``microsoft``."""
    return str(connection.vendor)


@pytest.fixture
def worker_process(transactional_db: None) -> Iterator[Callable[..., WorkerProcess]]:
    """Starts real ``runworker`` processes: ``worker_process("--queues=mail", options={...})``; all are gone afterwards.

    The test runs without an enclosing transaction: another process must see its rows.
    """
    with ExitStack() as stack:

        def start(*arguments: str, **named: Any) -> WorkerProcess:
            return stack.enter_context(WorkerProcess(*arguments, **named))

        yield start


def pytest_report_header(config: pytest.Config) -> str:
    driver = connection.Database.__name__  # MariaDB and SQL Server have two each
    version = f"Django {django.get_version()}, Python {platform.python_version()}"
    return f"engine: {connection.vendor} (driver {driver}), {version}"
