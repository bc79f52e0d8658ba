"""What the tests of the producer share."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

import pytest
from django.db import transaction

from chokaq_django import wake


@pytest.fixture
def woken() -> Iterator[list[str]]:
    """Notes each wake-up of the job database in this process."""
    calls: list[str] = []

    def listener() -> None:
        calls.append("woken")

    wake.subscribe("default", listener)
    yield calls
    wake.unsubscribe("default", listener)


@contextmanager
def _undone(using: str = "default") -> Iterator[None]:
    with transaction.atomic(using=using):
        yield
        transaction.set_rollback(True, using=using)


@pytest.fixture
def undone() -> Callable[..., AbstractContextManager[None]]:
    """A transaction, or inside of one a savepoint, that is rolled back at its end."""
    return _undone
