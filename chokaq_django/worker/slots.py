"""Where user code runs: a pool of threads for ``def`` handlers, one event loop for ``async def`` handlers."""

from __future__ import annotations

import asyncio
import ctypes
import logging
import threading
from collections.abc import Callable, Sequence
from queue import Empty, SimpleQueue
from typing import Protocol, cast

from asgiref.sync import sync_to_async
from django.db import connections

from ..job.failures import JobInterrupted
from .connections import tidy_connections
from .execution import Execution, Phase

logger = logging.getLogger("chokaq.worker.slots")

IDLE_AFTER = 1.0
"""Seconds without a job after which a thread gives up the connections that Django would close after a request."""


class Slots(Protocol):
    """A place for executions, with a limit."""

    size: int

    def submit(self, executions: Sequence[Execution]) -> None:
        """Run these as soon as a slot is free, in order."""

    def free(self) -> int:
        """How many more could run at once; negative when more were handed in than fit."""

    def waiting(self) -> int:
        """Handed in and not yet running."""

    def resize(self, size: int) -> None:
        """Change the limit; running jobs are left alone."""

    def written_off(self, execution: Execution) -> None:
        """The execution was abandoned: its slot is replaced."""

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
        self._threads = 0
        for _ in range(size):
            self._add_thread()

    def _add_thread(self) -> None:
        self._threads += 1
        threading.Thread(target=self._loop, name=f"chokaq-slot-{self._threads}", daemon=True).start()

    def submit(self, executions: Sequence[Execution]) -> None:
        with self._lock:
            self._outstanding += len(executions)
        for execution in executions:
            self._ready.put(execution)

    def free(self) -> int:
        return self.size - self._outstanding

    def waiting(self) -> int:
        return self._ready.qsize()

    def busy(self) -> int:
        return self._outstanding

    def resize(self, size: int) -> None:
        with self._lock:
            change, self.size = size - self.size, size
        for _ in range(change):
            self._add_thread()
        for _ in range(-change):
            self._ready.put(None)

    def written_off(self, execution: Execution) -> None:
        self.lost += 1
        self._done()
        self._add_thread()

    def _done(self) -> None:
        with self._lock:
            self._outstanding -= 1
        self._freed()

    def close(self) -> None:
        for _ in range(self.size):
            self._ready.put(None)

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
                    self._add_thread()
                    self._done()
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
    """One event loop in a thread of its own, up to ``size`` tasks at once."""

    def __init__(
        self, size: int, run: Callable[[Execution], asyncio.Future[None] | object], freed: Callable[[], None]
    ) -> None:
        self.size = size
        self._run = run
        self._freed = freed
        self._outstanding = 0
        self._lock = threading.Lock()
        self._tasks: set[asyncio.Task[None]] = set()
        self._loop: asyncio.AbstractEventLoop | None = None

    def _ensure_loop(self) -> asyncio.AbstractEventLoop:
        if self._loop is None:
            self._loop = asyncio.new_event_loop()
            threading.Thread(target=self._run_loop, args=(self._loop,), name="chokaq-async", daemon=True).start()
        return self._loop

    def _run_loop(self, loop: asyncio.AbstractEventLoop) -> None:
        loop.run_forever()
        loop.close()

    def submit(self, executions: Sequence[Execution]) -> None:
        with self._lock:
            self._outstanding += len(executions)
        self._ensure_loop().call_soon_threadsafe(self._spawn, executions)

    def _spawn(self, executions: Sequence[Execution]) -> None:
        for execution in executions:
            task = asyncio.get_running_loop().create_task(self._one(execution))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _one(self, execution: Execution) -> None:
        loop, task = asyncio.get_running_loop(), cast("asyncio.Task[None]", asyncio.current_task())

        def interrupt() -> None:
            loop.call_soon_threadsafe(task.cancel)

        execution.interrupt = interrupt
        try:
            await self._run(execution)  # type: ignore[misc]
        except asyncio.CancelledError:
            pass  # the interrupt came after the job's own end, while its connections were looked after
        except BaseException:
            logger.exception("Job %s ended in an unexpected way", execution.job.id)
        finally:
            if execution.phase is not Phase.ABANDONED:
                self._done()

    def close(self) -> None:
        loop, self._loop = self._loop, None
        if loop is not None:
            asyncio.run_coroutine_threadsafe(self._end(), loop)

    async def _end(self) -> None:
        for task in self._tasks:
            task.cancel()
        # In the thread in which async handlers have used the ORM.
        await sync_to_async(connections.close_all)()
        asyncio.get_running_loop().stop()

    def _done(self) -> None:
        with self._lock:
            self._outstanding -= 1
        self._freed()

    def free(self) -> int:
        return self.size - self._outstanding

    def waiting(self) -> int:
        return 0

    def busy(self) -> int:
        return self._outstanding

    def resize(self, size: int) -> None:
        self.size = size

    def written_off(self, execution: Execution) -> None:
        self._done()
