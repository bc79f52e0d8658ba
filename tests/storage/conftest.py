"""Fixtures of the storage suite."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from django.apps import apps
from django.db import connection, transaction
from pytest_django import DjangoDbBlocker

from chokaq_django.models import HISTOGRAM_BINS, BucketOutcome, MetricBucket
from chokaq_django.storage import Storage, get_storage, open_storage

from .support import Jobs


@pytest.fixture
def transactional_db(django_db_setup: None, django_db_blocker: DjangoDbBlocker) -> Iterator[None]:
    """pytest-django's fixture at a tenth of its price: only this app's tables are emptied, and by DELETE.

    Truncating every table of the project costs PostgreSQL a third of a second, and this folder has hundreds of tests.
    """
    with django_db_blocker.unblock():
        yield
        with transaction.atomic(), connection.cursor() as cursor:
            for model in apps.get_app_config("chokaq").get_models():
                cursor.execute(f"DELETE FROM {model._meta.db_table}")  # noqa: S608 - our own table's name


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
