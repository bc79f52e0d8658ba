"""The doctor: every finding can be found, each with a remedy, and a healthy system has none."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from django.db import connection, connections
from django.utils import timezone

from chokaq_django import control, doctor
from chokaq_django.conf import get_options
from chokaq_django.doctor import Diagnosis, Severity, engines, schema, wake, work
from chokaq_django.job.registry import registry
from chokaq_django.models import FailureReason, JobHot, JobStatus, Setting
from chokaq_django.storage import get_storage
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


def worker(*args: str, **columns: Any) -> None:
    """A worker that is alive however long the look takes: a server that is asked for the first time is slow."""
    make.worker(*args, **{"last_seen": ago(hours=-1), **columns})


def found() -> dict[str, Diagnosis]:
    return {finding.code: finding for finding in doctor.examine().findings if finding.code not in OF_THE_SERVER}


def test_a_healthy_system(chokaq: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    worker()
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
        (
            lambda: {"status": JobStatus.PROCESSING, "heartbeat_at": ago(days=1), "started_at": ago(days=1)},
            "job_stuck",
            2,
        ),
        (lambda: {"status": JobStatus.FETCHED}, "job_stuck", 2),
        (lambda: {"status": JobStatus.PROCESSING, "heartbeat_at": ago(), "started_at": ago(days=1)}, "job_overlong", 1),
        (lambda: {"deadline_at": ago(hours=1), "run_at": ago(hours=-1)}, "not_expired", 1),
        (lambda: {"type": "nobody.knows", "run_at": ago(hours=-1)}, "unknown_type", 1),
        (lambda: {"queue": "late", "run_at": ago(hours=1)}, "queue_lag", 2),
    ],
)
def test_jobs_that_are_not_where_they_should_be(row: Callable[[], dict[str, Any]], code: str, severity: int) -> None:
    worker()
    job = make.hot(**row())
    JobHot.objects.filter(pk=job.pk).update(updated_at=ago(days=1))
    finding = found()[code]
    assert (finding.severity, finding.area) == (severity, "work")
    assert finding.remedy
    assert job.pk in finding.message or job.type in finding.message or job.queue in finding.message


def test_a_queue_for_each_customer(monkeypatch: pytest.MonkeyPatch) -> None:
    worker()
    monkeypatch.setattr(work, "MANY_QUEUES", {})
    monkeypatch.setattr(work, "MANY_QUEUES_ELSEWHERE", 3)
    for name in ("a", "a", "b"):
        make.hot(queue=name, run_at=ago(hours=-1))
    assert "many_queues" not in found()
    make.hot(queue="c", run_at=ago(hours=-1))
    finding = found()["many_queues"]
    assert (finding.area, finding.severity) == ("work", 1)
    assert "3 queues" in finding.message


def test_history_that_says_something() -> None:
    worker()
    make.dead(failure_reason=FailureReason.UNKNOWN_TYPE, type="went.away")
    make.archived(finished_at=ago(days=40))
    get_storage().recount_groups()
    assert set(found()) == {"unknown_type_buried", "retention_behind"}


def test_the_fleet() -> None:
    worker("old", version="0.0.1", state="draining")
    assert set(found()) == {"version_differs", "all_draining"}
    worker("new")
    assert set(found()) == {"version_differs"}


def test_a_machine_whose_clock_is_off() -> None:
    worker("right", clock_offset=0.9, clock_doubt=0.01)
    worker("unsure", clock_offset=-3.0, clock_doubt=2.5)
    worker("gone", clock_offset=90.0, clock_doubt=0.01, last_seen=ago(hours=1))
    worker("from before it was measured")
    assert "worker_clock_skew" not in found()
    worker("wrong", host="web-7", pid=12, clock_offset=-4.04, clock_doubt=0.01)
    finding = found()["worker_clock_skew"]
    assert (finding.area, finding.severity) == ("fleet", 1)
    assert "1 of 4 workers" in finding.message
    assert "web-7:12 by most: 4.0 s behind" in finding.message


def test_a_type_without_a_handler() -> None:
    @dataclass
    class Bare:
        pass

    registry.register(Bare, type="doctor.bare")
    worker()
    try:
        assert "doctor.bare" in found()["type_without_handler"].message
    finally:
        registry.unregister(Bare)


def test_modules_that_cannot_be_imported(monkeypatch: pytest.MonkeyPatch, chokaq: Run) -> None:
    def explode(**named: object) -> None:
        raise ModuleNotFoundError("No module named 'requets'")

    monkeypatch.setattr(doctor, "autodiscover", explode)
    worker()
    assert "requets" in found()["handlers_not_importable"].message
    assert chokaq("doctor").code == 1


def test_checks_are_findings(settings: Any) -> None:
    settings.CHOKAQ = {**settings.CHOKAQ, "MIDDLEWARE": ["no.such.thing"]}
    worker()
    finding = found()["chokaq.E006"]
    assert (finding.severity, finding.area) == (Severity.ERROR, "settings")


def test_settings_that_nothing_can_be_made_of(settings: Any) -> None:
    settings.CHOKAQ = {"NONSENSE": 1}
    result = doctor.examine()
    assert result.seen == ["settings"]
    assert [finding.code for finding in result.findings] == ["chokaq.E001"]


def test_options_that_operators_have_set_and_that_fit_nothing(settings: Any) -> None:
    settings.CHOKAQ = {}  # what is followed is forgotten afterwards
    for name, value in {"DECK.LAG_WARNING": "{", "DECK.LAG_CRITICAL": "20", "OLD.OPTION": "1"}.items():
        Setting.objects.create(name=name, value=value, updated_at=timezone.now(), updated_by="ada")
    told = [finding for finding in doctor.examine().findings if finding.code == "setting_not_followed"]
    assert [(finding.area, finding.severity, finding.message.partition(" to ")[0]) for finding in told] == [
        ("settings", Severity.WARNING, f"An operator has set {name}, and it is not followed: {why}")
        for name, why in (
            ("DECK.LAG_WARNING", "is stored as something that is no JSON"), ("OLD.OPTION", "is not an option"),
        )
    ]  # fmt: skip
    assert get_options().deck.lag_critical == 20


def test_queues_whose_limits_are_not_those_of_the_settings(settings: Any) -> None:
    settings.CHOKAQ = {
        "QUEUES": {"mail": {"MAX_WORKERS": 2}, "reports": {"MAX_WORKERS": 3}, "same": {"MAX_WORKERS": 1}}
    }
    control.set_queue("mail", by="ada", max_workers=9, execution_timeout=5)
    make.queue("reports", max_workers=4)
    make.queue("same", max_workers=1)
    edited, old = found()["queue_limits_edited"], found()["queue_limits_old"]
    assert (edited.severity, edited.area) == (Severity.INFO, "settings")
    assert "ada has set limits of the queue" in edited.message
    assert edited.message.endswith(": QUEUES.mail.MAX_WORKERS.")
    assert "`chokaq queue set mail`; or `chokaq queue reset mail`, and" in edited.remedy
    assert old.severity is Severity.WARNING
    assert old.message.endswith(": QUEUES.reports.MAX_WORKERS.")
    control.pause_queue("mail", by="bob")
    assert "ada has set limits of the queue" in found()["queue_limits_edited"].message
    control.reset_queue("mail", by="bob")
    control.pause_queue("reports", by="bob")
    assert "queue_limits_edited" not in found()
    assert found()["queue_limits_old"].message.endswith(": QUEUES.reports.MAX_WORKERS.")


def test_a_time_that_nobody_can_read(engine: str) -> None:
    job = make.hot(queue="mail")
    assert "unreadable_time" not in found()
    if engine == "postgresql":  # no other has such times
        with connection.cursor() as cursor:
            cursor.execute("UPDATE chokaq_job_hot SET due_at = '-infinity'")
        told = found()["unreadable_time"]
        assert (told.severity, f"{job.pk} (mail)" in told.message) == (Severity.WARNING, True)


@pytest.mark.usefixtures("transactional_db")
def test_a_missing_index() -> None:
    worker()
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


@pytest.mark.usefixtures("transactional_db")
def test_an_old_transaction(monkeypatch: pytest.MonkeyPatch, engine: str) -> None:
    if engine not in ("postgresql", "mysql"):
        pytest.skip("asks a live server of MariaDB or PostgreSQL")
    worker()
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
    worker()

    def refuse(alias: str, options: object) -> Iterator[Diagnosis]:
        with connection.cursor() as cursor:
            cursor.execute("SELECT * FROM no_such_table_at_all")
        yield Diagnosis("never", Severity.INFO, "")

    monkeypatch.setattr("chokaq_django.doctor.engine_findings", refuse)
    result = doctor.examine()
    assert "not_looked_at" in {finding.code for finding in result.findings}
    assert tuple(result.seen) == doctor.AREAS
