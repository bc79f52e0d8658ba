"""The doctor: every finding can be found, each with a remedy, and a healthy system has none."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from django.db import connection, connections
from django.utils import timezone

from chokaq_django import doctor
from chokaq_django.doctor import Diagnosis, Severity, engines, schema, wake
from chokaq_django.job.registry import registry
from chokaq_django.models import FailureReason, JobHot, JobStatus
from tests import factories as make

from .conftest import Run

pytestmark = pytest.mark.django_db

OF_THE_SERVER = {"autovacuum_off", "connections_crowded", "polling", "old_transaction", "chokaq.W007", "not_permitted"}
"""What the machine's own server may be like."""


@pytest.fixture(autouse=True)
def _only_types_of_this_test(monkeypatch: pytest.MonkeyPatch) -> None:
    """Other modules of the suite register types, some on purpose without a handler, as soon as they are imported."""
    types = registry.types
    before = {job_type.key for job_type in types() if job_type.handler is None}
    monkeypatch.setattr(registry, "types", lambda: [job_type for job_type in types() if job_type.key not in before])


def ago(**span: float) -> dt.datetime:
    return timezone.now() - dt.timedelta(**span)


def found() -> dict[str, Diagnosis]:
    return {finding.code: finding for finding in doctor.examine().findings if finding.code not in OF_THE_SERVER}


def test_a_healthy_system(chokaq: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    make.worker()
    heard: list[str] = []
    result = doctor.examine(heard.append)
    assert {finding.code for finding in result.findings} <= OF_THE_SERVER
    assert tuple(result.seen) == tuple(heard) == doctor.AREAS
    assert any(digit in result.engine for digit in "0123456789")
    monkeypatch.setattr("chokaq_django.doctor.engine_findings", lambda alias, options: [])
    assert chokaq("doctor").code == 0


@pytest.mark.parametrize(
    ("row", "code", "severity"),
    [
        ({"status": JobStatus.PROCESSING, "heartbeat_at": ago(days=1), "started_at": ago(days=1)}, "job_stuck", 2),
        ({"status": JobStatus.FETCHED}, "job_stuck", 2),
        ({"status": JobStatus.PROCESSING, "heartbeat_at": ago(), "started_at": ago(days=1)}, "job_overlong", 1),
        ({"deadline_at": ago(hours=1), "run_at": ago(hours=-1)}, "not_expired", 1),
        ({"type": "nobody.knows", "run_at": ago(hours=-1)}, "unknown_type", 1),
        ({"queue": "late", "run_at": ago(hours=1)}, "queue_lag", 2),
    ],
)
def test_jobs_that_are_not_where_they_should_be(row: dict[str, Any], code: str, severity: int) -> None:
    make.worker()
    job = make.hot(**row)
    JobHot.objects.filter(pk=job.pk).update(updated_at=ago(days=1))
    finding = found()[code]
    assert (finding.severity, finding.area) == (severity, "work")
    assert finding.remedy
    assert job.pk in finding.message or job.type in finding.message or job.queue in finding.message


def test_history_that_says_something() -> None:
    make.worker()
    make.dead(failure_reason=FailureReason.UNKNOWN_TYPE, type="went.away")
    make.archived(finished_at=ago(days=40))
    assert set(found()) == {"unknown_type_buried", "retention_behind"}


def test_the_fleet() -> None:
    make.worker("old", version="0.0.1", state="draining")
    assert set(found()) == {"version_differs", "all_draining"}
    make.worker("new")
    assert set(found()) == {"version_differs"}


def test_a_type_without_a_handler() -> None:
    @dataclass
    class Bare:
        pass

    registry.register(Bare, type="doctor.bare")
    make.worker()
    try:
        assert "doctor.bare" in found()["type_without_handler"].message
    finally:
        registry.unregister(Bare)


def test_modules_that_cannot_be_imported(monkeypatch: pytest.MonkeyPatch, chokaq: Run) -> None:
    def explode(**named: object) -> None:
        raise ModuleNotFoundError("No module named 'requets'")

    monkeypatch.setattr(doctor, "autodiscover", explode)
    make.worker()
    assert "requets" in found()["handlers_not_importable"].message
    assert chokaq("doctor").code == 1


def test_checks_are_findings(settings: Any) -> None:
    settings.CHOKAQ = {**settings.CHOKAQ, "MIDDLEWARE": ["no.such.thing"]}
    make.worker()
    finding = found()["chokaq.E006"]
    assert (finding.severity, finding.area) == (Severity.ERROR, "settings")


def test_settings_that_nothing_can_be_made_of(settings: Any) -> None:
    settings.CHOKAQ = {"NONSENSE": 1}
    result = doctor.examine()
    assert result.seen == ["settings"]
    assert [finding.code for finding in result.findings] == ["chokaq.E001"]


@pytest.mark.django_db(transaction=True)
def test_a_missing_index() -> None:
    make.worker()
    index = next(index for index in JobHot._meta.indexes if index.name == "chokaq_hot_deadline")
    with connection.schema_editor() as editor:
        editor.remove_index(JobHot, index)
    try:
        finding = found()["index_missing"]
    finally:
        with connection.schema_editor() as editor:
            editor.add_index(JobHot, index)
    assert (finding.severity, finding.area) == (Severity.ERROR, "tables")
    assert "chokaq_hot_deadline" in finding.message
    assert "index_missing" not in found()


def test_a_clock_that_is_off(monkeypatch: pytest.MonkeyPatch, engine: str) -> None:
    if engine == "sqlite":
        assert list(schema.clock("default")) == []  # it has the machine's clock
        return

    class Storage:
        def now(self) -> dt.datetime:
            return ago(seconds=90)

    monkeypatch.setattr(schema, "get_storage", lambda alias: Storage())
    (finding,) = schema.clock("default")
    assert (finding.code, finding.severity) == ("clock_skew", Severity.WARNING)
    assert "90.0 s behind" in finding.message


def test_a_channel_layer_that_cannot_be_reached(settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    backend = "channels_redis.pubsub.RedisPubSubChannelLayer"
    settings.CHANNEL_LAYERS = {"default": {"BACKEND": backend, "CONFIG": {"hosts": ["redis://127.0.0.1:1/0"]}}}
    monkeypatch.setattr(wake, "usable", lambda alias: True)
    (finding,) = wake.findings("default")
    assert (finding.code, finding.severity) == ("channel_layer_unreachable", Severity.WARNING)


def test_a_channel_layer_that_works(settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    settings.CHANNEL_LAYERS = {"default": {"BACKEND": "channels.layers.InMemoryChannelLayer"}}
    monkeypatch.setattr(wake, "usable", lambda alias: True)
    assert list(wake.findings("default")) == []


def test_connections_that_run_out() -> None:
    assert list(engines._crowded(79, 100, "max_connections")) == []
    (finding,) = engines._crowded(80, 100, "max_connections")
    assert "80 of the server's 100" in finding.message


@pytest.mark.django_db(transaction=True)
def test_an_old_transaction(monkeypatch: pytest.MonkeyPatch, engine: str) -> None:
    if engine not in ("postgresql", "mysql"):
        pytest.skip("asks a live server of MariaDB or PostgreSQL")
    make.worker()
    monkeypatch.setattr(engines, "OLD", -1)
    other = connections.create_connection("default")
    try:
        other.set_autocommit(False)
        with other.cursor() as cursor:
            cursor.execute("SELECT id FROM chokaq_job_hot FOR UPDATE")
        assert any(finding.code == "old_transaction" for finding in doctor.examine().findings)
    finally:
        other.rollback()
        other.close()


def test_a_look_that_the_database_refuses_stops_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    make.worker()

    def refuse(alias: str, options: object) -> Iterator[Diagnosis]:
        with connection.cursor() as cursor:
            cursor.execute("SELECT * FROM no_such_table_at_all")
        yield Diagnosis("never", Severity.INFO, "")

    monkeypatch.setattr("chokaq_django.doctor.engine_findings", refuse)
    result = doctor.examine()
    assert "not_looked_at" in {finding.code for finding in result.findings}
    assert tuple(result.seen) == doctor.AREAS
