"""``chokaq_django.testing.run_job``: a job run here and now, as a worker would."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import connection

from chokaq_django import Job, JobContext, PayloadError, current_context
from chokaq_django.job.registry import registry
from chokaq_django.testing import run_job

pytestmark = pytest.mark.django_db(transaction=True)


class ContextToldJob(Job, type="test.run_job.told"):
    word: str

    def run(self, ctx: JobContext) -> dict[str, Any]:
        assert current_context() is ctx
        ctx.progress(50, "half")
        ctx.heartbeat()
        return {
            "word": self.word, "attempt": ctx.attempt, "of": ctx.max_attempts, "tags": ctx.tags,
            "tenant": ctx.headers.get("tenant"), "atomic": connection.in_atomic_block,
        }  # fmt: skip


class AtomicToldJob(ContextToldJob, type="test.run_job.atomic", atomic=True):
    pass


class LaterJob(Job, type="test.run_job.later"):
    async def run(self, ctx: JobContext) -> str:
        return ctx.type


class NobodysJob(Job, type="test.run_job.nobodys"):
    pass


def upper(ctx: JobContext, call_next: Any) -> Any:
    return {**call_next(), "wrapped": True}


def test_the_handler_gets_what_a_worker_would_give_it(settings: Any) -> None:
    told = run_job(ContextToldJob(word="x"), attempt=2, max_attempts=4, tags=iter(["vip"]), headers={"tenant": "a"})
    assert told == {"word": "x", "attempt": 2, "of": 4, "tags": ("vip",), "tenant": "a", "atomic": False}
    assert current_context() is None
    assert run_job(AtomicToldJob(word="x"))["atomic"]
    settings.CHOKAQ = {**settings.CHOKAQ, "MIDDLEWARE": [f"{__name__}.upper"]}
    assert run_job(ContextToldJob(word="x"))["wrapped"]


def test_async_handlers_run_too() -> None:
    assert run_job(LaterJob()) == "test.run_job.later"


def test_what_enqueue_refuses_is_refused() -> None:
    with pytest.raises(PayloadError) as refused:
        run_job(ContextToldJob(word=5))  # type: ignore[arg-type]
    assert refused.value.path == "$.word"
    with pytest.raises(LookupError, match="give NobodysJob a run method"):
        run_job(NobodysJob())


@pytest.fixture(autouse=True, scope="module")
def forget() -> Any:
    yield
    for cls in (ContextToldJob, AtomicToldJob, LaterJob, NobodysJob):
        registry.unregister(cls)
