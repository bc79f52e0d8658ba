"""The answer to a claim or a start gets lost: its jobs run all the same, once, and no lease is left behind."""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from typing import Any

import pytest
from django.db import OperationalError

from chokaq_django import control, enqueue, enqueue_many
from chokaq_django.job.registry import registry
from chokaq_django.models import JobHot, JobStatus
from chokaq_django.storage import Claim, ClaimRequest, Lease, StartReply, get_storage
from chokaq_django.worker import doubts
from chokaq_django.worker.doubts import Doubts
from chokaq_django.worker.execution import Execution

from .. import jobs
from ..helpers import wait_until
from ..ledger import Ledger
from .conftest import StartWorker
from .executions import claimed
from .support import Clock, all_settled, committed, in_state, job, make_worker, settled

OTHER = "another-worker"
HORIZON = 100.0
HOW = pytest.mark.parametrize("how", ["given up", "tried again"])


class Loser:
    """Loses the next answers of an operation of workers' storages that say something, after its commit."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.lost: list[list[Lease]] = []
        self._monkeypatch = monkeypatch

    def lose(
        self, operation: str, leases: Callable[..., list[Lease]], nothing: Callable[[], Any], how: str, count: int = 1
    ) -> None:
        """``how``: the call ends with an error ("given up"), or answers ``nothing()``, as a second try would."""
        storage_class = type(get_storage())
        real = getattr(storage_class, operation)

        def losing(storage: Any, *args: Any) -> Any:
            answer = real(storage, *args)
            told = leases(args, answer)
            if not storage.private or not told or len(self.lost) >= count:
                return answer
            self.lost.append(told)
            if how == "given up":
                raise OperationalError("server closed the connection unexpectedly")
            storage._retrier.errors += 1
            return nothing()

        self._monkeypatch.setattr(storage_class, operation, losing)

    def lose_claims(self, how: str, *, start: bool = True, count: int = 1) -> None:
        def leases(args: tuple[ClaimRequest], claim: Claim) -> list[Lease]:
            return [job.lease for job in claim.jobs] if args[0].start == start else []

        self.lose("claim", leases, lambda: Claim([]), how, count)

    def lose_starts(self, how: str) -> None:
        def leases(args: tuple[str, list[Lease]], reply: StartReply) -> list[Lease]:
            return [lease for lease in args[1] if lease.id in reply.started]

        self.lose("start", leases, lambda: StartReply({}, set(), set()), how)


@pytest.fixture
def loser(monkeypatch: pytest.MonkeyPatch) -> Loser:
    return Loser(monkeypatch)


def assert_ran_once(ids: list[str], ledger: Ledger) -> None:
    views = all_settled(ids)
    assert {(view.status, view.attempt, view.crash_count) for view in views} == {(JobStatus.SUCCEEDED, 1, 0)}
    assert ledger.per_job("ran") == dict.fromkeys(ids, 1)


@committed
@HOW
def test_jobs_of_a_lost_claim_run(start_worker: StartWorker, ledger: Ledger, loser: Loser, how: str) -> None:
    loser.lose_claims(how, count=2)
    ids = [ref.id for ref in enqueue_many(jobs.NoteJob() for _ in range(12))]
    start_worker()
    assert_ran_once(ids, ledger)
    assert len(loser.lost) == 2


@committed
@pytest.mark.parametrize("start", [True, False], ids=["started", "leased"])
def test_jobs_that_were_leased_and_not_read_run(
    start_worker: StartWorker, ledger: Ledger, monkeypatch: pytest.MonkeyPatch, engine: str, start: bool
) -> None:
    """Where a claim reads what it leased after its commit, that may fail."""
    if engine != "sqlite":
        pytest.skip("only SQLite reads them after the commit")
    storage_class = type(get_storage())
    real, failed = storage_class._leased, []

    def unreadable(storage: Any, worker_id: str, places: Any) -> Any:
        if storage.private and not failed and (start or len(places) > 1):
            failed.append(places)
            raise OperationalError("disk I/O error")
        return real(storage, worker_id, places)

    monkeypatch.setattr(storage_class, "_leased", unreadable)
    start_worker(concurrency=1, WORKER={"PREFETCH": 0 if start else 5})
    gate = enqueue(jobs.GateJob(gate="a"))
    if not start:
        wait_until(lambda: ledger.count("enter") == 1)
    ids = [ref.id for ref in enqueue_many(jobs.NoteJob() for _ in range(8))]
    wait_until(lambda: failed, what="a claim cannot read what it leased")
    ledger.open_gate("a")
    assert_ran_once(ids, ledger)
    assert settled(gate.id).attempt == 1


@committed
@HOW
def test_jobs_of_a_lost_look_ahead_run(start_worker: StartWorker, ledger: Ledger, loser: Loser, how: str) -> None:
    """They were only leased; FETCHED_TIMEOUT would bring them back after ten minutes."""
    loser.lose_claims(how, start=False)
    start_worker(concurrency=1, WORKER={"PREFETCH": 5})
    gate = enqueue(jobs.GateJob(gate="a"))
    wait_until(lambda: ledger.count("enter") == 1)
    ids = [ref.id for ref in enqueue_many(jobs.NoteJob() for _ in range(8))]
    wait_until(lambda: loser.lost, what="the answer of a claim into the buffer is lost")
    ledger.open_gate("a")
    assert_ran_once(ids, ledger)
    assert settled(gate.id).attempt == 1


@committed
@HOW
@pytest.mark.parametrize("settles", [doubts.SETTLES, 0.0], ids=["back soon", "back late"])
def test_jobs_of_a_lost_start_run(
    start_worker: StartWorker, ledger: Ledger, loser: Loser, monkeypatch: pytest.MonkeyPatch, how: str, settles: float
) -> None:
    """Also when the database is away for so long that there is only one look."""
    monkeypatch.setattr(doubts, "SETTLES", settles)
    loser.lose_starts(how)
    worker = start_worker(concurrency=1, WORKER={"PREFETCH": 5})
    worker._fetcher._doubts._horizon = settles
    enqueue(jobs.GateJob(gate="a"))
    wait_until(lambda: ledger.count("enter") == 1)
    ids = [ref.id for ref in enqueue_many(jobs.NoteJob() for _ in range(8))]
    wait_until(lambda: JobHot.objects.filter(status=JobStatus.FETCHED).count() == 5, what="the buffer is full")
    ledger.open_gate("a")
    assert_ran_once(ids, ledger)
    assert len(loser.lost) == 1


@committed
def test_jobs_that_were_started_late_by_a_lost_start_run(
    start_worker: StartWorker, ledger: Ledger, loser: Loser, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server was still at it at the last look; the next start is refused, and that is reason enough to look."""
    monkeypatch.setattr(doubts, "SETTLES", 0.0)
    looks = blind_looks(monkeypatch, 1)
    loser.lose_starts("given up")
    worker = start_worker(concurrency=1, WORKER={"PREFETCH": 5})
    worker._fetcher._doubts._horizon = 0.0
    enqueue(jobs.GateJob(gate="a"))
    wait_until(lambda: ledger.count("enter") == 1)
    ids = [ref.id for ref in enqueue_many(jobs.NoteJob() for _ in range(3))]
    wait_until(lambda: JobHot.objects.filter(status=JobStatus.FETCHED).count() == 3, what="the buffer has them")
    ledger.open_gate("a")
    assert_ran_once(ids, ledger)
    assert (len(loser.lost), len(looks)) == (1, 2)


def blind_looks(monkeypatch: pytest.MonkeyPatch, count: int) -> list[int]:
    """The first looks for what a worker holds come too early to see anything; each look notes what it saw."""
    storage_class = type(get_storage())
    real = storage_class.claimed_by
    looks: list[int] = []

    def claimed_by(storage: Any, worker_id: str) -> Any:
        found = [] if len(looks) < count else real(storage, worker_id)
        looks.append(len(found))
        return found

    monkeypatch.setattr(storage_class, "claimed_by", claimed_by)
    return looks


@committed
def test_a_worker_that_may_claim_nothing_more_hears_of_them_too(
    start_worker: StartWorker, ledger: Ledger, loser: Loser
) -> None:
    """Its slots are full, and an operator drains it."""
    loser.lose_claims("given up", start=False)
    worker = start_worker(concurrency=1, WORKER={"PREFETCH": 5})
    enqueue(jobs.GateJob(gate="a"))
    wait_until(lambda: ledger.count("enter") == 1)
    worker._fetcher.longest_pause = 60.0  # an order wakes it
    ids = [ref.id for ref in enqueue_many(jobs.NoteJob() for _ in range(3))]
    wait_until(lambda: loser.lost, what="the answer of a claim into the buffer is lost")
    control.drain_worker(worker.id, by="ada")
    for job_id in ids:
        in_state(job_id, JobStatus.PENDING)
    ledger.open_gate("a")


@committed
@pytest.mark.parametrize("start", [True, False], ids=["started", "leased"])
def test_a_worker_that_stops_gives_them_back(
    start_worker: StartWorker, ledger: Ledger, loser: Loser, start: bool
) -> None:
    worker = start_worker(concurrency=1, WORKER={"PREFETCH": 0 if start else 5, "SHUTDOWN_GRACE": 10})
    worker._fetcher.longest_pause = 60.0  # nothing but its end wakes it
    gates = [enqueue(jobs.GateJob(gate="a")).id]
    wait_until(lambda: ledger.count("enter") == 1)
    loser.lose_claims("given up", start=start)
    if start:
        worker._threads.resize(2)
        worker._waker.set()
    ids = [ref.id for ref in enqueue_many(jobs.GateJob(gate="a") for _ in range(1 if start else 3))]
    wait_until(lambda: loser.lost, what="the answer of a claim is lost")
    worker._fetcher.stop()
    wait_until(lambda: not worker._fetcher.alive())
    if start:
        wait_until(lambda: ledger.count("enter") == 2, what="it runs at last")
    ledger.open_gate("a")
    assert worker.shutdown()
    assert settled(gates[0]).attempt == 1
    for job_id in ids:
        view = job(job_id)
        assert (view.status, view.attempt) == ((JobStatus.SUCCEEDED, 1) if start else (JobStatus.PENDING, 0))


@committed
def test_what_the_worker_let_go_of_does_not_run_again_by_the_same_lease(start_worker: StartWorker) -> None:
    worker = start_worker()
    worker._fetcher.stop()
    wait_until(lambda: not worker._fetcher.alive())
    job_id = enqueue(jobs.NoteJob()).id
    storage = get_storage()
    (one,) = storage.claim(ClaimRequest(worker.id, ["default"], 1)).jobs
    assert one.id == job_id
    execution = worker._live[one.id, one.claim_number] = _execution(worker, one)
    assert one.lease in worker._known_leases()
    worker._dropped(execution)
    assert not worker._live
    assert one.lease in worker._known_leases()


def test_leases_may_come_and_go_while_it_asks_which_it_knows(settings: Any) -> None:
    worker = make_worker(settings)
    threads_add = iter([Lease("01A", 1), Lease("01B", 1)])

    class Slow(Lease):
        """In a set another thread has the time to let go of one more."""

        def __hash__(self) -> int:
            worker._let_go.extend(islice(threads_add, 1))
            return hash(self.id)

    worker._let_go.extend([Slow("01C", 1), Slow("01D", 1)])
    assert {lease.id for lease in worker._known_leases()} == {"01C", "01D"}


def _execution(worker: Any, one: Any) -> Any:
    job_type = registry.get(one.type)
    assert job_type is not None
    return Execution(one, job_type, worker, 60.0)


# -- the doubt itself --------------------------------------------------------------------------------------------------


class Account:
    """A storage that only tells what a worker holds."""

    def __init__(self) -> None:
        self.errors = 0
        self.held: list[Any] = []
        self.asked = 0
        self.fails = False

    def claimed_by(self, worker_id: str) -> list[Any]:
        self.asked += 1
        if self.fails:
            raise OperationalError("away")
        return list(self.held)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(doubts, "time", clock)
    return clock


@pytest.fixture
def account() -> Any:
    return Account()


def failed(doubt: Doubts, account: Any) -> None:
    with pytest.raises(OperationalError), doubt.noticing(account):
        raise OperationalError("gone")


def test_without_an_error_nobody_is_asked(clock: Clock, account: Any) -> None:
    doubt = Doubts(OTHER, list, list, HORIZON)
    account.held = [claimed()]
    with doubt.noticing(account):
        pass
    assert not doubt.open
    assert (doubt.unheard(account), doubt.unheard(account, now=True), doubt.due_in()) == ([], [], float("inf"))
    assert account.asked == 0


def test_only_what_is_not_known_by_its_lease_is_news(clock: Clock, account: Any) -> None:
    known, older, unknown = claimed(), claimed(), claimed()
    account.held = [known, older, unknown]
    doubt = Doubts(OTHER, lambda: [known.lease, Lease(older.id, older.claim_number - 1)], list, HORIZON)
    with doubt.noticing(account):
        account.errors += 1  # tried again, and answered
    assert doubt.unheard(account) == [older, unknown]


def test_of_what_was_only_leased_it_is_news_that_it_was_started(clock: Clock, account: Any) -> None:
    leased, started = claimed(status=1), claimed(status=2)
    account.held = [leased, started]
    doubt = Doubts(OTHER, list, lambda: [leased.lease, started.lease], HORIZON)
    failed(doubt, account)
    assert doubt.unheard(account) == [started]


def test_it_looks_often_while_the_server_may_end_what_was_under_way_then_less_and_less(
    clock: Clock, account: Any
) -> None:
    doubt = Doubts(OTHER, list, list, HORIZON)
    failed(doubt, account)
    began = clock.now
    assert doubt.due_in() == 0.0
    looks: list[float] = []
    while doubt.due_in() < float("inf"):
        clock.now += doubt.due_in()
        assert doubt.unheard(account) == []
        looks.append(clock.now - began)
        assert doubt.open == (looks[-1] < doubts.SETTLES)
    often = [at for at in looks if at < doubts.SETTLES]
    assert often == pytest.approx([number * doubts.LOOK for number in range(len(often))])
    assert looks[len(often) :] == pytest.approx([5, 10, 20, 40, 80, 100])
    assert account.asked == len(looks)


def test_what_a_commit_did_that_waited_for_its_standby_is_heard_of(clock: Clock, account: Any) -> None:
    doubt = Doubts(OTHER, list, list, HORIZON)
    failed(doubt, account)
    clock.now += 5
    assert doubt.unheard(account) == []
    assert (doubt.open, doubt.unheard(account), account.asked) == (False, [], 1)
    account.held = [late := claimed()]
    clock.now += doubt.due_in()
    assert doubt.unheard(account) == [late]


def test_a_look_that_fails_leaves_the_doubt(clock: Clock, account: Any) -> None:
    doubt = Doubts(OTHER, list, list, HORIZON)
    failed(doubt, account)
    clock.now += 2 * HORIZON
    account.fails, account.held = True, [claimed()]
    with pytest.raises(OperationalError):
        doubt.unheard(account)
    account.fails = False
    assert doubt.open
    assert doubt.unheard(account) == account.held
