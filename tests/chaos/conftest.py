"""Real worker processes under attack: what they do is counted in a ledger outside of the database."""

from __future__ import annotations

from pathlib import Path

import pytest

from .. import ledger as ledger_file
from ..ledger import Ledger


@pytest.fixture
def ledger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Ledger:
    """The file that the jobs of this test write into, in every worker process it starts."""
    path = tmp_path / "ledger"
    monkeypatch.setenv(ledger_file.VARIABLE, str(path))
    return Ledger(path)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "/chaos/" in str(item.path):
            item.add_marker(pytest.mark.chaos)
            item.add_marker(pytest.mark.django_db(transaction=True))
