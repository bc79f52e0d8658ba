"""Fixtures that every folder of the suite may use."""

from __future__ import annotations

import os
import platform
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import cache
from typing import Any

import django
import hypothesis
import pytest
from django.apps import apps
from django.db import connection, models, transaction
from pytest_django import DjangoDbBlocker

from chokaq_django.conf import override_options
from chokaq_django.control import bulk_acts
from chokaq_django.reading import settings as following

from . import helpers
from .helpers import WorkerProcess, keep_versions

KEPT = {"contenttypes.ContentType", "auth.Permission"}
"""What migrations write, and no test changes."""

# What Hypothesis makes is judged by what comes of it, never by the time it takes: the machine may be busy.
hypothesis.settings.register_profile("suite", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow])
hypothesis.settings.load_profile("suite")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """What shows the same on every engine is left to the first of those that ``tests/run.py`` runs on."""
    if os.environ.get("CHOKAQ_TEST_ANY_ENGINE") != "elsewhere":
        return
    left = [item for item in items if item.get_closest_marker("any_engine")]
    if left:
        config.hook.pytest_deselected(items=left)
        items[:] = [item for item in items if not item.get_closest_marker("any_engine")]


@pytest.fixture(scope="session")
def engine() -> str:
    """The engine under test: ``sqlite``, ``postgresql``, ``mysql`` (MariaDB too), ``microsoft``."""
    return str(connection.vendor)


@pytest.fixture(scope="session")
def django_db_setup(django_db_setup: None, django_db_blocker: DjangoDbBlocker) -> None:
    """The test database, set up as the documentation says."""
    with django_db_blocker.unblock():
        keep_versions(connection)


@pytest.fixture
def transactional_db(django_db_setup: None, django_db_blocker: DjangoDbBlocker) -> Iterator[None]:
    """Real commits, seen by other connections and processes. Every table is empty afterwards.

    pytest-django's fixture at a tenth of its price: it truncates, which costs a server a third of a second.
    """
    with django_db_blocker.unblock():
        yield
        with transaction.atomic(), connection.cursor() as cursor:
            for table in _tables():
                cursor.execute(f"DELETE FROM {connection.ops.quote_name(table)}")  # noqa: S608 - from our own models


@cache
def _tables() -> list[str]:
    """The tables of all models, each before those that it refers to."""
    found: dict[type[models.Model], None] = {}
    begun: set[type[models.Model]] = set()

    def add(model: type[models.Model]) -> None:
        if model in begun:
            return
        begun.add(model)
        for other in every:
            if other is not model and any(field.related_model is model for field in other._meta.get_fields()
                                          if isinstance(field, models.ForeignKey)):  # fmt: skip
                add(other)
        found[model] = None

    every = [model for model in apps.get_models(include_auto_created=True) if model._meta.managed]
    for model in every:
        add(model)
    return [model._meta.db_table for model in found if model._meta.label not in KEPT and not model._meta.proxy]


@pytest.fixture
def worker_process(transactional_db: None) -> Iterator[Callable[..., WorkerProcess]]:
    """Starts real ``runworker`` processes: ``worker_process("--queues=mail", options={...})``; all are gone afterwards.

    The test runs without an enclosing transaction: another process must see its rows.
    """
    with ExitStack() as stack:

        def start(*arguments: str, **named: Any) -> WorkerProcess:
            return stack.enter_context(WorkerProcess(*arguments, **named))

        yield start


@pytest.fixture
def redis_url(settings: Any) -> str:
    """A Redis server, which this process uses as its channel layer."""
    url = helpers.redis_url()
    if url is None:
        pytest.skip(helpers.NO_REDIS)
    backend = "channels_redis.pubsub.RedisPubSubChannelLayer"
    settings.CHANNEL_LAYERS = {"default": {"BACKEND": backend, "CONFIG": {"hosts": [url]}}}
    return url


@pytest.fixture
def patience(settings: Any) -> None:
    """For tests that look at workers' rows and run no worker: a row made at their start is a worker that is alive until
    their end. The suite's timeout is for tests that wait for dead workers, and is over while a busy machine thinks."""
    recovery = {**settings.CHOKAQ["RECOVERY"], "WORKER_TIMEOUT": 60}
    settings.CHOKAQ = {**settings.CHOKAQ, "RECOVERY": recovery}


@pytest.fixture(autouse=True)
def settings_as_they_are() -> Iterator[None]:
    """No test looks up what operators have set unless it says ``follow_settings(0)``: when that would happen by itself
    depends on the time. Nothing that one has set is left to the next."""
    following._known.read_at, following._known.refused = float("inf"), {}
    yield
    override_options({})


@pytest.fixture(autouse=True)
def patient_freezing(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is in a held operation is known when its request ends, however slow the machine."""
    monkeypatch.setattr(bulk_acts, "FREEZE", 60.0)


def pytest_report_header(config: pytest.Config) -> str:
    driver = connection.Database.__name__  # MariaDB and SQL Server have two each
    version = f"Django {django.get_version()}, Python {platform.python_version()}"
    return f"engine: {connection.vendor} (driver {driver}), {version}"
