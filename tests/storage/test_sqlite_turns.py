"""SQLite: who writes when, in one process. Time is a fake here; what is asserted is order and proportion."""

from __future__ import annotations

import dis
import itertools
import os
import sys
import threading
import types
from collections.abc import Iterator
from functools import cache
from typing import Any

import pytest

from chokaq_django.storage.sqlite import turns as module
from chokaq_django.storage.sqlite.turns import LONGEST_REST, REST_ALONE, SAVED_REST, FairLock, Turns, turns_of
from tests.helpers import wait_until


class Clock:
    """Time that passes when somebody sleeps or says so."""

    def __init__(self) -> None:
        self.now = 1_000.0
        self.slept: list[float] = []

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    fake = Clock()
    monkeypatch.setattr(module, "time", fake)
    return fake


def write(turns: Turns, clock: Clock, seconds: float, *, waited: bool = False) -> None:
    with turns.worked() as writing:
        writing.waited = waited
        writing.began = clock.now
        clock.now += seconds


# -- the lock ----------------------------------------------------------------------------------------------------------


def test_the_lock_is_given_in_the_order_of_arrival() -> None:
    lock, order = FairLock(), []
    lock.acquire()

    def wait(number: int) -> None:
        lock.acquire()
        order.append(number)
        lock.release()

    threads: list[threading.Thread] = []
    for number in range(5):
        thread = threading.Thread(target=wait, args=(number,), daemon=True)
        thread.start()
        threads.append(thread)
        wait_until(lambda: len(lock._waiting) == len(threads))
    lock.release()
    for thread in threads:
        thread.join(10)
    assert order == [0, 1, 2, 3, 4]
    lock.acquire()
    lock.release()


def test_one_that_takes_the_lock_again_stands_behind_those_who_wait() -> None:
    lock, order = FairLock(), []
    lock.acquire()

    def wait() -> None:
        lock.acquire()
        order.append("waiter")
        lock.release()

    thread = threading.Thread(target=wait, daemon=True)
    thread.start()
    wait_until(lambda: len(lock._waiting) == 1)
    lock.release()
    lock.acquire()
    order.append("greedy")
    lock.release()
    thread.join(10)
    assert order == ["waiter", "greedy"]


def test_a_turn_ends_with_an_error_too() -> None:
    turns = Turns()
    for _ in range(2):
        with pytest.raises(ValueError, match="broken"), turns.taken:
            raise ValueError("broken")
        with pytest.raises(ValueError, match="broken"), turns.worked():
            raise ValueError("broken")


class StopError(BaseException):
    """What is raised inside a thread that is to stop."""


class Victim(threading.Thread):
    """Takes the lock and gives it back. Before the n-th point at which an exception from outside can come (where a
    function begins, and after a call) it comes."""

    def __init__(self, lock: FairLock, number: int) -> None:
        super().__init__(daemon=True)
        self.stopped = False
        self._lock, self._left = lock, number
        self._last: dict[types.FrameType, str] = {}

    def run(self) -> None:
        sys.settrace(self._trace)
        try:
            with self._lock:
                pass
        except StopError:
            self.stopped = True
        finally:
            sys.settrace(None)

    def _trace(self, frame: types.FrameType, event: str, argument: object) -> Any:
        if frame.f_code.co_filename != module.__file__:
            return None
        frame.f_trace_opcodes = True
        if event == "call":
            self._point()
        elif event == "opcode":
            if self._last.get(frame, "").startswith("CALL"):
                self._point()
            self._last[frame] = names(frame.f_code)[frame.f_lasti]
        return self._trace

    def _point(self) -> None:
        self._left -= 1
        if self._left == 0:
            raise StopError


@cache
def names(code: types.CodeType) -> dict[int, str]:
    """The names of the code's instructions by their offsets."""
    return {instruction.offset: instruction.opname for instruction in dis.get_instructions(code)}


def takes(lock: FairLock) -> threading.Thread:
    """A thread that takes the lock, gives it back and ends."""

    def take() -> None:
        with lock:
            pass

    thread = threading.Thread(target=take, daemon=True)
    thread.start()
    return thread


def stop_at(number: int, *, held: bool) -> bool:
    """Stops one that takes the lock at its n-th point, if it has so many. Who stands behind it, and who comes later,
    have their turns."""
    lock = FairLock()
    if held:
        lock.acquire()
    victim = Victim(lock, number)
    victim.start()
    wait_until(lambda: lock._waiting or not victim.is_alive())
    behind = takes(lock)
    if held:
        wait_until(lambda: lock._waiting and lock._waiting[-1].thread is behind)
        lock.release()
    wait_until(lambda: not victim.is_alive())
    wait_until(lambda: not behind.is_alive(), what=f"it has its turn although the other was stopped at {number}")
    later = takes(lock)
    wait_until(lambda: not later.is_alive(), what=f"it has its turn although another was stopped at {number}")
    return victim.stopped


def test_whoever_asks_again_has_no_turn_any_more() -> None:
    """It was interrupted on its way out; it would wait for itself."""
    lock = FairLock()
    lock.acquire()
    behind = takes(lock)
    wait_until(lambda: lock._waiting)
    lock.acquire()
    wait_until(lambda: not behind.is_alive(), what="the other had its turn before")
    lock.release()
    later = takes(lock)
    wait_until(lambda: not later.is_alive())


@pytest.mark.parametrize("held", [False, True], ids=["free", "held"])
def test_wherever_an_exception_comes_the_others_get_their_turns(held: bool) -> None:
    points = next(number for number in itertools.count(1) if not stop_at(number, held=held))
    assert points > 15


# -- the rest ----------------------------------------------------------------------------------------------------------


def test_a_worker_rests_in_proportion_to_its_writing(clock: Clock) -> None:
    turns = Turns()
    write(turns, clock, 0.040)
    assert clock.slept == []
    write(turns, clock, 0.020)
    write(turns, clock, 0.001)
    assert clock.slept == pytest.approx([0.040 * REST_ALONE - SAVED_REST, 0.020 * REST_ALONE])


def test_time_that_has_passed_anyway_is_rest(clock: Clock) -> None:
    turns = Turns()
    for _ in range(10):
        write(turns, clock, 0.040)
        clock.now += 0.040 * REST_ALONE
    assert clock.slept == []


def test_a_little_rest_can_be_taken_in_advance(clock: Clock) -> None:
    turns = Turns()
    for _ in range(10):
        for _ in range(2):
            write(turns, clock, SAVED_REST / REST_ALONE / 2)
        clock.now += 2 * SAVED_REST
    assert clock.slept == []
    clock.now += 60.0
    for _ in range(4):
        write(turns, clock, 0.020)
    assert sum(clock.slept) == pytest.approx(3 * 0.020 * REST_ALONE - SAVED_REST), "a minute saves no more"


def test_a_crowd_makes_it_rest_longer_and_is_forgotten(clock: Clock) -> None:
    turns = Turns()

    def rest() -> float:
        for _ in range(20):
            write(turns, clock, 0.002)
        return clock.slept[-1]

    alone = rest()
    for _ in range(50):
        write(turns, clock, 0.002, waited=True)
    write(turns, clock, 0.002)
    assert clock.slept[-1] > 4 * alone
    for _ in range(100):
        write(turns, clock, 0.002)
    assert rest() == pytest.approx(alone, rel=0.01)


def test_no_rest_is_endless(clock: Clock) -> None:
    turns = Turns()
    write(turns, clock, 60.0, waited=True)
    write(turns, clock, 0.001)
    write(turns, clock, 0.001)
    assert clock.slept[0] == LONGEST_REST
    assert clock.slept[1] < LONGEST_REST, "what was not rested is forgotten"


def test_a_transaction_that_never_began_is_followed_by_no_rest(clock: Clock) -> None:
    turns = Turns()

    def wait_in_vain() -> None:
        with turns.worked():
            clock.now += 5.0
            raise RuntimeError("the file stayed locked")

    with pytest.raises(RuntimeError):
        wait_in_vain()
    write(turns, clock, 0.001)
    assert clock.slept == []


def test_a_caller_writes_while_a_worker_rests(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    turns, order = Turns(), []
    resting, go_on = threading.Event(), threading.Event()

    def sleep(seconds: float) -> None:
        resting.set()
        assert go_on.wait(10)

    write(turns, clock, 0.040)
    monkeypatch.setattr(clock, "sleep", sleep)

    def work() -> None:
        with turns.worked():
            order.append("worker")

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    assert resting.wait(10)
    with turns.taken:
        order.append("caller")
    go_on.set()
    thread.join(10)
    assert order == ["caller", "worker"]


def test_a_caller_does_not_rest(clock: Clock) -> None:
    turns = Turns()
    write(turns, clock, 0.040)
    with turns.taken:
        assert clock.slept == []


# -- which file --------------------------------------------------------------------------------------------------------


@pytest.fixture(autouse=True)
def _files_as_before() -> Iterator[None]:
    before = dict(module._turns), dict(module._names)
    yield
    for kept, found in zip(before, (module._turns, module._names), strict=True):
        found.clear()
        found.update(kept)


def test_one_file_has_one_line_by_whatever_name(tmp_path: object) -> None:
    assert turns_of(f"{tmp_path}/a.sqlite3") is turns_of(f"{tmp_path}/./x/../a.sqlite3")
    assert turns_of(f"{tmp_path}/a.sqlite3") is not turns_of(f"{tmp_path}/b.sqlite3")
    assert turns_of("file:m?mode=memory&cache=shared") is turns_of("file:m?mode=memory&cache=shared")


def test_a_child_does_not_wait_for_threads_of_its_parent() -> None:
    with turns_of("/a/fork.sqlite3").worked():
        pid = os.fork()
        if pid == 0:
            with turns_of("/a/fork.sqlite3").worked():
                os._exit(7)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 7
