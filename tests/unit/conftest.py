"""Unit tests: no worker processes, and a database only where what it says is the subject."""

from __future__ import annotations

import pytest

from chokaq_django.job.registry import registry

OF_THE_ENGINE = {"test_checks.py", "test_missing.py", "test_pools.py", "test_server_checks.py"}
"""Modules that ask the engine; what the others show is the same on all of them."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "/unit/" in str(item.path) and item.path.name not in OF_THE_ENGINE:
            item.add_marker(pytest.mark.any_engine)


@pytest.fixture(autouse=True)
def _registry_as_before(monkeypatch: pytest.MonkeyPatch) -> None:
    """Job classes that a test makes are forgotten after it."""
    for name in ("_by_key", "_by_class", "_raw", "_raw_found"):
        monkeypatch.setattr(registry, name, dict(getattr(registry, name)))
