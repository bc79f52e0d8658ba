"""Handlers that lie: whatever they raise, return or do to their thread, the outcome is written and others go on."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Callable
from typing import Any

import pytest
from django.db import connection

from chokaq_django import FailureReason, Job, JobContext, ThrottledError, enqueue
from chokaq_django.models import JobHot, JobStatus

from .. import jobs
from ..helpers import wait_until
from ..ledger import Ledger, wait_at_gate
from .conftest import StartWorker
from .support import all_settled, committed, error_of, settled

pytestmark = committed


class LiarError(Exception):
    """Its class is a secret."""

    @property  # type: ignore[misc]
    def __class__(self) -> Any:
        raise RuntimeError("no class")


class NoTraceError(Exception):
    @property
    def __traceback__(self) -> Any:
        raise RuntimeError("no traceback")

    @__traceback__.setter
    def __traceback__(self, value: Any) -> None:
        pass


class NoWaitError(ThrottledError):
    def __init__(self) -> None:
        Exception.__init__(self, "busy")

    @property
    def retry_after(self) -> Any:  # type: ignore[override]
        raise SystemExit(1)


class _Meta(type):
    @property
    def __module__(cls) -> Any:  # type: ignore[override]
        raise RuntimeError("no module")


class NoModuleError(Exception, metaclass=_Meta):
    pass


class RecursiveTextError(Exception):
    def __str__(self) -> str:
        return str(self)

    __repr__ = __str__


class ExitTextError(Exception):
    def __str__(self) -> str:
        raise SystemExit(9)

    __repr__ = __str__


class NamesError(Exception):
    pass


NamesError.__qualname__ = "Na\ud800me" * 100
NamesError.__module__ = "m\x00"


def deep_group() -> BaseException:
    error: Exception = ValueError("innermost")
    for _ in range(3_000):
        error = ExceptionGroup("group", [error])
    return error


def in_circle() -> BaseException:
    error = ValueError("a")
    error.__cause__ = error
    return error


RAISED: dict[str, Callable[[], BaseException]] = {
    "class": LiarError,
    "trace": NoTraceError,
    "wait": NoWaitError,
    "module": NoModuleError,
    "recursive": RecursiveTextError,
    "exit text": ExitTextError,
    "huge": lambda: ValueError("x" * 10_000_000),
    "huge unicode": lambda: ValueError("\ud800\x00🎉" * 2_000_000),
    "deep group": deep_group,
    "circle": in_circle,
    "group": lambda: BaseExceptionGroup("both", [SystemExit(1), KeyboardInterrupt()]),
    "args": lambda: ValueError(*range(200_000)),
    "names": NamesError,
}


class RaiseJob(Job, type="test.hostile.raise", circuit=False, max_attempts=1):
    what: str

    def run(self, ctx: JobContext) -> None:
        error = RAISED[self.what]()
        raise error


class RaiseAsyncJob(Job, type="test.hostile.raise_async", circuit=False, max_attempts=1):
    what: str

    async def run(self, ctx: JobContext) -> None:
        error = RAISED[self.what]()
        raise error


class ExitResult(dict[str, Any]):
    def items(self) -> Any:
        raise SystemExit(4)

    def __str__(self) -> str:
        raise SystemExit(4)

    __repr__ = __str__


class BadTextResult:
    """Refuses to be shown in the message that says why it is refused."""

    def __getattribute__(self, name: str) -> Any:
        raise RecursiveTextError


def recursive_list() -> list[Any]:
    value: list[Any] = []
    value.append(value)
    return value


RETURNED: dict[str, Callable[[], object]] = {
    "exit": ExitResult,
    "bad text": BadTextResult,
    "recursive": recursive_list,
    "huge": lambda: "x" * 5_000_000,
    "surrogate": lambda: {"\ud800": "\x00"},
    "nan": lambda: [float("nan")],
    "int": lambda: 10**5_000,
}


class ReturnJob(Job, type="test.hostile.return", circuit=False, max_attempts=1):
    what: str

    def run(self, ctx: JobContext) -> object:
        return RETURNED[self.what]()


class ReturnAsyncJob(Job, type="test.hostile.return_async", circuit=False, max_attempts=1):
    what: str

    async def run(self, ctx: JobContext) -> object:
        return RETURNED[self.what]()


class BrokenBackoff:
    def __init__(self, answer: Any) -> None:
        self.answer = answer

    def delay(self, n: int) -> float:
        if isinstance(self.answer, BaseException):
            raise self.answer
        return self.answer  # type: ignore[no-any-return]


BACKOFFS = {"raises": ZeroDivisionError(), "nan": float("nan"), "text": "soon", "none": None, "infinite": float("inf"),
            "huge": 1e300}  # fmt: skip


def _backoff_job(name: str) -> type[Job]:
    class BackoffJob(Job, type=f"test.hostile.backoff.{name}", circuit=False, backoff=BrokenBackoff(BACKOFFS[name])):
        def run(self, ctx: JobContext) -> None:
            raise jobs.TestError("fails")

    return BackoffJob


BACKOFF_JOBS = {name: _backoff_job(name) for name in BACKOFFS}


async def _exit() -> None:
    sys.exit(5)


class LoopJob(Job, type="test.hostile.loop", circuit=False, max_attempts=1):
    """Does to the event loop what ends it."""

    what: str

    async def run(self, ctx: JobContext) -> None:
        loop = asyncio.get_running_loop()
        if self.what == "child exits":
            await asyncio.gather(_exit())
        elif self.what == "callback exits":
            loop.call_soon(sys.exit, 6)
            await asyncio.sleep(0.05)
        elif self.what == "stop":
            loop.stop()
            await asyncio.sleep(0.05)
        elif self.what == "cancel all":
            for task in asyncio.all_tasks():
                task.cancel()
            await asyncio.sleep(0.05)


class BlockLoopJob(Job, type="test.hostile.block_loop", circuit=False, max_attempts=1, timeout=0.3):
    """An async handler that blocks its loop."""

    gate: str

    async def run(self, ctx: JobContext) -> None:
        jobs.said(ctx, "enter")
        wait_at_gate(self.gate)


class DatabaseJob(Job, type="test.hostile.database", circuit=False, max_attempts=1):
    what: str

    def run(self, ctx: JobContext) -> None:
        match self.what:
            case "close":
                connection.ensure_connection()
                connection.connection.close()
            case "begin":
                connection.cursor().execute("BEGIN TRANSACTION" if connection.vendor == "microsoft" else "BEGIN")
            case "autocommit":
                connection.set_autocommit(False)
                JobHot.objects.count()
            case "delete":
                JobHot.objects.filter(pk=ctx.id).delete()
            case "lock":
                connection.set_autocommit(False)
                JobHot.objects.filter(pk=ctx.id).update(priority=3)


class ContextJob(Job, type="test.hostile.context", circuit=False, max_attempts=1):
    """Changes what it was given, and uses it from many threads."""

    def run(self, ctx: JobContext) -> None:
        def report() -> None:
            for number in range(5_000):
                ctx.progress(number % 100, "x\x00\ud800" * 5_000 if number % 1_000 == 0 else "m")
                ctx.heartbeat()

        threads = [threading.Thread(target=report) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for name in ("id", "type", "queue", "attempt", "max_attempts", "priority", "created_at", "run_at"):
            setattr(ctx, name, object())


class SnoozeFarJob(Job, type="test.hostile.snooze_far", circuit=False, max_attempts=1):
    def run(self, ctx: JobContext) -> None:
        ctx.snooze(1e300)


def goes_on() -> None:
    """Jobs of both kinds still run."""
    assert settled(enqueue(jobs.NoteJob()).id).status == JobStatus.SUCCEEDED
    assert settled(enqueue(jobs.AsyncSleepJob()).id).status == JobStatus.SUCCEEDED


@pytest.mark.parametrize("kind", [RaiseJob, RaiseAsyncJob])
@pytest.mark.parametrize("what", RAISED)
def test_whatever_is_raised_the_failure_is_written(start_worker: StartWorker, kind: Any, what: str) -> None:
    start_worker(concurrency=1)
    view = settled(enqueue(kind(what=what)).id)
    assert view.location == "dlq"
    assert len(error_of(view)) < 20_000
    goes_on()


@pytest.mark.parametrize("kind", [ReturnJob, ReturnAsyncJob])
@pytest.mark.parametrize("what", RETURNED)
def test_whatever_is_returned_the_job_has_succeeded(start_worker: StartWorker, kind: Any, what: str) -> None:
    start_worker(concurrency=1)
    assert settled(enqueue(kind(what=what)).id).status == JobStatus.SUCCEEDED
    goes_on()


@pytest.mark.parametrize("name", BACKOFFS)
def test_a_backoff_that_has_no_answer_is_replaced_by_the_settings(start_worker: StartWorker, name: str) -> None:
    start_worker(concurrency=1)
    view = settled(enqueue(BACKOFF_JOBS[name](), max_attempts=2).id)
    late = name == "huge"  # a delay, but beyond RETRY.MAX_AGE
    assert view.failure_reason is (FailureReason.RETRY_LIFETIME_EXPIRED if late else FailureReason.MAX_RETRIES_EXCEEDED)
    goes_on()


@pytest.mark.parametrize("what", ["child exits", "callback exits", "stop", "cancel all"])
def test_the_event_loop_survives_what_ends_one(start_worker: StartWorker, what: str) -> None:
    start_worker()
    settled(enqueue(LoopJob(what=what)).id)
    goes_on()


def test_jobs_whose_tasks_a_neighbour_cancels_before_they_begin_run(start_worker: StartWorker, ledger: Ledger) -> None:
    first = enqueue(LoopJob(what="cancel all"), priority=100).id
    others = [enqueue(jobs.AsyncSleepJob()).id for _ in range(10)]
    worker = start_worker()
    assert settled(first).status == JobStatus.FAILED
    assert [(view.status, view.attempt) for view in all_settled(others)] == [(JobStatus.SUCCEEDED, 1)] * 10
    wait_until(lambda: worker._loop.free() == worker._loop.size)


def test_a_blocked_event_loop_is_replaced(start_worker: StartWorker, ledger: Ledger) -> None:
    start_worker(WORKER={"CANCEL_GRACE": 0.3})
    first = enqueue(BlockLoopJob(gate="end")).id
    wait_until(lambda: ledger.count("enter"))
    behind = enqueue(jobs.AsyncSleepJob()).id
    assert settled(first).failure_reason is FailureReason.TIMEOUT
    assert settled(behind).status == JobStatus.SUCCEEDED
    goes_on()
    ledger.open_gate("end")


@pytest.mark.parametrize("what", ["close", "begin", "autocommit", "lock"])
def test_what_a_handler_does_to_its_connection_is_gone_with_it(start_worker: StartWorker, what: str) -> None:
    start_worker(concurrency=1)
    settled(enqueue(DatabaseJob(what=what)).id)
    goes_on()


def test_a_context_may_be_used_by_many_threads_and_changed(start_worker: StartWorker) -> None:
    start_worker(concurrency=1)
    assert settled(enqueue(ContextJob()).id).status == JobStatus.SUCCEEDED
    goes_on()


def test_a_snooze_beyond_all_time_is_refused_with_a_message(start_worker: StartWorker) -> None:
    start_worker(concurrency=1)
    view = settled(enqueue(SnoozeFarJob()).id)
    assert "snooze()" in error_of(view)
    goes_on()
