"""Fixtures of the storage suite."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from chokaq_django.models import HISTOGRAM_BINS, MetricBucket
from chokaq_django.storage import Storage, get_storage, open_storage

from .support import Jobs


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
            for histogram in ("run", "wait"):
                bins = [getattr(bucket, f"{histogram}_{number}") for number in range(HISTOGRAM_BINS)]
                assert min(bins) >= 0
                assert sum(bins) == bucket.count
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
