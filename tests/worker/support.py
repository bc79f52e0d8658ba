"""What the worker suite shares."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest
from django.db import connection

from chokaq_django import control
from chokaq_django.conf import get_options
from chokaq_django.control import JobView, Location
from chokaq_django.job.ids import new_id
from chokaq_django.models import JobHot, JobStatus
from chokaq_django.storage import NewJob, get_storage
from chokaq_django.worker.plan import WorkerPlan
from chokaq_django.worker.process import WorkerProcess as Worker

from .. import jobs  # noqa: F401 - what workers of this process know
from ..helpers import wait_until

committed = pytest.mark.usefixtures("transactional_db")
"""Real commits, which workers see. Only the tables of these apps are emptied afterwards, which keeps it quick."""


class Clock:
    """A monotonic clock that stands until somebody moves it; it takes the place of a module's ``time``."""

    def __init__(self) -> None:
        self.now = 1_000.0

    def monotonic(self) -> float:
        return self.now

    def pass_(self, seconds: float) -> None:
        self.now += seconds


Settings = Any
"""pytest-django's ``settings`` fixture; its class goes by different names in different versions."""
PLAN = ("concurrency", "strict", "burst", "max_jobs")


def use_options(settings: Settings, **sections: Any) -> None:
    """Lays sections of ``CHOKAQ`` over those of ``tests/settings.py``, for this test."""
    merged = dict(settings.CHOKAQ)
    for section, values in sections.items():
        merged[section] = {**merged.get(section, {}), **values} if isinstance(values, dict) else values
    settings.CHOKAQ = merged


DYING = {"WORKER_TIMEOUT": 3, "FETCHED_TIMEOUT": 5, "ZOMBIE_TIMEOUT": 5}
"""``RECOVERY`` of tests that wait until somebody counts as dead."""


def make_worker(settings: Settings, *queues: str, **named: Any) -> Worker:
    """A worker of this process, not started yet. It has four threads unless told otherwise."""
    plan = {"concurrency": 4, **{key: value for key, value in named.items() if key in PLAN}}
    use_options(settings, **{key: value for key, value in named.items() if key not in PLAN})
    return Worker(get_options(), WorkerPlan(queues=list(queues), **plan))


def job(job_id: str) -> JobView:
    found = control.get(job_id)
    assert found is not None, f"{job_id} is in no table"
    return found


def settled(job_id: str, deadline: float = 30.0) -> JobView:
    """The job once it is in the Archive or the DLQ."""

    def look() -> JobView | None:
        found = job(job_id)
        return found if found.location is not Location.HOT else None

    return wait_until(look, deadline, what=f"job {job_id} is settled; it is {control.get(job_id)}")  # type: ignore[return-value]


def all_settled(ids: Iterable[str], deadline: float = 30.0) -> list[JobView]:
    ids = list(ids)
    wait_until(lambda: not JobHot.objects.filter(pk__in=ids).exists(), deadline, what="all jobs are settled")
    return [job(job_id) for job_id in ids]


def in_state(job_id: str, status: JobStatus, deadline: float = 30.0) -> JobView:
    """The job as it was when it was seen in this status; it may have gone on since."""

    def look() -> JobView | None:
        found = job(job_id)
        return found if found.status == status else None

    return wait_until(look, deadline, what=f"job {job_id} is {status.label}")  # type: ignore[return-value]


def store_raw(type_key: str, payload: str = "{}", **columns: Any) -> str:
    """A row as some other version of the code, or a person, might have written it; past our own encoder."""
    (answer,) = get_storage().enqueue([NewJob(new_id(), columns.pop("queue", "default"), type_key, payload, **columns)])
    return answer.id


def error_of(view: JobView) -> str:
    return view.error_details or ""


def not_on(engine: str, why: str) -> pytest.MarkDecorator:
    """Marks a test that applies to all engines but one; ``why`` says what that lacks."""
    return pytest.mark.skipif(connection.vendor == engine, reason=f"does not apply to {engine}: {why}")


def only_on(engine: str, why: str) -> pytest.MarkDecorator:
    """Marks a test that applies to one engine only; ``why`` says what the others lack."""
    return pytest.mark.skipif(connection.vendor != engine, reason=f"applies to {engine} only: {why}")
