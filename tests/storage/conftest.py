"""Fixtures of the storage suite."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from django.db import connection

from chokaq_django.models import HISTOGRAM_BINS, BucketOutcome, MetricBucket
from chokaq_django.storage import Storage, get_storage, open_storage

from .support import Jobs

REMEMBERING = {"postgresql": ("postgres.pairs",), "mysql": ("mysql.floors", "mysql.seeks")}
"""Where a storage remembers for a moment what it has found, when finding it was slow."""


@pytest.fixture(autouse=True)
def no_look_is_slow() -> Iterator[pytest.MonkeyPatch]:
    """However busy the server is, a storage looks anew each time. By what it remembers it would find, a second late,
    what a test has put before that. Undone where that is the subject."""
    with pytest.MonkeyPatch.context() as patch:
        for module in REMEMBERING.get(connection.vendor, ()):
            patch.setattr(f"chokaq_django.storage.{module}.SLOW", float("inf"))
        yield patch


@pytest.fixture
def storage() -> Storage:
    """The storage of this thread's Django connection."""
    return get_storage()


@pytest.fixture
def jobs(storage: Storage) -> Jobs:
    return Jobs(storage)


@pytest.fixture
def other() -> Iterator[Storage]:
    """A second storage with a connection of its own: what another process sees."""
    storage = open_storage()
    yield storage
    storage.close()


@pytest.fixture
def buckets() -> Callable[[], list[MetricBucket]]:
    """All metric buckets, each checked against its own histograms."""

    def read() -> list[MetricBucket]:
        found = list(MetricBucket.objects.all())
        for bucket in found:
            run, wait = ([getattr(bucket, f"{name}_{number}") for number in range(HISTOGRAM_BINS)]
                         for name in ("run", "wait"))  # fmt: skip
            assert min(run + wait) >= 0
            assert sum(run) == sum(wait) <= bucket.count, "only executions have times, not what never ran"
            if bucket.outcome != BucketOutcome.DEAD:
                assert sum(run) == bucket.count
            assert 0 <= bucket.max_ms <= bucket.total_ms
        return found

    return read


@pytest.fixture
def counts(buckets: Callable[[], list[MetricBucket]]) -> Callable[[], dict[tuple[int, int], int]]:
    """What the buckets say together: (outcome, reason) -> count."""

    def read() -> dict[tuple[int, int], int]:
        sums: dict[tuple[int, int], int] = {}
        for bucket in buckets():
            key = (bucket.outcome, bucket.reason)
            sums[key] = sums.get(key, 0) + bucket.count
        return sums

    return read
