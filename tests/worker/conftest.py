"""Workers inside the test's own process, and the ledger that jobs write into."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from chokaq_django.worker import registry
from chokaq_django.worker.process import WorkerProcess as Worker

from .. import ledger as ledger_file
from ..ledger import Ledger
from ..storage.invariants import assert_one_place
from .support import Settings, make_worker

StartWorker = Callable[..., Worker]


@pytest.fixture
def ledger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Ledger:
    """The file that the jobs of this test write into, in this process and in every worker process it starts."""
    path = tmp_path / "ledger"
    monkeypatch.setenv(ledger_file.VARIABLE, str(path))
    return Ledger(path)


@pytest.fixture(autouse=True)
def quick_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Workers of this process write their rows, and so hear what operators want of them, every half a second."""
    monkeypatch.setattr(registry, "BEAT", 0.5)


@pytest.fixture
def start_worker(
    transactional_db: None, ledger: Ledger, settings: Settings, caplog: pytest.LogCaptureFixture
) -> Iterator[StartWorker]:
    """Starts workers in this process: ``start_worker("mail", concurrency=2, RETRY={"MAX_AGE": 1})``.

    Queues by position, the rest of the plan and sections of ``CHOKAQ`` by name. Afterwards all are stopped, every job
    is in one place, and nothing logged an error.
    """
    workers: list[Worker] = []

    def start(*queues: str, **named: object) -> Worker:
        worker = make_worker(settings, *queues, **named)
        workers.append(worker)
        worker.start()
        return worker

    yield start
    for worker in workers:
        if worker._registrar.alive():  # unless the test has shut it down itself
            worker.shutdown(hurry=lambda: True)
    assert_one_place()
    errors = [record for record in caplog.get_records("call") if record.levelno >= logging.ERROR]
    assert not [f"{record.name}: {record.getMessage()}" for record in errors if record.name.startswith("chokaq")]
