"""The settle loop by itself: what is refused, what is kept, what is given back."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence

import pytest
from django.db import DataError, OperationalError, ProgrammingError, connection, transaction

from chokaq_django.job.registry import registry
from chokaq_django.models import JobHot, JobStatus
from chokaq_django.storage import ClaimRequest, Lease, Outcome, OutcomeKind, Storage, get_storage, open_storage
from chokaq_django.storage.contract import HeartbeatReply, RescueAction
from chokaq_django.storage.engine import Engine
from chokaq_django.worker import settle as settle_module
from chokaq_django.worker.execution import Execution
from chokaq_django.worker.outcomes import OutcomeTable
from chokaq_django.worker.settle import Settler

from ..helpers import wait_until
from .support import committed, job, store_raw

pytestmark = committed

WORKER = "worker-1"


class Host:
    def progress(self, lease: Lease, percent: int, message: str | None) -> None:
        raise AssertionError("these jobs report nothing")

    def heartbeat(self) -> None:
        raise AssertionError("these jobs need none")


class Desk:
    """A settle loop, and who hands in."""

    def __init__(self, batch: int = 500, open_: Callable[[], Storage] = open_storage) -> None:
        self.told: list[tuple[str, bool]] = []
        self.batches = 0
        self._counted = 0
        self.table = OutcomeTable(WORKER)
        self.settler = Settler(open_, WORKER, batch, self._settled, self._after_batch)

    def _settled(self, execution: Execution, outcome: Outcome, applied: bool) -> None:
        self.told.append((outcome.id, applied))

    def _after_batch(self, storage: Storage) -> None:
        if len(self.told) > self._counted:  # else it was only woken
            self.batches, self._counted = self.batches + 1, len(self.told)

    def running(self, count: int = 1, *, start: bool = True) -> list[Execution]:
        for _ in range(count):
            store_raw("test.note", '{"name":""}')
        claim = get_storage().claim(ClaimRequest(WORKER, ["default"], count, start))
        job_type = registry.get("test.note")
        assert job_type is not None
        executions = [Execution(claimed, job_type, Host(), 60.0) for claimed in claim.jobs]
        assert len(executions) == count
        return executions

    def success(self, execution: Execution, result: object = None) -> Outcome:
        execution.begin()
        execution.end()
        return self.table.succeeded(execution, result)

    def wait_told(self, count: int) -> None:
        """Until so many are told, and the batch of the last is over."""
        wait_until(lambda: self._counted >= count, what=f"{count} outcomes; there are {self.told}")


@pytest.fixture
def desk() -> Iterator[Desk]:
    desk = Desk()
    yield desk
    desk.settler.stop()
    assert desk.settler.join(10)


def test_what_has_gathered_goes_into_one_commit(desk: Desk) -> None:
    executions = desk.running(20)
    for execution in executions:
        desk.settler.put(execution, desk.success(execution))
    desk.settler.start()
    desk.wait_told(20)
    assert desk.batches == 1
    assert all(applied for _, applied in desk.told)
    assert {job(e.job.id).status for e in executions} == {JobStatus.SUCCEEDED}


def test_no_batch_is_larger_than_the_setting() -> None:
    desk = Desk(batch=7)
    for execution in desk.running(20):
        desk.settler.put(execution, desk.success(execution))
    desk.settler.start()
    desk.wait_told(20)
    desk.settler.stop()
    assert desk.settler.join(10)
    assert desk.batches == 3


REFUSED = "refused"
"""A text that the storage of :func:`picky` does not take."""


@pytest.fixture
def picky(monkeypatch: pytest.MonkeyPatch) -> None:
    """The storage as it would be if the database refused one text; its own measures against such texts are its tests'
    matter."""
    kind = type(get_storage())
    settle = kind.settle

    def settle_unless_refused(self: Storage, worker_id: str, outcomes: Sequence[Outcome]) -> set[str]:
        for outcome in outcomes:
            if REFUSED in (outcome.result, outcome.error_details, outcome.attempt_log):
                raise DataError("invalid byte sequence")
        return settle(self, worker_id, outcomes)

    monkeypatch.setattr(kind, "settle", settle_unless_refused)


@pytest.mark.usefixtures("picky")
@pytest.mark.parametrize("place", ["first", "in the middle", "last"])
def test_an_outcome_that_the_database_refuses_holds_up_no_other(desk: Desk, place: str) -> None:
    executions = desk.running(5)
    bad = executions[{"first": 0, "in the middle": 2, "last": 4}[place]]
    for execution in executions:
        outcome = desk.success(execution)
        if execution is bad:
            outcome.result = REFUSED
        desk.settler.put(execution, outcome)
    desk.settler.start()
    desk.wait_told(5)
    assert all(applied for _, applied in desk.told)
    for execution in executions:
        view = job(execution.job.id)
        assert view.status == JobStatus.SUCCEEDED, "a success stays one"
        assert view.result == ('{"$unstorable": true}' if execution is bad else None)


def test_an_outcome_that_can_never_be_written_holds_up_no_other_either(
    desk: Desk, caplog: pytest.LogCaptureFixture
) -> None:
    good, bad = desk.running(2)
    outcome = desk.success(bad)
    outcome.duration_ms = "not a number"  # type: ignore[assignment]
    desk.settler.put(bad, outcome)
    desk.settler.put(good, desk.success(good))
    desk.settler.start()
    desk.wait_told(2)
    assert dict(desk.told) == {good.job.id: True, bad.job.id: False}
    assert job(good.job.id).status == JobStatus.SUCCEEDED
    assert job(bad.job.id).status == JobStatus.PROCESSING, "rescue finds it: its heartbeats have ended"
    assert [record.levelname for record in caplog.records if bad.job.id in record.getMessage()][-1] == "ERROR"


def test_trouble_with_the_tables_strips_no_outcome(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """A migration that is under way is no fault of an outcome."""
    kind = type(get_storage())
    settle = kind.settle
    tries: list[int] = []

    def settle_later(self: Storage, worker_id: str, outcomes: Sequence[Outcome]) -> set[str]:
        tries.append(len(outcomes))
        if len(tries) < 3:
            raise ProgrammingError("column does not exist")
        return settle(self, worker_id, outcomes)

    monkeypatch.setattr(kind, "settle", settle_later)
    (execution,) = desk.running()
    desk.settler.put(execution, desk.success(execution, {"kept": True}))
    desk.settler.start()
    desk.wait_told(1)
    assert job(execution.job.id).result == '{"kept":true}'


@pytest.mark.usefixtures("picky")
def test_a_failure_whose_text_is_refused_is_recorded_without_it(desk: Desk) -> None:
    (execution,) = desk.running()
    execution.begin()
    execution.end()
    outcome = desk.table.failed(execution, NotImplementedError("why"))
    outcome.error_details = REFUSED
    desk.settler.put(execution, outcome)
    desk.settler.start()
    desk.wait_told(1)
    view = job(execution.job.id)
    assert view.status == JobStatus.FAILED
    assert view.error_details == "invalid byte sequence"


@pytest.mark.usefixtures("picky")
def test_a_retry_whose_log_is_refused_still_waits_again(desk: Desk) -> None:
    (execution,) = desk.running()
    execution.begin()
    execution.end()
    outcome = desk.table.failed(execution, ValueError("again"))
    assert outcome.kind is OutcomeKind.RETRY
    outcome.attempt_log = REFUSED
    desk.settler.put(execution, outcome)
    desk.settler.start()
    desk.wait_told(1)
    view = job(execution.job.id)
    assert (view.status, view.attempt) == (JobStatus.PENDING, 1)


def test_an_outcome_whose_lease_is_gone_is_told_so_and_changes_nothing(desk: Desk) -> None:
    mine, taken = desk.running(2)
    storage = get_storage()
    (row,) = [row for row in storage.live_rows() if row.id == taken.job.id]
    assert storage.rescue([RescueAction(row, "pending", "[]")]) == {taken.job.id}
    for execution in (mine, taken):
        desk.settler.put(execution, desk.success(execution))
    desk.settler.start()
    desk.wait_told(2)
    assert dict(desk.told) == {mine.job.id: True, taken.job.id: False}
    assert job(taken.job.id).status == JobStatus.PENDING


def test_outcomes_are_kept_while_the_database_is_away(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """The storage itself fails as it does when a server goes away; the loop goes on by itself."""
    away = threading.Event()
    away.set()
    kind = type(get_storage())
    settle = kind.settle
    tries: list[int] = []

    def settle_when_there(self: Storage, worker_id: str, outcomes: Sequence[Outcome]) -> set[str]:
        if away.is_set():
            tries.append(len(outcomes))
            raise OperationalError("server closed the connection unexpectedly")
        return settle(self, worker_id, outcomes)

    monkeypatch.setattr(kind, "settle", settle_when_there)
    first, second = desk.running(2)
    desk.settler.put(first, desk.success(first))
    desk.settler.start()
    wait_until(lambda: tries)
    desk.settler.put(second, desk.success(second))
    wait_until(lambda: len(tries) >= 2)
    assert desk.told == []
    away.clear()
    desk.wait_told(2)
    assert {job(first.job.id).status, job(second.job.id).status} == {JobStatus.SUCCEEDED}


# -- a part of a batch that cannot be written --------------------------------------------------------------------------

ONE_WRITES = pytest.mark.skipif(
    connection.vendor not in ("postgresql", "mysql"), reason="on SQLite one writes at a time; others are not asked"
)


def impatient() -> Storage:
    """A worker's storage whose statements wait for a lock for a second at the most, and are sent once."""
    storage = open_storage()
    assert isinstance(storage, Engine)
    limit = {"postgresql": "statement_timeout = '1s'", "mysql": "SESSION innodb_lock_wait_timeout = 1"}
    storage._query(f"SET {limit[connection.vendor]}")
    storage._retrier.attempts = 1
    return storage


@pytest.fixture
def settles(monkeypatch: pytest.MonkeyPatch) -> list[set[str]]:
    """The jobs of each settle of a worker's storage, from the first on."""
    kind = type(get_storage())
    settle, calls = kind.settle, list[set[str]]()

    def noted(self: Storage, worker_id: str, outcomes: Sequence[Outcome]) -> set[str]:
        calls.append({outcome.id for outcome in outcomes})
        return settle(self, worker_id, outcomes)

    monkeypatch.setattr(kind, "settle", noted)
    return calls


def stop(desk: Desk) -> None:
    desk.settler.stop()
    assert desk.settler.join(30)


@ONE_WRITES
@pytest.mark.parametrize("alone", [False, True], ids=["with others", "alone"])
def test_a_row_that_somebody_holds_holds_up_no_other_outcome(settles: list[set[str]], alone: bool) -> None:
    """Not those of its batch, and not those that come later; it waits by itself, and is written once it may be."""
    desk = Desk(open_=impatient)
    executions = desk.running(30)
    held = executions[7]
    first, later = ([held], [e for e in executions if e is not held]) if alone else (executions[:20], executions[20:])
    with transaction.atomic():
        JobHot.objects.select_for_update().get(pk=held.job.id)
        for execution in first:
            desk.settler.put(execution, desk.success(execution))
        desk.settler.start()
        wait_until(lambda: desk.settler._put_by)
        if not alone:
            desk.wait_told(19)
        assert not desk.settler.idle()
        for execution in later:
            desk.settler.put(execution, desk.success(execution))
        desk.wait_told(29)
        assert held.job.id not in dict(desk.told)
        tries = [batch for batch in settles if held.job.id in batch]
        assert [len(batch) for batch in tries] == [len(first)], "while somebody holds it, it is asked for, not tried"
    desk.wait_told(30)
    assert all(applied for _, applied in desk.told)
    assert {job(e.job.id).status for e in executions} == {JobStatus.SUCCEEDED}
    assert settles.count({held.job.id}) == 1 + alone
    stop(desk)


@ONE_WRITES
def test_a_row_that_somebody_holds_holds_up_no_progress(desk: Desk) -> None:
    held, free = desk.running(2)
    with transaction.atomic():
        JobHot.objects.select_for_update().get(pk=held.job.id)
        for execution in (held, free):
            desk.settler.progress(execution.lease, 50, "half")
        desk.settler.put(free, desk.success(free))
        desk.settler.start()
        desk.wait_told(1)
    assert dict(desk.told) == {free.job.id: True}


class TooMuchError(OperationalError):
    """A statement took too long, whoever of its rows is at fault."""


class Fussy:
    """A storage that does not write a batch with certain outcomes in it, or larger than it likes."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.bad: set[str] = set()
        self.most = 1_000
        self.sizes: list[int] = []
        kind = type(get_storage())
        settle = kind.settle

        def settle_some(storage: Storage, worker_id: str, outcomes: Sequence[Outcome]) -> set[str]:
            self.sizes.append(len(outcomes))
            if len(outcomes) > self.most or self.bad.intersection(outcome.id for outcome in outcomes):
                raise TooMuchError("canceling statement due to statement timeout")
            return settle(storage, worker_id, outcomes)

        monkeypatch.setattr(kind, "settle", settle_some)
        monkeypatch.setattr(kind, "is_partial", lambda storage, error: isinstance(error, TooMuchError), raising=False)
        monkeypatch.setattr(settle_module, "LOOK", 0.1)


@pytest.fixture
def fussy(monkeypatch: pytest.MonkeyPatch) -> Fussy:
    return Fussy(monkeypatch)


@pytest.mark.parametrize("place", [0, 9, 15])
def test_what_goes_wrong_for_one_outcome_is_found_by_halves(desk: Desk, fussy: Fussy, place: int) -> None:
    executions = desk.running(16)
    bad = executions[place].job.id
    fussy.bad = {bad}
    for execution in executions:
        desk.settler.put(execution, desk.success(execution))
    desk.settler.start()
    desk.wait_told(15)
    wait_until(lambda: fussy.sizes.count(1) >= 4, what="it is tried again by itself")
    assert sorted(fussy.sizes, reverse=True)[:9] == [16, 8, 8, 4, 4, 2, 2, 1, 1]
    assert bad not in dict(desk.told)
    fussy.bad.clear()
    desk.wait_told(16)
    assert all(applied for _, applied in desk.told)
    assert job(bad).status == JobStatus.SUCCEEDED


def test_a_batch_that_is_too_large_goes_in_parts(desk: Desk, fussy: Fussy) -> None:
    fussy.most = 3
    executions = desk.running(20)
    for execution in executions:
        desk.settler.put(execution, desk.success(execution))
    desk.settler.start()
    desk.wait_told(20)
    assert {job(e.job.id).status for e in executions} == {JobStatus.SUCCEEDED}
    assert len(fussy.sizes) == 1 + 2 + 4 + 8


def test_new_outcomes_go_before_what_is_left_of_a_large_batch(desk: Desk, fussy: Fussy) -> None:
    """Each part may take as long as the database lets it."""
    executions = desk.running(9)
    fussy.bad = {e.job.id for e in executions[:8]}
    for execution in executions[:8]:
        desk.settler.put(execution, desk.success(execution))
    storage = open_storage()
    desk.settler._gather(0)
    desk.settler._write_outcomes(storage)
    assert fussy.sizes == [8, 4]
    desk.settler.put(executions[8], desk.success(executions[8]))
    desk.settler._storage = storage
    desk.settler.step()
    assert fussy.sizes == [8, 4, 1, 4]
    assert desk.told == [(executions[8].job.id, True)]
    fussy.bad.clear()
    desk.settler.start()
    desk.wait_told(9)


@pytest.mark.parametrize("partial", [False, True], ids=["by its error", "by the next statement"])
def test_an_outage_divides_nothing(desk: Desk, fussy: Fussy, monkeypatch: pytest.MonkeyPatch, partial: bool) -> None:
    """A lock could be what a statement waited for in vain, but nothing else is answered either."""
    executions = desk.running(5)
    kind = type(get_storage())
    settle, away = kind.settle, threading.Event()
    away.set()
    sizes: list[int] = []

    def call(self: Storage, worker_id: str, outcomes: Sequence[Outcome]) -> set[str]:
        sizes.append(len(outcomes))
        if away.is_set():
            raise (TooMuchError if partial else OperationalError)("server closed the connection unexpectedly")
        return settle(self, worker_id, outcomes)

    def heartbeat(self: Storage, worker_id: str, leases: Sequence[Lease]) -> HeartbeatReply:
        raise OperationalError("server closed the connection unexpectedly")

    monkeypatch.setattr(kind, "settle", call)
    monkeypatch.setattr(kind, "heartbeat", heartbeat)
    for execution in executions:
        desk.settler.put(execution, desk.success(execution))
    desk.settler.start()
    wait_until(lambda: len(sizes) >= 3)
    away.clear()
    desk.wait_told(5)
    assert set(sizes) == {5}


def stopped_with_one_put_by(desk: Desk, fussy: Fussy) -> Execution:
    (execution,) = desk.running()
    fussy.bad = {execution.job.id}
    desk.settler.put(execution, desk.success(execution))
    desk.settler.start()
    wait_until(lambda: desk.settler._put_by)
    desk.settler.stop()
    return execution


def test_a_worker_that_stops_waits_for_what_was_put_by(desk: Desk, fussy: Fussy) -> None:
    execution = stopped_with_one_put_by(desk, fussy)
    wait_until(lambda: len(fussy.sizes) >= 3)
    assert desk.settler.alive()
    fussy.bad.clear()
    assert desk.settler.join(30)
    assert job(execution.job.id).status == JobStatus.SUCCEEDED


def test_a_worker_that_gives_up_leaves_what_was_put_by(desk: Desk, fussy: Fussy) -> None:
    execution = stopped_with_one_put_by(desk, fussy)
    desk.settler.give_up()
    assert desk.settler.join(30)
    assert job(execution.job.id).status == JobStatus.PROCESSING


def test_released_jobs_go_back_untouched_and_not_before_their_time(desk: Desk) -> None:
    now, later = desk.running(2, start=False)
    desk.settler.start()
    desk.settler.release(now.lease)
    desk.settler.release(later.lease, 3_600.0)
    wait_until(desk.settler.idle)
    wait_until(lambda: job(later.job.id).status == JobStatus.PENDING)
    wait_until(lambda: job(now.job.id).status == JobStatus.PENDING)
    assert job(now.job.id).attempt == job(later.job.id).attempt == 0
    claim = get_storage().claim(ClaimRequest(WORKER, ["default"], 10))
    assert [claimed.id for claimed in claim.jobs] == [now.job.id]


def test_stopping_writes_everything_that_was_handed_in(desk: Desk) -> None:
    executions = desk.running(3)
    waiting = desk.running(1, start=False)[0]
    for execution in executions:
        desk.settler.put(execution, desk.success(execution))
    desk.settler.release(waiting.lease)
    desk.settler.start()
    desk.settler.stop()
    assert desk.settler.join(10)
    assert {job(e.job.id).status for e in executions} == {JobStatus.SUCCEEDED}
    assert job(waiting.job.id).status == JobStatus.PENDING


def test_the_newest_progress_is_stored_and_progress_of_others_is_refused(desk: Desk) -> None:
    (execution,) = desk.running()
    desk.settler.progress(execution.lease, 10, "begun")
    desk.settler.progress(execution.lease, 60, "more")
    desk.settler.progress(Lease(execution.job.id, execution.job.claim_number - 1), 99, "not mine any more")
    desk.settler.start()
    wait_until(lambda: job(execution.job.id).progress == 60)
    assert job(execution.job.id).progress_message == "more"
