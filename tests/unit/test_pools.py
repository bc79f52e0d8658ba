"""What must be closed before a process forks, whatever keeps it open."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from chokaq_django.worker import connections as worker_connections
from chokaq_django.worker.connections import close_before_fork


class Handler:
    """``django.db.connections`` with one open connection of a kind."""

    def __init__(self, wrapper: object) -> None:
        self._wrapper = wrapper
        self.closed = False

    def close_all(self) -> None:
        self.closed = True

    def all(self, initialized_only: bool = False) -> list[object]:
        assert initialized_only, "a connection that nobody has asked for needs no driver"
        return [self._wrapper]


def closing(monkeypatch: pytest.MonkeyPatch, **wrapper: Any) -> None:
    handler = Handler(SimpleNamespace(**wrapper))
    monkeypatch.setattr(worker_connections, "connections", handler)
    close_before_fork()
    assert handler.closed


def test_a_pool_of_django_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[str] = []
    closing(monkeypatch, vendor="postgresql", close_pool=lambda: done.append("closed"))
    assert done == ["closed"]


def test_the_pool_of_mssql_python_is_closed_and_stays_off(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[dict[str, Any]] = []
    driver = SimpleNamespace(pooling=lambda **options: said.append(options))
    closing(monkeypatch, vendor="microsoft", Database=driver)
    assert said == [{"enabled": False}]


def test_drivers_without_a_pool_are_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    closing(monkeypatch, vendor="microsoft", Database=SimpleNamespace(pooling=True))  # pyodbc: a flag
    closing(monkeypatch, vendor="mysql")
    closing(monkeypatch, vendor="sqlite")
