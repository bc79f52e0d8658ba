"""Unit tests: no worker processes, and a database only where what it says is the subject."""

from __future__ import annotations

import pytest

from chokaq_django.job.registry import registry


@pytest.fixture(autouse=True)
def _registry_as_before(monkeypatch: pytest.MonkeyPatch) -> None:
    """Job classes that a test makes are forgotten after it."""
    for name in ("_by_key", "_by_class", "_raw", "_raw_found"):
        monkeypatch.setattr(registry, name, dict(getattr(registry, name)))
