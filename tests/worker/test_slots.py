"""Where user code runs: the slots survive whatever happens in them. No database here."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator

import pytest

from chokaq_django.job.failures import CancelReason
from chokaq_django.worker.execution import Execution, Phase
from chokaq_django.worker.slots import LoopSlots, ThreadSlots

from ..helpers import wait_until
from .executions import execution


class Room:
    """Thread slots whose work the test gives: a function of the execution."""

    def __init__(self, size: int) -> None:
        self.freed = 0
        self.done: list[Execution] = []
        self.errors: dict[Execution, BaseException] = {}
        self.gates: dict[Execution, threading.Event] = {}
        self.threads: dict[Execution, threading.Thread] = {}
        self.slots = ThreadSlots(size, self._run, self._freed)

    def _freed(self) -> None:
        self.freed += 1

    def _run(self, item: Execution) -> None:
        self.threads[item] = threading.current_thread()
        item.begin()
        if item in self.gates:
            self.gates[item].wait(30)
        if item in self.errors:
            raise self.errors[item]
        item.end()
        self.done.append(item)

    def gated(self, count: int) -> list[Execution]:
        items = [execution() for _ in range(count)]
        self.gates |= {item: threading.Event() for item in items}
        return items


@pytest.fixture
def room() -> Iterator[Room]:
    room = Room(2)
    yield room
    for gate in room.gates.values():
        gate.set()
    room.slots.close()


def test_no_more_run_at_once_than_there_are_slots(room: Room) -> None:
    items = room.gated(5)
    room.slots.submit(items)
    wait_until(lambda: [item.phase for item in items].count(Phase.RUNNING) == 2)
    assert room.slots.free() == -3
    assert room.slots.waiting() == 3
    room.gates[items[0]].set()
    wait_until(lambda: room.slots.waiting() == 2)
    for gate in room.gates.values():
        gate.set()
    wait_until(lambda: len(room.done) == 5)
    wait_until(lambda: room.freed == 5)
    assert room.slots.free() == 2
    assert room.done[0] is items[0]


@pytest.mark.parametrize("error", [RuntimeError("no"), SystemExit(1), KeyboardInterrupt(), MemoryError()])
def test_a_slot_survives_what_its_work_raises(room: Room, error: BaseException) -> None:
    bad = [execution() for _ in range(6)]
    room.errors |= dict.fromkeys(bad, error)
    good = [execution() for _ in range(4)]
    room.slots.submit([*bad, *good])
    wait_until(lambda: len(room.done) == 4)
    wait_until(lambda: room.slots.free() == 2)


def test_a_written_off_execution_gives_its_place_to_a_new_thread(room: Room) -> None:
    stuck = room.gated(2)
    room.slots.submit(stuck)
    wait_until(lambda: {item.phase for item in stuck} == {Phase.RUNNING})
    for item in stuck:
        assert item.cancel(CancelReason.TIMEOUT, 0.0)
        assert item.abandon()
        room.slots.written_off(item)
    assert room.slots.free() == 2
    good = [execution() for _ in range(3)]
    room.slots.submit(good)
    wait_until(lambda: room.freed == 5, what="the three have run, the two are written off")
    for gate in room.gates.values():
        gate.set()
    lost = [room.threads[item] for item in stuck]
    wait_until(lambda: not any(thread.is_alive() for thread in lost), what="the lost threads end when their work does")
    assert len(room.done) == 5
    assert room.slots.free() == 2, "and count for nothing any more"
    assert room.slots.lost == 2


def test_the_limit_changes_while_jobs_run(room: Room) -> None:
    items = room.gated(4)
    room.slots.submit(items)
    wait_until(lambda: [item.phase for item in items].count(Phase.RUNNING) == 2)
    room.slots.resize(4)
    wait_until(lambda: [item.phase for item in items].count(Phase.RUNNING) == 4)
    room.slots.resize(1)
    for gate in room.gates.values():
        gate.set()
    wait_until(lambda: room.slots.free() == 1)
    more = room.gated(2)
    room.slots.submit(more)
    wait_until(lambda: [item.phase for item in more].count(Phase.RUNNING) == 1)
    assert room.slots.waiting() == 1


def test_closing_ends_the_threads() -> None:
    before = set(threading.enumerate())
    room = Room(3)
    made = set(threading.enumerate()) - before
    assert len(made) == 3
    room.slots.close()
    wait_until(lambda: not any(thread.is_alive() for thread in made))


class Pool:
    """Loop slots whose work the test gives."""

    def __init__(self, size: int) -> None:
        self.freed = 0
        self.running = 0
        self.behaviour: dict[Execution, str] = {}
        self.names: dict[Execution, str] = {}
        self.end = asyncio.Event()
        self.left: list[asyncio.Future[bool]] = []
        self.slots = LoopSlots(size, self._run, self._freed)

    def _freed(self) -> None:
        self.freed += 1

    async def _lingers(self) -> bool:
        """Begins another task when it is cancelled."""
        try:
            return await self.end.wait()
        finally:
            self.left.append(asyncio.ensure_future(self.end.wait()))

    async def _run(self, item: Execution) -> None:
        item.begin()
        task = asyncio.current_task()
        self.names[item] = task.get_name() if task else ""
        how = self.behaviour.get(item, "waits")
        self.running += 1
        try:
            if how == "raises":
                raise RuntimeError("no")
            if how == "waits":
                await self.end.wait()
            elif how == "cancels all":
                for each in asyncio.all_tasks():
                    each.cancel()
                await asyncio.sleep(0)
            elif how == "leaves tasks":
                self.left = [asyncio.ensure_future(self.end.wait()), asyncio.ensure_future(self._lingers())]
            elif how == "makes tasks":
                asyncio.get_running_loop().set_task_factory(lambda loop, coro, **named: None)  # type: ignore[arg-type]
            elif how == "makes tasks again":
                asyncio.get_running_loop().set_task_factory(None)
            elif how == "cancelled late":
                item.cancel(CancelReason.TIMEOUT, 60.0)  # the interrupt arrives after the job's own end
                item.end()
                await asyncio.sleep(0.01)
        finally:
            self.running -= 1
            item.end()


@pytest.fixture
def pool() -> Iterator[Pool]:
    pool = Pool(10)
    yield pool
    pool.slots.close()


@pytest.mark.parametrize("how", ["raises", "cancelled late"])
def test_the_loop_gives_every_place_back(pool: Pool, how: str) -> None:
    bad = [execution() for _ in range(10)]
    pool.behaviour |= dict.fromkeys(bad, how)
    pool.slots.submit(bad)
    wait_until(lambda: pool.freed == 10, what="all places are free again")
    assert pool.slots.free() == 10


def test_a_task_that_is_written_off_gives_its_place_back_once(pool: Pool) -> None:
    item = execution()
    pool.slots.submit([item])
    wait_until(lambda: item.phase is Phase.RUNNING)
    assert item.cancel(CancelReason.TIMEOUT, 0.0)
    if item.abandon():  # unless its cancellation was quicker
        pool.slots.written_off(item)
    wait_until(lambda: pool.running == 0)
    wait_until(lambda: pool.slots.free() == 10)


def test_a_task_is_named_after_its_job(pool: Pool) -> None:
    item = execution()
    pool.behaviour[item] = "raises"
    pool.slots.submit([item])
    wait_until(lambda: pool.freed == 1)
    assert pool.names[item] == f"{item.job.type} {item.job.id}"


def test_a_task_that_is_cancelled_before_its_first_step_runs_all_the_same(pool: Pool) -> None:
    first, *others = (execution() for _ in range(4))
    pool.behaviour[first] = "cancels all"
    pool.behaviour |= dict.fromkeys(others, "returns")
    pool.slots.submit([first, *others])
    wait_until(lambda: pool.freed == 4, what="all places are free again")
    assert {item.phase for item in (first, *others)} == {Phase.ENDED}
    assert len(pool.names) == 4


def test_a_loop_whose_way_to_make_tasks_was_changed_runs_the_next(pool: Pool) -> None:
    items = [execution(), execution()]
    for item, how in zip(items, ("makes tasks", "makes tasks again"), strict=True):
        pool.behaviour[item] = how
        pool.slots.submit([item])
        wait_until(lambda item=item: item.phase is Phase.ENDED)  # type: ignore[misc]


def test_no_task_is_left_behind_by_a_loop_that_ends(pool: Pool) -> None:
    """One that is destroyed before its end runs its last lines wherever the garbage is collected."""
    item = execution()
    pool.behaviour[item] = "leaves tasks"
    pool.slots.submit([item])
    wait_until(lambda: pool.freed == 1)
    pool.slots.close()
    wait_until(lambda: len(pool.left) == 3)
    wait_until(lambda: all(task.cancelled() for task in pool.left))
