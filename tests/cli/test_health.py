"""Health: its findings, the command's exit code, and what probes of a web process are told."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Iterator
from typing import Any

import pytest
from django.db import OperationalError, connection
from django.http import HttpResponse
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import include, path
from django.utils import timezone

from chokaq_django import control, health
from chokaq_django.health import State
from tests import factories as make

from .conftest import Run

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def lag_says_nothing(settings: Any) -> None:
    """Jobs get older as a test goes on; those about lag say what counts as such."""
    settings.CHOKAQ = {**settings.CHOKAQ, "HEALTH": {"LAG_DEGRADED": 3000, "LAG_UNHEALTHY": 3600}}


urlpatterns = [path("chokaq/health/", include("chokaq_django.health_urls"))]


def ago(**span: float) -> dt.datetime:
    return timezone.now() - dt.timedelta(**span)


def codes() -> dict[str, str]:
    return {finding.code: finding.state.label for finding in health.check().findings}


@pytest.fixture
def broken(monkeypatch: pytest.MonkeyPatch) -> None:
    """A database that does not answer, and whose error tells more than probes may know."""

    def refuse(*args: object, **named: object) -> None:
        raise OperationalError('connection to server at "10.0.0.7", port 5432 failed: password of "shop"')

    monkeypatch.setattr(connection, "cursor", refuse)


# -- findings ----------------------------------------------------------------------------------------------------------


def test_a_worker_and_no_work_is_healthy() -> None:
    make.worker()
    report = health.check()
    assert (report.state, report.findings) == (State.HEALTHY, [])
    assert set(report.checks().values()) == {"healthy"}
    assert tuple(report.checks()) == ("chokaq_storage", "chokaq_worker", "chokaq_queue_saturation")


def test_no_worker() -> None:
    assert codes() == {"no_worker": "unhealthy"}
    make.worker(last_seen=ago(hours=1))
    assert codes() == {"no_worker": "unhealthy", "worker_silent": "degraded"}


def test_a_queue_that_nobody_works_on() -> None:
    make.worker(queues='["mail"]')
    make.hot(queue="mail")
    assert codes() == {}
    make.hot(queue="reports", run_at=ago(seconds=-60))
    assert codes() == {}  # nothing is due in it yet
    make.hot(queue="reports")
    assert codes() == {"queue_without_worker": "unhealthy"}
    make.queue("reports", is_paused=True)
    assert codes() == {}


def test_a_draining_worker_takes_nothing() -> None:
    make.worker(state="draining")
    make.hot()
    assert codes() == {"queue_without_worker": "unhealthy"}


@pytest.mark.parametrize(("seconds", "state"), [(40, None), (90, "degraded"), (600, "unhealthy")])
def test_lag(seconds: int, state: str | None, settings: Any) -> None:
    settings.CHOKAQ = {**settings.CHOKAQ, "HEALTH": {"LAG_DEGRADED": 75.5, "LAG_UNHEALTHY": 300}}
    make.worker()
    make.hot(run_at=ago(seconds=seconds))
    assert codes().get("queue_lag") == state


def test_a_circuit_that_holds_nothing_back_is_well_after_its_break() -> None:
    make.worker()
    make.circuit("a.late", state=1, open_until=ago(seconds=1))
    make.circuit("a.forced", state=1, forced=True)
    make.circuit("a.half", state=2)
    assert codes() == {}
    make.circuit("a.new", state=1, open_until=ago(seconds=-30))
    assert messages() == ["The circuit of a.new is open; none of its jobs waits."]
    for name in ("a.new", "a.late", "a.forced", "a.half"):
        make.hot(type=name, run_at=ago(seconds=-60))
    assert messages() == [
        "The circuit of a.forced is open, by an operator: its jobs wait.",
        "The circuit of a.half is half open: its jobs wait.",
        "The circuit of a.late is open: its jobs wait.",
        "The circuit of a.new is open: its jobs wait.",
    ]


def test_a_circuit_behind_a_backlog_longer_than_is_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("chokaq_django.health.fleet.MOST_WAITING", 1)
    make.worker()
    make.circuit("a.late", state=1)
    make.hot(run_at=ago(seconds=-60))
    assert codes() == {}
    make.hot(run_at=ago(seconds=-60))
    assert codes() == {"circuit_open": "degraded"}


def test_circuits_and_deaths(settings: Any) -> None:
    settings.CHOKAQ = {**settings.CHOKAQ, "HEALTH": {"DEAD_PER_HOUR": 2}}
    make.worker()
    make.circuit("a.b", state=1)
    make.hot(type="a.b", run_at=ago(seconds=-60))
    make.circuit("a.c", failures=2)
    make.dead()
    make.dead(failed_at=ago(hours=2))
    assert codes() == {"circuit_open": "degraded"}
    last = make.dead()
    assert codes() == {"circuit_open": "degraded", "dlq_growth": "degraded"}
    assert "Jobs that died within an hour and are still dead: 2." in messages()
    control.resurrect([last.pk], by="ada")
    assert codes() == {"circuit_open": "degraded"}
    make.dead()
    assert codes() == {"circuit_open": "degraded", "dlq_growth": "degraded"}
    settings.CHOKAQ = {**settings.CHOKAQ, "HEALTH": {"DEAD_PER_HOUR": None}}
    assert codes() == {"circuit_open": "degraded"}


@pytest.mark.usefixtures("broken")
def test_a_database_that_does_not_answer_is_a_finding() -> None:
    report = health.check()
    assert [finding.code for finding in report.findings] == ["database_unreachable"]
    assert report.checks() == {
        "chokaq_storage": "unhealthy", "chokaq_worker": "unknown", "chokaq_queue_saturation": "unknown",
    }  # fmt: skip


def test_wrong_settings_are_a_finding(settings: Any) -> None:
    settings.CHOKAQ = {"WORKERS": {}}
    assert codes() == {"settings": "unhealthy"}


def messages() -> list[str]:
    return [finding.message for finding in health.check().findings]


# -- the command -------------------------------------------------------------------------------------------------------


def test_exit_codes(chokaq: Run) -> None:
    make.worker()
    assert chokaq("health").code == 0
    make.circuit(state=1, open_until=ago(seconds=-60))
    assert chokaq("health").code == 0
    assert chokaq("health", "--fail-on", "degraded").code == 1
    make.hot(queue="x", run_at=ago(hours=1))
    answer = chokaq("health", "--json")
    assert (answer.code, answer.json["status"]) == (1, "unhealthy")
    assert {finding["code"] for finding in answer.json["findings"]} == {"circuit_open", "queue_lag"}


@pytest.mark.parametrize("command", ["status", "health"])
def test_each_thing_that_is_wrong_with_the_settings_has_a_line(settings: Any, chokaq: Run, command: str) -> None:
    settings.CHOKAQ = {"WORKERS": {}, "QUEUE": {}}
    lines = [line.strip() for line in chokaq(command).lines]
    assert lines[1] == "x the CHOKAQ setting is wrong:"
    assert [line.partition(" is not")[0] for line in lines if line.startswith("- ")] == [
        "- CHOKAQ['WORKERS']", "- CHOKAQ['QUEUE']",
    ]  # fmt: skip
    assert not [line for line in lines if "\\n" in line]


@pytest.mark.usefixtures("broken")
def test_without_a_database(chokaq: Run) -> None:
    answer = chokaq("health")
    assert (answer.code, answer.error) == (1, "")
    assert "does not answer" in answer.out
    assert chokaq("status").code == 3
    answer = chokaq("queues")
    assert (answer.code, "cannot do this: " in answer.error) == (3, True)
    answer = chokaq("queues", "--json")
    assert answer.json["error"]["exit_code"] == 3


def test_settings_that_are_wrong(chokaq: Run, settings: Any) -> None:
    settings.CHOKAQ = {"WORKERS": {}}
    answer = chokaq("jobs")
    assert answer.code == 3
    assert "'WORKERS'" in answer.error
    assert chokaq("health").code == 1
    assert chokaq("doctor").code == 1


# -- probes ------------------------------------------------------------------------------------------------------------


@pytest.fixture
def probe(settings: Any) -> Iterator[Any]:
    settings.ROOT_URLCONF = __name__
    health._cache.clear()

    def get(where: str = "", **named: Any) -> HttpResponse:
        answer: HttpResponse = Client().get(f"/chokaq/health/{where}", **named)
        return answer

    yield get
    health._cache.clear()


def test_probes_of_a_healthy_system(probe: Any) -> None:
    make.worker()
    for where, status in (("live/", "live"), ("ready/", "ready"), ("", "healthy")):
        answer = probe(where)
        assert (answer.status_code, answer.json()["status"]) == (200, status)
        assert "no-store" in answer["Cache-Control"]


def test_lag_and_dead_workers_do_not_take_the_web_out(probe: Any) -> None:
    make.hot(queue="secret-customer", run_at=ago(hours=1))
    assert probe("ready/").status_code == 200
    assert probe("live/").status_code == 200
    answer = probe()
    assert answer.status_code == 503
    assert answer.json()["findings"] == {"no_worker": 1, "queue_lag": 1}
    assert "secret-customer" not in answer.content.decode()


def test_degraded_is_not_an_alarm(probe: Any) -> None:
    make.worker()
    make.circuit(state=1, open_until=ago(seconds=-60))
    answer = probe()
    assert (answer.status_code, answer.json()["status"]) == (200, "degraded")


@pytest.mark.usefixtures("broken")
def test_probes_without_a_database_tell_no_secrets(probe: Any) -> None:
    answers = {where: probe(where) for where in ("live/", "ready/", "")}
    assert {where: answer.status_code for where, answer in answers.items()} == {"live/": 200, "ready/": 503, "": 503}
    text = " ".join(answer.content.decode() for answer in answers.values())
    assert "10.0.0.7" not in text
    assert "shop" not in text
    assert json.loads(answers["ready/"].content) == {"status": "not ready", "code": "database_unreachable"}


def test_probes_are_cheap(probe: Any) -> None:
    make.worker()
    with CaptureQueriesContext(connection) as captured:
        probe("live/")
        live = len(captured)
        probe("ready/")
        ready = len(captured) - live
        probe()
        once = len(captured)
        for _ in range(5):
            probe()
        again = len(captured) - once
    assert (live, ready, again) == (0, 1, 0)


def test_probes_only_look(probe: Any) -> None:
    assert Client().post("/chokaq/health/live/").status_code == 405
    assert Client().head("/chokaq/health/live/").status_code == 200
