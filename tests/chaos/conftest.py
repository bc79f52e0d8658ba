"""Real worker processes under attack: what they do is counted in a ledger outside of the database, and every tenth of a
second somebody looks whether each job is in exactly one table."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from .. import ledger as ledger_file
from ..ledger import Ledger
from ..storage.invariants import Sampler


@pytest.fixture
def ledger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Ledger:
    """The file that the jobs of this test write into, in every worker process it starts."""
    path = tmp_path / "ledger"
    monkeypatch.setenv(ledger_file.VARIABLE, str(path))
    return Ledger(path)


@pytest.fixture(autouse=True)
def sampler(transactional_db: None) -> Iterator[Sampler]:
    """Looks all through the test. Whatever a test enqueues, it does within :meth:`Sampler.accepting`."""
    with Sampler() as sampler:
        yield sampler
    sampler.check()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "/chaos/" in str(item.path):
            item.add_marker(pytest.mark.chaos)
