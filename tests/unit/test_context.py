"""The context of a job, and middleware around its handler."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from chokaq_django.job.context import JobContext, current_context, reset_current, set_current
from chokaq_django.job.failures import CancelReason, JobCancelled, Snooze
from chokaq_django.job.middleware import MiddlewareError, load_middleware, wrap, wrap_async

NOW = datetime(2026, 1, 1, tzinfo=UTC)


class Host:
    def __init__(self) -> None:
        self.calls: list[Any] = []

    def progress(self, ctx: JobContext, percent: int, message: str) -> None:
        self.calls.append((ctx.id, percent, message))

    def heartbeat(self, ctx: JobContext) -> None:
        self.calls.append(ctx.id)


def context(host: Host | None = None, **values: Any) -> JobContext:
    facts: dict[str, Any] = {
        "id": "01E75PVKXA3GFABX1M1J9NZZNF",
        "type": "mail.v1",
        "queue": "mail",
        "attempt": 2,
        "max_attempts": 3,
        "priority": 10,
        "created_at": NOW,
        "run_at": NOW,
        "due_at": NOW,
    }
    return JobContext(host or Host(), **{**facts, **values})


def test_facts() -> None:
    ctx = context(tags='["a","b"]', headers='{"traceparent":"00-1","baggage":"x","mine":"y"}', created_by="ada")
    assert ctx.tags == ("a", "b")
    assert ctx.tags is ctx.tags
    assert ctx.headers == {"traceparent": "00-1", "baggage": "x", "mine": "y"}
    assert ctx.trace_headers == {"traceparent": "00-1", "baggage": "x"}
    assert (ctx.attempt, ctx.max_attempts, ctx.created_by, ctx.deadline) == (2, 3, "ada", None)
    assert "mail.v1" in repr(ctx)
    assert "2/3" in repr(ctx)
    assert not hasattr(ctx, "__dict__")
    assert (context().tags, context().headers, context(tags="", headers="").headers) == ((), {}, {})


def test_cancellation_keeps_the_first_reason() -> None:
    ctx = context()
    ctx.raise_if_cancelled()
    assert (ctx.cancelled, ctx.cancel_reason) == (False, None)
    ctx._cancel(CancelReason.OPERATOR)
    ctx._cancel(CancelReason.TIMEOUT)
    assert (ctx.cancelled, ctx.cancel_reason) == (True, CancelReason.OPERATOR)
    with pytest.raises(JobCancelled, match="operator") as caught:
        ctx.raise_if_cancelled()
    assert caught.value.reason is CancelReason.OPERATOR


def test_progress_and_heartbeat_reach_the_host() -> None:
    host = Host()
    ctx = context(host, id="x")
    for percent in (0, 12.7, 250, -3):
        ctx.progress(percent)
    ctx.progress(50, "half")
    ctx.heartbeat()
    assert host.calls == [("x", 0, ""), ("x", 12, ""), ("x", 100, ""), ("x", 0, ""), ("x", 50, "half"), "x"]


@pytest.mark.parametrize("percent", [None, "50", True, float("nan")])
def test_wrong_progress(percent: Any) -> None:
    with pytest.raises(TypeError, match="number from 0 to 100"):
        context().progress(percent)


def test_snooze() -> None:
    with pytest.raises(Snooze) as caught:
        context().snooze(timedelta(minutes=1))
    assert caught.value.delay == 60.0


@pytest.mark.parametrize("delay", [-1, None, "5", float("inf")])
def test_wrong_snooze(delay: Any) -> None:
    with pytest.raises((TypeError, ValueError), match=r"snooze\(\): delay must be"):
        context().snooze(delay)


def test_log_records_carry_the_job(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, logger="chokaq.job"):
        context(id="x").log.info("sent %d", 3, extra={"more": 1})
    (record,) = caplog.records
    assert record.getMessage() == "sent 3"
    assert (record.__dict__["job_id"], record.__dict__["job_attempt"], record.__dict__["more"]) == ("x", 2, 1)


def test_current_context() -> None:
    ctx = context()
    assert current_context() is None
    token = set_current(ctx)
    assert current_context() is ctx
    reset_current(token)
    assert current_context() is None


# --- middleware ----------------------------------------------------------------------------------------------------

calls: list[str] = []


def outer(ctx: JobContext, call_next: Callable[[], Any]) -> Any:
    calls.append("outer in")
    try:
        return call_next()
    finally:
        calls.append("outer out")


class Inner:
    def __call__(self, ctx: JobContext, call_next: Callable[[], Any]) -> Any:
        calls.append("inner")
        return call_next()


async def awaiting(ctx: JobContext, call_next: Callable[[], Any]) -> Any:
    calls.append("awaiting in")
    result = await call_next()
    calls.append("awaiting out")
    return result


def answering(ctx: JobContext, call_next: Callable[[], Any]) -> str:
    return "answered"


class Broken:
    def __init__(self) -> None:
        raise RuntimeError("no")


not_callable = 5


def paths(*names: str) -> list[str]:
    return [f"{__name__}.{name}" for name in names]


@pytest.fixture(autouse=True)
def _no_calls() -> None:
    calls.clear()


def test_sync_onion() -> None:
    def handler(ctx: JobContext) -> str:
        calls.append("handler")
        return "done"

    assert wrap(load_middleware(paths("outer", "Inner")), handler)(context()) == "done"
    assert calls == ["outer in", "inner", "handler", "outer out"]
    assert wrap((), handler) is handler
    assert wrap(load_middleware(paths("answering")), handler)(context()) == "answered"


def test_async_onion() -> None:
    async def handler(ctx: JobContext) -> str:
        calls.append("handler")
        return "done"

    run = wrap_async(load_middleware(paths("awaiting", "Inner")), handler)
    assert asyncio.run(run(context())) == "done"  # type: ignore[arg-type]
    assert calls == ["awaiting in", "inner", "handler", "awaiting out"]
    assert wrap_async((), handler) is handler
    assert asyncio.run(wrap_async(load_middleware(paths("answering")), handler)(context())) == "answered"  # type: ignore[arg-type]


def test_errors_pass_through_the_onion() -> None:
    def handler(ctx: JobContext) -> None:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        wrap(load_middleware(paths("outer")), handler)(context())
    assert calls == ["outer in", "outer out"]


def test_async_middleware_cannot_wrap_a_sync_handler() -> None:
    with pytest.raises(MiddlewareError, match="cannot wrap a `def` handler"):
        wrap(load_middleware(paths("awaiting")), lambda ctx: None)


@pytest.mark.parametrize("name", ["nothing", "Broken", "not_callable"])
def test_middleware_that_cannot_be_loaded(name: str) -> None:
    with pytest.raises(MiddlewareError, match=f"{name}"):
        load_middleware(paths(name))
