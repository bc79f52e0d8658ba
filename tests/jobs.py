"""The jobs of the tests. Each writes what it does into the ledger (:mod:`tests.ledger`), outside of any database."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

from django.db import OperationalError, connection, transaction

from chokaq_django import (
    CircuitPolicy,
    Explicit,
    FatalJobError,
    Job,
    JobContext,
    ThrottledError,
    handles,
    raw_handler,
    register,
)

from . import payloads as payloads
from .ledger import VARIABLE, Ledger, gate_is_open, note, wait_at_gate

TICK = 0.005


def runs(ctx: JobContext, word: str) -> int:
    """How often the job has said this."""
    return Ledger(Path(os.environ[VARIABLE])).per_job(word)[ctx.id]


def said(ctx: JobContext, word: str, name: str = "", **more: Any) -> None:
    """A line of this execution."""
    note(word, job=ctx.id, name=name, attempt=ctx.attempt, **more)


class TestError(Exception):
    """What failing jobs raise."""

    __test__ = False  # not a test class, whatever pytest makes of the name


# -- jobs that end well ------------------------------------------------------------------------------------------------


class NoteJob(Job, type="test.note"):
    """Says that it ran."""

    name: str = ""

    def run(self, ctx: JobContext) -> None:
        said(ctx, "ran", self.name)


class SleepJob(Job, type="test.sleep"):
    """Works for some seconds, whatever it is told meanwhile."""

    seconds: float
    name: str = ""

    def run(self, ctx: JobContext) -> None:
        said(ctx, "enter", self.name)
        time.sleep(self.seconds)  # handler
        said(ctx, "leave", self.name)


class GateJob(Job, type="test.gate", circuit=False):
    """Waits until the test opens its gate, or it is told to stop; then it stops as a well-behaved job does."""

    gate: str
    name: str = ""

    def run(self, ctx: JobContext) -> str:
        said(ctx, "enter", self.name)
        wait_at_gate(self.gate, lambda: ctx.cancelled)
        if ctx.cancelled:
            said(ctx, "told to stop", self.name, reason=str(ctx.cancel_reason and ctx.cancel_reason.value))
        ctx.raise_if_cancelled()
        said(ctx, "leave", self.name)
        return self.gate


class ResultJob(Job, type="test.result"):
    """Returns JSON, or something that has no JSON form."""

    storable: bool = True

    def run(self, ctx: JobContext) -> object:
        return {"answer": 42, "text": "ü🎉"} if self.storable else {"answer": object()}


class BulkyJob(Job, type="test.bulky"):
    """Returns so many characters, which its row in the Archive has to hold."""

    size: int
    name: str = ""

    def run(self, ctx: JobContext) -> str:
        said(ctx, "ran", self.name)
        return "x" * self.size


class ContextJob(Job, type="test.context"):
    """Writes what it knows about itself into the ledger."""

    def run(self, ctx: JobContext) -> None:
        said(
            ctx, "context", type=ctx.type, queue=ctx.queue, max_attempts=ctx.max_attempts, priority=ctx.priority,
            tags=list(ctx.tags), created_by=ctx.created_by, created_at=ctx.created_at.isoformat(),
            run_at=ctx.run_at.isoformat(), due_at=ctx.due_at.isoformat(),
            deadline=ctx.deadline.isoformat() if ctx.deadline else None, headers=dict(ctx.headers),
        )  # fmt: skip


class ProgressJob(Job, type="test.progress"):
    """Half done, until the gate opens."""

    gate: str

    def run(self, ctx: JobContext) -> None:
        ctx.progress(10, "begun")
        ctx.progress(50.7, "half way ü")
        wait_at_gate(self.gate, lambda: ctx.cancelled)
        ctx.progress(250, "more than all")


class LogJob(Job, type="test.log", max_attempts=2, backoff=Explicit([0.05])):
    """Logs in both ways, fails the first time."""

    def run(self, ctx: JobContext) -> None:
        for number in range(60):
            logging.getLogger("tests.shop").warning("line %d of attempt %d", number, ctx.attempt)
        if ctx.attempt == 1:
            raise TestError("not yet")


class RenewJob(Job, type="test.renew"):
    """Renews its lease itself, when the test says so."""

    gate: str

    def run(self, ctx: JobContext) -> None:
        said(ctx, "enter")
        wait_at_gate("renew")
        ctx.heartbeat()
        wait_at_gate(self.gate)


# -- jobs that fail ----------------------------------------------------------------------------------------------------


class FailJob(Job, type="test.fail", circuit=False):
    """Fails the first ``times`` attempts."""

    times: int = 1_000
    message: str = "as asked"
    name: str = ""

    def run(self, ctx: JobContext) -> None:
        said(ctx, "ran", self.name)
        if ctx.attempt <= self.times:
            raise TestError(f"{self.message} ({ctx.attempt})")


class OldAgeJob(FailJob, type="test.old_age", max_attempts=100, backoff=Explicit([0.05, 3_600]), max_age=86_400):
    """Fails twice, and waits an hour for its third attempt."""


class FatalJob(Job, type="test.fatal"):
    name: str = ""

    def run(self, ctx: JobContext) -> None:
        said(ctx, "ran", self.name)
        raise FatalJobError("another attempt cannot help")


class MissingJob(Job, type="test.missing", circuit=False):
    """Raises what is fatal by default although it is no error of ours."""

    def run(self, ctx: JobContext) -> None:
        raise NotImplementedError


class PickyJob(Job, type="test.picky", circuit=False, fatal=KeyError, retry_on=(TestError, KeyError)):
    """Says itself what is fatal."""

    error: str

    def run(self, ctx: JobContext) -> None:
        said(ctx, "ran", self.error)
        raise {"listed": TestError, "fatal": KeyError, "other": ValueError}[self.error]("picky")


class ThrottledJob(Job, type="test.throttled", max_attempts=2):
    """The other side is busy, ``times`` times."""

    retry_after: float | None = None
    times: int = 1_000

    def run(self, ctx: JobContext) -> None:
        said(ctx, "ran")
        if ctx.attempt <= self.times:
            raise ThrottledError("busy", retry_after=self.retry_after)


class SnoozeJob(Job, type="test.snooze", max_attempts=1, max_snoozes=3):
    """Comes back later, for as long as the gate is closed."""

    delay: float = 0.05
    gate: str = ""

    def run(self, ctx: JobContext) -> None:
        said(ctx, "ran")
        if not (self.gate and gate_is_open(self.gate)):
            ctx.snooze(timedelta(seconds=self.delay))


class QuitJob(Job, type="test.quit", circuit=False, max_attempts=1):
    """Raises what ends threads and loops in less careful hands."""

    error: str

    def run(self, ctx: JobContext) -> None:
        said(ctx, "ran", self.error)
        errors: dict[str, Callable[[], BaseException]] = {
            "exit": lambda: SystemExit(3),
            "interrupt": KeyboardInterrupt,
            "generator": GeneratorExit,
            "cancelled": asyncio.CancelledError,
            "timeout": TimeoutError,
            "hostile": HostileError,
            "unstorable": lambda: TestError("nul \x00 and surrogate \ud800"),
        }
        make = errors[self.error]
        raise make()


class HostileError(Exception):
    """Cannot even be shown."""

    def __str__(self) -> str:
        raise RuntimeError("no text")


class TripJob(
    Job,
    type="test.trip",
    max_attempts=1,
    circuit=CircuitPolicy(failures=5, window=60, break_=2.0, probes=1, probe_timeout=10),
):
    """Fails while its gate is closed; its circuit opens after five failures, for two seconds."""

    gate: str
    name: str = ""

    def run(self, ctx: JobContext) -> None:
        said(ctx, "ran", self.name)
        if not gate_is_open(self.gate):
            raise TestError("the partner is away")


class GatedTripJob(
    Job,
    type="test.gated_trip",
    max_attempts=1,
    circuit=CircuitPolicy(failures=3, window=60, break_=0.5, probes=1, probe_timeout=60),
):
    """Fails while its gate is closed; with ``wait`` it stands at another gate first."""

    gate: str
    wait: str = ""

    def run(self, ctx: JobContext) -> None:
        if self.wait:
            said(ctx, "enter")
            wait_at_gate(self.wait)
        if not gate_is_open(self.gate):
            raise TestError("the partner is away")


class FragileFatalJob(Job, type="test.fragile_fatal", circuit=CircuitPolicy(failures=5, window=60, break_=60.0)):
    """One bad job of a type whose others are well."""

    bad: bool = False

    def run(self, ctx: JobContext) -> None:
        said(ctx, "ran")
        if self.bad:
            raise FatalJobError("this one only")


# -- jobs that run too long, or do not listen --------------------------------------------------------------------------


class _UntilToldJob(Job, circuit=False):
    """Runs until it is told to stop."""

    name: str = ""

    def run(self, ctx: JobContext) -> None:
        said(ctx, "enter", self.name)
        end = time.monotonic() + 60
        while time.monotonic() < end:
            if ctx.cancelled:
                said(ctx, "told to stop", self.name, reason=str(ctx.cancel_reason and ctx.cancel_reason.value))
            ctx.raise_if_cancelled()
            time.sleep(TICK)  # handler


class ObedientJob(_UntilToldJob, type="test.obedient"):
    """Stops when told; without a timeout of its own."""


class SlowJob(_UntilToldJob, type="test.slow", timeout=0.3):
    """Too slow, but stops when told."""


class SlowRetriedJob(
    _UntilToldJob, type="test.slow_retried", timeout=0.2, on_timeout="retry", max_attempts=2, backoff=Explicit([0.05])
):
    """Too slow, and tried again for it."""


class TimedCircuitJob(Job, type="test.timed_circuit"):
    """Runs until it is told to stop, and its circuit hears of it."""

    def run(self, ctx: JobContext) -> None:
        wait_at_gate("never", lambda: ctx.cancelled)
        ctx.raise_if_cancelled()


class _DeafJob(Job, circuit=False):
    """Does not listen; comes back when its gate opens."""

    gate: str
    name: str = ""

    def run(self, ctx: JobContext) -> str:
        said(ctx, "enter", self.name)
        wait_at_gate(self.gate)
        said(ctx, "leave", self.name)
        return "too late"


class DeafJob(_DeafJob, type="test.deaf", timeout=0.3):
    """Runs past its timeout and its grace."""


class DeafRetriedJob(
    _DeafJob, type="test.deaf_retried", timeout=0.2, on_timeout="retry", max_attempts=2, backoff=Explicit([0.05])
):
    """The same, tried again."""


class DeafForLongJob(_DeafJob, type="test.deaf_for_long"):
    """Does not listen, and has all the time in the world."""


class SwallowJob(Job, type="test.swallow", timeout=0.3, circuit=False):
    """Is told to stop, and returns as if nothing were: what it did is done."""

    def run(self, ctx: JobContext) -> str:
        said(ctx, "enter")
        wait_at_gate("never", lambda: ctx.cancelled)
        return "finished all the same"


class InterruptedJob(Job, type="test.interrupted", timeout=0.3, interrupt=True, circuit=False):
    """Never looks; an exception raised inside its thread stops it."""

    def run(self, ctx: JobContext) -> None:
        try:
            said(ctx, "enter")
            end = time.monotonic() + 60
            while time.monotonic() < end:
                time.sleep(TICK)  # handler
        except BaseException as error:
            said(ctx, "interrupted", type(error).__name__)
            raise


class DieJob(Job, type="test.die", circuit=False):
    """Kills its own process the first ``times`` attempts: what a fault in a C library does."""

    times: int = 1_000
    name: str = ""

    def run(self, ctx: JobContext) -> None:
        said(ctx, "ran", self.name)
        if ctx.attempt <= self.times:
            os.kill(os.getpid(), signal.SIGKILL)


class DieAndRetryJob(DieJob, type="test.die_and_retry", crash_policy="retry"):
    """The same, with another crash policy."""


# -- async jobs --------------------------------------------------------------------------------------------------------


class AsyncSleepJob(Job, type="test.async_sleep"):
    seconds: float = 0.0
    name: str = ""

    async def run(self, ctx: JobContext) -> str:
        said(ctx, "enter", self.name)
        await asyncio.sleep(self.seconds)
        said(ctx, "leave", self.name)
        return "slept"


class AsyncFailJob(Job, type="test.async_fail", circuit=False, max_attempts=1):
    """Ends by a library's own cancellation or timeout, or by an ordinary error."""

    error: str

    async def run(self, ctx: JobContext) -> None:
        said(ctx, "ran", self.error)
        if self.error == "timeout":
            async with asyncio.timeout(0.01):
                await asyncio.sleep(60)
        if self.error == "cancelled":
            raise asyncio.CancelledError
        raise TestError(self.error)


class AsyncSlowJob(Job, type="test.async_slow", timeout=0.3, circuit=False):
    """Is cancelled; ``deaf`` goes on all the same until its gate opens."""

    deaf: bool = False
    gate: str = ""

    async def run(self, ctx: JobContext) -> str:
        said(ctx, "enter")
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            said(ctx, "cancelled")
            if not self.deaf:
                raise
        while not gate_is_open(self.gate):
            await asyncio.sleep(TICK)
        said(ctx, "leave")
        return "too late"


class AsyncOrmJob(Job, type="test.async_orm"):
    """Uses the ORM from async code."""

    name: str

    async def run(self, ctx: JobContext) -> int:
        from .models import Effect

        await Effect.objects.acreate(job=ctx.id, name=self.name, attempt=ctx.attempt)
        return await Effect.objects.filter(name=self.name).acount()


# -- jobs and the database ---------------------------------------------------------------------------------------------


def effect(ctx: JobContext, name: str) -> None:
    from .models import Effect

    Effect.objects.create(job=ctx.id, name=name, attempt=ctx.attempt)


class EffectJob(Job, type="test.effect", circuit=False):
    """Writes a row in autocommit, then fails ``times`` times."""

    name: str = ""
    times: int = 0

    def run(self, ctx: JobContext) -> None:
        said(ctx, "ran", self.name)
        effect(ctx, self.name)
        if ctx.attempt <= self.times:
            raise TestError("after the row")


class AtomicJob(Job, type="test.atomic", atomic=True, circuit=False, crash_policy="retry", max_attempts=100):
    """Writes a row in the transaction of its own success; may linger, fail, or be told that its lease is gone."""

    name: str = ""
    seconds: float = 0.0
    times: int = 0
    gate: str = ""

    def run(self, ctx: JobContext) -> dict[str, str]:
        said(ctx, "enter", self.name)
        effect(ctx, self.name)
        if self.seconds:
            time.sleep(self.seconds)  # handler
        if self.gate:
            wait_at_gate(self.gate)
        if ctx.attempt <= self.times:
            raise TestError("after the row")
        said(ctx, "leave", self.name)
        return {"name": self.name}


class AtomicHereJob(Job, type="test.atomic_here", atomic=True, circuit=False):
    """Waits at its gate before its first statement, then writes a row."""

    gate: str

    def run(self, ctx: JobContext) -> None:
        said(ctx, "enter")
        wait_at_gate(self.gate)
        effect(ctx, "too late")
        said(ctx, "leave")


class AtomicHookJob(Job, type="test.atomic_hook", atomic=True):
    """Registers a hook that fails after the commit."""

    def run(self, ctx: JobContext) -> None:
        def hook() -> None:
            raise TestError("too late to fail")

        transaction.on_commit(hook)


class AtomicProgressJob(Job, type="test.atomic_progress", atomic=True, circuit=False):
    """Reports progress from inside its transaction."""

    def run(self, ctx: JobContext) -> None:
        effect(ctx, "progress")
        for percent in range(0, 100, 10):
            ctx.progress(percent)


class AtomicSlowJob(Job, type="test.atomic_slow", atomic=True, circuit=False, timeout=0.3):
    """Writes a row, then stays in its transaction past its timeout, deaf, until its gate opens."""

    gate: str

    def run(self, ctx: JobContext) -> None:
        said(ctx, "enter")
        effect(ctx, "slow")
        wait_at_gate(self.gate)
        said(ctx, "leave")


def lose_connection() -> None:
    """The server ends this thread's connection."""
    from .helpers import kill_connection

    other = connection.copy()  # SQL Server lets nobody end his own
    kill_connection(connection, by=other)
    other.close()


SESSION_CHANGES = {
    "sqlite": "PRAGMA query_only = ON",
    "postgresql": "SET default_transaction_read_only = on",
    "mysql": "SET SESSION TRANSACTION READ ONLY",
    "microsoft": "SET ROWCOUNT 1",
}
"""Statements after which the session does not do what the next job expects of it."""


class BreakJob(Job, type="test.break", circuit=False):
    """Leaves its thread's database connection in a bad state."""

    how: str

    def run(self, ctx: JobContext) -> None:
        said(ctx, "ran", self.how)
        connection.ensure_connection()
        if self.how == "closed":
            connection.connection.close()
        elif self.how == "killed":
            lose_connection()
        elif self.how == "open transaction":
            transaction.atomic().__enter__()
            effect(ctx, "never committed")
        elif self.how == "raw transaction":
            with connection.cursor() as cursor:
                cursor.execute("BEGIN TRANSACTION" if connection.vendor == "microsoft" else "BEGIN")
            effect(ctx, "never committed")
        elif self.how == "session":
            with connection.cursor() as cursor:
                cursor.execute(SESSION_CHANGES[connection.vendor])
        elif self.how == "no autocommit":
            transaction.set_autocommit(False)
            effect(ctx, "never committed")
        elif self.how == "broken transaction":
            transaction.atomic().__enter__()
            transaction.set_rollback(True)


class SessionJob(Job, type="test.session", circuit=False):
    """Runs a statement, and returns the first value of its rows."""

    sql: str

    def run(self, ctx: JobContext) -> object:
        with connection.cursor() as cursor:
            cursor.execute(self.sql)
            return cursor.fetchall()[0][0] if cursor.description else None


class AtomicKilledJob(Job, type="test.atomic_killed", atomic=True):
    """Writes a row, then loses its database connection, in its first ``times`` runs; ``late``: as its last act."""

    times: int
    late: bool = False

    def run(self, ctx: JobContext) -> None:
        said(ctx, "ran")
        effect(ctx, "killed")
        if runs(ctx, "ran") <= self.times:
            lose_connection()
            if not self.late:
                effect(ctx, "lost")


class AtomicEndedJob(Job, type="test.atomic_ended", atomic=True, max_attempts=2):
    """Writes a row, runs a statement that may end its transaction, or calls the driver's connection, and may write
    another; the second attempt runs none."""

    sql: str
    before: bool = True
    more: bool = True

    def run(self, ctx: JobContext) -> None:
        if self.before:
            effect(ctx, "before")
        if ctx.attempt == 1:
            if self.sql.startswith("driver: "):
                call, _, text = self.sql.removeprefix("driver: ").partition(" ")
                getattr(connection.connection, call)(*([text] if text else []))
            else:
                with connection.cursor() as cursor:
                    cursor.execute(self.sql)
        if self.more or ctx.attempt > 1:
            effect(ctx, "after")


class AtomicVictimJob(Job, type="test.atomic_victim", atomic=True, max_attempts=2):
    """Locks a row, at its gate a second one, and goes on without that when the database does not let it."""

    first: int
    second: int
    gate: str

    def run(self, ctx: JobContext) -> None:
        from .models import Effect

        effect(ctx, "before")
        Effect.objects.select_for_update().get(pk=self.first)
        said(ctx, "locked")
        wait_at_gate(self.gate)
        try:
            Effect.objects.select_for_update().get(pk=self.second)
        except OperationalError:
            said(ctx, "went on")
        effect(ctx, "after")


class AtomicLargeJob(Job, type="test.atomic_large", atomic=True, max_attempts=1):
    """Writes a row, and has a result of so many bytes."""

    size: int

    def run(self, ctx: JobContext) -> str:
        effect(ctx, "large")
        return "x" * self.size


IMPATIENCE = {
    "postgresql": "SET LOCAL lock_timeout = '10ms'",
    "mysql": "SET SESSION innodb_lock_wait_timeout = 1",
    "microsoft": "SET LOCK_TIMEOUT 10",
}
"""Statements after which a lock that another has is not waited for, or not for long."""


class AtomicLockJob(Job, type="test.atomic_lock", atomic=True):
    """Locks the row of that name, and waits for it no longer than it must."""

    name: str

    def run(self, ctx: JobContext) -> None:
        from .models import Effect

        with connection.cursor() as cursor:
            cursor.execute(IMPATIENCE[connection.vendor])
        Effect.objects.select_for_update().get(name=self.name)


# -- registered in other ways ------------------------------------------------------------------------------------------


@dataclass
class Plain:
    """No Job: a plain dataclass with a handler of its own."""

    name: str


register(Plain, type="test.plain", aliases=["test.plain.old"])


@handles(Plain)
def handle_plain(job: Plain, ctx: JobContext) -> str:
    said(ctx, "ran", job.name)
    return ctx.type


@raw_handler("legacy.*")
def handle_legacy(type_key: str, payload: str, ctx: JobContext) -> None:
    said(ctx, "ran", type_key, payload=payload)


if os.environ.get("CHOKAQ_TEST_NEWER_CODE"):

    class NewerJob(Job, type="test.newer"):
        """Known only where a newer version of the code is deployed."""

        name: str = ""

        def run(self, ctx: JobContext) -> None:
            said(ctx, "ran", self.name)


if os.environ.get("CHOKAQ_TEST_DOOMED"):
    # Every child of this process dies as soon as it is made.
    os.register_at_fork(after_in_child=lambda: os._exit(3))


# -- middleware --------------------------------------------------------------------------------------------------------


def outer(ctx: JobContext, call_next: Callable[[], Any]) -> Any:
    """A plain one: it wraps jobs of both kinds."""
    said(ctx, "outer in")
    result = call_next()
    said(ctx, "outer out")
    return result


def inner(ctx: JobContext, call_next: Callable[[], Any]) -> Any:
    said(ctx, "inner in")
    try:
        return call_next()
    finally:
        said(ctx, "inner out")


async def awaiting(ctx: JobContext, call_next: Callable[[], Awaitable[Any]]) -> Any:
    """An async one: it sees the result of async jobs."""
    said(ctx, "awaiting in")
    result = await call_next()
    said(ctx, "awaiting out", result=result)
    return result
