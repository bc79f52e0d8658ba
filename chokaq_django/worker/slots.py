"""Where user code runs: a pool of threads for ``def`` handlers, one event loop for ``async def`` handlers."""

from __future__ import annotations

import asyncio
import ctypes
import logging
import threading
from collections.abc import Callable, Sequence
from functools import partial
from queue import Empty, SimpleQueue
from typing import Protocol, cast

from django.db import connections

from ..job.failures import JobInterrupted
from ..observability.events import Event, log_event
from .call_thread import CallThread
from .connections import tidy_connections
from .execution import Execution, Phase

logger = logging.getLogger("chokaq.worker.slots")

IDLE_AFTER = 1.0
"""Seconds without a job after which a thread gives up the connections that Django would close after a request."""

END_LIMIT = 1.0
END_ROUNDS = 3
"""How often, and how many seconds apart, tasks that go on are told that the loop ends."""


class Slots(Protocol):
    """A place for executions, with a limit."""

    size: int

    def submit(self, executions: Sequence[Execution]) -> None:
        """Run these as soon as a slot is free, in order; an error says that none of them will."""

    def free(self) -> int:
        """How many more could run at once; negative when more were handed in than fit."""

    def waiting(self) -> int:
        """Handed in and not yet running."""

    def resize(self, size: int) -> None:
        """Change the limit; running jobs are left alone."""

    def written_off(self, execution: Execution) -> None:
        """The execution was abandoned: its slot is replaced."""

    def mend(self) -> None:
        """Ask again for what the system refused when it was needed: what waits here may wait for nothing else."""

    def close(self) -> None:
        """End the idle threads; the others end with what they run."""


class ThreadSlots:
    """``size`` threads that take executions from one queue."""

    def __init__(self, size: int, run: Callable[[Execution], None], freed: Callable[[], None]) -> None:
        self.size = size
        self.lost = 0
        """Threads written off since the process started."""
        self._run = run
        self._freed = freed
        self._ready: SimpleQueue[Execution | None] = SimpleQueue()
        self._lock = threading.Lock()
        self._outstanding = 0
        self._made = 0
        self._threads = 0
        """Those that take executions, now or when theirs have ended."""
        self._refused = False
        """The last try to make one failed."""
        self._over = False
        with self._lock:
            self._fit()

    def _fit(self) -> None:
        """Have as many threads as slots, or as many as the system gives; the caller holds the lock."""
        if self._over:
            return
        while self._threads > self.size:
            self._ready.put(None)
            self._threads -= 1
        while self._threads < self.size:
            try:
                threading.Thread(target=self._loop, name=f"chokaq-slot-{self._made + 1}", daemon=True).start()
            except Exception as error:  # noqa: BLE001 - RuntimeError, MemoryError: what is there must go on
                if not self._refused:
                    log_event(
                        logger, logging.WARNING, Event.THREAD_REFUSED,
                        "No thread could be made for a slot, %d of %d are there: %s", self._threads, self.size, error,
                    )  # fmt: skip
                self._refused = True
                return
            self._made += 1
            self._threads += 1
            self._refused = False

    def submit(self, executions: Sequence[Execution]) -> None:
        with self._lock:
            self._fit()
            if not self._threads:
                raise RuntimeError("no slot has a thread")
            self._outstanding += len(executions)
        for execution in executions:
            self._ready.put(execution)

    def free(self) -> int:
        # Without a thread there is no room: what is claimed for it would wait, or have to be given back.
        return min(self.size, self._threads) - self._outstanding

    def waiting(self) -> int:
        return self._ready.qsize()

    def busy(self) -> int:
        return self._outstanding

    def resize(self, size: int) -> None:
        with self._lock:
            self.size = size
            self._fit()

    def written_off(self, execution: Execution) -> None:
        self.lost += 1
        self._done(threads_lost=1)

    def mend(self) -> None:
        if self._threads < self.size:
            with self._lock:
                before = self._threads
                self._fit()
            if self._threads > before:
                self._freed()

    def _done(self, threads_lost: int = 0) -> None:
        with self._lock:
            self._outstanding -= 1
            self._threads -= threads_lost
            self._fit()
        self._freed()

    def close(self) -> None:
        with self._lock:
            self._over = True
            for _ in range(self._threads):
                self._ready.put(None)
            self._threads = 0

    def _next(self) -> Execution | None:
        try:
            return self._ready.get(timeout=IDLE_AFTER)
        except Empty:
            tidy_connections(busy=False)
            return self._ready.get()

    def _loop(self) -> None:
        try:
            while (execution := self._next()) is not None:
                try:
                    self._run(execution)
                except BaseException:
                    logger.exception("Job %s ended in an unexpected way", execution.job.id)
                if execution.phase is Phase.ABANDONED:
                    return  # another thread took this one's place; its connections go with it
                if execution.interrupted:
                    # User code may have left anything half done here, and so may a library below it.
                    self._done(threads_lost=1)
                    return
                self._done()
        finally:
            connections.close_all()


def interrupt_thread(thread_id: int) -> Callable[[], None]:
    """A function that raises JobInterrupted inside that thread, at its next bytecode."""

    def interrupt() -> None:
        ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread_id), ctypes.py_object(JobInterrupted))

    return interrupt


class LoopSlots:
    """One event loop in a thread of its own, up to ``size`` tasks at once, and the thread of what they call."""

    def __init__(
        self, size: int, run: Callable[[Execution], asyncio.Future[None] | object], freed: Callable[[], None]
    ) -> None:
        self.size = size
        self.lost = 0
        """Loops given up since the process started."""
        self.calls = CallThread()
        self._context = self.calls.context()
        self._run = run
        self._freed = freed
        self._lock = threading.Lock()
        self._places: dict[Execution, asyncio.AbstractEventLoop] = {}
        """Where each execution runs that holds a slot."""
        self._unheard: set[Execution] = set()
        """Told to stop, and the loop has not come to tell them yet."""
        self._tasks: set[asyncio.Task[None]] = set()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._blocked: asyncio.AbstractEventLoop | None = None
        """The current loop, if a handler blocks it; not for long, unless no other can be made."""
        self._refused = False
        """The last try to make another failed."""
        self._over: set[asyncio.AbstractEventLoop] = set()

    def _ensure_loop(self) -> asyncio.AbstractEventLoop:
        """The current loop; the caller holds the lock. An error (too many open files, too many threads) changes
        nothing."""
        if self._loop is None:
            loop = asyncio.new_event_loop()
            try:
                threading.Thread(target=self._run_loop, args=(loop,), name="chokaq-async", daemon=True).start()
            except Exception:
                loop.close()
                raise
            self._loop = loop
        return self._loop

    def _run_loop(self, loop: asyncio.AbstractEventLoop) -> None:
        while loop not in self._over:
            try:
                loop.run_forever()
            except BaseException:
                # SystemExit in a task or callback of user code goes through the loop, which is not its to end.
                logger.warning("User code tried to end the event loop, which goes on", exc_info=True)
        self._over.discard(loop)
        loop.close()

    def submit(self, executions: Sequence[Execution]) -> None:
        try:
            self._replace()
            with self._lock:
                loop = self._ensure_loop()
        except Exception:
            self._refused = True  # until mend() gets one
            raise
        with self._lock:
            self._places.update(dict.fromkeys(executions, loop))
            try:
                loop.call_soon_threadsafe(self._spawn, executions)
            except BaseException:
                for execution in executions:
                    del self._places[execution]
                raise

    def _spawn(self, executions: Sequence[Execution]) -> None:
        for execution in executions:
            # The name is what asyncio's debug mode prints of a task that blocks the loop.
            name = f"{execution.job.type} {execution.job.id}"
            # No create_task(): user code may have set the loop's task factory.
            task = asyncio.Task(self._one(execution), loop=asyncio.get_running_loop(), name=name)
            self._tasks.add(task)
            task.add_done_callback(partial(self._ended, execution))

    def _ended(self, execution: Execution, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if self._places.get(execution) is task.get_loop() and execution.phase is Phase.WAITING:
            # Of a task that is cancelled before its first step nothing runs. It was user code: whoever stops a job does
            # not reach it here.
            self.submit([execution])

    async def _one(self, execution: Execution) -> None:
        loop, task = asyncio.get_running_loop(), cast("asyncio.Task[None]", asyncio.current_task())
        if self._places.get(execution) is not loop:
            return  # this loop stood still, and another one took it over

        def stop() -> None:
            with self._lock:
                self._unheard.discard(execution)
                if self._blocked is loop:
                    self._blocked = None  # it goes on after all, before there was another
            task.cancel()

        def interrupt() -> None:
            self._unheard.add(execution)
            loop.call_soon_threadsafe(stop)

        execution.interrupt = interrupt
        self.calls.enter(self._context, execution)
        try:
            await self._run(execution)  # type: ignore[misc]
        except asyncio.CancelledError:
            pass  # the interrupt came after the job's own end, while its connections were looked after
        except BaseException:
            logger.exception("Job %s ended in an unexpected way", execution.job.id)
        finally:
            if execution.phase is not Phase.ABANDONED:
                self._done(execution)

    def close(self) -> None:
        loop, self._loop = self._loop, None
        if loop is not None:
            asyncio.run_coroutine_threadsafe(self._end(), loop)
        else:
            self.calls.shutdown()

    async def _end(self) -> None:
        for task in list(self._tasks):
            task.get_loop().call_soon_threadsafe(task.cancel)
        for _ in range(END_ROUNDS):
            # All tasks, and those that they begin then: one that is destroyed before its end gives the context of its
            # job to whatever thread collects the garbage, as asgiref does at the end of a call.
            if not (own := asyncio.all_tasks() - {asyncio.current_task()}):
                break
            for each in own:
                each.cancel()
            await asyncio.wait(own, timeout=END_LIMIT)
        self.calls.shutdown()
        self._stop_here()

    async def _retire(self) -> None:
        """The end of a loop that was replaced: with the last of its tasks."""
        own = asyncio.all_tasks() - {asyncio.current_task()}
        if own:
            await asyncio.wait(own)
        self._stop_here()

    def _stop_here(self) -> None:
        loop = asyncio.get_running_loop()
        self._over.add(loop)
        loop.stop()

    def _done(self, execution: Execution) -> None:
        with self._lock:
            self._unheard.discard(execution)
            if self._places.pop(execution, None) is None:
                return
        self._freed()

    def free(self) -> int:
        # Refused a loop there is room for nothing: what is claimed would have to be given back.
        return min(0, self.size - len(self._places)) if self._refused else self.size - len(self._places)

    def waiting(self) -> int:
        return 0

    def busy(self) -> int:
        return len(self._places)

    def resize(self, size: int) -> None:
        self.size = size

    def written_off(self, execution: Execution) -> None:
        with self._lock:
            if execution in self._unheard and self._places.get(execution) is self._loop:
                # In all its grace the loop did not come to cancel its task: a handler blocks it, and all others too.
                self._blocked = self._loop
        self.mend()
        self._done(execution)

    def mend(self) -> None:
        refused = self._refused
        try:
            self._replace()
            if refused:
                with self._lock:
                    self._ensure_loop()
        except Exception as error:  # noqa: BLE001 - until it can be made, nothing more is taken
            if not refused:
                log_event(
                    logger, logging.WARNING, Event.THREAD_REFUSED,
                    "An async handler blocks the event loop, and no other one can be made yet: %s", error,
                )  # fmt: skip
            self._refused = True
        else:
            self._refused = False
            if refused:
                self._freed()

    def _replace(self) -> None:
        """Go on with a new loop if a handler blocks this one; everything moves to it that has not begun. An error
        changes nothing."""
        if self._blocked is None:
            return
        with self._lock:
            blocked, current = self._blocked, self._loop
            if blocked is not None and blocked is current:
                self._loop = None
                try:
                    self._ensure_loop()
                finally:
                    self._loop = self._loop or current
            self._blocked = None
            if blocked is None or blocked is not current:
                return
            self.lost += 1
            moved = [e for e, loop in self._places.items() if loop is blocked and e.phase is Phase.WAITING]
        log_event(
            logger, logging.WARNING, Event.LOOP_REPLACED,
            "An async handler blocks the event loop: a new loop takes its place, and %d jobs that wait", len(moved),
        )  # fmt: skip
        asyncio.run_coroutine_threadsafe(self._retire(), blocked)
        if moved:
            self.submit(moved)
