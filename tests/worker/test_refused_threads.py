"""The system gives no thread or no event loop for a while (too many threads, too many open files): nothing is stuck."""

from __future__ import annotations

import asyncio
import errno
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextvars import copy_context

import pytest

from chokaq_django import FailureReason, enqueue, job_succeeded
from chokaq_django.job.failures import CancelReason
from chokaq_django.models import JobStatus
from chokaq_django.observability.events import Event
from chokaq_django.worker import call_thread
from chokaq_django.worker.call_thread import CallThread
from chokaq_django.worker.execution import Execution, Phase
from chokaq_django.worker.signal_sender import SignalSender
from chokaq_django.worker.slots import LoopSlots, ThreadSlots

from .. import jobs
from ..helpers import wait_until
from ..ledger import Ledger
from .conftest import StartWorker
from .executions import execution
from .support import committed, settled

Refuse = Callable[..., list[str]]


@pytest.fixture
def refuse(monkeypatch: pytest.MonkeyPatch) -> Refuse:
    """The next ``count`` threads whose names begin so are not made; those that were refused so far."""
    start = threading.Thread.start

    def refusing(name: str, count: int = 1) -> list[str]:
        refused: list[str] = []

        def start_or_not(thread: threading.Thread) -> None:
            if thread.name.startswith(name) and len(refused) < count:
                refused.append(thread.name)
                raise RuntimeError("can't start new thread")
            start(thread)

        monkeypatch.setattr(threading.Thread, "start", start_or_not)
        return refused

    return refusing


@pytest.fixture
def refuse_loops(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The next event loop that a worker wants is not made."""
    new_event_loop = asyncio.new_event_loop
    refused: list[str] = []

    def new_or_not() -> asyncio.AbstractEventLoop:
        if not refused:
            refused.append(threading.current_thread().name)
            raise OSError(errno.EMFILE, "Too many open files")
        return new_event_loop()

    monkeypatch.setattr(asyncio, "new_event_loop", new_or_not)
    return refused


def told(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [r.getMessage() for r in caplog.records if getattr(r, "event_id", 0) == Event.THREAD_REFUSED]


# -- a worker ----------------------------------------------------------------------------------------------------------


def assert_both_kinds_run(start_worker: StartWorker, ledger: Ledger, refused: list[str]) -> None:
    worker = start_worker(concurrency=1)
    kinds = [jobs.AsyncSleepJob(name="async"), jobs.SleepJob(seconds=0.0, name="thread")]
    for view in [settled(enqueue(kind).id) for kind in kinds]:
        assert (view.status, view.attempt, view.crash_count) == (JobStatus.SUCCEEDED, 1, 0)
    assert len(refused) == 1
    assert sorted(entry.name for entry in ledger.entries("enter")) == ["async", "thread"]
    wait_until(lambda: not worker._live, what="nothing is kept alive that does not run")
    for slots in (worker._threads, worker._loop):
        wait_until(lambda slots=slots: slots.free() == slots.size)  # type: ignore[misc]


@committed
def test_an_async_job_runs_although_the_first_event_loop_could_not_be_made(
    start_worker: StartWorker, ledger: Ledger, refuse_loops: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    assert_both_kinds_run(start_worker, ledger, refuse_loops)
    assert "Too many open files" in told(caplog)[0]


@committed
@pytest.mark.parametrize("name", ["chokaq-async", "chokaq-slot-1"])
def test_a_job_runs_although_the_first_thread_for_it_could_not_be_made(
    start_worker: StartWorker, ledger: Ledger, refuse: Refuse, caplog: pytest.LogCaptureFixture, name: str
) -> None:
    assert_both_kinds_run(start_worker, ledger, refuse(name))
    assert "can't start new thread" in told(caplog)[0]


@committed
def test_jobs_go_back_unharmed_while_there_is_no_event_loop(
    start_worker: StartWorker, ledger: Ledger, refuse: Refuse, caplog: pytest.LogCaptureFixture
) -> None:
    """For as long as it takes, beside jobs that need none."""
    refused = refuse("chokaq-async", 3)
    start_worker(concurrency=1)
    waits = enqueue(jobs.AsyncSleepJob(name="async")).id
    assert settled(enqueue(jobs.NoteJob()).id).status == JobStatus.SUCCEEDED
    view = settled(waits)
    assert (view.status, view.attempt, view.crash_count, len(refused)) == (JobStatus.SUCCEEDED, 1, 0, 3)
    assert ledger.count("enter") == 1


@committed
def test_the_watchdog_asks_again_for_a_thread(
    start_worker: StartWorker, ledger: Ledger, refuse: Refuse, caplog: pytest.LogCaptureFixture
) -> None:
    """Jobs that were started ahead may wait for it, and nothing else may happen until they run."""
    worker = start_worker(concurrency=1)
    settled(enqueue(jobs.NoteJob()).id)
    refused = refuse("chokaq-slot", 3)
    assert settled(enqueue(jobs.InterruptedJob()).id).failure_reason is FailureReason.TIMEOUT
    wait_until(lambda: worker._threads._threads == 1, what="there is a thread again")
    assert (len(refused), len(told(caplog))) == (3, 1)


# -- slots: no database from here on -----------------------------------------------------------------------------------


@pytest.fixture
def done() -> list[Execution]:
    return []


@pytest.fixture
def threads(done: list[Execution]) -> Iterator[Callable[[int], ThreadSlots]]:
    made: list[ThreadSlots] = []

    def run(item: Execution) -> None:
        item.begin()
        item.end()
        done.append(item)

    def make(size: int) -> ThreadSlots:
        made.append(ThreadSlots(size, run, lambda: None))
        return made[-1]

    yield make
    for slots in made:
        slots.close()


def stopped() -> Execution:
    item = execution()
    item.interrupted = True
    return item


def test_a_slot_whose_thread_ends_is_given_up_although_no_other_can_be_made(
    threads: Callable[[int], ThreadSlots], done: list[Execution], refuse: Refuse, caplog: pytest.LogCaptureFixture
) -> None:
    slots = threads(2)
    refused = refuse("chokaq-slot", 2)
    slots.submit([stopped(), stopped()])
    wait_until(lambda: len(done) == 2 and slots.busy() == 0)
    assert slots.free() == 0, "what would be claimed now would have to wait"
    assert len(told(caplog)) == 1, "said once"
    slots.mend()
    assert slots.free() == 2
    slots.submit([execution(), execution()])
    wait_until(lambda: len(done) == 4 and slots.free() == 2)
    assert len(refused) == 2


def test_what_waits_for_a_thread_that_was_refused_runs_in_the_end(
    threads: Callable[[int], ThreadSlots], done: list[Execution], refuse: Refuse
) -> None:
    slots = threads(1)
    refused = refuse("chokaq-slot")
    slots.submit([stopped(), execution()])
    wait_until(lambda: refused)
    wait_until(lambda: slots.busy() == 1)
    assert (slots.free(), slots.waiting()) == (-1, 1)
    slots.mend()
    wait_until(lambda: len(done) == 2 and slots.free() == 1)


def test_a_slot_that_was_written_off_is_given_up_although_no_other_thread_can_be_made(
    threads: Callable[[int], ThreadSlots], done: list[Execution], refuse: Refuse
) -> None:
    slots = threads(1)
    refuse("chokaq-slot")
    stuck = execution()
    with slots._lock:
        slots._outstanding += 1  # as if it ran
    slots.written_off(stuck)
    assert (slots.busy(), slots.free()) == (0, 0)
    slots.resize(2)
    slots.submit([execution()])
    wait_until(lambda: len(done) == 1 and slots.free() == 2)


def test_without_any_thread_nothing_is_taken(
    threads: Callable[[int], ThreadSlots], done: list[Execution], refuse: Refuse
) -> None:
    refuse("chokaq-slot", 2)
    slots = threads(1)
    refused = execution()
    with pytest.raises(RuntimeError, match="no slot has a thread"):
        slots.submit([refused])
    assert (slots.free(), slots.waiting()) == (0, 0)
    item = execution()
    slots.submit([item])
    wait_until(lambda: done == [item])


def runs(blocking: Execution, gate: threading.Event, done: list[Execution]) -> Callable[[Execution], Awaitable[None]]:
    """What runs executions in a loop, which ``blocking`` blocks until the gate is open."""

    async def run(item: Execution) -> None:
        if not item.begin():
            return
        if item is blocking:
            gate.wait(30)
        item.end()
        done.append(item)

    return run


def test_a_blocked_loop_is_replaced_as_soon_as_another_can_be_made(done: list[Execution], refuse: Refuse) -> None:
    gate, blocking = threading.Event(), execution()

    freed: list[int] = []
    slots = LoopSlots(10, runs(blocking, gate, done), lambda: freed.append(slots.free()))
    slots.submit([blocking])
    wait_until(lambda: blocking.phase is Phase.RUNNING)
    behind = execution()
    slots.submit([behind])
    refused = refuse("chokaq-async", 2)
    try:
        assert blocking.cancel(CancelReason.TIMEOUT, 0.0)
        assert blocking.abandon()
        slots.written_off(blocking)
        assert (slots.free(), slots.lost) == (0, 0), "what would be claimed now would have to be given back"
        not_taken, later = execution(), execution()
        with pytest.raises(RuntimeError, match="can't start"):
            slots.submit([not_taken])
        assert slots.free() == 0
        freed.clear()
        slots.mend()
        assert max(freed) > 0, "whoever claims is told"
        wait_until(lambda: done == [behind], what="what waited has moved to the new loop")
        slots.submit([later])
        wait_until(lambda: set(done) == {behind, later}, what="and what comes later runs there")
        assert (len(refused), slots.lost) == (2, 1)
        wait_until(lambda: slots.free() == 10)
    finally:
        gate.set()
        slots.close()


def test_a_loop_that_goes_on_after_all_is_not_replaced(done: list[Execution], refuse: Refuse) -> None:
    """Its handler comes to its end before there is another loop."""
    gate, blocking = threading.Event(), execution()

    slots = LoopSlots(10, runs(blocking, gate, done), lambda: None)
    slots.submit([blocking])
    wait_until(lambda: blocking.phase is Phase.RUNNING)
    refuse("chokaq-async", 1)
    try:
        assert blocking.cancel(CancelReason.TIMEOUT, 0.0)
        assert blocking.abandon()
        slots.written_off(blocking)
        assert slots.free() == 0
        gate.set()
        wait_until(lambda: slots._blocked is None, what="the loop has come to tell its task")
        slots.mend()
        later = execution()
        slots.submit([later])
        wait_until(lambda: later in done and slots.free() == 10)
        assert slots.lost == 0
    finally:
        gate.set()
        slots.close()


def test_a_call_that_was_refused_does_not_run_later(refuse: Refuse) -> None:
    calls, ran = CallThread(), []
    refuse("chokaq-async-calls")
    with pytest.raises(RuntimeError, match="can't start"):
        calls.submit(ran.append, "refused")
    assert calls.submit(ran.append, "taken").result(30) is None
    assert ran == ["taken"]
    calls.shutdown()


def test_a_thread_is_left_to_its_call_as_soon_as_another_can_be_made(refuse: Refuse) -> None:
    calls, gate, caller = CallThread(), threading.Event(), execution()

    def call() -> None:
        call_thread._caller.set(caller)
        calls.submit(gate.wait, 30)

    copy_context().run(call)
    behind = calls.submit(lambda: "ran")
    wait_until(lambda: calls._running is not None)
    caller.begin()
    caller.end()
    refuse("chokaq-async-calls")
    try:
        assert not calls.look(0.0)
        assert calls.lost == 0
        assert calls.look(0.0)
        assert (behind.result(30), calls.lost) == ("ran", 1)
    finally:
        gate.set()
        calls.shutdown()


def test_a_signal_waits_for_its_thread(refuse: Refuse, caplog: pytest.LogCaptureFixture) -> None:
    heard: list[str] = []

    def receive(job_id: str, **arguments: object) -> None:
        heard.append(job_id)

    job_succeeded.connect(receive, weak=False)
    sender = SignalSender()
    refuse("chokaq-signals")
    try:
        sender.send(job_succeeded, None, job_id="first")
        assert len(told(caplog)) == 1
        sender.send(job_succeeded, None, job_id="second")
        wait_until(lambda: heard == ["first", "second"])
    finally:
        sender.close()
        job_succeeded.disconnect(receive)
