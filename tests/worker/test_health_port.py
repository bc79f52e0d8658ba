"""``runworker --health-port``: what probes are told through a worker's life."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pytest
from django.core.management import call_command
from django.core.management.base import CommandError

from chokaq_django import enqueue
from chokaq_django.worker import health_server
from chokaq_django.worker.health_server import Board, HealthServer, Pulse, Vitals, vitals

from .. import jobs
from ..chaos.support import stop_between_writes
from ..helpers import WorkerProcess, wait_until
from ..ledger import Ledger

StartProcess = Callable[..., WorkerProcess]
GOOD = Vitals(2, 2, 2, False)


def probe(address: str, path: str) -> tuple[int, dict[str, Any]]:
    try:
        with urllib.request.urlopen(f"{address}{path}", timeout=30) as answer:  # noqa: S310 - an address of ours
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as refused:
        return refused.code, json.load(refused)


def address_of(worker: WorkerProcess) -> str:
    found = wait_until(lambda: re.search(r"answered at (http://[\d.:]+)/live", worker.output), 60, what=worker.output)
    return found[1]


@pytest.fixture
def start(worker_process: StartProcess) -> Callable[..., WorkerProcess]:
    def run(*arguments: str, **named: Any) -> WorkerProcess:
        return worker_process(
            "--health-port=0", *arguments, env={"CHOKAQ_LOG_LEVEL": "INFO", **named.pop("env", {})}, **named
        )

    return run


# -- a real worker -----------------------------------------------------------------------------------------------------


def test_a_life(start: Callable[..., WorkerProcess], ledger: Ledger) -> None:
    worker = start("--processes=2")
    address = address_of(worker)
    wait_until(lambda: probe(address, "/ready")[0] == 200, 60, what=worker.output)
    code, document = probe(address, "/live")
    assert code == 200
    assert document == {
        "live": True, "ready": True, "stopping": False, "processes": {"wanted": 2, "live": 2, "ready": 2},
    }  # fmt: skip
    enqueue(jobs.GateJob(gate="end"))
    wait_until(lambda: ledger.count("enter"))
    worker.signal(signal.SIGTERM)  # it drains: alive, and not to be sent anything more
    wait_until(lambda: probe(address, "/ready")[0] == 503)
    assert probe(address, "/live")[0] == 200
    ledger.open_gate("end")
    assert worker.wait() == 0
    with pytest.raises(urllib.error.URLError):
        probe(address, "/live")


@pytest.mark.any_engine
def test_a_process_that_hangs_is_not_live(start: Callable[..., WorkerProcess], monkeypatch: pytest.MonkeyPatch) -> None:
    worker = start("--processes=2")
    address = address_of(worker)
    wait_until(lambda: probe(address, "/ready")[0] == 200, 60, what=worker.output)
    child = psutil.Process(worker.pid).children()[0]
    stop_between_writes([child.pid])
    wait_until(lambda: probe(address, "/live")[0] == 503, health_server.FRESH + 10)
    assert probe(address, "/live")[1]["processes"] == {"wanted": 2, "live": 1, "ready": 1}
    child.resume()
    wait_until(lambda: probe(address, "/ready")[0] == 200)
    child.kill()  # it is replaced: no reason to kill the whole
    wait_until(lambda: len(psutil.Process(worker.pid).children()) == 2 and not child.is_running(), 30)
    assert probe(address, "/live")[0] == 200
    wait_until(lambda: probe(address, "/ready")[0] == 200, 30)
    assert worker.stop() == 0


def test_a_worker_that_waits_for_its_tables_is_live_and_not_ready(
    start: Callable[..., WorkerProcess], tmp_path: Path
) -> None:
    worker = start(env={"DATABASE_URL": f"sqlite:///{tmp_path / 'empty.sqlite3'}"})
    address = address_of(worker)
    wait_until(lambda: "The worker waits" in worker.output, 30)
    assert probe(address, "/live")[0] == 200
    assert probe(address, "/ready")[0] == 503


@pytest.mark.any_engine
def test_slow_and_rude_clients_stop_nobody(start: Callable[..., WorkerProcess], ledger: Ledger) -> None:
    worker = start()
    address = address_of(worker)
    host, port = address.removeprefix("http://").split(":")
    rude = [socket.create_connection((host, int(port))) for _ in range(health_server.MOST_CLIENTS + 20)]
    try:
        for number, client in enumerate(rude):
            with suppress(OSError):
                client.sendall(b"GET /live HTT" if number % 2 else b"\x00" * 10_000)
        wait_until(lambda: probe(address, "/ready")[0] == 200, 60, what=worker.output)
        enqueue(jobs.NoteJob(name="still here"))
        wait_until(lambda: ledger.names() == ["still here"])
    finally:
        for client in rude:
            client.close()
    assert worker.stop() == 0
    assert "Traceback" not in worker.output


# -- its parts ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("request_line", "found", "code"),
    [
        ("GET /live HTTP/1.1", GOOD, 200),
        ("GET /live/?x=1 HTTP/1.1", GOOD, 200),
        ("HEAD /ready HTTP/1.0", GOOD, 200),
        ("GET / HTTP/1.1", GOOD, 200),
        ("GET /live HTTP/1.1", Vitals(2, 1, 1, False), 503),
        ("GET /ready HTTP/1.1", Vitals(2, 2, 1, False), 503),
        ("GET /ready HTTP/1.1", Vitals(2, 2, 2, True), 503),
        ("GET /live HTTP/1.1", Vitals(2, 2, 2, True), 200),
        ("GET /ready HTTP/1.1", Vitals(0, 0, 0, False), 503),
        ("POST /live HTTP/1.1", GOOD, 405),
        ("GET /admin HTTP/1.1", GOOD, 404),
        ("", GOOD, 405),
    ],
)
def test_answers(request_line: str, found: Vitals, code: int) -> None:
    answer = health_server._response(f"{request_line}\r\n\r\n".encode(), found)
    head, _, body = answer.partition(b"\r\n\r\n")
    assert head.startswith(f"HTTP/1.1 {code} ".encode())
    assert bool(body) is not request_line.startswith("HEAD")


class Patient:
    hangs, ready = "", True

    def hanging(self) -> str:
        return self.hangs

    def is_ready(self) -> bool:
        return self.ready


def test_the_board(monkeypatch: pytest.MonkeyPatch) -> None:
    now = time.monotonic()
    monkeypatch.setattr(health_server.time, "monotonic", lambda: now)
    board, patient = Board(2), Patient()
    pulse = Pulse(board, 1, patient)

    def look(running: bool = True, started: float = 0.0) -> tuple[int, int]:
        found = vitals(board, [(1, running, started)], stopping=False)
        return found.live, found.ready

    assert look(started=now - 1) == (1, 0)  # just made
    assert look(started=now - health_server.START - 1) == (0, 0)  # it never came to life
    pulse.beat()
    assert look() == (1, 1)
    patient.ready = False
    pulse.beat()
    assert look() == (1, 0)
    patient.ready, patient.hangs = True, "fetch"
    now += health_server.FRESH + 1
    pulse.beat()
    assert look() == (0, 1)
    assert look(running=False) == (1, 0)  # it died, and is being replaced
    board.clear(1)
    assert board.read(1) == (0.0, 0.0)
    assert board.read(0) == (0.0, 0.0)


@pytest.fixture
def taken() -> Iterator[int]:
    server = HealthServer("127.0.0.1", 0, 1)
    yield server.address[1]
    server.close()


@pytest.mark.django_db(transaction=True)
def test_a_port_that_is_taken(taken: int) -> None:
    with pytest.raises(CommandError, match=f"--health-port {taken}: Address already in use"):
        call_command("runworker", f"--health-port={taken}")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--health-port=70000"], "from 0 to 65535"),
        (["--health-host=0.0.0.0"], "say the port too"),
        (["--health-port=0", "thumbnails"], "--health-port and channel names"),
    ],
)
def test_arguments_that_do_not_fit(arguments: list[str], said: str) -> None:
    with pytest.raises(CommandError) as refused:
        call_command("runworker", *arguments)
    assert said in str(refused.value)


@pytest.mark.any_engine
def test_children_do_not_hold_the_port(start: Callable[..., WorkerProcess]) -> None:
    worker = start()
    address = address_of(worker)
    port = int(address.rpartition(":")[2])
    wait_until(lambda: probe(address, "/ready")[0] == 200, 60, what=worker.output)
    (child,) = psutil.Process(worker.pid).children()
    assert [c for c in child.net_connections("inet") if c.laddr.port == port] == []
    assert os.getpid() != child.pid
