"""The base of every loop: nothing that fails ends it."""

from __future__ import annotations

import logging
import threading
import time
from contextlib import suppress
from typing import Any

import pytest

from chokaq_django.storage import Lease
from chokaq_django.worker import service
from chokaq_django.worker.process import WorkerProcess
from chokaq_django.worker.service import FIRST_PAUSE, Service

from .support import Settings, make_worker


class Unlucky(Service):
    """Its database is away for the first steps, and so is what it waits on: the notices of that database."""

    name = "unlucky"

    def __init__(self, failures: int) -> None:
        super().__init__()
        self.left = failures
        self.back = threading.Event()

    def step(self) -> None:
        if self.left:
            self.left -= 1
            raise ConnectionError("the database is away")
        self.back.set()
        super().wait(60)

    def wait(self, timeout: float | None) -> None:
        raise ConnectionError("so are its notices")


def test_a_loop_goes_on_when_what_it_waits_on_is_away_too(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(service, "FIRST_PAUSE", 0.001)
    loop = Unlucky(3)
    with caplog.at_level(logging.INFO, "chokaq.worker"):
        loop.start()
        assert loop.back.wait(15), "the loop has ended"
    assert "The unlucky loop failed (1 in a row)" in caplog.text
    loop.stop()
    assert loop.join(15)


def test_signs_of_life_come_soon_after_an_outage_however_long_it_was(
    monkeypatch: pytest.MonkeyPatch, settings: Settings
) -> None:
    """Who is back first waits WORKER_TIMEOUT for the others, or ZOMBIE_TIMEOUT for a job; by then they must have
    written."""
    worker = make_worker(
        settings,
        RECOVERY={"WORKER_TIMEOUT": 2, "ZOMBIE_TIMEOUT": 3},
        EXECUTION={"HEARTBEAT_MIN": 0.2, "HEARTBEAT_MAX": 0.4},
    )
    pauses: dict[str, float] = {}
    for loop in worker._services():
        loop.failures = 20
        monkeypatch.setattr(loop, "wait", lambda seconds, name=loop.name: pauses.update({name: seconds}))
        loop._failed(ConnectionError("the database is away"))
    assert pauses["registry"] <= 0.5
    assert pauses["heartbeat"] <= 0.4
    assert pauses["fetch"] <= 0.75, "what a lost answer leased is heard of with the next claim"
    assert 2.5 <= pauses["settle"] <= 5


class Away:
    """A storage whose server is away; how long its calls may rest between two tries, and one try wait."""

    def __init__(self) -> None:
        self.longest_pause = 1.0
        self.patience: float | None = None
        self.lock_wait: float | None = None

    def hurry(self, longest_pause: float, patience: float | None = None) -> None:
        self.longest_pause, self.patience = longest_pause, patience

    def limit_lock_waits(self, seconds: float) -> None:
        self.lock_wait = seconds

    def __getattr__(self, name: str) -> Any:
        def call(*args: Any, **named: Any) -> Any:
            raise ConnectionError("the database is away")

        return call


def hurries(monkeypatch: pytest.MonkeyPatch, worker: WorkerProcess) -> dict[str, Away]:
    """The storages of those who must be heard of, by the names of their loops."""
    found: dict[str, Away] = {}
    for loop in (worker._registrar, worker._heartbeat, worker._fetcher):
        found[loop.name] = away = Away()
        monkeypatch.setattr(loop, "_open", lambda away=away: away)
        monkeypatch.setattr(loop, "wait", lambda seconds: None)
        with suppress(ConnectionError):
            loop.step()
    return found


def test_nor_do_signs_of_life_rest_for_long_within_a_call(monkeypatch: pytest.MonkeyPatch, settings: Settings) -> None:
    worker = make_worker(
        settings,
        RECOVERY={"WORKER_TIMEOUT": 2, "ZOMBIE_TIMEOUT": 3},
        EXECUTION={"HEARTBEAT_MIN": 0.2, "HEARTBEAT_MAX": 0.4},
    )
    pauses = {name: away.longest_pause for name, away in hurries(monkeypatch, worker).items()}
    assert pauses == {"registry": 0.125, "heartbeat": 0.1, "fetch": 0.1875}


@pytest.mark.parametrize(("timeout", "patience"), [(2, 2.0), (30, 6.0), (90, 18.0)])
def test_nor_wait_for_long_for_a_connection_of_which_nothing_comes(
    monkeypatch: pytest.MonkeyPatch, settings: Settings, timeout: float, patience: float
) -> None:
    worker = make_worker(
        settings, RECOVERY={"WORKER_TIMEOUT": timeout}, EXECUTION={"HEARTBEAT_MIN": 0.2, "HEARTBEAT_MAX": 0.4}
    )
    given = {name: away.patience for name, away in hurries(monkeypatch, worker).items()}
    assert given == {"registry": patience, "heartbeat": patience, "fetch": None}


def test_claims_and_outcomes_do_not_wait_for_long_for_locks(
    monkeypatch: pytest.MonkeyPatch, settings: Settings
) -> None:
    worker = make_worker(settings)
    worker._settler.release(Lease("01A", 1))
    for loop in (worker._fetcher, worker._settler):
        away = Away()
        monkeypatch.setattr(loop, "_open", lambda away=away: away)
        with pytest.raises(ConnectionError):
            loop.step()
        assert away.lock_wait == service.LOCK_WAIT


def test_a_worker_whose_connection_was_forgotten_writes_its_row_in_time(settings: Settings) -> None:
    """Its last beat, a try in vain, and a new connection, its session and the row, each at the last moment."""
    timeout = 30.0
    registrar = make_worker(settings, RECOVERY={"WORKER_TIMEOUT": timeout})._registrar
    assert registrar.interval + FIRST_PAUSE + 4 * registrar.patience < timeout


def test_a_loop_that_rests_after_a_failure_stops_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service, "FIRST_PAUSE", 60.0)
    monkeypatch.setattr(Service, "longest_pause", 60.0)
    loop = Unlucky(1)
    loop.start()
    began = time.monotonic()
    while not loop.failures:
        assert time.monotonic() - began < 15
    loop.stop()
    assert loop.join(15)
