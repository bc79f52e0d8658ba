"""The thread in which ``sync_to_async`` runs what ``async def`` handlers call, Django's ORM among it.

asgiref has one such thread for a whole process, one call after the other. A call that does not come back, such as a
request without a time limit, would hold up the calls of all other jobs for as long, even when its own job has long
ended: nothing stops a thread from outside. This one can be left to such a call, and another takes its place.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Executor, Future
from contextvars import ContextVar
from functools import partial
from typing import Any, cast

from asgiref.sync import SyncToAsync, ThreadSensitiveContext
from django.db import connections

from ..observability.events import Event, log_event
from .execution import Execution, Phase

logger = logging.getLogger("chokaq.worker.calls")

_caller: ContextVar[Execution | None] = ContextVar("chokaq_caller", default=None)
"""Whose task calls."""


class _Call:
    __slots__ = ("_work", "asked", "began", "caller", "future", "until")

    def __init__(self, work: Callable[[], Any]) -> None:
        self._work = work
        self.future: Future[Any] = Future()
        self.caller = _caller.get()
        self.asked = self.began = time.monotonic()
        self.until: float | None = None
        """When its time is up, once its job has ended."""

    def run(self) -> None:
        if not self.future.set_running_or_notify_cancel():
            return
        try:
            result = self._work()
        except BaseException as error:  # noqa: BLE001 - SystemExit too: it is the caller's, and the thread goes on
            self.future.set_exception(error)
        else:
            self.future.set_result(result)


class CallThread(Executor):
    """One thread at a time that runs calls in their order. The process's end does not wait for it."""

    def __init__(self) -> None:
        self.lost = 0
        """Threads left to a call since the process started."""
        self._lock = threading.Condition()
        self._waiting: deque[_Call] = deque()
        self._running: _Call | None = None
        self._begun = False
        self._refused = False
        """The last try to leave the thread to a call failed."""
        self._over = False

    # -- calls ---------------------------------------------------------------------------------------------------------

    def context(self) -> ThreadSensitiveContext:
        """What makes asgiref run the calls of a task here, once the task has entered it; to be kept alive."""
        context = ThreadSensitiveContext()
        SyncToAsync.context_to_thread_executor[context] = cast("Any", self)
        return context

    @staticmethod
    def enter(context: ThreadSensitiveContext, execution: Execution) -> None:
        """The calling task, and all that it starts, runs this execution."""
        SyncToAsync.thread_sensitive_context.set(context)
        _caller.set(execution)

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        call = _Call(partial(fn, *args, **kwargs))
        with self._lock:
            if self._over:
                raise RuntimeError("The worker has stopped")
            if not self._begun:
                self._begin()  # before the call is in the line: one that was refused must not run later
            self._waiting.append(call)
            self._lock.notify()
        return call.future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """End after what waits, without waiting for it."""
        with self._lock:
            self._over = True
            self._lock.notify()

    def _begin(self) -> None:
        """Another thread; an error (too many threads) changes nothing."""
        threading.Thread(target=self._loop, name="chokaq-async-calls", daemon=True).start()
        self._begun = True

    def _next(self) -> _Call | None:
        with self._lock:
            while not self._waiting:
                if self._over:
                    return None
                self._lock.wait()
            self._running = call = self._waiting.popleft()
            call.began = time.monotonic()
            return call

    def _loop(self) -> None:
        try:
            while (call := self._next()) is not None:
                call.run()
                with self._lock:
                    if self._running is not call:
                        return  # it was left to this call
                    self._running = None
                del call  # what it holds is not held until the next
        finally:
            connections.close_all()

    # -- calls that do not come back -----------------------------------------------------------------------------------

    def look(self, grace: float) -> bool:
        """Whether the thread has just been replaced: it runs a call whose job has ended, and that goes on beyond the
        time that a job has to stop."""
        call = self._running
        if call is None or call.caller is None or call.caller.phase in (Phase.WAITING, Phase.RUNNING):
            return False
        now = time.monotonic()
        if call.until is None:
            told = None if call.caller.abandon_at is None else call.caller.abandon_at - grace
            call.until = grace + max(call.began, now if told is None else told)
        return now >= call.until and self._leave_to(call, now, "has ended")

    def held_up(self, execution: Execution) -> bool:
        """Whether the execution has spent most of its time waiting here for a single call of another job. The thread is
        replaced then, and its time begins anew where it began to wait."""
        now = time.monotonic()
        with self._lock:
            call = self._running
            if call is None or call.caller is execution:
                return False
            asked = [each.asked for each in self._waiting if each.caller is execution and not each.future.done()]
            if not asked or 2 * (now - max(call.began, min(asked))) < execution.timeout:
                return False
        return self._leave_to(call, now, "goes on")

    def _leave_to(self, call: _Call, now: float, state: str) -> bool:
        """Leave the thread to this call: another one runs those that wait, whose jobs are given the time they lost."""
        with self._lock:
            if self._running is not call:
                return False
            try:
                self._begin()  # it waits for the lock
            except Exception as error:  # noqa: BLE001 - the watchdog, which asks here, must go on; it asks again
                if not self._refused:
                    log_event(
                        logger, logging.WARNING, Event.THREAD_REFUSED,
                        "A call holds the thread of all async handlers' calls, and no other can be made yet: %s", error,
                    )  # fmt: skip
                self._refused = True
                return False
            self._refused = False
            self._running = None
            self.lost += 1
            since: dict[Execution, float] = {}
            for each in self._waiting:
                if each.caller is not None and each.caller.phase is Phase.RUNNING and not each.future.done():
                    since.setdefault(each.caller, max(call.began, each.asked))
            for execution, at in since.items():
                execution.extend(now - at)
        whose = "somebody" if call.caller is None else f"job {call.caller.job.id} ({call.caller.job.type})"
        log_event(
            logger, logging.WARNING, Event.CALL_ABANDONED,
            "A call of %s, which %s, has held the thread of all async handlers' calls for %.1f s: a new thread takes "
            "its place, and the calls of %d jobs that wait", whose, state, now - call.began, len(since),
        )  # fmt: skip
        return True
