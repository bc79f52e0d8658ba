"""What an end sets free is free at once: a place under a cap, a circuit that a probe has closed. Polls are far off."""

from __future__ import annotations

from django.db import OperationalError

from chokaq_django import CircuitPolicy, Job, JobContext, enqueue_many
from chokaq_django.models import Circuit
from chokaq_django.storage import Storage, get_storage, open_storage
from chokaq_django.storage.contract import CircuitPolicy as Policy
from chokaq_django.storage.contract import CircuitReport
from chokaq_django.worker.breaker import Breaker
from chokaq_django.worker.views import CircuitView

from .. import jobs
from ..helpers import wait_until
from ..ledger import Ledger, gate_is_open
from .conftest import StartWorker
from .support import all_settled, committed, store_raw

pytestmark = committed

FAR = {"POLL_INTERVAL": 60, "IDLE_POLL_INTERVAL": 60}
POLICY = CircuitPolicy(failures=2, window=60, break_=0.2, probe_timeout=60)


class AtomicTripJob(Job, type="test.atomic_trip", atomic=True, max_attempts=1, circuit=POLICY):
    """Fails until its gate opens."""

    gate: str

    def run(self, ctx: JobContext) -> None:
        if not gate_is_open(self.gate):
            raise jobs.TestError("shut")


class TwoProbesJob(
    Job, type="test.two_probes", aliases=["test.two_probes_once"], max_attempts=1,
    circuit=CircuitPolicy(failures=2, window=60, break_=0.2, probes=2, probe_timeout=60),
):  # fmt: skip
    """Fails until its gate opens; two successes close its circuit."""

    gate: str

    def run(self, ctx: JobContext) -> None:
        if not gate_is_open(self.gate):
            raise jobs.TestError("shut")


def test_the_next_job_of_a_capped_queue_starts_when_one_ends(start_worker: StartWorker, ledger: Ledger) -> None:
    start_worker(concurrency=4, WORKER=FAR, QUEUES={"narrow": {"MAX_WORKERS": 1}})
    all_settled(answer.id for answer in enqueue_many([jobs.SleepJob(seconds=0.01)] * 5, queue="narrow"))
    assert ledger.most_at_once() == 1


def test_a_probe_that_is_atomic_closes_the_circuit(start_worker: StartWorker, ledger: Ledger) -> None:
    """It settles past the settle loop, which reports to the circuits."""
    start_worker(concurrency=2)
    all_settled(answer.id for answer in enqueue_many([AtomicTripJob(gate="mended")] * 2))
    wait_until(lambda: Circuit.objects.filter(pk="test.atomic_trip", state=Circuit.OPEN).exists())
    ledger.open_gate("mended")
    all_settled(answer.id for answer in enqueue_many([AtomicTripJob(gate="mended")] * 4))
    assert not Circuit.objects.exclude(state=Circuit.CLOSED).exists()


def test_a_circuit_of_an_alias_closes_by_the_policy_of_its_type(start_worker: StartWorker, ledger: Ledger) -> None:
    start_worker(concurrency=2)
    old = "test.two_probes_once"
    all_settled(store_raw(old, '{"gate":"mended"}', max_attempts=1) for _ in range(2))
    wait_until(lambda: Circuit.objects.filter(pk=old, state=Circuit.OPEN).exists())
    ledger.open_gate("mended")
    all_settled([store_raw(old, '{"gate":"mended"}') for _ in range(5)])
    assert Circuit.objects.get(pk=old).state == Circuit.CLOSED


def test_a_circuit_closes_although_its_type_has_none_any_more(start_worker: StartWorker) -> None:
    now = get_storage().now()
    Circuit.objects.create(type="test.fail", state=Circuit.OPEN, opened_at=now, open_until=now, updated_at=now)
    start_worker(concurrency=2)
    all_settled(answer.id for answer in enqueue_many([jobs.FailJob(times=0)] * 3))
    assert Circuit.objects.get(pk="test.fail").state == Circuit.CLOSED


def test_what_could_not_be_reported_is_reported_with_the_next_batch() -> None:
    breaker = Breaker(CircuitView())
    policy = Policy(5, 60.0, 30.0, 1, 30.0)

    class Down:
        def report_circuits(self, reports: list[CircuitReport]) -> None:
            breaker._reports["test.trip"] = CircuitReport("test.trip", policy, failures=2)  # meanwhile
            raise OperationalError("the server is away")

    breaker._reports["test.trip"] = CircuitReport("test.trip", policy, failures=3)
    down: Storage = Down()  # type: ignore[assignment]
    try:
        breaker.flush(down)
    except OperationalError:
        pass
    storage = open_storage()
    try:
        breaker.flush(storage)
    finally:
        storage.close()
    assert Circuit.objects.get(pk="test.trip").state == Circuit.OPEN
