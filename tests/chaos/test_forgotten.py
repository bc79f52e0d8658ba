"""A firewall forgets the connections of one worker: it lives, reaches the database by new ones, and is heard of."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import pytest
from django.db import connection

from chokaq_django import enqueue
from chokaq_django.models import JobArchive, JobDLQ, JobHot, Worker

from ..helpers import WorkerProcess, database_url, wait_until
from ..jobs import GateJob
from ..ledger import Ledger
from ..storage.invariants import Sampler
from .proxy import Proxy
from .support import nothing_active, workers_there

OPTIONS = {
    "RECOVERY": {"WORKER_TIMEOUT": 12, "SCAN_INTERVAL": 0.3},
    "EXECUTION": {"HEARTBEAT_MIN": 0.2, "HEARTBEAT_MAX": 0.4},
    "WORKER": {"SHUTDOWN_GRACE": 10},
}
PORTS = {"postgresql": 5432, "mysql": 3306}


@pytest.fixture
def proxy(transactional_db: None) -> Iterator[Proxy]:
    config = connection.settings_dict
    host = str(config["HOST"] or "")
    if connection.vendor not in PORTS or host.startswith("/"):
        pytest.skip("the connections are those to a PostgreSQL, MariaDB or MySQL, by the network")
    with closing(Proxy((host or "127.0.0.1", int(config["PORT"] or PORTS[connection.vendor])))) as proxy:
        yield proxy


@pytest.mark.slow
def test_a_worker_whose_connections_are_forgotten_is_not_taken_for_dead(
    proxy: Proxy, worker_process: Callable[..., WorkerProcess], ledger: Ledger, sampler: Sampler
) -> None:
    behind = worker_process("--concurrency=2", options=OPTIONS, env={"DATABASE_URL": proxy.url(database_url())})
    with sampler.accepting(1):
        enqueue(GateJob(gate="a"))
    wait_until(lambda: ledger.count("enter") == 1, what="the job runs behind the firewall")
    worker_id = JobHot.objects.get().worker_id
    beside = worker_process("--concurrency=2", options=OPTIONS)
    wait_until(lambda: workers_there(2), what="another worker is there, which would bury the job")
    assert proxy.forget() >= 4, "not all of the worker's connections were there"

    signs: dict[str, set[Any]] = {"row": set(), "heartbeat": set()}

    def heard_of_again() -> bool:
        """Both move on; what was on its way may have moved each of them once more."""
        signs["row"].update(Worker.objects.filter(pk=worker_id).values_list("last_seen", flat=True))
        signs["heartbeat"].update(JobHot.objects.values_list("heartbeat_at", flat=True))
        return nothing_active() or all(len(values) > 2 for values in signs.values())

    wait_until(heard_of_again, 60, what="signs of life")
    assert not nothing_active(), f"the job of a living worker was buried\n{beside.output[-4000:]}"
    ledger.open_gate("a")
    proxy.end_forgotten()
    wait_until(nothing_active, 60, what="the job settled")
    assert (JobArchive.objects.count(), JobDLQ.objects.count()) == (1, 0)
    assert set(ledger.per_job("enter").values()) == {1}, "the job ran twice"
    assert Worker.objects.filter(pk=worker_id).exists(), "the row was swept"
    for worker in (behind, beside):
        assert worker.stop() == 0
        assert " ERROR chokaq." not in worker.output, worker.output[-4000:]
